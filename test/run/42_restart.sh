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
    ok 'with all it ran' tag_gone
fi
