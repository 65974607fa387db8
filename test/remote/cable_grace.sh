# config: remote_grace_s: 2
# waits
# A connection that is lost for longer than the grace time: calls under way end with the reason as soon as it is over,
# not at
# their own time-outs; new ones fail at once; nothing runs on the server instead; what ran in the background is there
# afterwards.
api POST "$B/processes" '{"command":"i=0; while :; do echo line $i; i=$((i+1)); sleep 0.1; done"}'
PID=$(j .pid)
request() { curl -sS --max-time 120 --unix-socket "$SOCKET" "$@"; }
request -o "$WORK/out-exec" -w '%{http_code}' -d '{"command":"echo begun > begun; sleep 100"}' \
    -H 'Content-Type: application/json' "http://localhost$B/exec" > "$WORK/status" & exec_pid=$!
ok 'a command runs' eventually 10 test -s "$MACHINE_DIR/begun"
api GET "$B/processes/$PID/output?stream=stdout&offset=0&wait_ms=2000"
NEXT=$(header X-Next-Offset)
cable cut
now_ms
before=$NOW
wait "$exec_pid"
now_ms
is 'defect 2: a call under way does not hang until its time-out' \
    "$(< "$WORK/status") $(jq -r .error.code "$WORK/out-exec")" '410 GONE'
like 'it tells why' "$(jq -r .error.message "$WORK/out-exec")" 'laptop'
between 'when the silence and the grace time are over, not before' $((NOW - before)) 2000 90000
ok 'the machine is offline' machine_is laptop offline 1
now_ms
before=$NOW
run 'echo here > /tmp/fell-back'
now_ms
is_error 'defect 5: a machine that is offline is an error' 503 BUSY laptop
between 'at once' $((NOW - before)) 0 15000
api POST /v1/boxes '{"machine":"laptop","thread":"new"}'
is_error 'a new box on it too' 503 BUSY laptop
api GET /v1/boxes
is 'no other box has taken its place' "$(j '.boxes|map(select(.backend != "remote"))|length')" 0
api GET "$B"
is 'since when is told' "$(j .remote.online) $(j '.remote.since != null')" 'false true'
cable join
ok 'it comes back by itself' machine_is laptop ready 70
run 'echo as before'
is 'and answers' "$OUT" 'as before'
api GET "$B/processes/$PID"
is 'the background process is still there' "$(j .state)" running
api GET "$B/processes/$PID/output?stream=stdout&offset=$NEXT&wait_ms=2000"
is 'and its output goes on where it was read last' "$STATUS $(head -1 <<< "$BODY")" \
    "200 line $(($(printf '%s' "$NEXT" >/dev/null; seq -f 'line %g' 0 100000 |
    awk -v n="$NEXT" '{ at += length + 1; if (at > n) { print $2; exit } }')))"
api POST "$B/processes/$PID/signal" '{"signal":"SIGKILL"}'
not_ok 'the command that was under way is gone' pgrep -f '^sleep 100$'
