#!/bin/bash
# Event streams that have nothing to say: each of every dialect sends a comment after event_alive_ms, so that no proxy
# takes
# its silence for its end, and says what it has to say afterwards.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
write_config
echo 'event_alive_ms: 200' >> "$WORK/config.yaml"
DAEMON=$BUILD/asan/cubbyd
[ -x "$DAEMON" ] || DAEMON=$BUILD/cubbyd
start_or_end "$DAEMON"
box_new || { finish; exit 1; }
A=/aio/$BOX/v1
api POST "$B/sessions" '{"name":"s"}'
api POST "$B/exec" '{"command":"mkdir watched; mkfifo go go-s go-a go-v"}'
api POST "$A/shell/sessions/create" '{"id":"v"}'
api POST "$A/shell/exec" '{"id":"v","command":"echo v; read x < /workspace/go-v","async_mode":true}'
api POST "$A/file/watch" '{"path":"/workspace/watched"}'
watcher=$(j .data.watcher_id)

stream() { # stream NAME METHOD PATH [BODY]: its events in $WORK/NAME, as they come
    curl -sSN --max-time 60 --unix-socket "$SOCKET" -X "$2" -H 'Accept: application/json, text/event-stream' \
        -H 'Content-Type: application/json' \
        ${4:+-d "$4"} "http://localhost$3" > "$WORK/$1" 2> /dev/null &
    streams+=($!)
}
alive() { [ "$(grep -c '^: alive$' "$WORK/$1")" -ge 2 ]; }
streams=()
stream exec POST "$B/exec" '{"command":"read x < /workspace/go; echo over"}'
stream session POST "$B/sessions/s/exec" '{"command":"read x < /workspace/go-s; echo over"}'
stream aio_exec POST "$A/shell/exec" '{"command":"read x < /workspace/go-a; echo over"}'
stream aio_view POST "$A/shell/view" '{"id":"v"}'
stream events GET '/v1/events?type=paused'
stream watch GET "$B/watch?path=watched"
[ "$watcher" = null ] || stream aio_watch GET "$A/file/watch/$watcher/events"
stream mcp POST /mcp '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bash","arguments":'\
'{"command":"sleep 1000"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-06-18"}}}'
for name in exec session aio_exec aio_view events watch; do
    ok "a silent stream says that it is alive: $name" eventually 20 alive "$name"
done
api POST "$B/exec" '{"command":"for f in go go-s go-a go-v; do echo > $f; done"}'
over() { grep -q '"over\\n"' "$WORK/$1"; }
for name in exec session aio_exec; do ok "and what it has to say comes then: $name" eventually 20 over "$name"; done
kill "${streams[@]}" 2> /dev/null
wait "${streams[@]}" 2> /dev/null
stop_daemon
finish
