# A daemon that is killed at any step of an export, and an engine that is: the box is as it was, or exported; nothing
# stands
# still, and nothing is left that nobody needs.
# box: none
# engine: own --live-restore
# daemon: plain
plain=$PROGRAM ALL=0
[ "${CRASH_POINTS-}" != all ] || ALL=1
restart() { # with the trap, not yet armed
    [ ! -d "/proc/$DAEMON_PID" ] || kill -KILL "$DAEMON_PID"
    wait "$DAEMON_PID" 2> /dev/null
    rm -f "$WORK/crash"
    start_daemon "$BUILD/test/crash" "$WORK/crash" -- "$plain"
} 2> /dev/null
containers() { engine GET '/containers/json?all=1' | jq -r '.[].Names[0][1:]' | sort | xargs; }
images() { engine GET "/images/json?filters=%7B%22reference%22%3A%5B%22cubby-*%2Flayer%22%5D%7D" | jq length; }
layers() { ls "$STATE/layers" | wc -l; }
# Its files, that it runs, and that there are no more images and containers than the box has.
right() { # right TURN [LAYERS]: else WHY. What a killed daemon held at one step goes with the start after the next
    local most=${2:-1}
    run 'cat /tmp/a b'
    WHY="files: $STATUS $(xargs <<< "$OUT") $ERR"
    [ "$(xargs <<< "$OUT")" = "$1 $1" ] || return 1
    clean() { [ "$(containers)" = "$(container)" ] && [ "$(images)" = "$(layers)" ] && [ "$(layers)" -le "$most" ]; }
    eventually 10 clean && return
    WHY="containers: $(containers), images: $(images), layers: $(layers), $(ls "$STATE/boxes/$BOX")"
    return 1
}

restart
box_new "\"template\":\"$IMAGE_BUSYBOX\",\"user\":\"ann\",\"thread\":\"killed\""
died=0
for ((step = ALL ? 1 : 1 + SRANDOM % 2; step < 60; step += ALL ? 1 : 1 + SRANDOM % 6)); do
    run "echo $step > /tmp/a; echo $step > b"
    echo "$step files" > "$WORK/crash"
    STATUS=$(curl -s -o "$WORK/answer" -w '%{http_code}' --max-time 60 --unix-socket "$SOCKET" -X POST \
        "http://localhost$B/export")
    rm -f "$WORK/crash"
    [ "$STATUS" = 000 ] || break
    died=$((died + 1))
    restart
    right "$step" 2 || { fail "killed at step $step of an export" "$WHY"; break; }
done
restart # the trap may still be armed: it counts what the daemon does after its answer, too
[ "$died" -ge 1 ] && pass "an export: killed $died times on its way" ||
    fail 'an export: killed on its way' "$died, then $STATUS"
right "$step" 2 && pass 'and whole when it was not' || fail 'and whole when it was not' "$WHY"

# ---- the engine ----
run 'echo 1 > /tmp/a; echo 1 > b; dd if=/dev/zero of=/tmp/large bs=1M count=96 2> /dev/null'
curl -s -o "$WORK/answer" --max-time 60 --unix-socket "$SOCKET" -X POST "http://localhost$B/export" & client=$!
still() { [ -e "$STATE/boxes/$BOX/still" ]; }
ok 'the engine is killed in the middle' eventually 10 still
kill -KILL "$(cat "$ENGINE_DIR/pid")"
wait "$client"
like 'which is told' "$(cat "$WORK/answer")" '"error":.*engine'
engine_launch "$ENGINE_DIR" --live-restore || fail 'the engine comes again' "$ENGINE_WHY"
goes_on() { run 'cat /tmp/a b' && [ "$(xargs <<< "$OUT")" = '1 1' ]; }
eventually 30 goes_on && pass 'the box goes on' || fail 'the box goes on' "$STATUS $BODY $(ls "$STATE/boxes/$BOX")"
restart
right 1 && pass 'and nothing is left over' || fail 'and nothing is left over' "$WHY"
api POST "$B/export"
is 'then it is exported' "$STATUS $(j .changed)" '200 true'
run 'cat /tmp/a b; stat -c %s /tmp/large'
is 'with all its files' "$(xargs <<< "$OUT")" '1 1 100663296'
