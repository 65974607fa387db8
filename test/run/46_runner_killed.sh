# A runner killed from outside: its box says GONE and why, others live, and its user and thread start it again.

other=$BOX
box_new '"user":"ann","thread":"t","labels":{"k":"v"}'
threaded=$BOX
run 'echo kept > f'
tag_new
api POST "$B/processes" "{\"command\":\"sleep $TAG\"}"
box_new '"user":"ann"'
plain=$BOX
run 'echo kept > f'
curl -s --max-time 120 --unix-socket "$SOCKET" -X POST -H 'Content-Type: application/json' -d '{"command":"echo up > up; sleep 60"}' \
    "http://localhost$B/exec" > "$WORK/exec" & caller=$!
up() { get up && [ "$STATUS" = 200 ]; }
ok 'a command runs' eventually 10 up
kill -KILL "$(runner_of "$threaded")" "$(runner_of "$plain")"
wait "$caller"
is 'a command that ran is answered' "$(jq -r .error.code < "$WORK/exec")" GONE
for id in "$threaded" "$plain"; do
    box_use "$id"
    run true
    is_error 'the box is GONE' 410 GONE '(its|the) runner (was killed by signal 9|ended|hung up); its files are kept'
    api GET "$B"
    is 'it can be looked at' "$STATUS" 200
    isnt 'and does not say that it is ready' "$(j .state)" ready
done
[ "$BACKEND" = local ] || ok 'what it ran has ended' eventually 10 tag_gone
box_use "$other"
run 'echo fine'
is 'other boxes live' "$OUT" fine
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
start_daemon "$program"
box_use "$plain"
run true
is_error 'after a restart it is still GONE, for the same reason' 410 GONE '(its|the) runner (was killed by signal 9|ended|hung up)'
api DELETE "$B"
is 'a box without a thread can only be deleted' "$STATUS" 204
box_new '"user":"ann","thread":"t"'
is 'one with a thread is acquired again' "$STATUS $BOX" "200 $threaded"
is 'as it was made' "$(j .labels.k)" v
run 'cat f'
is 'on its files' "$STATUS $OUT" '200 kept'
victim=$(runner_of "$threaded")
kill -KILL "$victim"
dead() { [ ! -d "/proc/$victim" ] || grep -q '^State:.Z' "/proc/$victim/status"; } # a signal may take its time
eventually 5 dead
box_new '"user":"ann","thread":"t"'
is 'also at once, before anybody asked' "$STATUS $BOX" "200 $threaded"
run 'cat f'
is 'on its files again' "$OUT" kept
if [ "$BACKEND" = jail ] && [ "$(id -u)" = 0 ]; then # a bounded disk: the same, whatever holds the bound
    box_new '"user":"ann","thread":"disk","limits":{"disk_mb":64}'
    if [[ $STATUS = 201 ]]; then
        disk=$BOX
        run 'echo kept > f; sync'
        kill -KILL "$(runner_of "$disk")"
        kill -KILL "$DAEMON_PID"
        wait "$DAEMON_PID" 2> /dev/null
        start_daemon "$program"
        box_use "$disk"
        run 'cat f'
        is 'a box with a bounded disk goes on after both were killed' "$STATUS $OUT" '200 kept'
    else skip 'a box with a bounded disk goes on after both were killed' "$(j .error.message)"; fi
fi
tag_alive && pkill -KILL -f "sleep $TAG"
box_use "$other"
