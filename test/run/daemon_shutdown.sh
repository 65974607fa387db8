# SIGTERM: calls are drained, boxes are left running or ended, as configured; whatever is just being done.
# not remote: machines keep their boxes when a server ends; test/remote/join_restarts.sh has that

end_daemon() { kill -TERM "$DAEMON_PID"; wait "$DAEMON_PID"; }
box_new '"user":"ann","thread":"stay"'
stay=$BOX
tag_new
api POST "$B/processes" "{\"command\":\"echo up; exec sleep $TAG\"}"
pid=$(j .pid)
ask() { curl -s --max-time 120 --unix-socket "$SOCKET" -H 'Content-Type: application/json' -w '\n%{http_code}\n' "$@"; }

# A command that runs ends, and its answer arrives.
ask -X POST -d '{"command":"echo begun > mark; until [ -e go ]; do sleep 0.02; done; echo over","timeout_ms":20000}' \
    "http://localhost$B/exec" > "$WORK/exec" & caller=$!
marked() { get mark && [ "$STATUS" = 200 ]; }
ok 'a command runs' eventually 10 marked
put go now # it has 20 ms more
end_daemon
is 'SIGTERM during exec: the daemon ends in order' $? 0
wait "$caller"
is 'and the command was answered before' "$(head -1 "$WORK/exec" | jq -r .stdout) $(tail -1 "$WORK/exec")" 'over 200'
start_daemon "$program"
box_use "$stay"
if [ "$BACKEND" != local ]; then
    api GET "$B/processes/$pid"
    is 'boxes are left running' "$(j .state)" running
fi

# One that takes longer than drain_ms is cut off, its box is not.
kill -TERM "$DAEMON_PID"
wait "$DAEMON_PID"
start_daemon "$program" --drain-ms 200
ask -X POST -d '{"command":"echo begun > mark2; sleep 60","timeout_ms":60000}' "http://localhost$B/exec" \
    > "$WORK/exec" 2>&1 & caller=$!
marked() { get mark2 && [ "$STATUS" = 200 ]; }
ok 'a long command runs' eventually 10 marked
now_ms
before=$NOW
end_daemon
is 'SIGTERM during a long exec: the daemon ends in order' $? 0
now_ms
between 'when the time for it is over' $((NOW - before)) 150 30000
wait "$caller"
start_daemon "$program"
run 'cat mark2'
is 'the box lives' "$OUT" begun

# While boxes are made and deleted: whatever was answered is true afterwards.
storm() { # storm FILE: a line for each answer
    local answer id
    while answer=$(ask -X POST -d "{\"backend\":\"$BACKEND\",\"user\":\"storm\"}" http://localhost/v1/boxes) &&
        [ "${answer##*$'\n'}" = 201 ]; do
        id=$(head -1 <<< "$answer" | jq -r .id)
        echo "made $id" >> "$1"
        answer=$(ask -X DELETE "http://localhost/v1/boxes/$id")
        [ "${answer##*$'\n'}" != 204 ] || echo "deleted $id" >> "$1"
    done
}
[ "$BACKEND" = docker ] && first=2 more=2 || first=6 more=5 # a container takes half a second of processors
for turn in 1 2 3; do
    : > "$WORK/s1" > "$WORK/s2"
    storm "$WORK/s1" 2> /dev/null & one=$!
    storm "$WORK/s2" 2> /dev/null & two=$!
    storms() { [ "$(cat "$WORK/s1" "$WORK/s2" | wc -l)" -ge $((first + more * turn)) ]; }
    eventually 30 storms
    end_daemon
    is "turn $turn: SIGTERM while boxes are made and deleted: in order" $? 0
    wait "$one" "$two"
    start_daemon "$program"
    api GET '/v1/boxes?user=storm'
    there=$(j '.boxes[].id' | sort)
    told=$(cat "$WORK/s1" "$WORK/s2" | sort | awk \
        '$1=="made"{m[$2]=1} $1=="deleted"{d[$2]=1} END{for(i in m) if(!(i in d)) print i}' | sort)
    gone=$(comm -23 <(echo "$told") <(echo "$there") | xargs)
    back=$(comm -12 <(cat "$WORK/s1" "$WORK/s2" | sed -n 's/^deleted //p' | sort) <(echo "$there") | xargs)
    is "turn $turn: no box that was promised is lost, none deleted is back" "$gone|$back" '|'
    for id in $there; do api DELETE "/v1/boxes/$id"; done
done

# end_boxes: processes end with the daemon, files stay.
end_daemon
start_daemon "$program" --end-boxes
box_use "$stay"
run 'echo kept > f'
api POST "$B/processes" "{\"command\":\"sleep $TAG\"}"
ok 'end_boxes: a process runs' eventually 5 tag_alive
end_daemon
is 'SIGTERM with end_boxes: in order' $? 0
ok 'its boxes have ended with it' tag_gone
is 'no runner is left' "$(runner_of "$stay")" ''
start_daemon "$program"
run 'cat f'
is 'files stay, and the box goes on with them' "$STATUS $OUT" '200 kept'
