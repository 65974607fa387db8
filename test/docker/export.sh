# A container box becomes one image of one layer, and goes on from it.
# box: none
HOME8='' ODD=cubby-test/odd:1
image() { engine GET "/images/$1/json" | jq -c "$2"; }               # image NAME FILTER
images() { # images [JQ ARGUMENT...]: those of ours; how many
    [ $# -gt 0 ] || set -- length
    engine GET "/images/json?filters=%7B%22reference%22%3A%5B%22cubby-$HOME8%2Flayer%22%5D%7D" | jq "$@"
}
export_box() { api POST "$B/export"; }

# An image with settings that are hard to say again.
odd=$(engine POST /containers/create -H 'content-type: application/json' \
    -d '{"Image":"'"$IMAGE_BUSYBOX"'","Cmd":["true"]}' | jq -r .Id)
engine POST "/commit?container=$odd&repo=${ODD%:*}&tag=1" -H 'content-type: application/json' \
    -d '{"User":"1000:1000","WorkingDir":"/a b/$HOME",
 "Entrypoint":["/bin/sh","-c","echo \"$1\" \\ \u0027"],"Cmd":["a b","$HOME","","é"],
 "Env":["PATH=/bin","HOME=/tmp","IMAGE=odd","ODD=a \"b\" \u0027c\u0027 $HOME ${PATH} \\ \\n #x =y","EMPTY="]}' \
    > "$WORK/made" || fail 'an odd image' "$(cat "$WORK/made")"
engine DELETE "/containers/$odd" > /dev/null
box_new "\"template\":\"$ODD\",\"env\":{\"MARK\":\"of the box\"},\"thread\":\"export\""
HOME8=$(cut -c1-8 "$STATE/docker-home")
base=$(inspect .Image)
settings='[.Config.Cmd,.Config.Entrypoint,.Config.WorkingDir,.Config.User,(.Config.Env|sort)]'

run 'true'
before=$(inspect .Id)
export_box
is 'nothing has changed: nothing is done' "$STATUS $(j '[.changed,.image,.processes_ended]|tostring')" \
    '200 [false,null,0]'
is 'the container is the same, and no image was made' "$(inspect .Id) $(images)" "$before 0"

run 'echo home > ~/kept; echo work > here; mkdir ~/d; ln ~/kept ~/d/link; echo "$ODD"'
odd=$OUT
tag_new
api POST "$B/processes" "{\"command\":\"exec sleep $TAG\"}"
curl -sN --max-time 60 --unix-socket "$SOCKET" "http://localhost/v1/events?type=progress,exported" > "$WORK/events" &
events=$!
export_box
is 'exported' "$STATUS $(j .changed)" '200 true'
name=$(j .image)
like 'under a name of ours' "$name" "^cubby-$HOME8/layer:[0-9a-f]{16}\$"
between 'what ran in it was ended, and is counted' "$(j .processes_ended)" 1 3
is 'as one layer' "$(image "$name" '.RootFS.Layers|length')" 1
is 'with all that the image had set' "$(image "$name" "$settings")" "$(image "$ODD" "$settings")"
is 'and whose it is' "$(image "$name" '.Config.Labels["cubby.user"]')" '"default"'
api GET "$B"
is 'the box runs' "$(j '[.state,.running,.template]|tostring')" "[\"ready\",true,\"$ODD\"]"
is 'from it, in a new container' \
    "$(inspect '.Image == "'"$(image "$name" .Id | tr -d '"')"'"') $([ "$(inspect .Id)" != "$before" ] && echo new)" \
    'true new'
run 'cat ~/kept here; stat -c %h ~/d/link; echo "$MARK $IMAGE $HOME"; id -u; stat -c %u ~/kept; echo "$ODD"'
is 'its files, its workspace, its environment and its user are as before' "$OUT" \
    $'home\nwork\n2\nof the box odd /tmp\n1000\n1000\n'"$odd"
is 'the old container is gone' "$(engine GET '/containers/json?all=1' | jq -r '.[].Names[]' | grep -c "$(container)")" 1
is 'the image that it began as is untouched' "$(image "$ODD" .Id | tr -d '"')" "$base"
exported() { grep -q exported "$WORK/events"; }
ok 'events tell that it was exported' eventually 5 exported
kill "$events"
wait "$events" 2> /dev/null
like 'and to what' "$(grep -a '"type":"exported"' "$WORK/events")" "\"box\":\"$BOX\".*\"why\":\"$name\""
like 'and how far it was' "$(grep -a '"type":"progress"' "$WORK/events" | tail -1)" \
    '"work":"export".*"done":[1-9][0-9]{5,}'

