#!/bin/bash
# One behaviour suite for every backend. usage: BACKEND=jail test/run/run.sh [FILE...]   (default: every NN_*.sh)
# Starts a daemon on a state directory of its own, runs each file against it, deletes what is left, and checks that
# the daemon neither died nor leaked nor left anything on the machine. Output is TAP.
# A file with a line `# daemon: plain` measures memory: it gets the ordinary build, all others the sanitizer build.
set -u
cd "$(dirname "$0")/../.." || exit 125
BACKEND=${BACKEND:-jail} BUILD=$(realpath "${BUILD:-build}")
TOOL=$BUILD/test/tool
WORK=$(mktemp -d "${TMPDIR:-/tmp}/cubby-test.XXXXXX")
SOCKET=$WORK/socket STATE=$WORK/state
. test/lib/lib.sh

write_config() {
    mkdir -p "$WORK/shared/sub" "$WORK/forbidden"
    cat > "$WORK/config.yaml" << END
allow_local: true
mount_sources:
  - $WORK/shared
END
}

start_daemon() { # start_daemon PROGRAM
    ASAN_OPTIONS=abort_on_error=0:exitcode=99 UBSAN_OPTIONS=print_stacktrace=1 \
        "$1" --listen "unix:$SOCKET" --state "$STATE" --config "$WORK/config.yaml" --backend "$BACKEND" \
        < /dev/null > "$WORK/daemon.log" 2>&1 &
    DAEMON_PID=$!
    eventually 20 daemon_answers && [ -d "/proc/$DAEMON_PID" ]
}

daemon_answers() {
    [ -d "/proc/$DAEMON_PID" ] || return 0 # dead: no use waiting
    curl -sf --max-time 5 --unix-socket "$SOCKET" http://localhost/healthz
}

delete_boxes() {
    local id
    api GET /v1/boxes
    for id in $(j '.boxes[].id'); do
        api DELETE "/v1/boxes/$id"
        [ "$STATUS" = 204 ] || diag "delete of $id: $STATUS $BODY"
    done
}

# What this daemon's boxes have on the machine outside its state directory's own files.
leftovers() {
    local pid
    grep -F "$WORK" /proc/self/mountinfo
    for pid in /proc/[0-9]*; do
        [ "${pid#/proc/}" != "$DAEMON_PID" ] || continue
        case $(tr '\0' ' ' < "$pid/cmdline" 2> /dev/null) in cubby-runner*) ;; *) continue ;; esac
        if [ "$(awk '/^PPid/ {print $2}' "$pid/status" 2> /dev/null)" = "$DAEMON_PID" ] ||
            ls -l "$pid/fd" "$pid/cwd" 2> /dev/null | grep -qF "$WORK"; then
            echo "process $pid: $(tr '\0' ' ' < "$pid/cmdline")"
        fi
    done
    find "$STATE" -mindepth 1 -regextype posix-extended -regex '.*/[0-9a-f]{16}.*' 2> /dev/null | head -5
}
no_leftovers() { [ -z "$(leftovers)" ]; }

stop_daemon() {
    delete_boxes
    # Files may be removed in the background, bounded; everything else goes at once.
    if eventually 10 no_leftovers; then pass 'deleted boxes leave nothing behind'; else
        fail 'deleted boxes leave nothing behind' "$(leftovers)"; fi
    kill -TERM "$DAEMON_PID" 2> /dev/null
    wait "$DAEMON_PID"
    is 'the daemon ends in order' $? 0
    if grep -q -E 'Sanitizer|runtime error|[Aa]ssert' "$WORK/daemon.log"; then
        fail 'the sanitizers are silent' "$(grep -m1 -A25 -E 'Sanitizer|runtime error|[Aa]ssert' "$WORK/daemon.log")"
    else pass 'the sanitizers are silent'; fi
    DAEMON_PID=
}

clean_up() {
    trap - EXIT TERM INT
    [ -z "${DAEMON_PID-}" ] || {
        delete_boxes > /dev/null 2>&1
        kill -TERM "$DAEMON_PID" 2> /dev/null && eventually 5 test ! -d "/proc/$DAEMON_PID"
        kill -KILL "$DAEMON_PID" 2> /dev/null
    }
    [ -n "${KEEP-}" ] && diag "kept $WORK" || rm -rf "$WORK"
}
trap clean_up EXIT
trap 'exit 143' TERM INT

main() {
    local file program
    [ $# -gt 0 ] || set -- test/run/[0-9]*.sh
    write_config
    for file in "$@"; do
        program=${CUBBYD-}
        [ -n "$program" ] || { program=$BUILD/asan/cubbyd && grep -q '^# daemon: plain' "$file" && program=$BUILD/cubbyd; }
        [ -x "$program" ] || program=$BUILD/cubbyd
        if ! start_daemon "$program"; then
            fail "$BACKEND: a daemon for $file" "$(tail -20 "$WORK/daemon.log")"
            DAEMON_PID=
            continue
        fi
        if box_new; then
            . "$file"
        else fail "$BACKEND: a box for $file" "$STATUS $BODY"; fi
        if [ -d "/proc/$DAEMON_PID" ]; then stop_daemon; else
            fail 'the daemon survives' "$(tail -40 "$WORK/daemon.log")"
            DAEMON_PID=
        fi
        rm -rf "$STATE"
    done
    finish
}
main "$@"
