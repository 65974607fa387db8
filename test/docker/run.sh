#!/bin/bash
# What only the docker backend does: one file a story, against a real engine (test/lib/docker.sh).
# usage: test/docker/run.sh FILE...   (default: every case)
# The head of a file may say:
# # engine: own --live-restore         (a dockerd of its own, with these options, ENGINE_DIR: for stories that harm it)
#   # engine: podman                     (podman's service, of its own, with IMAGE_BUSYBOX)
#   # engine: none                       (it has its own ways)
#   # config: docker_pull: never         (a line of the daemon's configuration; may be repeated)
# # daemon: plain | none               (not the sanitizers' build; the file starts daemons itself: start_daemon
# "$PROGRAM")
#   # box: "template":"..."              (members for the box that is there at the beginning; `none`: there is none)
#   # waits                              (nearly all of the time; see test/lib/driver.sh)
# The file is sourced with a daemon and a box of IMAGE_DEBIAN as the current one (BOX, B). Afterwards, for every file:
# its
# boxes can be deleted, nothing is left on the machine or in the engine, the daemon ends in order with silent
# sanitizers.
set -u
cd "$(dirname "$0")/../.." || exit 125
BACKEND=docker
. test/lib/lib.sh
. test/lib/daemon.sh
. test/lib/docker.sh
. test/lib/attack.sh
use_cubby

head_line() { sed -n "s/^# $2: *//p" "$1"; } # head_line FILE NAME

engine_for() { # engine_for FILE: fails with ENGINE_WHY where there is none
    local engine
    engine=$(head_line "$1" engine)
    ENGINE_WHY=
    case $engine in
    none) ;;
    podman) ENGINE_OWN=$(mktemp -d "${TMPDIR:-/tmp}/cubby-engine.XXXXXX") &&
        ENGINE_KIND=podman engine_launch "$ENGINE_OWN" && image_busybox && export "DOCKER_HOST=unix://$ENGINE_SOCKET" ;;
    own*) ENGINE_OWN=$(mktemp -d "${TMPDIR:-/tmp}/cubby-engine.XXXXXX") &&
        engine_launch "$ENGINE_OWN" ${engine#own} && images_make && export "DOCKER_HOST=unix://$ENGINE_SOCKET" ;;
    *) engine_start ;;
    esac
}

run_story() { # run_story FILE
    local box
    engine_for "$1" || { skip "$(basename "$1" .sh)" "$ENGINE_WHY"; return; }
    PROGRAM=$BUILD/asan/cubbyd
    ! grep -q '^# daemon: plain' "$1" && [ -x "$PROGRAM" ] || PROGRAM=$BUILD/cubbyd
    PROGRAM=${CUBBYD:-$PROGRAM} POOL_SIZE=0
    write_config
    head_line "$1" config >> "$CONFIG"
    box=$(head_line "$1" box)
    [ "$(head_line "$1" daemon)" = none ] || start_daemon "$PROGRAM" || {
        fail "a daemon for $1" "$(tail -20 "$WORK/daemon.log")"
        DAEMON_PID='' DAEMON_DIED=1
        return
    }
    if [ -z "$DAEMON_PID" ] || [ "$box" = none ] ||
        box_new "$box"; then . "$1"; else fail "a box for $1" "$STATUS $BODY"; fi
    if [ -z "$DAEMON_PID" ]; then :; elif [ -d "/proc/$DAEMON_PID" ]; then stop_daemon; else
        fail 'the daemon survives' "$(tail -5 "$WORK/daemon.log")"
        DAEMON_PID='' DAEMON_DIED=1
    fi
    rm -rf "$STATE"
    [[ $(head_line "$1" engine) != @(own*|podman) ]] || { engine_end "$ENGINE_OWN" && ENGINE_OWN=; }
}

[ $# -gt 0 ] || set -- $(find test/docker -name '*.sh' ! -name run.sh | sort)
for file in "$@"; do run_story "$file"; done
finish
