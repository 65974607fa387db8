# A fork bomb: processes that make processes, for ever.
# wall: the pids controller of the box's cgroup
# box: "limits":{"pids":64}

pids_full() { api GET "$B" && [ "$(j .usage.pids)" -ge 60 ]; }

run 'bomb() { bomb | bomb & }; bomb; while :; do (: &) ; done' '"timeout_ms":1500'
is 'the command that bombs ends at its time-out' "$STATUS $(j .timed_out)" '200 true'
api POST "$B/processes" '{"command":"bomb() { bomb | bomb & bomb; }; bomb"}'
eventually 10 pids_full
between 'the box holds at most its limit' "$(j .usage.pids)" 1 64
neighbour_check 'while it bombs'
DELETE_MS=1000
