# A time-out in the middle of output: long lines, binary, many writers, a terminal.
# wall: what was read before the end is the answer's; the group is killed and its pipes are emptied first
# backends: jail docker

tag_new
run "printf 'first line\nsecond, unfinis'; sleep $TAG" '"timeout_ms":400'
is 'partial output and timed_out' "$(j -c '[.timed_out,.stdout,.stdout_truncated]')" \
    '[true,"first line\nsecond, unfinis",false]'
ok 'the group is gone' tag_gone
run "(while :; do echo a; done) & (while :; do echo b >&2; done) & sleep $TAG" \
    '"timeout_ms":600,"output_limit_bytes":5000'
is 'many writers' "$(j -c '[.timed_out,.stdout_truncated,.stderr_truncated]')" '[true,true,true]'
like 'head and tail of one' "$OUT" $'^a\na\n.*a$'
like 'and of the other' "$ERR" $'^b\nb\n.*b$'
ok 'all gone' tag_gone
run "head -c 70000 /dev/urandom; sleep $TAG" '"timeout_ms":500'
is 'binary' "$(j -c '[.timed_out,.encoding,.stdout_bytes]')" '[true,"base64",70000]'
is 'every byte that came' "$(j .stdout | base64 -d | wc -c)" 70000
curl -sN --max-time 120 --unix-socket "$SOCKET" -H 'Accept: text/event-stream' \
    -d "{\"command\":\"echo one; sleep 0.1; echo two; exec sleep $TAG\",\"timeout_ms\":600}" "http://localhost$B/exec" \
    > "$WORK/events"
is 'as events' "$(sed -n 's/^data: //p' "$WORK/events" | jq -c 'select(.data)|.data' | tr -d '\n')" '"one\n""two\n"'
is 'with their end' "$(sed -n 's/^data: //p' "$WORK/events" | tail -1 | jq -c '[.timed_out,.stdout_bytes]')" '[true,8]'
# under load, in the same box
api POST "$B/processes" '{"command":"for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; wait"}'
now_ms
start=$NOW
run "echo busy; exec sleep $TAG" '"timeout_ms":500'
now_ms
is 'in a busy box' "$(j -c '[.timed_out,.stdout]')" '[true,"busy\n"]'
between 'on time' "$(j .duration_ms)" 500 15000
