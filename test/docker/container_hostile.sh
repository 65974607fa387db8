# Attacks from inside a container, by the image's user and by root of an image, with a neighbour beside: what of the
# hostile cases
# has another wall here than in a jail. (Those that have the same run over containers too: test/lib/driver.sh.)
# box: "limits":{"memory_mb":64,"pids":64,"open_files":256}

# calls NAME GROUP TABLE: every row of the group that the table names answers so, in the current box
calls() {
    attack calls "$2"
    is "$1, $2: each is refused as it should be" \
        "$(grep -wF "$(awk 'NF { print $1 }' <<< "$3")" <<< "$OUT" |
    awk 'NR == FNR { want[$1]; next } $1 in want' <(printf '%s' "$3") -)" "$(awk NF <<< "$3")"
}
refused() { # refused NAME: in the current box
    calls "$1" mount $'mount EPERM\nremount EPERM\numount2 EPERM\npivot_root EPERM\nchroot EPERM\nfsopen EPERM\n'\
$'fsmount EPERM\nmove_mount EPERM\nopen_tree EPERM\nmount_setattr EPERM\nswapon EPERM'
    calls "$1" namespace $'clone OK\nclone_user EPERM\nclone_user_high EPERM\nclone_net EPERM\nunshare_user EPERM\n'\
$'unshare_mount EPERM\nunshare_time EPERM\nsetns EPERM\nsetns_pid1 EPERM'
    calls "$1" device $'mknod_fifo OK\nmknod_disk EPERM\nmknod_mem EPERM\nmknod_whiteout EPERM\nopen_kvm ENOENT\n'\
$'open_mem ENOENT\nopen_fuse ENOENT\nopen_loop ENOENT'
    calls "$1" kernel $'bpf EPERM\nperf_event_open EPERM\nadd_key EPERM\nkeyctl EPERM\nuserfaultfd EPERM\nkexec_load '\
$'EPERM\ninit_module EPERM\niopl EPERM\nacct EPERM\nreboot EPERM\nclock_settime EPERM\nsethostname EPERM\nsyslog '\
$'EPERM\nopen_by_handle_at EPERM\nfanotify_init EPERM'
    calls "$1" socket $'unix OK\ntcp OK\npacket EPERM\nraw EPERM\nraw6 EPERM\ninterface_down EPERM'
    attack calls runner
    # Root owns what /proc shows of it: sees how many descriptors it has, and may make it the first to go when memory
    # ends.
    is "$1: nothing of the runner is read, written, traced or taken" \
        "$(awk '$2 !~ /^(EPERM|EACCES)$/' <<< "$OUT" | { [ "$1" != root ] ||
    grep -vxE '(fd|map_files|oom_score_adj) OK'; [ "$1" = root ] || cat; }) $(wc -l <<< "$OUT")" ' 18'
    run 'for s in $(seq 1 64); do kill -$s 1 2> /dev/null; done; for s in 9 19 20 15; do kill -$s 1 2> /dev/null; '\
'done; grep -c "^State:.[SRD]" /proc/1/status'
    is "$1: no signal reaches it" "$OUT" 1
    put python.py 'import os, socket, glob
found = []
for path in glob.glob("/proc/[0-9]*/fd/*"):
    try:
        if os.readlink(path).startswith("socket:"): found.append(path)
    except OSError: pass
for name in ("/.cubby/run/sock", "/.cubby/sock", "\0cubby", "\0/.cubby", "/run/sock"):
    try:
        s = socket.socket(socket.AF_UNIX); s.connect(name); s.settimeout(3)
        s.sendall(b"\0" * 64)
        if s.recv(1): found.append(name)
    except OSError: pass
for fd in range(3, 200):
    try: os.write(fd, b"x"); found.append(fd)
    except OSError: pass
print(found)'
}

attacked=$BOX
box_new '"user":"neighbour"'
neighbour=$BOX
put canary 'as it was'
api POST "$B/processes" '{"command":"exec cat"}'
pid=$(j .pid)
neighbour_fine() { # neighbour_fine WHEN
    box_use "$neighbour"
    run 'cat canary; echo; ls /proc | grep -c "^[0-9]*$"'
    like "the neighbour answers as before $1" "$OUT" $'^as it was\n[3-7]$'
    api GET "$B/processes/$pid"
    is "and its process runs $1" "$(j .state)" running
}

# ---- the image's user ----

box_use "$attacked"
refused 'a user'
run 'python3 python.py'
is 'there is no wire to be found or spoken to' "$OUT" '[]'
run 'ls -la /.cubby /.cubby/run 2>&1; cat /.cubby/runner | wc -c; : >> /.cubby/runner; echo x > /.cubby/run/x; ln -s '\
'/etc /.cubby/run/y; /.cubby/runner serve --dial /.cubby/run/sock < /dev/null; echo $?'
unlike 'the runner is no help to who runs it' "$OUT" 'joined|uid=0'
run '/.cubby/runner relay < /dev/null | wc -c; /.cubby/runner relay <<< "$(printf "\0%.0s" {1..64})" | wc -c' \
    '"timeout_ms":10000'
