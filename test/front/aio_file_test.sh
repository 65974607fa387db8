#!/bin/bash
# The file group of the AIO dialect: contents of every kind and length, ranges, edits, lists, and what is refused and
# how. Checks
# of path escapes go through every route of it.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
write_config
cat >> "$CONFIG" << END
max_upload_bytes: 60000000
END
DAEMON=$BUILD/asan/cubbyd
[ -x "$DAEMON" ] || DAEMON=$BUILD/cubbyd
start_or_end "$DAEMON"
api POST /v1/boxes '{"limits":{"memory_mb":256}}'
box=$(j .id)
program 'the file group' env PYTHONPATH=test/lib python3 test/front/aio_file.py "$SOCKET" "$box" group
between 'the daemon holds no contents' "$(awk '/VmHWM/ { print $2 }' "/proc/$DAEMON_PID/status")" 1 \
    "$([[ $DAEMON == */asan/* ]] && echo 900000 || echo 120000)"

# Where the configuration wants it, failures of files have status 200; a download's never.
echo 'aio_errors: envelope' >> "$CONFIG"
kill -HUP "$DAEMON_PID"
told() { api POST "/aio/$box/v1/file/read" '{"file":"/none"}' && [ "$STATUS" = 200 ]; }
ok 'another configuration' eventually 20 told
program 'failures in the envelope' env PYTHONPATH=test/lib python3 test/front/aio_file.py "$SOCKET" "$box" envelope
stop_daemon
finish
