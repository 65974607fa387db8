# A fork bomb whose processes ignore every signal, in sessions of their own, and that never stops forking.
# wall: cgroup.kill of the command's leaf, and the end of the pid namespace
# box: "limits":{"pids":200}

pids_full() { api GET "$B" && [ "$(j .usage.pids)" -ge 190 ]; }
pids_few() { api GET "$B" && [ "$(j .usage.pids)" -le 3 ]; }

attack_put stubborn
now_ms
before=$NOW
attack stubborn 150 '"timeout_ms":1000'
now_ms
is 'it ends at its time-out, after the grace' "$STATUS $(j .timed_out) $(j .signal)" '200 true SIGKILL'
like 'its output was kept' "$OUT" '^stubborn$'
between 'and not much later' $((NOW - before)) 1000 20000
ok 'zero tasks are left' eventually 2 pids_few
run 'echo fine'
is 'the box goes on' "$OUT" fine

# the same in the background, and a client that hangs up on one
api POST "$B/processes" '{"command":"/tmp/attack_stubborn 190"}'
pid=$(j .pid)
ok 'it fills the box' eventually 20 pids_full
api POST "$B/processes/$pid/signal" '{"signal":"TERM"}'
api GET "$B/processes/$pid"
is 'SIGTERM changes nothing' "$(j .state)" running
neighbour_check 'meanwhile'
DELETE_MS=10000
