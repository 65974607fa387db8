# A command that closes stdin, stdout and stderr and goes on.
# wall: the end of a command is its process's, not its pipes'; the time-out is PID 1's
# backends: jail docker
# by default: jail

tag_new
now_ms
start=$NOW
run "echo before; exec 0<&- 1>&- 2>&-; exec sleep $TAG" '"timeout_ms":700'
now_ms
is 'the time-out ends it' "$(j -c '[.timed_out,.exit_code,.stdout]')" '[true,null,"before\n"]'
between 'on time' $((NOW - start)) 700 20000
ok 'it is gone' tag_gone
now_ms
start=$NOW
run "exec 0<&- 1>&- 2>&-; for i in 1 2 3 4 5; do sleep 0.1; done; exit 5"
now_ms
is 'one that ends later is waited for' "$CODE" 5
between 'until it ends' $((NOW - start)) 500 20000
run "exec 0<&- 1>&- 2>&-; (trap '' TERM; exec sleep $TAG) & trap '' TERM; while :; do sleep $TAG; done" \
    '"timeout_ms":300'
is 'and one that ignores SIGTERM besides' "$(j -c '[.timed_out,.signal]')" '[true,"SIGKILL"]'
ok 'is gone' tag_gone
api POST "$B/processes" "{\"command\":\"exec 0<&- 1>&- 2>&-; exec sleep $TAG\",\"timeout_ms\":500}"
pid=$(j .pid)
over() { api GET "$B/processes/$pid" && [ "$(j .state)" = exited ]; }
ok 'in the background too' eventually 5 over
is 'it says so' "$(j .timed_out)" true
