# Everything the kernel counts per user or per machine, taken until there is no more: descriptors, inotify, timers,
# message queues, locked memory, semaphores, terminals, asynchronous contexts, keys.
# wall: a user namespace that belongs to the box's own uid; RLIMIT_NOFILE; devpts max=, dealt out by user; no io_setup,
# no keys
# config: max_boxes_per_user: 0
# box: "limits":{"open_files":200}

counts() { # counts KIND: COUNT and WHY in the current box
    attack exhaust "$1" '"timeout_ms":60000'
    read -r _ COUNT WHY <<< "$OUT"
}
hold() { # hold KIND: the same, in the background, and keeps them
    attack_put exhaust
    api POST "$B/processes" "{\"command\":\"exec /tmp/attack_exhaust $1 hold\"}"
    HELD=$(j .pid)
    api GET "$B/processes/$HELD/output?stream=stdout&wait_ms=60000"
    read -r _ COUNT WHY <<< "$BODY"
}
let_go() { api POST "$B/processes/$HELD/signal" '{"signal":"KILL"}'; }

counts fd
is 'open files end at the limit' "$COUNT $WHY" '197 EMFILE' # beside stdin, stdout, stderr
AS=root counts fd
is 'of root too' "$COUNT $WHY" '197 EMFILE'
run 'ulimit -n; ulimit -Hn; ulimit -n 4096 2>&1'
like 'which cannot be raised' "$OUT" $'^200\n200\n.*(not permitted|cannot modify)'

# What one box holds is not missing in another, nor on the host.
while read -r kind least errno; do
    box_use "$ATTACKED"
    hold "$kind"
    held=$COUNT
    diag "$kind: $COUNT, then $WHY"
    between "$kind: a box gets some" "$COUNT" "$least" 299999
    [ -z "$errno" ] || is "$kind: and then a clear error" "$WHY" "$errno"
    box_use "$NEIGHBOUR"
    counts "$kind"
    is "$kind: its neighbour as many, at the same time" "$COUNT" "$held"
    if [ "$kind" = inotify ]; then
        read -r _ COUNT WHY <<< "$("$BUILD/test/attack_exhaust" inotify)"
        between "$kind: the host has its own" "$COUNT" 1 299999
    fi
    box_use "$ATTACKED"
    let_go
done << END
inotify 100 EMFILE
watch 2000
timer 1000 EAGAIN
mq 5 EMFILE
lock 100 ENOMEM
sem 10 ENOSPC
pty 60 ENOSPC
END

# one number for the whole machine, or a store that outlives the box: not to be had at all
for who in agent root; do
    AS=$who counts aio
    is "aio, by $who" "$COUNT $WHY" '0 ENOSYS'
    AS=$who counts key
    like "keys, by $who" "$COUNT $WHY" '^0 (EPERM|ENOSYS)$'
done

# Terminals are counted for the machine: many boxes of one user do not have them all.
taken=0 boxes=0
for i in {1..30}; do
    box_new "\"thread\":\"pty $i\",\"user\":\"mallory\"" || break
    hold pty
    taken=$((taken + COUNT)) boxes=$((boxes + 1))
done
diag "$boxes boxes of one user: $taken terminals"
is 'thirty boxes of one user take terminals until there are no more' "$boxes $WHY" '30 ENOSPC'
between 'together they have half of those of all boxes at most' "$taken" 700 \
    $((($(cat /proc/sys/kernel/pty/max) - $(cat /proc/sys/kernel/pty/reserve)) / 2))
box_use "$NEIGHBOUR"
counts pty
is 'its neighbour has as many as ever' "$COUNT $WHY" '96 ENOSPC'
api POST "$B/sessions" '{"name":"terminal"}'
is 'and begins a session' "$STATUS" 201
api POST "$B/sessions/terminal/exec" '{"command":"tty"}'
like 'with a terminal' "$(j .output)" '/dev/pts/'
api DELETE "$B/sessions/terminal"
box_use "$ATTACKED"
run 'echo fine'
is 'the box goes on' "$OUT" fine
