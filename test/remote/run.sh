#!/bin/bash
# Machines that join over a cable: one file a story, the daemon and the machine in two network namespaces, TLS between
# them.
# usage: test/remote/run.sh FILE...   (default: every case)
# The head of a file may say:
#   # config: remote_grace_s: 3          (a line of the daemon's configuration; may be repeated)
#   # daemon: plain                      (not the sanitizers' build)
#   # waits                              (nearly all of the time; see test/lib/driver.sh)
# The file is sourced with the cable in order and the machine `laptop` joined: BOX is its box, MACHINE_DIR its
# workspace,
# MACHINE_PID the command that joined. Afterwards: nothing is left on either machine, and nobody's sanitizer spoke.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
. test/lib/remote.sh
use_cubby

program_for() { # program_for FILE -> PROGRAM
    PROGRAM=$BUILD/asan/cubbyd CUBBY_JOIN=$BUILD/asan/cubby
    ! grep -q '^# daemon: plain' "$1" && [ -x "$PROGRAM" ] || PROGRAM=$BUILD/cubbyd CUBBY_JOIN=$BUILD/cubby
}

run_story() { # run_story FILE
    local program lines
    program_for "$1"
    mapfile -t lines < <(sed -n 's/^# config: *//p' "$1")
    cable_start && authority && server_config "${lines[@]}" || { fail "a cable for $1"; return; }
    if ! server_start "$PROGRAM"; then
        fail "a daemon for $1" "$(tail -20 "$WORK/daemon.log")"
        DAEMON_PID='' DAEMON_DIED=1
        return
    fi
    if machine_start laptop; then . "$1"; else fail "a machine for $1"; fi
    cable_good
    delete_boxes # while machines are there to be told
    machines_end
    machines_checked
    unlike 'nothing went wrong in the command that joined' "$(cat "$WORK"/join-*.log)" \
        'Sanitizer|runtime error:|Assertion'
    if [ -d "/proc/$DAEMON_PID" ]; then stop_daemon; else
        fail 'the daemon survives' "$(tail -5 "$WORK/daemon.log")"
        DAEMON_PID='' DAEMON_DIED=1
    fi
    cable_end
    rm -rf "$STATE" "$WORK"/work-* "$WORK"/machine-* "$WORK"/join-*
}

trap 'machines_end; clean_up' EXIT
[ $# -gt 0 ] || set -- $(find test/remote -name '*.sh' ! -name run.sh | sort)
for file in "$@"; do run_story "$file"; done
finish
