# A daemon killed between any two steps of a snapshot, a rollback, a fork or a removal: the next one finds the old state
# or
# the new one, and no layer that nobody needs.
# daemon: plain
# not remote: its boxes have no layers
# by default: jail local remote
# files: on disk

if [[ $BACKEND != jail && $BACKEND != docker ]]; then
    skip 'snapshots' "$BACKEND: its boxes have no layers"
    return
fi
plain=$program ALL=0
[ "${CRASH_POINTS-}" != all ] || ALL=1 # make soak
restart() { # with the trap, not yet armed
    [ ! -d "/proc/$DAEMON_PID" ] || kill -KILL "$DAEMON_PID"
    wait "$DAEMON_PID" 2> /dev/null
    rm -f "$WORK/crash"
    start_daemon "$BUILD/test/crash" "$WORK/crash" -- "$plain"
}
files() { run 'cat a b'; FILES=$(xargs <<< "$OUT"); }
listed() { api GET "$B/snapshots"; j -r '[.snapshots[].name]|join(" ")'; }
# crash NAME METHOD PATH BODY: killed at one of its steps, at a later one, ... until it goes through; after each,
# `check`
# looks. CRASH_POINTS=all: at every step, which takes minutes.
crash() {
    local step died=0 name=$1
    shift
    for ((step = ALL ? 1 : 1 + SRANDOM % 2; step < 40; step += ALL ? 1 : 1 + SRANDOM % 5)); do
        prepare
        echo "$step files" > "$WORK/crash"
        STATUS=$(curl -s -o /dev/null -w '%{http_code}' --max-time 120 --unix-socket "$SOCKET" -X "$1" ${3:+-d "$3"} \
            "http://localhost$2")
        rm -f "$WORK/crash"
        [ "$STATUS" = 000 ] || break
        died=$((died + 1))
        restart 2> /dev/null
        check || { fail "$name, killed at step $step" "$WHY"; return; }
    done
    # What goes on after the answer (the trash) may have met the last step.
    curl -sf --max-time 60 --unix-socket "$SOCKET" -o /dev/null http://localhost/healthz || restart 2> /dev/null
    [ "$died" -ge 1 ] && pass "$name: killed $died times on its way" ||
        fail "$name: killed on its way" "$died, then $STATUS"
    check || fail "$name, not killed" "$WHY"
}

restart
box_new '"user":"ann","thread":"crash"'
run 'echo 1 > a; echo 1 > b'
api POST "$B/snapshots" '{"name":"one"}'

prepare() { api POST "$B/rollback" '{"snapshot":"one"}'; run 'echo 2 > a; echo 2 > b'; api DELETE "$B/snapshots/new"; }
check() {
    files
    WHY="files: $FILES, snapshots: $(listed)"
    [ "$FILES" = '2 2' ] && [[ $(listed) =~ ^one(\ new)?$ ]]
}
crash 'a snapshot' POST "$B/snapshots" '{"name":"new"}'
api POST "$B/rollback" '{"snapshot":"new"}'
files
is 'the one that went through is whole' "$STATUS $FILES" '200 2 2'

# Something runs: it is frozen while its files are copied, and nobody asked for a pause.
prepare() {
    api DELETE "$B/snapshots/busy"
    api GET "$B/processes"
    [ "$(j '[.processes[] | select(.state == "running")] | length')" != 0 ] ||
        api POST "$B/processes" '{"command":"while :; do :; done"}'
}
check() {
    files
    api GET "$B"
    WHY="files: $FILES, state: $(j .state), snapshots: $(listed)"
    [ "$FILES" = '2 2' ] && [[ $(listed) =~ ^one\ new(\ busy)?$ ]]
}
crash 'a snapshot of a busy box' POST "$B/snapshots" '{"name":"busy"}'
api GET "$B/processes"
is 'it is not left frozen: what ran runs on' "$(j '[.processes[] | select(.state == "running")] | length')" 1
api DELETE "$B/snapshots/busy"

prepare() { api POST "$B/rollback" '{"snapshot":"new"}'; run 'echo 3 > a; echo 3 > b'; }
check() {
    files
    WHY="files: $FILES"
    [ "$FILES" = '3 3' ] || [ "$FILES" = '1 1' ]
}
crash 'a rollback' POST "$B/rollback" '{"snapshot":"one"}'

prepare() { api DELETE "/v1/boxes/$fork"; api POST "$B/rollback" '{"snapshot":"new"}'; run 'echo 4 > a'; }
fork=$(printf ann:fork | sha256sum | cut -c1-16)
check() {
    files
    WHY="files: $FILES"
    [ "$FILES" = '4 2' ] || return 1
    api GET "/v1/boxes/$fork"
    [ "$STATUS" = 404 ] && return
    api POST "/v1/boxes/$fork/exec" '{"command":"cat a b"}'
    WHY="the fork: $STATUS $BODY"
    [ "$(j .stdout | xargs)" = '4 2' ]
}
crash 'a fork' POST "$B/fork" '{"thread":"fork"}'

prepare() { api POST "$B/snapshots" '{"name":"gone"}'; }
check() { files; WHY="files: $FILES $(listed)"; [ "$FILES" = '4 2' ] && [[ $(listed) =~ ^one\ new(\ gone)?$ ]]; }
crash 'removing a snapshot' DELETE "$B/snapshots/gone"

api DELETE "/v1/boxes/$fork"
prepare() { box_new '"user":"ann","thread":"end"'; run 'echo 5 > a; echo 5 > b'; api POST "$B/snapshots" \
    '{"name":"x"}'; run 'echo 6 > b'; }
check() { WHY="$STATUS $BODY"; api POST /v1/boxes '{"user":"ann","thread":"end"}'; files; WHY=$FILES; [ -z "$FILES" ] \
    || [ "$FILES" = '5 6' ]; }
box_new '"user":"ann","thread":"end"'
crash 'removing a box' DELETE "$B"

restart
delete_boxes
none() { [ -z "$(ls -A "$STATE/layers")" ]; }
eventually 5 none && pass 'no box, no layer' || fail 'no box, no layer' "$(find "$STATE/layers" | head -20)"
box_new
