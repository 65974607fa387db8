# Background processes: list, output by offset, ring, input, signals, end.

spawn() { # spawn COMMAND [MORE MEMBERS] -> PID
    json_string "$1"
    api POST "$B/processes" "{\"command\":$JSON_STRING${2:+,$2}}"
    PID=$(j .pid)
}
output() { api GET "$B/processes/$PID/output?stream=${1:-stdout}&offset=${2:-0}${3:+&wait_ms=$3}"; }
state() { api GET "$B/processes/$PID"; j .state; }
exited() { [ "$(state)" = exited ]; }

api GET "$B/processes"
is 'no processes at first' "$STATUS $(j '.processes|length')" '200 0'
spawn 'echo hello; echo oops >&2; read -r line; echo "got $line"; exit 4'
is 'spawn answers 201' "$STATUS" 201
between 'with a pid' "$PID" 1 100000000
like 'and a start time' "$(j .started_at)" '^20[0-9-]+T[0-9:.]+Z$'
output stdout 0 10000
is 'output from the start' "$STATUS $BODY" '200 hello'
is 'next offset' "$(header x-next-offset)" 6
is 'first offset' "$(header x-first-offset)" 0
is 'state in a header' "$(header x-process-state)" running
output stderr 0 10000
is 'the other stream' "$BODY" oops
output stdout 2
is 'output from the middle' "$BODY" llo
output stdout 6
is 'nothing new: empty' "$STATUS [$BODY] $(header x-next-offset)" '200 [] 6'
api GET "$B/processes/$PID"
is 'one process' "$(j '[.state,.exit_code,.signal,.stdout_bytes,.stderr_bytes]|tostring')" '["running",null,null,6,5]'
like 'its command' "$(j .command)" 'echo hello'
api GET "$B/processes"
is 'the list has it' "$(j '.processes|map(.pid)|tostring')" "[$PID]"
run 'echo beside'
is 'a foreground command beside it' "$OUT" beside

api POST "$B/processes/$PID/stdin" '' --data-binary $'world\n'
like 'stdin is taken' "$STATUS" '^20[04]$'
output stdout 6 10000
is 'and arrives' "$BODY" 'got world'
ok 'it ends' eventually 10 exited
is 'exit state' "$(j '[.state,.exit_code,.signal]|tostring')" '["exited",4,null]'
output stdout 0
is 'output stays after the end' "$BODY" $'hello\ngot world'
is 'state after the end' "$(header x-process-state)" exited
api POST "$B/processes/$PID/stdin" '' --data-binary x
like 'stdin after the end is an error' "$STATUS" '^4'
api POST "$B/processes/$PID/signal" '{"signal":"SIGTERM"}'
like 'a signal after the end is an error' "$STATUS" '^4'

# waiting
spawn 'until [ -e go ]; do sleep 0.02; done; echo late'
now_ms
start=$NOW
output stdout 0 100
now_ms
is 'wait_ms over: empty' "$STATUS [$BODY]" '200 []'
between 'wait_ms over: in time' $((NOW - start)) 95 20000
put go ''
output stdout 0 60000
is 'wait_ms ends with the first byte' "$BODY" late
spawn 'sleep 0.2'
now_ms
start=$NOW
output stdout 0 30000
now_ms
is 'wait_ms ends with the process' "$STATUS [$BODY] $(header x-process-state)" '200 [] exited'
between 'not later' $((NOW - start)) 0 25000

# ring
spawn 'seq 1 400000; echo end'
ok 'a long writer is not held up' eventually 20 exited
is 'its count is true' "$(j .stdout_bytes)" 2688899
output stdout 0
first=$(header x-first-offset)
between 'older bytes are gone' "$first" 1 2688898
is 'what is kept is exact' "$(cksum < "$WORK/body")" \
    "$( (seq 1 400000; echo end) | tail -c +$((first + 1)) | head -c "$(stat -c %s "$WORK/body")" | cksum)"
output stdout 2688895
is 'the end is kept' "$BODY" end
output stdout 99999999
like 'an offset beyond the end' "$STATUS" '^(200|400)$'

# input
spawn 'cat; echo eof'
api POST "$B/processes/$PID/stdin" '' --data-binary 'abc'
api POST "$B/processes/$PID/stdin?eof=1" '' --data-binary 'def'
ok 'eof ends a reader' eventually 10 exited
output
is 'all pieces in order' "$BODY" 'abcdefeof'
spawn 'wc -c'
head -c 5000000 /dev/zero > "$WORK/big"
api POST "$B/processes/$PID/stdin?eof=1" '' --data-binary "@$WORK/big" -H 'Content-Type: application/octet-stream'
ok 'five megabytes of stdin' eventually 20 exited
output
is 'all of it arrived' "$BODY" 5000000

# signals
tag_new
spawn "sleep $TAG & sleep $TAG"
ok 'a group runs' eventually 10 tag_alive
api POST "$B/processes/$PID/signal" '{"signal":"SIGTERM"}'
like 'signal is sent' "$STATUS" '^20[04]$'
ok 'it ends by it' eventually 10 exited
is 'and says so' "$(j '[.exit_code,.signal]|tostring')" '[null,"SIGTERM"]'
ok 'the group is gone' eventually 10 tag_gone
spawn "trap 'echo usr' USR1; echo ready; while :; do sleep 0.02; done"
output stdout 0 10000
api POST "$B/processes/$PID/signal" '{"signal":"SIGUSR1"}'
output stdout 6 10000
is 'any signal' "$BODY" usr
api POST "$B/processes/$PID/signal" '{"signal":"SIGNONE"}'
is_error 'no such signal' 400 INVALID SIGNONE
api POST "$B/processes/$PID/signal" '{"signal":"SIGKILL"}'
ok 'SIGKILL' eventually 10 exited
api GET "$B/processes/999999"
is_error 'no such process' 404 NOT_FOUND 999999
api GET "$B/processes/abc"
like 'a pid that is no number' "$STATUS" '^40[04]$'
api GET "$B/processes/$PID/output?stream=both"
is_error 'no such stream' 400 INVALID stream
spawn 'true' '"timeout_ms":200'
spawn 'sleep 30' '"timeout_ms":200'
ok 'a background time-out' eventually 10 exited
run 'mkdir sub'
spawn 'pwd; echo $X' '"cwd":"sub","env":{"X":"y"}'
ok 'cwd and env' eventually 10 exited
output
is 'cwd and env are taken' "$BODY" $'/workspace/sub\ny'

# many ended ones are forgotten, oldest first
for _ in {1..70}; do
    printf 'unix-socket = "%s"\nurl = "http://localhost%s/processes"\ndata = "{\\"command\\":\\"true\\"}"\nnext\n' \
        "$SOCKET" "$B"
done | sed '$d' > "$WORK/many"
curl -s -K "$WORK/many" > "$WORK/answers"
is 'seventy in a row' "$(grep -o '"pid"' "$WORK/answers" | wc -l)" 70
api GET "$B/processes"
between 'ended ones do not pile up' "$(j '.processes|length')" 1 200
