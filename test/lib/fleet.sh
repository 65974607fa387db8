# Workers for the behaviour suite over BACKEND=fleet, and for test/fleet. Sourced after lib.sh and daemon.sh.
# A worker is `cubby join --worker` with a state directory of its own, over the daemon's socket. Its boxes outlive it
# and the daemon, so at the end of a file it is stopped when its boxes are deleted, and must have left nothing.
WORKERS=(w1 w2 w3)
declare -A WORKER_PID=()

worker_state() { echo "$WORK/worker-$1"; } # worker_state NAME
worker_online() { # worker_online NAME [online|offline|draining]
    local state
    state=$(CUBBY_URL=unix:$SOCKET "$BUILD/cubby" workers 2> /dev/null | awk -v n="$1" '$1 == n { print $2 }')
    [ "$state" = "${2:-online}" ]
}
worker_start() { # worker_start NAME [OPTIONS]
    local name=$1 program=$BUILD/asan/cubby token=$WORK/token-$1
    shift
    [ -x "$program" ] || program=$BUILD/cubby
    [ -s "$token" ] && [ "$(stat -c %i "$STATE")" = "$(cat "$token.of" 2> /dev/null)" ] || {
        "$BUILD/cubby" token create --worker "$name" --state "$STATE" > "$token" && stat -c %i "$STATE" > "$token.of"
    } || return 1
    mkdir -p -m 700 "$(worker_state "$name")"
    # shellcheck disable=SC2086
    ASAN_OPTIONS=detect_leaks=0:exitcode=99 "$program" join --worker --server "unix:$SOCKET" --token-file "$token" \
        --state "$(worker_state "$name")" --pool-size 1 "$@" < /dev/null >> "$WORK/worker-$name.log" 2>&1 &
    WORKER_PID[$name]=$!
}
workers_start() {
    local name
    for name in "${WORKERS[@]}"; do [ -n "${WORKER_PID[$name]-}" ] || worker_start "$name" || return 1; done
    for name in "${WORKERS[@]}"; do
        eventually 20 worker_online "$name" || { diag "worker $name: $(tail -3 "$WORK/worker-$name.log")"; return 1; }
    done
}
worker_stop() { # worker_stop NAME [SIGNAL]
    kill -"${2:-TERM}" "${WORKER_PID[$1]}" 2> /dev/null
    wait "${WORKER_PID[$1]}" 2> /dev/null
    WORKER_STATUS=$?
    unset "WORKER_PID[$1]"
}

# What workers still have of boxes: nothing, once these are deleted.
workers_left() {
    local name
    for name in "${WORKERS[@]}"; do
        find "$(worker_state "$name")"/*/boxes "$(worker_state "$name")"/*/layers -mindepth 1 -maxdepth 1 \
            ! -name ".slot-*" 2> /dev/null
    done
}
workers_empty() { [ -z "$(workers_left)" ]; }
workers_end() {
    local name
    eventually 20 workers_empty || fail 'nothing is left on workers' "$(workers_left | head -5)"
    for name in "${!WORKER_PID[@]}"; do
        worker_stop "$name"
        [ "$WORKER_STATUS" = 0 ] || fail "worker $name ends well" "$WORKER_STATUS $(tail -3 "$WORK/worker-$name.log")"
    done
    for name in "${WORKERS[@]}"; do
        grep -s "$(worker_state "$name")" /proc/self/mounts &&
            fail "worker $name leaves no mount" "$(grep "$(worker_state "$name")" /proc/self/mounts)"
    done
    for name in "${WORKERS[@]}"; do rm -rf "$(worker_state "$name")" "$WORK/token-$name" "$WORK/token-$name.of"; done
}

# For test/run/run.sh: whenever a daemon has started, its workers are there.
fleet_suite() {
    eval "start_daemon_plain$(declare -f start_daemon | tail -n +2 | sed '1s/^/() /')"
    start_daemon() { start_daemon_plain "$@" && workers_start; }
}
