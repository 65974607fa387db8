# An engine that hangs, its socket open: boxes and the daemon go on without it, a daemon starts, what is idle ends,
# deaths are
# noticed; what needs the engine waits for it, and is done when it wakes up.
# engine: own
# daemon: plain
# waits
# box: "user":"ann","thread":"one"

run 'echo kept > f; echo layer > /home/agent/f'
pid1=$(engine GET "/containers/$(container)/json" | jq -r .State.Pid)
first=$BOX
box_new '"user":"ann","idle_timeout_ms":1000'
idle=$BOX
box_use "$first"
hung=$(cat "$ENGINE_DIR/pid")
kill -STOP "$hung"
now_ms
before=$NOW
run 'cat f'
is 'a box goes on' "$STATUS $OUT" '200 kept'
api GET /v1/boxes
is 'boxes are listed, with what they use' "$STATUS $(j '.boxes|map(.usage.memory_bytes > 0)|all')" '200 true'
now_ms
between 'at once' $((NOW - before)) 0 4000
ended() { api GET "/v1/boxes/$idle" && [ "$(j .running)" = false ]; }
ok 'one that is idle ends' eventually 10 ended
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
start_daemon "$PROGRAM" || fail 'a daemon starts' "$(tail -5 "$WORK/daemon.log")"
run 'cat f /home/agent/f'
is 'a new daemon finds the box' "$STATUS $OUT" $'200 kept\nlayer'
kill -KILL "$pid1"
told() { run true && [ "$STATUS" = 410 ]; }
ok 'a death is noticed' eventually 60 told
like 'and told' "$(j .error.message)" 'its main process ended; the container engine does not answer. Its files are safe'
curl -s --max-time 60 --unix-socket "$SOCKET" -X POST -H 'Content-Type: application/json' \
    -d '{"backend":"docker","user":"ann","thread":"one"}' -o "$WORK/again" -w '%{http_code}' http://localhost/v1/boxes \
    > "$WORK/status" & caller=$!
starting() { api GET "$B" && [ "$(j .state)" = starting ]; }
ok 'who wants it waits' eventually 10 starting
api GET /v1/info
is 'and nobody else' "$STATUS" 200
kill -CONT "$hung"
wait "$caller"
is 'until the engine goes on' "$(cat "$WORK/status") $(jq -r .state "$WORK/again")" '200 ready'
run 'cat f /home/agent/f'
is 'with all its files' "$STATUS $OUT" $'200 kept\nlayer'
