# kill -9 of the engine, of a container's shim and of the daemon in the middle of everything: nothing half-made stays,
# what was
# answered is true, and boxes are found again.
# engine: own --live-restore

home=$(< "$STATE/docker-home")
engine_again() { # kill -9, and a new one on the same data
    kill -KILL "$(cat "$ENGINE_DIR/pid")"
    eventually 10 engine_silent
    engine_launch "$ENGINE_DIR" --live-restore || fail 'the engine comes again' "$ENGINE_WHY"
}
engine_silent() { ! engine_answers; }
ask() { curl -s --max-time 60 --unix-socket "$SOCKET" -w '\n%{http_code}\n' "$@"; }
daemon_again() {
    kill -KILL "$DAEMON_PID"
    wait "$DAEMON_PID" 2> /dev/null
    start_daemon "$PROGRAM" || fail 'the next daemon starts' "$(tail -5 "$WORK/daemon.log")"
}
# What the daemon knows and what the engine has: the same boxes, no more and no less.
boxes() { api GET /v1/boxes && j '.boxes[]|select(.running)|"cubby-'"${home:0:8}"'-\(.id)"' | sort; }
all_boxes() { api GET /v1/boxes && j '.boxes[]|"cubby-'"${home:0:8}"'-\(.id)"' | sort; }
agree() { [ -z "$(comm -13 <(all_boxes) <(containers))" ] && [ -z "$(comm -23 <(boxes) <(containers))" ]; }
agreed() { # agreed WHEN
    if eventually 20 agree; then pass "$1: the engine has what the daemon knows, and no more"; else
        fail "$1: the engine has what the daemon knows, and no more" "boxes: $(all_boxes | xargs)
containers: $(containers | xargs)"
    fi
}

# ---- the engine ----

box_new '"user":"ann","thread":"stay"'
stay=$BOX
run 'echo kept > f; echo layer > /home/agent/f'
tag_new
api POST "$B/processes" "{\"command\":\"echo up; exec sleep $TAG\"}"
pid=$(j .pid)
ask -X POST -H 'Content-Type: application/json' \
    -d '{"command":"echo begun > begun; until [ -e go ]; do sleep 0.05; done; echo over","timeout_ms":60000}' \
    "http://localhost$B/exec" > "$WORK/exec" & caller=$!
begun() { get begun && [ "$STATUS" = 200 ]; }
ok 'a command runs' eventually 10 begun
head -c 20000000 /dev/urandom > "$WORK/large"
ask -X PUT --limit-rate 10M -H 'Content-Type: application/octet-stream' --data-binary "@$WORK/large" \
    "http://localhost$B/files?path=large" > "$WORK/uploaded" & loader=$!
kill -KILL "$(cat "$ENGINE_DIR/pid")"
eventually 10 engine_silent
run 'cat f /home/agent/f'
is 'without an engine boxes go on' "$STATUS $OUT" $'200 kept\nlayer'
api GET "$B"
is 'and are ready' "$STATUS $(j .state)" '200 ready'
put go now
wait "$caller"
is 'a command that ran is answered' "$(head -1 "$WORK/exec" | jq -r .stdout) $(tail -1 "$WORK/exec")" 'over 200'
wait "$loader"
is 'an upload goes on' "$(tail -1 "$WORK/uploaded")" 201
ask "http://localhost$B/files?path=large" -w '' -o "$WORK/got"
ok 'and is whole' cmp "$WORK/large" "$WORK/got"
now_ms
before=$NOW
api POST /v1/boxes '{"backend":"docker"}'
now_ms
like 'no new box can be had, and it is said why' "$STATUS $(j .error.message)" "^50[03] .*$ENGINE_SOCKET"
between 'at once' $((NOW - before)) 0 5000
engine_launch "$ENGINE_DIR" --live-restore || fail 'the engine comes again' "$ENGINE_WHY"
made() { api POST /v1/boxes '{"backend":"docker"}' && [ "$STATUS" = 201 ]; }
ok 'with an engine there are boxes again' eventually 20 made
api DELETE "/v1/boxes/$(j .id)"
box_use "$stay"
api GET "$B/processes/$pid"
is 'the process of before runs' "$(j .state)" running
agreed 'an engine killed and started again'

# In the middle of making and deleting.
for turn in 1 2; do
    ask -X POST -H 'Content-Type: application/json' -d '{"backend":"docker","user":"storm"}' http://localhost/v1/boxes \
        > "$WORK/made" & one=$!
    read -r -t "0.$((turn * 2 - 1))" -u "$LIB_NEVER" || : # one of many moments
    engine_again
    wait "$one"
    status=$(tail -1 "$WORK/made") id=$(head -1 "$WORK/made" | jq -r '.id // empty')
    like "turn $turn: made, or refused with the reason" \
        "$status $(head -1 "$WORK/made" | jq -r '.error.code // "ok"')" '^(201 ok|50[0-9] [A-Z]+|410 GONE)$'
    [ -z "$id" ] || { box_use "$id" && run 'echo works' && is "turn $turn: what was made works" "$OUT" works; }
done
ok 'boxes can be made again' eventually 20 made
id=$(j .id)
ask -X DELETE "http://localhost/v1/boxes/$id" > "$WORK/gone" & one=$!
read -r -t 0.03 -u "$LIB_NEVER" || :
engine_again
wait "$one"
like 'deleted, or told that it is not' "$(tail -1 "$WORK/gone")" '^(204|50[0-9])$'
gone() { api DELETE "/v1/boxes/$id"; [[ $STATUS = 204 || $STATUS = 404 ]]; }
[ "$(tail -1 "$WORK/gone")" = 204 ] || ok 'then later' eventually 20 gone
daemon_again
agreed 'an engine killed while boxes are made and deleted'
box_use "$stay"
run 'cat f /home/agent/f'
is 'the box that stayed has its files' "$STATUS $OUT" $'200 kept\nlayer'

# ---- a shim ----

container=$(engine GET "/containers/$(container "$stay")/json" | jq -r .Id)
shim=$(pgrep -f "^/usr/bin/containerd-shim.* -id $container ")
kill -KILL "$shim"
works() { api POST /v1/boxes '{"backend":"docker","user":"ann","thread":"stay"}' && [ "$STATUS" = 200 ] &&
    run 'cat f /home/agent/f' && [ "$OUT" = $'kept\nlayer' ]; }
ok 'a shim killed: the box is had again, with all its files' eventually 40 works
agreed 'a shim killed'

# ---- the daemon ----

for turn in 1 2 3; do
    ask -X POST -H 'Content-Type: application/json' -d '{"backend":"docker","user":"killed"}' \
        http://localhost/v1/boxes > "$WORK/made" 2> /dev/null & one=$!
    read -r -t "0.$((turn * 12))" -u "$LIB_NEVER" || :
    daemon_again
    wait "$one"
done
agreed 'a daemon killed while it makes boxes'
delete_boxes
nothing() { [ -z "$(containers)" ]; }
ok 'and all of them can be deleted' eventually 20 nothing
is 'no volume is left' "$(engine GET /volumes | jq -r '.Volumes|length')" 0
