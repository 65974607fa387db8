# Children that hold the command's pipes and stay.
# wall: the answer follows the main process; what it leaves in its cgroup leaf is killed with it

tag_new
now_ms
start=$NOW
run "sleep $TAG & echo done"
now_ms
is 'the call returns when the command ends' "$OUT $CODE" 'done 0'
between 'at once' $((NOW - start)) 0 20000
ok 'and its child is gone' tag_gone
now_ms
start=$NOW
run "(trap '' PIPE TERM HUP INT; while :; do echo noise; done) & sleep 0.1; echo over >&2; exit 3"
now_ms
is 'a child that talks on: the exit status is the command'"'"'s' "$CODE $ERR" '3 over'
between 'and it returns at once' $((NOW - start)) 0 20000
run "sleep $TAG < /proc/self/fd/0 > /dev/null 2>&1 3>&1 & disown; exec true"
ok 'a disowned one is gone too' eventually 2 tag_gone
# in the background it is listed, addressable, and lives until it or the box ends
api POST "$B/processes" "{\"command\":\"sleep $TAG & sleep $TAG\"}"
pid=$(j .pid)
ok 'a background command runs' eventually 10 tag_alive
api GET "$B/processes"
is 'it is listed' "$(j -c "[.processes[]|select(.pid==$pid)|.state]")" '["running"]'
run 'true'
ok 'and is not ended by other commands' tag_alive
api POST "$B/processes/$pid/signal" '{"signal":"TERM"}'
ok 'a signal ends it, and what it left' eventually 5 tag_gone
api POST "$B/processes" "{\"command\":\"setsid sleep $TAG & sleep $TAG\"}"
ok 'another one runs' eventually 10 tag_alive
api DELETE "$B"
is 'the box is deleted' "$STATUS" 204
ok 'and ends it' eventually 2 tag_gone
GONE=1
