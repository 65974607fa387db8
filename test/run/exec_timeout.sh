# Time-outs end everything a command started, hang-ups cancel it, and both leave the box usable.

tag_new
now_ms
start=$NOW
run "echo before; sleep $TAG" '"timeout_ms":400'
now_ms
is 'time-out is a result' "$STATUS" 200
is 'timed_out' "$(j .timed_out)" true
is 'partial output is kept' "$OUT" before
is 'exit_code of a killed command' "$CODE" null
like 'the signal that ended it' "$(j .signal)" '^SIG(TERM|KILL)$'
between 'duration of a time-out' "$(j .duration_ms)" 400 20000
between 'the answer came in time' $((NOW - start)) 400 20000
ok 'the sleeper is gone' tag_gone

run "sleep $TAG & sleep $TAG & (sleep $TAG) ; wait" '"timeout_ms":300'
is 'children and grandchildren: timed out' "$(j .timed_out)" true
ok 'children and grandchildren: gone' tag_gone
run "setsid -w sleep $TAG" '"timeout_ms":300'
is 'setsid: timed out' "$(j .timed_out)" true
ok 'setsid: gone' tag_gone
run "(setsid sh -c '(setsid sleep $TAG &) ; exec setsid sleep $TAG' &) ; sleep $TAG" '"timeout_ms":300'
ok 'double fork and setsid: gone' tag_gone
run "exec <&- >&- 2>&-; exec sleep $TAG" '"timeout_ms":300'
is 'closed streams: timed out' "$(j .timed_out)" true
ok 'closed streams: gone' tag_gone
now_ms
start=$NOW
run "trap '' TERM INT HUP; echo armed; while :; do sleep $TAG & wait; done" '"timeout_ms":300'
now_ms
is 'ignored SIGTERM: timed out' "$(j .timed_out)" true
is 'ignored SIGTERM: killed' "$(j .signal)" SIGKILL
is 'ignored SIGTERM: output kept' "$OUT" armed
between 'ignored SIGTERM: bounded' $((NOW - start)) 300 20000
ok 'ignored SIGTERM: gone' tag_gone
run 'kill -STOP $$' '"timeout_ms":300'
is 'a stopped command: timed out' "$(j .timed_out)" true
run 'yes' '"timeout_ms":500,"output_limit_bytes":1000'
is 'flood: timed out' "$(j .timed_out)" true
between 'flood: output within its limit' "$(j '.stdout|length')" 900 1200
run 'trap "echo bye; exit 7" TERM; echo hi; while :; do sleep 0.05; done' '"timeout_ms":300'
is 'the grace is used: output' "$OUT" $'hi\nbye'
run 'echo fine'
is 'the box goes on' "$OUT" fine

# hang-up
tag_new
json_string "echo go; sleep $TAG"
curl -s --max-time 60 --unix-socket "$SOCKET" -d "{\"command\":$JSON_STRING}" "http://localhost$B/exec" > /dev/null &
client=$!
ok 'the command runs' eventually 10 tag_alive
kill -KILL "$client"
wait "$client" 2> /dev/null
ok 'a client that hangs up cancels it' eventually 10 tag_gone
tag_new
json_string "trap '' TERM; setsid sleep $TAG & while :; do sleep $TAG; done"
curl -s --max-time 60 --unix-socket "$SOCKET" -H 'Accept: text/event-stream' -d "{\"command\":$JSON_STRING}" \
    "http://localhost$B/exec" > /dev/null &
client=$!
ok 'a stubborn command runs' eventually 10 tag_alive
kill -KILL "$client"
wait "$client" 2> /dev/null
ok 'and is cancelled, too' eventually 10 tag_gone
run 'echo fine'
is 'the box goes on after hang-ups' "$OUT" fine
