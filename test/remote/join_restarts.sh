# waits
# The daemon ends and comes again, the command that joined is killed: what runs in the background on the machine is
# found again;
# nobody is retried who was refused.
api POST "$B/processes" '{"command":"echo first; exec cat","stdin_open":true}'
[ "$STATUS" = 201 ] || api POST "$B/processes" '{"command":"echo first; exec sleep 1000"}'
PID=$(j .pid)
[ -n "$PID" ] && [ "$PID" != null ]
is 'something runs in the background' $? 0

for signal in TERM KILL; do
    kill -"$signal" "$DAEMON_PID"
    wait "$DAEMON_PID"
    like "the daemon ends (SIG$signal)" "$?" '^(0|137)$'
    server_start "$PROGRAM"
    ok 'it comes again, and so does the machine' machine_is laptop ready 30
    api GET "$B/processes/$PID"
    is 'with what ran on it' "$STATUS $(j .state)" '200 running'
    api GET "$B/processes/$PID/output?stream=stdout&offset=0&wait_ms=1000"
    is 'and its output' "$BODY" first
done

# `cubby join` is killed: its boxes live on, and the next one finds them
machine_end "$MACHINE_PID" KILL 2> /dev/null
ok 'the machine is offline at once: its end of the connection closed' machine_is laptop offline 3
machine_join laptop "$MACHINE_DIR"
ok 'joined again' machine_is laptop ready
api GET "$B/processes/$PID"
is 'what ran is still there' "$STATUS $(j .state)" '200 running'
run 'echo fine'
is 'and commands run' "$OUT" fine

# a token that is revoked while connected; one that never was any
api DELETE "/v1/tokens/$TOKEN_ID"
is 'the token is revoked' "$STATUS" 204
wait "$MACHINE_PID"
is 'defect 11: refused, it does not try for ever' $? 125
like 'and says why' "$(tail -3 "$WORK/join-laptop.log")" '[Tt]oken'
TOKEN=nonsense machine_join laptop "$MACHINE_DIR"
wait "$MACHINE_PID"
is 'a token that never was' $? 125
like 'is refused in a clear sentence' "$(tail -1 "$WORK/join-laptop.log")" '[Tt]oken'
machine_token laptop
machine_join laptop "$MACHINE_DIR"
ok 'with a new one it comes' machine_is laptop ready
