#!/bin/bash
# Two heads on one state directory: the second one stands by, serves within 5 s of the first one's kill -9, loses no
# call that was answered and does none twice; and a head whose epoch is over is refused by workers.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
BACKEND=fleet
. test/lib/daemon.sh
. test/lib/fleet.sh
write_config
use_cubby
A=$SOCKET B_SOCKET=$WORK/b.sock
head_start() { # head_start SOCKET STATE OPTIONS...: HEAD, its pid
    local socket=$1 state=$2
    shift 2
    ASAN_OPTIONS=exitcode=99 "$BUILD/asan/cubbyd" --listen "unix:$socket" --state "$state" --config "$CONFIG" \
        --backend fleet "$@" < /dev/null >> "$WORK/daemon.log" 2>&1 &
    HEAD=$!
}
trap 'for pid in "${WORKER_PID[@]}" "${HEADS[@]}"; do kill -9 "$pid"; done 2> /dev/null; clean_up' EXIT
answers() { [ "$("$BUILD/test/ask" "$1" GET /healthz /dev/null /dev/null 5 2> /dev/null)" = 200 ]; }
state_new "$STATE"
HEADS=()
head_start "$A" "$STATE" --standby
HEADS+=("$HEAD")
first=$HEAD
eventually 20 answers "$A" || { fail 'a head' "$(tail -3 "$WORK/daemon.log")"; finish; exit 1; }
"$BUILD/cubby" token create --worker w1 --state "$STATE" > "$WORK/token-w1"
mkdir -m 700 "$(worker_state w1)"
worker_both() {
    ASAN_OPTIONS=detect_leaks=0:exitcode=99 "$BUILD/asan/cubby" join --worker --server "unix:$A,unix:$B_SOCKET" \
        --token-file "$WORK/token-w1" --state "$(worker_state w1)" --pool-size 1 \
        < /dev/null >> "$WORK/worker-w1.log" 2>&1 &
    WORKER_PID[w1]=$!
}
worker_both
ok 'a worker of two heads' eventually 20 worker_online w1
head_start "$B_SOCKET" "$STATE" --standby
HEADS+=("$HEAD")
second=$HEAD
eventually 20 grep -q 'standing by' "$WORK/daemon.log"
ok 'a second head stands by, and does not listen' test ! -S "$B_SOCKET"
head_start "$WORK/c.sock" "$STATE" --standby
eventually 20 eval '[ "$(grep -c "standing by" "$WORK/daemon.log")" = 2 ]'
kill -TERM "$HEAD"
wait "$HEAD"
is 'one that is stopped while it stands by ends well' $? 0
cp -a "$STATE" "$WORK/stale"
api POST /v1/boxes '{"thread":"a"}'
box_use "$(j .id)"
is 'a box' "$STATUS" 201
api POST "$B/processes" '{"command":"sleep 300"}'

# ---- kill -9 of the head that serves, while a client appends one number after another ----

caller() { # a call whose answer was lost may have been done: it is not sent again
    local n=0 code status end=$((SECONDS + 40)) socket=$A after=0
    while [ $SECONDS -lt $end ] && [ "$after" -lt 8 ]; do
        n=$((n + 1))
        while :; do
            status=$(curl -s -o /dev/null --max-time 20 -w '%{http_code}' --unix-socket "$socket" \
                -d "{\"command\":\"echo $n >> log\"}" "http://localhost$B/exec")
            code=$?
            [ "$status" = 200 ] && echo "$n $socket $(date +%s%N)" >> "$WORK/acked" && break
            if [ "$code" = 7 ]; then
                [ "$socket" = "$A" ] && socket=$B_SOCKET || socket=$A
            elif [ "$status" != 503 ]; then
                break
            fi
            [ $SECONDS -lt $end ] || break
            read -rt 0.02 <> <(:)
        done
        [ "$socket" = "$B_SOCKET" ] && [ "$status" = 200 ] && after=$((after + 1))
    done
}
caller &
calls=$!
eventually 20 eval '[ "$(wc -l < "$WORK/acked" 2> /dev/null || echo 0)" -ge 10 ]'
killed=$(date +%s%N)
kill -KILL "$first"
wait "$first" 2> /dev/null
wait "$calls"
resumed=$(awk -v s="$B_SOCKET" '$2 == s { print $3; exit }' "$WORK/acked")
SOCKET=$B_SOCKET DAEMON_PID=$second
ok 'calls are answered by the second head' test -n "$resumed"
[ "$(((${resumed:-0} - killed) / 1000000))" -lt $((5000 * ${SLOW:-1})) ] && pass 'within 5 s' ||
    fail 'within 5 s' "$(((resumed - killed) / 1000000)) ms"
diag "calls resumed after $(((resumed - killed) / 1000000)) ms"
api POST "$B/exec" '{"command":"cat log; pgrep -c sleep >&2"}'
is 'processes ran on' "$(j .stderr)" 1
j .stdout | sort -n > "$WORK/done"
is 'no call is done twice' "$(uniq -d "$WORK/done")" ''
is 'none that was answered is lost' "$(cut -d' ' -f1 "$WORK/acked" | sort | comm -23 - <(sort "$WORK/done"))" ''

# ---- a head whose epoch is over ----

rm -f "$A"
head_start "$A" "$WORK/stale"
HEADS+=("$HEAD")
eventually 20 answers "$A"
worker_stop w1
worker_both
ok 'a worker that dials it first is on the head that counts' eventually 20 worker_online w1
SOCKET=$A
ok 'and never on the other' worker_online w1 offline
ok 'it says why' eventually 20 grep -q 'head of epoch 1, and this worker has served epoch 2' "$WORK/worker-w1.log"
kill -TERM "$HEAD"
wait "$HEAD"
SOCKET=$B_SOCKET
api DELETE "$B"
is 'delete' "$STATUS" 204
WORKERS=(w1)
workers_end
pass 'nothing is left on workers'
unlike 'no sanitizer spoke' "$(cat "$WORK"/worker-*.log "$WORK/daemon.log")" 'Sanitizer|runtime error:|Assertion'
kill -TERM "$second"
wait "$second"
is 'the second head ends well' $? 0
DAEMON_PID=
finish
