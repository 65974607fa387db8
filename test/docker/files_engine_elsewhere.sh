# An engine that does not see this machine's directories: nothing is mounted, and what a box has it has in its
# container.
# box: none
# daemon: none

near=$DOCKER_HOST
coproc FORWARD { exec test/docker/forward.py "$ENGINE_SOCKET"; }
forward=$FORWARD_PID
read -r -u "${FORWARD[0]}" port
export DOCKER_HOST=tcp://127.0.0.1:$port
start_daemon "$PROGRAM" || fail 'a daemon for an engine elsewhere' "$(tail -5 "$WORK/daemon.log")"
api POST /v1/boxes "{\"mounts\":[{\"source\":\"$WORK/shared\",\"target\":\"/mnt\"}]}"
is_error 'a mount is refused, and why' 501 UNSUPPORTED "does not see this machine's directories"
api POST /v1/boxes '{"user":"ann","agent":"app"}'
is 'a box with skills' "$STATUS" 201
ann=$(j .id)
api POST /v1/boxes '{"container":{"user":"4321:8765","read_only":true}}'
is_error 'where nothing can be given to its user, it is not made' 501 UNSUPPORTED "no workspace for user '4321:8765'"
api POST /v1/boxes '{"user":"bob","agent":"app","container":{"user":"0","read_only":true}}'
is 'but for root, whose root is read-only' "$STATUS" 201
bob=$(j .id)
box_use "$ann"
run 'mkdir -p /skills/greet && echo hello > /skills/greet/SKILL.md && stat -c %u:%g /skills . && echo x > file'
is 'they are its user'"'"'s, as its workspace' "$CODE $OUT" $'0 1000:1000\n1000:1000'
api POST "$B/skills/greet/sync" '{"direction":"to_base"}'
is 'one becomes public' "$STATUS" 204
box_use "$bob"
run 'cat /skills/greet/SKILL.md; echo mine >> /skills/greet/SKILL.md; echo x > file; stat -c %u:%g /skills . '\
'/skills/greet | sort -u; touch /file'
isnt 'nothing else is written to' "$CODE" 0
is 'the other has a copy' "$OUT" $'hello\n0:0'
box_use "$ann"
run 'cat /skills/greet/SKILL.md'
is 'of his own' "$OUT" hello
is 'nothing of it lies here' "$(find "$STATE/boxes" -name SKILL.md -o -name file)" ''
delete_boxes
stop_daemon
kill "$forward"
wait "$forward" 2> /dev/null
export DOCKER_HOST=$near
