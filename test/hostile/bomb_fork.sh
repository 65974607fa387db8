# A fork bomb: processes that make processes, for ever.
# wall: the pids controller of the box's cgroup
# box: "limits":{"pids":64}
# backends: jail docker
# by default: jail

pids_full() { api GET "$B" && [ "$(j .usage.pids)" -ge 64 ]; }

run 'bomb() { bomb | bomb & }; bomb; while :; do (: &) ; done' '"timeout_ms":1500'
is 'the command that bombs ends at its time-out' "$STATUS $(j .timed_out)" '200 true'
attack exhaust fork
like 'inside, fork says EAGAIN' "$OUT" '^fork (5[0-9]|6[0-3]) EAGAIN$'
put kept 'as it was'
api POST "$B/processes" '{"command":"exec /tmp/attack_exhaust fork hold"}'
bomb=$(j .pid)
ok 'the box is full' eventually 20 pids_full
between 'it holds at most its limit' "$(j .usage.pids)" 1 64
neighbour_check 'while it is full'

# What needs no process is answered as ever; what does says at once why it cannot.
get kept
is 'files can be read' "$STATUS $BODY" '200 as it was'
put made 'in a full box'
is 'and written' "$STATUS" 201
api GET "$B/stat?path=kept"
is 'and looked at' "$STATUS" 200
full=0 clear=0
for i in {1..20}; do
    now_ms
    before=$NOW
    run 'true'
    now_ms
    [ $((NOW - before)) -lt 15000 ] || fail 'an exec in a full box is answered at once' "$((NOW - before)) ms"
    [ "$STATUS" != 429 ] || full=$((full + 1))
    [[ $STATUS = 200 || $(j '.error.code+": "+.error.message') = \
        'LIMIT: the box cannot start the command: its limit of 64 processes and threads is reached (limits.pids)' ]] \
    && clear=$((clear + 1))
done
between 'exec in a full box names the limit' "$full" 1 20
is 'and never anything else' "$clear" 20
refused() { api GET "$B/list?path=." && [ "$STATUS" = 429 ]; }
ok 'a file call that needs a process is refused' eventually 10 refused
is_error 'with the same reason' 429 LIMIT \
    'cannot work on files: its limit of 64 processes and threads is reached \(limits.pids\)'
api GET "$B/processes"
like 'processes are listed' "$STATUS $(j -c '[.processes[].state]')" '^200 ."running".$'
api POST "$B/processes/$bomb/signal" '{"signal":"KILL"}'
is 'and can be signalled' "$STATUS" 204
DELETE_MS=10000
