# Pause and resume: processes stand still with their memory, whoever serves; everything else is told, or wakes them.

if [ "$BACKEND" = local ]; then
    api POST "$B/pause"
    is_error 'no freezer here: said' 501 UNSUPPORTED
    return
fi
box_new '"user":"ann","thread":"still"'
api POST "$B/processes" \
    '{"command":"n=0; while :; do n=$((n + 1)); echo $n > counter.new; mv counter.new counter; done"}'
pid=$(j .pid)
cpu() { api GET "$B" && j .usage.cpu_ms; }
counts() { run 'cat counter' && [ "${OUT:-0}" -gt "${1:-10}" ]; }
ok 'a process counts' eventually 20 counts
state() { api GET "$B" && j .state; }

api POST "$B/pause"
is 'paused' "$STATUS $(j .state)" '200 paused'
before=$(cpu)
read -r -t 0.3 <> <(:) # that nothing happens takes a while to see
is 'no processor time is used' "$(cpu)" "$before"
api POST "$B/pause"
is 'again: nothing happens' "$STATUS $(j .state)" '200 paused'
api POST "$B/exec" '{"command":"true"}'
is_error 'a command is refused, and the fix told' 409 PAUSED "paused.*resume"
get f
is 'a file too, and no client is asked to retry' "$STATUS $(header Retry-After)" '409 '
api POST /v1/boxes '{"user":"ann","thread":"still"}'
is 'acquire finds it as it is' "$STATUS $(j '[.id,.state]|tostring')" "200 [\"$BOX\",\"paused\"]"
api GET '/v1/boxes?state=paused'
is 'and so does the list' "$(j '[.boxes[].id]|tostring')" "[\"$BOX\"]"
api POST "$B/resume"
is 'resumed' "$STATUS $(j .state)" '200 ready'
run 'cat counter'
ok 'it goes on where it was' eventually 20 counts "$OUT"
api GET "$B/processes/$pid"
is 'the same process' "$(j .state)" running
api POST "$B/resume"
is 'again: nothing happens' "$STATUS $(j .state)" '200 ready'

# ---- over daemons ----

for signal in TERM KILL; do
    api POST "$B/pause"
    kill "-$signal" "$DAEMON_PID"
    wait "$DAEMON_PID" 2> /dev/null
    start_daemon "$program" || fail "$signal: a new daemon" "$(tail -5 "$WORK/daemon.log")"
    [ "$BACKEND" != remote ] || run true # it is looked for when it is used
    is "$signal: still paused" "$(state)" paused
    before=$(cpu)
    api POST "$B/exec" '{"command":"true"}'
    is_error "$signal: a command is refused" 409 PAUSED 'paused'
    is "$signal: it has stood still" "$(cpu)" "$before"
    api POST "$B/resume"
    is "$signal: resumed" "$STATUS $(j .state)" '200 ready'
    run 'cat counter'
    ok "$signal: it goes on" eventually 20 counts "$OUT"
done

# ---- ended ----

use_cubby
tag_new
api POST "$B/processes" "{\"command\":\"trap '' TERM; sleep $TAG\"}"
c pause "$BOX"
is 'cubby pause' "$CODE $OUT" "0 $BOX"
c exec "$BOX" -- true
is 'cubby exec: refused' "$CODE" 125
like 'cubby exec: why' "$ERR" 'paused'
now_ms
start=$NOW
api DELETE "$B"
now_ms
is 'a paused box is deleted' "$STATUS" 204
between 'at once' $((NOW - start)) 0 20000
# A machine is asked to end it, now or when it is back: what ran there may end after the answer.
[ "$BACKEND" = remote ] && ended=(eventually 10 tag_gone) || ended=(tag_gone)
ok 'with all it ran' "${ended[@]}"
c resume "$BOX"
is 'cubby resume: none any more' "$CODE" 125
api POST "$B/pause"
is_error 'one that is gone' 404 NOT_FOUND

box_new '"user":"ann","thread":"idle","idle_timeout_ms":1000'
stopped() { [ "$(state)" = warm ] && api GET "$B" && [ "$(j .usage.pids)" = null ]; }
eventually 20 stopped || fail 'it idles' "$BODY"
api POST "$B/pause"
is_error 'without processes there is nothing to pause' 400 INVALID 'no processes'
run 'echo there'
is 'and it goes on as ever' "$OUT" there

# ---- waking ----

cp "$CONFIG" "$WORK/wake.yaml"
echo 'wake_paused: true' >> "$WORK/wake.yaml"
second_start "$WORK/wake.yaml" "$program" || fail 'a daemon that wakes' "$(tail -5 "$WORK/daemon.log")"
box_new
run 'echo kept > f'
api POST "$B/pause"
is 'paused' "$(state)" paused
run 'cat f'
is 'woken by a command' "$OUT $(state)" 'kept ready'
delete_boxes
second_end
