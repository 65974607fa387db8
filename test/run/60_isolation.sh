# The walls of a jail, from inside.

if [ "$BACKEND" = local ]; then
    skip 'isolation' 'local: there is none, as it says'
    return
fi
upload tool "$TOOL" '&mode=0755'
for user in agent root; do
    U="\"user\":\"$user\""
    run 'cat /proc/self/mountinfo' "$U"
    unlike "$user: no host paths in mountinfo" "$OUT" "$WORK|$STATE|cubby"
    run 'ls -A /root /home 2>/dev/null; ls /' "$U"
    unlike "$user: nothing of /root and /home" "$OUT" "$(ls -A /root /home | grep -v : | grep . | head -1 | sed 's/[.[\*^$]/\\&/g; s/^$/nothing-at-all/')"
    run 'cat /etc/shadow /etc/ssh/ssh_host_*_key' "$U"
    is "$user: no secrets of the host" "$OUT" ''
    run 'ls /sys/class/net 2>/dev/null; cut -d: -f1 /proc/net/dev | tail -n +3 | tr -d " "' "$U"
    is "$user: only the loopback device" "$(sort -u <<< "$OUT")" lo
    run 'grep -E "^(NoNewPrivs|Seccomp):" /proc/self/status | tr -d "\t\n"' "$U"
    is "$user: no new privileges, seccomp" "$OUT" 'NoNewPrivs:1Seccomp:2'
    run 'kill -9 1; kill -STOP 1; kill -TERM 1; kill -SEGV 1; echo alive' "$U"
    is "$user: the runner cannot be killed" "$OUT" alive
    run 'cat /proc/1/environ /proc/1/mem 2>/dev/null | head -c 100 | wc -c; ls /proc/1/fd 2>/dev/null | wc -l; readlink /proc/1/exe; ls /proc/1/root 2>/dev/null | wc -l' "$U"
    is "$user: nor looked into" "$(tr '\n' ' ' <<< "$OUT")" '0 0 0 '
    run 'mount -t tmpfs x /mnt; echo $?; umount /proc; echo $?; unshare -Ur true; echo $?; unshare -m true; echo $?; chroot / true; echo $?' "$U"
    unlike "$user: no mounts, no namespaces, no chroot" "$OUT" '(^|[^0-9])0($|[^0-9])'
    run 'mknod /workspace/dev b 8 0; echo $?; mknod /tmp/dev c 1 1; echo $?' "$U"
    is "$user: no devices" "$OUT" $'1\n1'
    run 'echo x > /proc/sys/kernel/core_pattern; echo $?; echo x > /proc/sysrq-trigger; echo $?; cat /proc/kcore 2>/dev/null | head -c 1 | wc -c; dmesg > /dev/null 2>&1; echo $?' "$U"
    like "$user: the kernel's knobs are masked" "$(tr '\n' ' ' <<< "$OUT")" '^[12] [12] 0 [1-9]'
    run 'ls /dev | sort | tr "\n" " "' "$U"
    is "$user: only harmless devices" "$OUT" 'fd full null ptmx pts random shm stderr stdin stdout tty urandom zero '
    run 'echo x >> /etc/passwd; echo $?; echo x > /usr/bin/true; echo $?' "$U"
    [ "$user" = root ] || is "$user: the system is not writable" "$OUT" $'1\n1'
done
run 'grep -E "^Cap(Inh|Prm|Eff|Bnd|Amb)" /proc/self/status | cut -f2 | sort -u'
is 'agent: no capabilities at all' "$OUT" 0000000000000000
is "the host's files are as they were" "$(tail -c 2 /etc/passwd | tr -d '\n')" "$(tail -1 /etc/passwd | tail -c 2)"
run 'ls -ld /workspace /tmp | cut -d" " -f1; touch /workspace/x /tmp/x && echo writable'
like 'workspace and /tmp are writable' "$OUT" 'writable$'
run 'hostname; cat /etc/hostname'
unlike "the host's name stays outside" "$OUT" "^$(hostname)$"
run 'cat /proc/self/cgroup'
unlike "nothing of the host's cgroups" "$OUT" 'cubby|[0-9a-f]{16}'
run 'ls -l /proc/self/fd | sed "s/.* -> //" | grep -v -E "^(pipe:|/dev/null|/proc/[0-9]+/fd|total .*)" '
is 'no descriptors come along' "$OUT" ''

