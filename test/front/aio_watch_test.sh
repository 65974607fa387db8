#!/bin/bash
# File watching in the AIO dialect: watchers that are polled and streamed, waiting for one change, bounds, and ends.
# waits
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
write_config
DAEMON=$BUILD/asan/cubbyd
[ -x "$DAEMON" ] || DAEMON=$BUILD/cubbyd
start_or_end "$DAEMON"
threads() { ls "/proc/$DAEMON_PID/task" | wc -l; }
api POST /v1/boxes '{"limits":{"memory_mb":256}}'
box=$(j .id)
api POST /v1/boxes '{"limits":{"memory_mb":256}}'
other=$(j .id)
program 'watching' env PYTHONPATH=test/lib python3 test/front/aio_watch.py "$SOCKET" "$box" "$other"

# A daemon that stops does not wait for those who listen.
api POST "/aio/$box/v1/file/watch" '{"path":"/workspace"}'
id=$(j .data.watcher_id)
like 'a watcher' "$id" '^[0-9a-f]{12}$'
curl -sN --max-time 60 --unix-socket "$SOCKET" "http://localhost/aio/$box/v1/file/watch/$id/events" > "$WORK/stream" &
stream=$!
begun() { grep -q watch_started "$WORK/stream"; }
ok 'a stream' eventually 20 begun
now_ms; start=$NOW
stop_daemon
now_ms
between 'the daemon ends while it is watched' $((NOW - start)) 0 9000
wait "$stream"
is 'and the stream with it, in order' "$?" 0
finish
