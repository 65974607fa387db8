#!/bin/bash
# One behaviour suite for every backend. usage: BACKEND=jail test/run/run.sh [FILE...]   (default: every case)
# Starts a daemon on a state directory of its own, runs each file against it, deletes what is left, and checks that
# the daemon neither died nor leaked nor left anything on the machine. Output is TAP.
# A file with a line `# daemon: plain` measures memory: it gets the ordinary build, all others the sanitizer build.
# A file with a line `# not BACKEND: reason` is skipped there, visibly.
# BACKEND=remote: each box is a machine that joins (test/lib/remote.sh), over the daemon's socket.
# BACKEND=fleet: boxes are on three workers (test/lib/fleet.sh).
# BACKEND=docker: each box is a container of an engine that the tests start (test/lib/docker.sh); without one, skips.
# CUBBYD=program overrides that; KEEP=1 keeps the directory with the daemon's log.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
[ "$BACKEND" != remote ] || . test/lib/remote.sh
[ "$BACKEND" != docker ] || . test/lib/docker.sh
[ "$BACKEND" != fleet ] || . test/lib/fleet.sh

program_for() { # program_for FILE -> program
    program=$BUILD/asan/cubbyd
    ! grep -q '^# daemon: plain' "$1" && [ -x "$program" ] || program=$BUILD/cubbyd
    program=${CUBBYD:-$program}
}

run_file() { # run_file FILE
    local reason
    reason=$(sed -n "s/^# not $BACKEND: *//p" "$1")
    [ -z "$reason" ] || { skip "$(basename "$1" .sh)" "$BACKEND: $reason" && return; }
    [ -z "${ENGINE_WHY-}" ] || { skip "$(basename "$1" .sh)" "$ENGINE_WHY" && return; }
    program_for "$1"
    pool_for "$1"
    if ! start_daemon "$program"; then
        fail "$BACKEND: a daemon for $1" "$(tail -20 "$WORK/daemon.log")"
        DAEMON_PID='' DAEMON_DIED=1
        return
    fi
    local file=$1
    [ "$BACKEND" != remote ] || { suite_file "$1" && file=$SUITE_FILE; }
    if box_new; then . "$file"; else fail "$BACKEND: a box for $1" "$STATUS $BODY"; fi
    if [ -d "/proc/$DAEMON_PID" ]; then stop_daemon; else
        fail 'the daemon survives' "$(tail -5 "$WORK/daemon.log")"
        DAEMON_PID='' DAEMON_DIED=1
    fi
    [ "$BACKEND" != remote ] || suite_end
    [ "$BACKEND" != fleet ] || workers_end
    rm -rf "$STATE"
}

[ $# -gt 0 ] || set -- $(find test/run -name '*.sh' ! -name run.sh | sort)
[ "$BACKEND" != docker ] || engine_start
write_config
[ "$BACKEND" != remote ] || suite_start
[ "$BACKEND" != fleet ] || fleet_suite
for file in "$@"; do run_file "$file"; done
finish
