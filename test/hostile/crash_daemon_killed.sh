# The daemon is killed with -9 while boxes work, and while others are just being made and deleted.
# wall: runners outlive their daemon and listen in a 0700 directory; locks and claims that end with their process tell
# the next daemon what is whose
# config: idle_timeout_ms: 0
# files: on disk

boxes=() pids=() ptys=() runners=()
pid1_of() { cut -d' ' -f1 "$STATE/boxes/$1/jail"; }
again() { # again [SIGNAL of the old one]: a new daemon on the same state
    kill "-${1:-KILL}" "$DAEMON_PID"
    wait "$DAEMON_PID" 2> /dev/null
    start_daemon "${CUBBYD:-$program}" || { fail 'a new daemon starts' "$(tail -5 "$WORK/daemon.log")"; return 1; }
}
for i in {1..10}; do
    box_new "\"user\":\"kill\",\"thread\":\"t$i\""
    boxes+=("$BOX")
    put f "file $i"
    api POST "$B/processes" '{"command":"while read x; do echo got $x; done"}'
    pids+=("$(j .pid)")
    api POST "$B/processes/${pids[-1]}/stdin" '' --data-binary $'one\n'
    runners+=("$(pid1_of "$BOX")")
done
"$TOOL" ws "$SOCKET" "/v1/boxes/${boxes[0]}/"\
"pty?command=echo%20first%3B%20read%20x%3B%20echo%20got%20%24x%3B%20read%20y" > /dev/null << 'END'
expect first
drop
END
box_use "${boxes[0]}"
api GET "$B/processes"
pty=$(j "[.processes[]|select(.state==\"running\" and .pid!=${pids[0]})]|last|.pid")

# Somebody makes and deletes boxes when it happens.
storm() {
    local id
    while [ -e "$WORK/storm" ]; do
        id=$(curl -s --max-time 60 --unix-socket "$SOCKET" -X POST -H 'Content-Type: application/json' \
            -d '{"user":"storm"}' http://localhost/v1/boxes | jq -r .id)
        curl -s --max-time 60 --unix-socket "$SOCKET" -X DELETE "http://localhost/v1/boxes/$id" > /dev/null
    done
}
: > "$WORK/storm"
storm 2> /dev/null & storm_one=$!
storm 2> /dev/null & storm_two=$!
storms() { [ "$(grep -c 'DELETE /v1/boxes' "$WORK/daemon.log")" -gt 4 ]; }
eventually 20 storms
kill -STOP "$DAEMON_PID" # in the middle of whatever it does
kill -KILL "${runners[9]}" # one cannot be adopted
rm -f "$WORK/storm"
again || return
wait "$storm_one" "$storm_two" 2> /dev/null
now_ms
for i in {0..8}; do
    box_use "${boxes[i]}"
    api GET "$B"
    is "box $i is adopted" "$STATUS $(j '[.user,.state]|tostring')" '200 ["kill","ready"]'
    is "box $i has its runner" "$(pid1_of "$BOX")" "${runners[i]}"
    get f
    is "box $i has its files" "$BODY" "file $((i + 1))"
    api POST "$B/processes/${pids[i]}/stdin" '' --data-binary $'two\n'
    api GET "$B/processes/${pids[i]}/output?offset=8&wait_ms=5000"
    is "box $i has its process, with the output's offsets" "$BODY" 'got two'
done
box_use "${boxes[0]}"
attached=$("$TOOL" ws "$SOCKET" "$B/pty?pid=$pty&offset=0" << 'END'
expect first
send again\r
expect got again
send x\r
wait
END
)
like 'its terminal is attached again, from the first byte' "$attached" $'seen\nseen\nclosed 1000$'
box_use "${boxes[9]}"
api GET "$B"
isnt 'one without a runner is not taken for running' "$(j .state)" ready
run 'cat f'
is 'and starts on its files' "$OUT" 'file 10'
api GET "$B/processes"
is 'without the processes it had' "$(j '.processes|length')" 0
api GET "/v1/boxes?user=storm"
for id in $(j '.boxes[].id'); do
    api DELETE "/v1/boxes/$id"
    is 'a box made in the last moment can be deleted' "$STATUS" 204
done
slots_are_mine() { # every slot's directory has a claim, and its maker lives
    local dir claim
    for dir in "$STATE"/boxes/.slot-*; do
        [ -d "$dir" ] || continue
        read -r _ _ claim _ < "/run/cubby/ids/${dir##*-}" && [ "$claim" = "$DAEMON_PID" ] ||
            { echo "$dir: $claim"; return 1; }
    done
}
ok 'what the dead daemon kept ready is gone at the first restart' eventually 5 slots_are_mine
again TERM || return
box_use "${boxes[3]}"
run 'cat f'
is 'a clean stop in between changes nothing' "$OUT" 'file 4'
box_use "$ATTACKED"
