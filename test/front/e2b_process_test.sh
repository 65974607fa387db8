#!/bin/bash
# Commands and terminals of E2B sandboxes: with npm's e2b, the newest and an older one; over a restart of the daemon;
# and Connect itself, with clients that break its rules (test/lib/connect.py).
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
. test/lib/e2b.sh
e2b_start

# ---- Connect itself ----
program 'Connect' python3 test/lib/connect.py "$URL"

# ---- what E2B's Python packages send ----
program 'Python' python3 test/lib/e2b_python.py "$URL"

# ---- its own clients ----
e2b_clients_or_skip
program 'e2b 2.51' "$NODE" test/clients/e2b_process.mjs e2b
program 'e2b 2.45' "$NODE" test/clients/e2b_process.mjs e2b-2.45
program 'sudo' "$NODE" test/clients/e2b_sudo.mjs

# ---- another daemon ----
program 'before' "$NODE" test/clients/e2b_restart.mjs begin "$WORK/pid"
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
if e2b_run; then pass 'a killed daemon is started again'; else fail 'a killed daemon is started again'; fi
program 'after' "$NODE" test/clients/e2b_restart.mjs end "$WORK/pid"
stop_daemon
finish
