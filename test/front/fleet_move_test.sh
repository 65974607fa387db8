#!/bin/bash
# Boxes that change their worker: what goes with them, what a box in use means, drains that empty a worker, and kill -9
# of head, source and target: a box is always on exactly one worker, with all of its files.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
BACKEND=fleet
. test/lib/daemon.sh
. test/lib/fleet.sh
write_config
use_cubby
plain=$BUILD/asan/cubbyd
head_start() { start_or_end "$BUILD/test/crash" "$WORK/crash" -- "$plain"; }
head_start
trap 'for pid in "${WORKER_PID[@]}"; do kill "$pid"; done 2> /dev/null; clean_up' EXIT
WORKERS=(w1 w2)
both_online() { worker_online w1 && worker_online w2; }
worker_start w1
worker_start w2
eventually 20 both_online

run() { # run COMMAND: OUT
    api POST "$B/exec" "{\"command\":$(jq -Rn --arg c "$1" '$c')}"
    OUT=$(j '.stdout + .stderr')
}
where() {
    api GET "$B"
    WHERE=$(j .machine)
}
copies() { find "$WORK"/worker-*/*/boxes -maxdepth 1 -name "$BOX" | sed 's|.*/worker-\([^/]*\)/.*|\1|'; }
one_copy() { [ "$(copies)" = "$1" ]; } # one_copy WORKER
staged() { find "$WORK"/worker-*/*/boxes -maxdepth 1 -name '.unpack-*' | grep -q .; }
show='cd /workspace; ls -lR --time-style=full-iso --block-size=1 . | grep -v ^total; cat g sub/deep/x
    stat -c "%h %a %Y %n" g l d p; getfattr -d -m user g 2> /dev/null; tail -c 4 hole; ls /usr | wc -l'

# ---- what goes with it ----

api POST /v1/boxes '{"thread":"a"}'
box_use "$(j .id)"
run 'echo hi > f; ln f g; mkdir -p sub/deep d; echo deep > sub/deep/x; ln -s f l; truncate -s 3M hole; echo end >> hole
    chmod 2750 d; touch -d 2001-02-03T04:05:06.789 d; mkfifo p; echo lower > lower; echo name > "with blank
and line"; python3 -c "import os; os.setxattr(\"g\", \"user.mine\", b\"v\")"'
api POST "$B/snapshots" '{"name":"s"}'
run 'rm f lower; echo upper > upper; rm -rf sub/deep; mkdir -p sub/deep; echo new > sub/deep/x'
run "$show"
before=$OUT
where
from=$WHERE to=w1
[ "$from" = w1 ] && to=w2
c move "$BOX" "$from"
like 'a box is not moved to where it is' "$ERR" 'already'
c move "$BOX" nowhere
like 'nor to an unknown worker' "$ERR" "no machine 'nowhere'"
api POST "$B/processes" '{"command":"sleep 300"}'
c move "$BOX" "$to"
like 'a box in use stays' "$CODE $ERR" '^125 .*nothing runs in it'
c move --stop "$BOX" "$to"
is 'cubby move --stop names the worker' "$CODE $OUT" "0 $to"
where
is 'it is there' "$WHERE" "$to"
run "$show"
is 'with its files as they were: links, holes, modes, times, attributes, whiteouts' "$OUT" "$before"
eventually 20 one_copy "$to"
pass 'and nothing of it is left behind'
api POST "$B/rollback" '{"snapshot":"s"}'
run 'cat f lower sub/deep/x'
is 'its snapshots went with it' "$OUT" $'hi\nlower\ndeep'
api POST "$B/relocate" '{}' -H 'Authorization: Bearer cubby_wrong'
is 'not for a stranger' "$STATUS" 401

# ---- draining ----

run 'echo drained > f'
c drain "$to"
moved_off() { where && [ "$WHERE" = "$from" ]; }
eventually 20 moved_off
pass 'a draining worker gives its idle boxes away'
run 'cat f'
is 'with their files' "$OUT" drained
c drain "$from"
run 'cat f'
is 'with every worker draining it stays where it is' "$OUT" drained
c drain --off w1
c drain --off w2
eventually 20 both_online

# ---- kill -9 ----

run 'head -c 40000000 /dev/urandom > big; sha256sum big; echo kept > f'
sum=$OUT
intact() { # intact NAME
    eventually 20 both_online
    where
    eventually 20 one_copy "$WHERE"
    is "$1: on one worker, the one that the head names" "$(copies)" "$WHERE"
    run 'sha256sum big; cat f'
    is "$1: with its files" "$OUT" "$sum"$'\n'kept
}
relocate() {
    STATUS=$(curl -s -o /dev/null -w '%{http_code}' --max-time 60 --unix-socket "$SOCKET" -d '{"stop":true}' \
        "http://localhost$B/relocate")
}
killed=0
for step in 1 2 3 4 5 6 7 8; do
    echo "$step files" > "$WORK/crash"
    relocate
    rm -f "$WORK/crash"
    [ "$STATUS" = 000 ] || break
    wait "$DAEMON_PID" 2> /dev/null
    killed=$((killed + 1))
    head_start
    intact "head killed before $(cat "$WORK/crash.hit")"
done
[ "$killed" -ge 3 ] && pass 'the head was killed at several steps' || fail 'the head was killed at few steps' "$killed"
for end in source target; do
    where
    from=$WHERE to=w1
    [ "$from" = w1 ] && to=w2
    victim=$to
    [ "$end" = source ] && victim=$from
    relocate &
    asking=$!
    eventually 10 staged && worker_stop "$victim" KILL
    worker_start "$victim"
    eventually 20 both_online
    wait "$asking"
    intact "$end killed while files are sent"
done

api DELETE "$B"
workers_end
pass 'nothing is left on workers'
is 'and nothing is owed' "$(ls "$STATE/owed")" ''
unlike "no worker's sanitizer spoke" "$(cat "$WORK"/worker-*.log)" 'Sanitizer|runtime error:|Assertion'
stop_daemon
finish