export_box
is 'at once again: nothing has changed' "$STATUS $(j .changed)" '200 false'
run 'echo more > ~/more'
export_box
second=$(j .image)
is 'what was added is exported again' "$(j .changed) $(image "$second" '.RootFS.Layers|length')" 'true 1'
run 'cat ~/kept ~/more'
is 'nothing of it is lost' "$OUT" $'home\nmore'
alone() { [ "$(images -c '[.[].RepoTags[]]')" = "[\"$second\"]" ]; }
eventually 5 alone && pass 'the image that it replaced goes' ||
    fail 'the image that it replaced goes' "$(images '.[].RepoTags')"

# ---- life goes on ----
api POST "$B/snapshots" '{"name":"s"}'
is 'a snapshot of an exported box' "$STATUS $(j .method)" '201 commit'
run 'rm ~/kept; echo other > here'
api POST "$B/rollback" '{"snapshot":"s"}'
run 'cat ~/kept ~/more here'
is 'is put back' "$OUT" $'home\nmore\nwork'
api POST "$B/fork" '{"user":"ann"}'
fork=$(j .id)
api DELETE "$B"
is 'deleted' "$STATUS" 204
box_use "$fork"
run 'cat ~/kept here; echo "$MARK, $IMAGE"'
is 'a fork for another user has the files and the settings' "$OUT" $'home\nwork\nof the box, odd'
is 'which no image knows' \
    "$(for name in $(images -r '.[].RepoTags[]'); do image "$name" .Config; done | grep -c 'of the box')" 0
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
start_daemon "$PROGRAM"
run 'echo x > ~/x; cat ~/kept'
is 'after a restart of the daemon' "$OUT" home
export_box
is 'a fork is exported' "$STATUS $(j .changed) $(image "$(j .image)" '.Config.Labels["cubby.user"]')" '200 true "ann"'
run 'cat ~/x ~/kept here'
is 'and has its files' "$OUT" $'x\nhome\nwork'
api DELETE "$B"
none() { [ "$(images)" = 0 ] && [ -z "$(ls -A "$STATE/layers")" ]; }
eventually 10 none && pass 'no box: no image and no layer' ||
    fail 'no box: no image and no layer' "$(images), $(ls "$STATE/layers")"

# ---- while it lasts ----
box_new "\"template\":\"$ODD\",\"user\":\"bob\",\"thread\":\"b\""
run 'dd if=/dev/zero of=$HOME/large bs=1M count=96 2> /dev/null'
is 'something large' "$CODE" 0
curl -s -o "$WORK/answer" --unix-socket "$SOCKET" -X POST "http://localhost$B/export" &
client=$!
exporting() { api GET "$B" && [ "$(j .state)" = exporting ]; }
eventually 10 exporting && pass 'a box is exporting meanwhile' || fail 'a box is exporting meanwhile' "$BODY"
u=http://localhost w='%{http_code} '
curl -s -o "$WORK/busy" -w "$w" --unix-socket "$SOCKET" -d '{"command":"true"}' "$u$B/exec" --next -s -o "$WORK/busy" \
    -w "$w" --unix-socket "$SOCKET" -d '{"user":"bob","thread":"b"}' "$u/v1/boxes" \
    --next -s -o "$WORK/busy" -w "$w" --unix-socket "$SOCKET" -d '' "$u$B/export" --next -s -o "$WORK/busy" -w "$w" \
    --unix-socket "$SOCKET" -d '{}' "$u$B/snapshots" \
    --next -s -o "$WORK/busy" -w "$w" --unix-socket "$SOCKET" -X DELETE "$u$B" > "$WORK/codes"
is 'exec, acquire, export, snapshot and delete are told so at once' "$(cat "$WORK/codes")" '503 503 503 503 503 '
like 'and why' "$(cat "$WORK/busy")" 'BUSY.*being exported'
wait "$client"
is 'it goes through' "$(jq -r .changed "$WORK/answer")" true
run 'stat -c %s ~/large'
is 'with all its bytes' "$OUT" 100663296

# ---- the command line, bad input ----
run 'echo y > ~/y'
c export --json "$BOX"
is 'cubby export --json' "$CODE $(jq -r .changed <<< "$OUT")" '0 true'
c export "$BOX"
is 'cubby export: nothing changed' "$CODE $OUT $ERR" "0  cubby: nothing has changed since the box's image was made"
run 'echo z > ~/y'
c export "$BOX"
like 'cubby export' "$CODE $OUT" "^0 cubby-$HOME8/layer:"
c export
is 'cubby export: usage' "$CODE" 2
api POST "/v1/boxes/0123456789abcdef/export"
is_error 'of no box' 404 NOT_FOUND
api POST "$B/pause"
export_box
is_error 'of a paused one' 409 PAUSED paused
api POST "$B/resume"
api POST "/v1/boxes" '{"template":"'"$name"'"}'
like 'what a box became is nobody else'"'"'s template' "$STATUS" '^4'
api DELETE "$B"
engine DELETE "/images/$ODD" > /dev/null
