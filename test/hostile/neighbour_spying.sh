# Spying on another box, or being noticed by it: processes, signals, IPC, sockets, ports, files, locks and watches on
# files
# that both have from one layer below.
# wall: pid, ipc, net, mount and user namespaces; inodes of its own for every box (overlay, /dev); Landlock scopes
# second
tag_new
name=t${TAG%%.*}
files='/usr/bin/env /etc/hosts /dev/full /dev/shm /proc/version' # not /dev/null: every command of the box touches it
attack_put isolation
api POST "$B/processes" "{\"command\":\"/tmp/attack_isolation hold $name $files /dev/null $TAG\"}"
holder=$(j .pid)
held() { api GET "$B/processes/$holder/output" && grep -q held "$WORK/body"; }
ok 'one box holds what there is to hold' eventually 10 held
unlike 'all of it' "$(grep -v "$TAG" "$WORK/body" | j .stdout 2> /dev/null || cat "$WORK/body")" \
    'abstract E|port E|shm E|sem E|msg E|mq E|tmp E'
api POST "$B/processes" "{\"command\":\"/tmp/attack_isolation watch $files /tmp/attack_isolation\"}"
watcher=$(j .pid)
watching() { api GET "$B/processes/$watcher/output" && grep -q watching "$WORK/body"; }
ok 'and watches' eventually 10 watching

box_use "$NEIGHBOUR"
attack isolation "probe $name $files /dev/null"
is 'the other finds nothing of it' "$OUT" "$(for f in $files /dev/null; do echo "$f flock OK, fcntl free"; done
    printf '%s\n' 'abstract ECONNREFUSED' 'port ECONNREFUSED' 'shm ENOENT' 'sem ENOENT' 'msg ENOENT' 'mq ENOENT' \
        'posix-shm ENOENT' 'tmp ENOENT')"
run "head -qc 10 $files 2>&1 | wc -c; touch $files 2> /dev/null; echo x 2> /dev/null > /dev/full; grep "\
"-l '[${TAG:0:1}]${TAG:1}' /proc/[0-9]*/cmdline; ls /proc | grep -c '^[0-9]'"
like 'nor its processes' "$OUT" $'^[1-9][0-9]+\n[1-6]$'
run 'for p in $(seq 2 400); do kill -0 $p 2> /dev/null && echo $p; done | wc -l' '"user":"root"'
between 'nor can it signal them' "$OUT" 1 6
run 'cat /proc/locks'
is 'nor its locks' "$OUT" ''

box_use "$ATTACKED"
run 'cat /tmp/attack_isolation > /dev/null' # the last of the watched: ends the watcher
ended() { api GET "$B/processes/$watcher" && [ "$(j .state)" = exited ]; }
ok 'the watcher sees what its own box does' eventually 10 ended
api GET "$B/processes/$watcher/output"
is 'and nothing of what the other did' "$(grep -o 'touched [0-9]*' "$WORK/body" | sort -u)" \
    "touched $(wc -w <<< "$files x")"
run "flock -n /usr/bin/env echo free || echo taken"
like 'positive control: in its own box the lock is felt' "$OUT" 'taken$'

# what lies on the same directory by request is shared, locks included; nothing else is
AS=agent attack isolation "probe $name /usr/bin/env"
like 'and so is the rest' "$OUT" \
    $'flock EAGAIN, .*\nabstract OK\nport OK\nshm OK\nsem OK\nmsg OK\nmq OK\nposix-shm OK\ntmp OK$'
