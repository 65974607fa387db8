# A box outlives its daemon: stopped in order or killed, the next one on the same state finds it again.

box_new '"user":"ann","thread":"stay"'
keep=$BOX
run 'echo kept > f'
tag_new
api POST "$B/processes" "{\"command\":\"echo running; read x; echo got \$x; sleep $TAG\"}"
pid=$(j .pid)
restart() { # restart SIGNAL
    kill "-$1" "$DAEMON_PID"
    wait "$DAEMON_PID" 2> /dev/null
    start_daemon "$program"
}
for signal in TERM KILL; do
    if ! restart "$signal"; then
        fail "$signal: a new daemon starts" "$(tail -5 "$WORK/daemon.log")"
        return
    fi
    box_use "$keep"
    [ "$BACKEND" != remote ] || run true # it is looked for when it is used
    api GET "$B"
    if [ "$BACKEND" = local ] && [ "$STATUS" != 200 ]; then
        skip "$signal: the box is found again" 'local: its runner ends with the daemon'
        box_new '"user":"ann","thread":"stay"'
        run 'cat f'
        is "$signal: its files are found again" "$OUT" kept
        continue
    fi
    is "$signal: the box is found again" "$STATUS $(j '[.user,.thread,.state]|tostring')" '200 ["ann","stay","ready"]'
    run 'cat f'
    is "$signal: with its files" "$OUT" kept
    api GET "$B/processes/$pid"
    is "$signal: and its processes" "$(j .state)" running
    api GET "$B/processes/$pid/output?offset=0"
    is "$signal: and their output" "$BODY" running
done
if tag_alive || [ "$BACKEND" != local ]; then
    api POST "$B/processes/$pid/stdin" '' --data-binary $'on\n'
    api GET "$B/processes/$pid/output?offset=8&wait_ms=5000"
    is 'which go on' "$BODY" 'got on'
    api DELETE "$B"
    is 'an adopted box is deleted' "$STATUS" 204
    ok 'with all it ran' eventually 10 tag_gone
fi

# What runs when the time to drain is over is answered, and a temporary box goes whoever is killed.
if [ "$BACKEND" != remote ]; then
    kill -TERM "$DAEMON_PID"
    wait "$DAEMON_PID" 2> /dev/null
    start_daemon "$program" --drain-ms 100
    box_new '"user":"ann"'
    for accept in application/json text/event-stream; do
        curl -sN --max-time 60 --unix-socket "$SOCKET" -H 'Content-Type: application/json' -H "Accept: $accept" \
            -w '\n%{http_code}' \
            -d "{\"command\":\"echo up > up.${accept##*/}; sleep 60\"}" "http://localhost$B/exec" \
    > "$WORK/cut.${accept##*/}" & CUT+=($!)
    done
    both_up() { get up.json && [ "$STATUS" = 200 ] && get up.event-stream && [ "$STATUS" = 200 ]; }
    ok 'commands run' eventually 20 both_up
    restart TERM
    wait "${CUT[@]}"
    like 'one that is cut at the end of a drain is answered' "$(< "$WORK/cut.json")" \
        '"code":"BUSY","message":"the daemon is stopping.*[^0-9]503$'
    like 'and as an event' "$(tr '\n' ' ' < "$WORK/cut.event-stream")" \
        'event: error data: \{"code":"BUSY","message":"the daemon is stopping.*200$'

    box_new '"user":"ann","temporary":true,"idle_timeout_ms":500'
    temporary=$BOX
    is 'a temporary box' "$STATUS $(j .temporary)" '201 true'
    run 'sleep 1; echo used'
    is 'stays while it is used' "$OUT" used
    restart KILL
    gone() { api GET "/v1/boxes/$temporary" && [ "$STATUS" = 404 ]; }
    ok 'and is deleted when it is idle, by whatever daemon serves then' eventually 20 gone
    not_ok 'with its files' test -e "$STATE/boxes/$temporary"
    api POST /v1/boxes '{"temporary":true,"idle_timeout_ms":0}'
    is_error 'one that is never idle cannot be' 400 INVALID 'idle_timeout_ms must not be 0'
fi
