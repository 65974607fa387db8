# How a runner is reached: by a socket that is mounted into its container; where the engine is elsewhere, by its
# standard
# streams and, for later daemons, by a relay; and beside the image's own program. And why one cannot be reached.
# box: none

container() { cut -d ' ' -f 1 "$STATE/boxes/$BOX/docker"; }                  # the box's, by the engine's id
daemon_again() {
    kill -KILL "$DAEMON_PID"
    wait "$DAEMON_PID" 2> /dev/null
    start_daemon "$PROGRAM" || fail 'the next daemon starts' "$(tail -5 "$WORK/daemon.log")"
}
relabel() { # relabel NAME CHANGE...: an image like busybox's, with other settings
    local name=$1 id
    shift
    id=$(engine POST "/containers/create" -H 'Content-Type: application/json' \
        -d "{\"Image\":\"$IMAGE_BUSYBOX\",\"Cmd\":[\"true\"]}" | jq -r .Id)
    engine POST "/commit?container=$id&repo=$name&tag=1&changes=$(encode "$(printf '%s\n' "$@")")" \
        -H 'Content-Type: application/json' -d '{}' > /dev/null
    engine DELETE "/containers/$id" > /dev/null
}
image="cubby-test/wire-$$"

# ---- the socket ----

box_new "\"template\":\"$IMAGE_BUSYBOX\",\"limits\":{\"memory_mb\":64,\"open_files\":64}"
is 'where the engine is on this machine the runner gets a socket outside of its container' \
    "$(cut -d ' ' -f 6- "$STATE/boxes/$BOX/docker")" '1 0'
run 'ls -A /.cubby/run | wc -l; touch /.cubby/run/x 2> /dev/null || echo closed; ulimit -n'
is 'and inside nothing of it is left; a command has as many files as it was given' "$OUT" $'0\nclosed\n64'
run 'head -c 200000000 /dev/zero | tail'
is 'a command that takes too much memory is told so' "$STATUS $(j .oom_killed) $CODE" '200 true 137'
run 'kill -TERM 1; kill -KILL 1; echo there'
is 'and the runner stays, whoever inside wants it to go' "$OUT" there
now_ms
before=$NOW
engine POST "/containers/$(container)/stop?t=30" > /dev/null
now_ms
between 'the engine can stop it without waiting' $((NOW - before)) 0 10000
api DELETE "$B"

# ---- beside the image's own program ----

relabel "$image-stay" 'CMD ["sleep","100000"]' 'USER 1234:55'
relabel "$image-end" 'CMD ["sh","-c","exit 7"]'
box_new "\"template\":\"$image-stay:1\",\"container\":{\"init\":\"image\"},\"env\":{\"SEEN\":\"by both\"}"
run 'id -u; tr "\0" " " < /proc/1/cmdline; tr "\0" "\n" < /proc/1/environ | grep SEEN; echo "$SEEN"; touch file && '\
'echo mine'
is 'the image'"'"'s own program is the first one, and the runner is beside it, as its user' "$OUT" \
    $'1234\nsleep 100000 SEEN=by both\nby both\nmine'
beside=$BOX
daemon_again
box_use "$beside"
run 'ls'
is 'it is found again' "$OUT" file
api DELETE "$B"
is 'and goes' "$STATUS" 204
api POST /v1/boxes "{\"backend\":\"docker\",\"template\":\"$image-end:1\",\"container\":{\"init\":\"image\"}}"
is_error 'a program that exits at once makes no box' 400 INVALID 'program exits.*status 7'

# ---- an engine elsewhere ----

near=$DOCKER_HOST
coproc FORWARD { exec test/docker/forward.py "$ENGINE_SOCKET"; }
forward=$FORWARD_PID
read -r -u "${FORWARD[0]}" port
stop_daemon
export DOCKER_HOST=tcp://127.0.0.1:$port
start_daemon "$PROGRAM" || fail 'a daemon for an engine elsewhere' "$(tail -5 "$WORK/daemon.log")"
box_new '"env":{"MINE":"yes"}'
is 'an engine elsewhere makes boxes' "$STATUS $(cut -d ' ' -f 6- "$STATE/boxes/$BOX/docker")" '201 0 1'
run 'id -u; pwd; echo hello > file; stat -c %u:%g . file; echo "$MINE"'
is 'its runner was sent there, and its workspace is its user'"'"'s' "$OUT" \
    $'1000\n/workspace\n1000:1000\n1000:1000\nyes'
head -c 3000000 /dev/urandom > "$WORK/large"
upload large "$WORK/large"
get large
ok 'files go through the stream' cmp "$WORK/large" "$WORK/body"
run 'sleep 1000 < /dev/null > /dev/null 2>&1 & exec python3 -c "
import socket
wire = socket.socket(socket.AF_UNIX)
try:
    wire.connect(chr(0) + \"cubby\")
    print(len(wire.recv(1)))
except OSError as error:
    print(error.strerror)"'
like 'a command is not taken for a relay' "$OUT" '^(0|Connection (reset|refused).*)$'
api POST "$B/processes" '{"command":"echo up; exec sleep 1000"}'
pid=$(j .pid) far=$BOX
daemon_again
box_use "$far"
run 'cat file'
is 'the next daemon has a relay to the runner that is there' "$OUT $(inspect '.State.Running')" 'hello true'
api GET "$B/processes/$pid"
is 'with what runs below it' "$STATUS $(j .state)" '200 running'
run 'ls /proc | grep -c "^[0-9]*$"'
between 'and of the first stream nothing is left' "$OUT" 1 8
volume=$(inspect '.Mounts[]|select(.Destination == "/.cubby").Name')
ok 'the runner lies in a volume' test -n "$volume"
api DELETE "$B"
is 'which goes with the box' "$STATUS $(engine GET "/volumes/$volume" -o /dev/null -w '%{http_code}' 2> /dev/null)" \
    '204 404'
relabel "$image-none" 'USER nobody-here'
api POST /v1/boxes "{\"backend\":\"docker\",\"template\":\"$image-none:1\"}"
is_error 'a user that is nowhere is the reason' 400 INVALID 'nobody-here'
stop_daemon
kill "$forward"
wait "$forward" 2> /dev/null
export DOCKER_HOST=$near
start_daemon "$PROGRAM"

for name in stay end none; do engine DELETE "/images/$image-$name:1?force=1" > /dev/null; done