is 'nor as a relay' "$OUT" $'0\n0'
run 'cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max /sys/fs/cgroup/memory/memory.limit_in_bytes '\
'/sys/fs/cgroup/memory.max 2> /dev/null; ulimit -n'
is 'limits are what was asked for' "$OUT" $'64\n67108864\n256'

# ---- exhaust ----

run ':(){ :|:& };:' '"timeout_ms":2000'
run 'for i in $(seq 300); do sleep 60 & done; wait' '"timeout_ms":2000'
like 'a fork bomb ends at its limit' "$ERR$(j .timed_out)" 'Resource temporarily unavailable|Cannot fork|true'
recovered() { run 'ls /proc | grep -c "^[0-9]*$"' && [[ $OUT =~ ^[3-9]$ ]]; }
ok 'and the box goes on without it' eventually 20 recovered
attack memory 'anon 512'
is 'a memory bomb is killed, and the answer says why and at which limit' \
    "$STATUS $(j -c '[.exit_code,.signal,.oom_killed,.memory_limit_bytes]')" '200 [null,"SIGKILL",true,67108864]'
run 'cat /proc/1/oom_score_adj /proc/self/oom_score_adj; echo fine' # the runner is the last to go
like 'the runner survives it' "$OUT" $'^-?[0-9]+\n[0-9]+\nfine$'
[ "$(sed -n 1p <<< "$OUT")" -lt "$(sed -n 2p <<< "$OUT")" ] && pass 'because commands go first' ||
    fail 'because commands go first' "$OUT"
run 'for i in $(seq 40); do (head -c 30m /dev/zero | tail -c 29m > /dev/null) & done; wait; echo end' \
    '"timeout_ms":30000'
is 'many at once' "$STATUS" 200
run 'yes | head -c 300000000' '"output_limit_bytes":1000'
is 'endless output is bounded, and counted' "$STATUS $(j .stdout_bytes) $(j .stdout_truncated)" '200 300000000 true'
run 'for i in $(seq 500); do (setsid -f true); done; sleep 0.1; grep -l "^State:.Z" /proc/[0-9]*/status | wc -l'
is 'orphans are reaped' "$OUT" 0
tag_new
run "trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM; exec sleep $TAG' & sleep $TAG" '"timeout_ms":500'
is 'a time-out ends what ignores signals' "$STATUS $(j .timed_out)" '200 true'
ok 'all of it' eventually 10 tag_gone
neighbour_fine 'after that'

# ---- links out ----

box_use "$attacked"
run 'ln -s /proc/1/root/etc/shadow a; ln -s ../../../../../../etc/shadow b; ln -s /.cubby/run/../../../etc c; mkdir '\
'd; ln -s d/../.. e'
for path in a ../../../etc/shadow /proc/1/root/etc/passwd /proc/1/environ /proc/1/mem /proc/kcore; do
    get "$path"
    unlike "the file API: $path" "$STATUS $BODY" '^200 .*(root:|PATH=)'
done
put /proc/sys/kernel/core_pattern x
like 'nor are switches written' "$STATUS" '^4'
put /.cubby/runner x
like 'nor the runner' "$STATUS" '^4'

# ---- root of an image ----

box_new "\"template\":\"$IMAGE_BUSYBOX\",\"limits\":{\"pids\":64},\"user\":\"ann\",\"thread\":\"root\""
root=$BOX
attack_put calls
AS=agent refused root
run 'for f in /.cubby/runner /.cubby/run/sock /.cubby/run; do chmod 777 $f; rm -rf $f; mv $f /x; done 2> /dev/null; '\
'ls /.cubby | sort | tr "\n" " "'
is 'what the runner came from stays' "$OUT" 'run runner '
# The directory above it is root's: whatever he puts in its place, the next start of the container is of the true one.
run 'mv /.cubby /x; mkdir -p /.cubby/run; printf "#!/bin/sh\nsleep 100\n" > /.cubby/runner; chmod 755 /.cubby/runner; '\
'ln -s /etc /.cubby/run/sock; echo moved'
is 'root of an image puts another in its place' "$OUT" moved
kill -KILL "$(runner_of "$root")"
again() { api POST /v1/boxes '{"user":"ann","thread":"root"}' && [ "$STATUS" = 200 ] &&
    run 'echo works; cat /proc/1/cmdline | tr "\0" " "' && [[ $OUT = works* ]]; }
ok 'which is not what is started' eventually 20 again
run 'rm -rf /bin/* /etc/* /lib* 2> /dev/null; echo $?'
run 'echo x'
like 'a box that destroys itself says so' "$STATUS $BODY" 'shell|argv|No such file'
put still 'files work'
get still
is 'and its files can be had' "$STATUS $BODY" '200 files work'
api DELETE "$B"
is 'it is deleted' "$STATUS" 204
neighbour_fine 'at the end'
