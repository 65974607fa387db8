# A runner killed from outside: its box says why, others live, and it is started again on its files: by its user and
# thread, by
# start or resume, and where it has no thread by any use.

other=$BOX
box_new '"user":"ann","thread":"t","labels":{"k":"v"}'
threaded=$BOX
run 'echo kept > f'
tag_new
api POST "$B/processes" "{\"command\":\"sleep $TAG\"}"
box_new '"user":"ann"'
plain=$BOX
run 'echo kept > f'
curl -s --max-time 120 --unix-socket "$SOCKET" -X POST -H 'Content-Type: application/json' \
    -d '{"command":"echo up > up; sleep 60"}' \
    "http://localhost$B/exec" > "$WORK/exec" & caller=$!
up() { get up && [ "$STATUS" = 200 ]; }
ok 'a command runs' eventually 10 up
kill -KILL "$(runner_of "$threaded")" "$(runner_of "$plain")"
wait "$caller"
is 'a command that ran is answered' "$(jq -r .error.code < "$WORK/exec")" GONE
why="(its main process (was killed by SIGKILL|ended|hung up)|the runner hung up)"
box_use "$threaded"
run true
is_error 'the box is GONE, and how to start it is said' 410 GONE \
    "box $BOX stopped unexpectedly: $why\\. Its files are safe\\. Start it again: cubby start $BOX "
for id in "$threaded" "$plain"; do
    box_use "$id"
    died() { api GET "$B" && [[ $(j .died) =~ $why ]]; }
    ok 'it can be looked at, and says why it died' eventually 10 died
    isnt 'and does not say that it is ready' "$(j .state)" ready
done
[ "$BACKEND" = local ] || ok 'what it ran has ended' eventually 10 tag_gone
box_use "$other"
run 'echo fine'
is 'other boxes live' "$OUT" fine
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
start_daemon "$program"
box_use "$threaded"
run true
is_error 'after a restart it is still GONE, for the same reason' 410 GONE "$why"
box_use "$plain"
if [ "$BACKEND" = remote ]; then
    skip 'a box without a thread is started again by its use' 'on machines, this suite gives every box a thread'
    api POST "$B/start"
else
    head=$(curl -s --max-time 120 --unix-socket "$SOCKET" -X POST -H 'Content-Type: application/json' -D "$WORK/head" \
        -d '{"command":"cat f"}' "http://localhost$B/exec")
    is 'a box without a thread is started again by its use, on its files' "$(jq -r .stdout <<< "$head")" kept
    like 'and the answer says so' "$(tr -d '\r' < "$WORK/head" | sed -n 's/^Cubby-Restarted: //p')" "^$why"
    api GET "$B"
    like 'as the box does' "$(j '[.state,.died,.restarted]|join(" ")')" "^ready +$why"
    run 'cat f'
    is 'it works on' "$STATUS $OUT" '200 kept'
fi
for verb in start resume; do
    victim=$(runner_of "$plain")
    kill -KILL "$victim"
    ok "$verb: it dies once more" eventually 10 died
    api POST "$B/$verb"
    is "$verb: and is started" "$STATUS $(j '[.running,.died]|tostring')" '200 [true,null]'
    isnt "$verb: by another runner" "$(runner_of "$plain")" "$victim"
done
api POST "$B/start"
is 'to start one that runs changes nothing' "$STATUS $(j .state)" '200 ready'
run 'cat f'
is 'its files are there' "$OUT" kept
box_use "$threaded"
api POST "$B/start"
is 'one with a thread is started by its id as well' "$STATUS $(j .running)" '200 true'
kill -KILL "$(runner_of "$threaded")"
eventually 10 died
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
