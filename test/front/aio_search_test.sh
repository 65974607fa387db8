#!/bin/bash
# Search in the AIO dialect: grep and glob with all their options, and what is refused and how.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
write_config
DAEMON=$BUILD/asan/cubbyd
[ -x "$DAEMON" ] || DAEMON=$BUILD/cubbyd
start_or_end "$DAEMON"
api POST /v1/boxes '{"limits":{"memory_mb":256}}'
box=$(j .id)
program 'grep and glob' env PYTHONPATH=test/lib python3 test/front/aio_search.py "$SOCKET" "$box"
stop_daemon
finish
