#!/bin/bash
# Hostile cases: one file an attack, run from inside a real box (or against the API), with a neighbour box beside it.
# usage: test/hostile/run.sh FILE...
# The head of a file says what is tried and which wall stops it:
#   # wall: the pids controller of the box's cgroup      (printed with the result; every file has one)
#   # box: "limits":{"pids":64}                          (members for the attacked box)
#   # daemon: plain                                      (memory is measured: the ordinary build, not the sanitizers')
#   # config: max_boxes_per_user: 3                      (a line of the daemon's configuration; may be repeated)
# The file is sourced with the attacked box as the current one (BOX, B). It asserts the outcome. Then, for every file:
# the
# neighbour answers as before and its file and process are untouched, the box can be deleted, nothing is left on the
# machine, and the daemon ends in order with silent sanitizers.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
. test/lib/attack.sh
[ "$BACKEND" != docker ] || . test/lib/docker.sh

head_line() { sed -n "s/^# $2: *//p" "$1"; } # head_line FILE NAME

neighbour_start() {
    box_new '"user":"neighbour"' || return 1
    NEIGHBOUR=$BOX
    put canary "as it was $BOX"
    api POST "$B/processes" '{"command":"echo started; exec cat"}'
    NEIGHBOUR_PID=$(j .pid)
    [[ $STATUS = 201 ]]
}

# True when the neighbour answers as before, its file and its process included. Usable while the attack runs; the
# current box and the last answer (STATUS, BODY, OUT ...) stay.
neighbour_answers() {
    local box=$BOX status=$STATUS body=$BODY out=${OUT-} err=${ERR-} code=${CODE-} work=$WORK fine=1
    box_use "$NEIGHBOUR"
    mkdir -p "$WORK/neighbour"
    WORK=$WORK/neighbour
    NEIGHBOUR_WHY=
    API_SECONDS=10 run 'cat canary; echo; id -u'
    [ "$OUT" = "as it was $NEIGHBOUR"$'\n1000' ] || fine=0 NEIGHBOUR_WHY="exec: $STATUS $BODY"
    API_SECONDS=10 api GET "$B/processes/$NEIGHBOUR_PID"
    [ "$(j .state)" = running ] || fine=0 NEIGHBOUR_WHY+=" process: $STATUS $BODY"
    WORK=$work
    box_use "$box"
    STATUS=$status BODY=$body OUT=$out ERR=$err CODE=$code
    [ "$fine" = 1 ]
}

neighbour_check() { # neighbour_check [WHEN]
    if neighbour_answers; then pass "the neighbour answers as before${1:+ $1}"; else
        fail "the neighbour answers as before${1:+ $1}" "$NEIGHBOUR_WHY"
    fi
}

# The attacked box goes, whatever runs in it. DELETE_MS: at most so long (default 20000). GONE=1: the case deleted it.
attacked_goes() {
    local before
    [ -z "${GONE-}" ] || return 0
    box_use "$ATTACKED"
    now_ms
    before=$NOW
    api DELETE "$B"
    now_ms
    is 'the attacked box is deleted' "$STATUS" 204
    between 'in time' $((NOW - before)) 0 "${DELETE_MS:-20000}"
}

run_case() { # run_case FILE
    local wall program=$BUILD/asan/cubbyd
    wall=$(head_line "$1" wall)
    [ -n "$wall" ] || { fail "$1 names its wall"; return; }
    [ -z "${ENGINE_WHY-}" ] || { skip "$(basename "$1" .sh)" "$ENGINE_WHY"; return; }
    ! grep -q '^# daemon: plain' "$1" && [ -x "$program" ] || program=$BUILD/cubbyd
    write_config
    head_line "$1" config >> "$CONFIG"
    pool_for "$1"
    if ! start_daemon "${CUBBYD:-$program}"; then
        fail "a daemon for $1" "$(tail -20 "$WORK/daemon.log")"
        DAEMON_PID='' DAEMON_DIED=1
        return
    fi
    unset GONE DELETE_MS
    if ! neighbour_start; then fail 'a neighbour box' "$STATUS $BODY"; fi
    if box_new "$(head_line "$1" box)"; then
        ATTACKED=$BOX
        . "$1"
        neighbour_check
        attacked_goes
    else fail 'a box to attack' "$STATUS $BODY"; fi
    diag "wall: $wall"
    if [ -d "/proc/$DAEMON_PID" ]; then stop_daemon; else
        fail 'the daemon survives' "$(tail -5 "$WORK/daemon.log")"
        DAEMON_PID='' DAEMON_DIED=1
    fi
    rm -rf "$STATE"
}

[ $# -gt 0 ] || set -- $(find test/hostile -name '*.sh' ! -name run.sh | sort)
[ "$BACKEND" != docker ] || engine_start
for file in "$@"; do run_case "$file"; done
finish