# two boxes
first=$BOX
tag_new
run 'echo secret > /tmp/secret; echo secret > /dev/shm/secret; echo secret > /workspace/secret'
api POST "$B/processes" "{\"command\":\"sleep $TAG\"}"
ok 'something runs in one' eventually 5 tag_alive
box_new
run 'cat /tmp/secret /dev/shm/secret /workspace/secret 2>/dev/null'
is 'files of another box are not seen' "$OUT" ''
run "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -x '[${TAG:0:1}]${TAG:1}'"
is 'nor its processes' "$OUT" ''
run 'ps -e 2>/dev/null | wc -l || ls /proc | grep -c "^[0-9]"'
between 'only a few processes' "$OUT" 1 10
run 'awk "NR > 1 && \$8" /proc/net/unix; tail -n +2 /proc/sysvipc/msg /proc/sysvipc/shm /proc/sysvipc/sem | grep -v -e == -e "^$"'
is 'nor named sockets, queues or shared memory' "$OUT" ''

# A network of its own: in a network namespace, so that the machine's own settings stay as they are.
if second_start "$CONFIG" unshare -n sh -c 'ip link set lo up; sysctl -qw net.ipv4.ip_forward=1; exec "$@"' sh "$program"; then
    devices() { nsenter -t "$DAEMON_PID" -n ip -o link | wc -l; }
    before=$(devices)
    if box_new '"network":"open"'; then
        run 'cut -d: -f1 /proc/net/dev | tail -n +3 | tr -d " " | grep -vc "^lo$"; ip -4 route 2> /dev/null | grep -c default'
        is 'open: a device and a route beside the loopback' "$OUT" $'1\n1'
        nsenter -t "$DAEMON_PID" -n ip -o -4 addr | sed -n 's/.* inet \([0-9.]*\).*/\1/p' > "$WORK/addresses"
        run 'ip -o -4 addr | sed -n "s/.* inet \([0-9.]*\).*/\1/p" | grep -v "^127"'
        not_ok "open: not an address of the host's" grep -qx "$OUT" "$WORK/addresses"
        api DELETE "$B"
        fewer() { [ "$(devices)" -le "$before" ]; }
        ok 'open: its device goes with the box' eventually 5 fewer
    else like 'open: what is missing is said' "$STATUS $(j .error.code) $(j .error.message)" '^501 UNSUPPORTED .+'; fi
else fail 'a daemon in a network namespace' "$(tail -5 "$WORK/daemon.log")"; fi
second_end

# limits
box_new '"limits":{"memory_mb":64,"pids":40}'
if [ "$STATUS" = 201 ]; then
    upload tool "$TOOL" '&mode=0755'
    run './tool memory 30'
    is 'within the memory limit' "$OUT" touched
    run './tool memory 300'
    is 'beyond it' "$(j '[.exit_code,.oom_killed]|tostring')" '[null,true]'
    run 'echo alive'
    is 'the box survives' "$OUT $(j .oom_killed)" 'alive false'
    run 'for i in $(seq 100); do sleep 5 & done 2>&1 | head -c 300; echo end' '"timeout_ms":20000'
    like 'a fork bomb meets its limit' "$OUT" 'end|Resource temporarily unavailable'
    run ':(){ :|:& };: ; echo x' '"timeout_ms":2000'
    like 'and a real one' "$STATUS" '^200$'
    run 'echo alive'
    is 'the box survives that, too' "$OUT" alive
    api GET "$B"
    is 'limits are told' "$(j '[.limits.memory_mb,.limits.pids]|tostring')" '[64,40]'
    between 'memory use is told' "$(j .usage.memory_bytes)" 1 67108864
    now_ms; start=$NOW
    api DELETE "$B"
    now_ms
    between 'deleted at once' $((NOW - start)) 0 1500
else skip 'limits' "$(j .error.message)"; fi
box_use "$first"
run 'echo fine'
is 'the other box goes on' "$OUT" fine
