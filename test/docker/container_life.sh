# How containers live and end: whatever ends one is told, and its user has the box again; what is left without a box
# goes;
# strangers' containers stay; two daemons share them; --cleanup leaves none.
# box: "user":"ann","thread":"one"

home=$(< "$STATE/docker-home")
images() { engine GET "/images/json?filters=$(encode "{\"reference\":[\"cubby-${home:0:8}/layer\"]}")" | jq length; }
again() { api POST /v1/boxes '{"backend":"docker","user":"ann","thread":"one"}'; }
# told WHY: in the end, when it has been looked into
told() { api GET "$B" && [ "$(j .running)" = false ] && [[ $(j .died) =~ $1 ]]; }

# ---- how it ended ----

run 'echo kept > f; echo layer > /home/agent/f'
before=$(inspect .Id)
run true # somebody waits for an answer meanwhile
api POST "$B/processes" '{"command":"exec sleep 1000"}'
kill -KILL "$(inspect .State.Pid)"
ok 'a runner that is killed is noticed without a call, and told as that' eventually 10 told \
    '^its main process was killed by SIGKILL$'
run true
is_error 'who asks by id hears it' 410 GONE 'killed by SIGKILL. Its files are safe'
again
is 'its user and thread have it again' "$STATUS $(j .id)" "200 $BOX"
run 'cat f /home/agent/f'
is 'in the same container, with all its files' "$OUT $(inspect .Id)" $'kept\nlayer '"$before"
engine POST "/containers/$(container)/stop" > /dev/null
ok 'a container that somebody stops is, too' eventually 10 told '^its main process ended with status 0$'
again
run 'cat f /home/agent/f'
is 'it goes on' "$OUT $(inspect .Id)" $'kept\nlayer '"$before"
engine DELETE "/containers/$(container)?force=1" > /dev/null
ok 'and one that somebody removes' eventually 10 told '; its container was removed, /workspace is kept$'
again
run 'cat f; cat /home/agent/f'
is 'the next one has the workspace' "$STATUS $OUT" '200 kept'
like 'and what else was in the image' "$ERR" 'No such file'

# ---- standing still ----

api POST "$B/pause"
is 'a box is paused' "$(j .state) $(inspect .State.Paused)" 'paused true'
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null

# ---- what is left without a box ----

label() { jq -nc --arg home "$home" --arg box "$1" --arg image "$IMAGE_BUSYBOX" \
    '{Image:$image,Cmd:["sleep","1000"],Labels:{"cubby.home":$home,"cubby.box":$box}}'; }
# make NAME BOX
make() { label "$2" | engine POST "/containers/create?name=$1" -H 'Content-Type: application/json' -d @- | jq -r .Id; }
make "$(container 00000000000000aa)" 00000000000000aa > /dev/null
engine POST "/containers/$(container 00000000000000aa)/start" > /dev/null
strange=$(make somebodys-own 00000000000000bb)
start_daemon "$PROGRAM" || fail 'a new daemon starts' "$(tail -5 "$WORK/daemon.log")"
is 'a container without a box goes when a daemon starts; one of another name does not, whatever its labels say' \
    "$(containers | xargs)" "$(container) somebodys-own"
engine DELETE "/containers/$strange" > /dev/null
api GET "$B"
is 'what stood still stands still for the next daemon' "$STATUS $(j .state)" '200 paused'
run true
is_error 'and says so' 409 PAUSED paused
api POST "$B/resume"
run 'cat f'
is 'until it is resumed' "$OUT" kept
api POST "$B/pause"
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
engine POST "/containers/$(container)/kill" > /dev/null
start_daemon "$PROGRAM" || fail 'a new daemon starts' "$(tail -5 "$WORK/daemon.log")"
again
run 'cat f'
is 'what ended while it stood still and nobody looked can be had again' "$STATUS $OUT" '200 kept'

# ---- two daemons ----

first_pid=$DAEMON_PID first_socket=$SOCKET
SOCKET=$WORK/twin
start_daemon "$PROGRAM" || fail 'a second daemon on the same state' "$(tail -5 "$WORK/daemon.log")"
twin_pid=$DAEMON_PID twin_socket=$SOCKET
via_first() { DAEMON_PID=$first_pid SOCKET=$first_socket; }
via_twin() { DAEMON_PID=$twin_pid SOCKET=$twin_socket; }
run 'cat f; echo twin > g'
is 'a second daemon uses the same container' "$STATUS $OUT" '200 kept'
ask() { curl -s --max-time 60 --unix-socket "$1" -X POST -H 'Content-Type: application/json' \
    -d '{"backend":"docker","user":"both","thread":"t"}' -w '\n%{http_code}\n' http://localhost/v1/boxes; }
ask "$first_socket" > "$WORK/a" & one=$!
ask "$twin_socket" > "$WORK/b" & two=$!
wait "$one" "$two"
is 'one pair asked for in both at once is one box' \
    "$(head -qn 1 "$WORK/a" "$WORK/b" | jq -r .id | sort -u | wc -l) $(tail -qn 1 "$WORK/a" "$WORK/b" | sort | xargs)" \
    '1 200 201'
both=$(head -1 "$WORK/a" | jq -r .id)
via_first
api DELETE "/v1/boxes/$both"
is 'deleted by one' "$STATUS" 204
via_twin
api GET "/v1/boxes/$both"
is 'it is gone for the other' "$STATUS" 404
is 'and its container, too' "$(containers | xargs)" "$(container)"
kill -KILL "$twin_pid"
wait "$twin_pid" 2> /dev/null
via_first
run 'cat g'
is 'one that is killed takes nothing with it' "$OUT" twin

# ---- --cleanup ----

api POST "$B/snapshots" '{"name":"s"}'
is 'a snapshot is an image of the engine' "$STATUS $(images)" '201 1'
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
DAEMON_PID=
OUT=$("$PROGRAM" --config "$CONFIG" --cleanup --state "$STATE" 2> "$WORK/err" < /dev/null)
CODE=$?
is '--cleanup ends the box and says so' "$CODE $(grep -c "box $BOX" <<< "$OUT")" '0 1'
is 'no container is left, and no image' "$(containers | xargs) $(images)" ' 0'
ok 'nor files' test -z "$(ls "$STATE/boxes")"
