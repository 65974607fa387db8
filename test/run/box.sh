# Boxes: acquire, find, list, release, delete.

first=$BOX
like 'an id is 16 hex digits' "$first" '^[0-9a-f]{16}$'
api GET "$B"
is 'one box' "$STATUS $(j '[.id,.user,.backend,.state,.workspace]|tostring')" \
    "200 [\"$first\",\"default\",\"$BACKEND\",\"ready\",\"/workspace\"]"
like 'created_at' "$(j .created_at)" '^20[0-9-]+T[0-9:.]+Z$'
like 'last_used_at' "$(j .last_used_at)" '^20[0-9-]+T[0-9:.]+Z$'
is 'limits and usage are there' "$(j '[has("limits"),has("usage")]|tostring')" '[true,true]'

# (user, thread)
box_new '"user":"ann","thread":"t 1/ü"'
is 'a new pair: 201' "$STATUS" 201
is 'its id is the first of sha256("user:thread")' "$BOX" "$(printf 'ann:t 1/ü' | sha256sum | cut -c1-16)"
ann=$BOX
run 'echo mine > f'
box_new '"user":"ann","thread":"t 1/ü"'
is 'the same pair: 200, the same box' "$STATUS $BOX" "200 $ann"
run 'cat f'
is 'with its files' "$OUT" mine
box_new '"user":"ann","thread":"t2"'
is 'another thread: another box' "$STATUS $([ "$BOX" != "$ann" ] && echo other)" '201 other'
ann2=$BOX
box_new '"user":"bob","thread":"t 1/ü"'
is 'another user: another box' "$STATUS $([ "$BOX" != "$ann" ] && echo other)" '201 other'
run 'cat f'
isnt 'without the files of the first' "$OUT" mine
bob=$BOX
box_new '"user":"ann"'
none1=$BOX
box_new '"user":"ann"'
isnt 'no thread: a new box each time' "$BOX" "$none1"
none2=$BOX
acquire_body '"user":"race","thread":"one"'
for _ in {1..8}; do
    curl -s --unix-socket "$SOCKET" -d "$ACQUIRE" http://localhost/v1/boxes >> "$WORK/race" &
    pids+=($!)
done
wait "${pids[@]}"
is 'eight at once for one pair: one box' "$(jq -r .id < "$WORK/race" | sort | uniq -c | tr -s ' ')" \
    " 8 $(printf race:one | sha256sum | cut -c1-16)"

# list
api GET /v1/boxes
is 'list has all' "$(j "[.boxes[].id]|contains([\"$first\",\"$ann\",\"$ann2\",\"$bob\",\"$none1\",\"$none2\"])")" true
api GET '/v1/boxes?user=ann'
is 'by user' "$(j '[.boxes[].user]|unique|tostring') $(j \
    '[.boxes[]|select((.thread // "")|startswith("machine:")|not)]|length')" '["ann"] 4'
box_new '"user":"lab","labels":{"k":"v","team":"x"}'
api GET '/v1/boxes?label=k=v'
is 'by label' "$(j '[.boxes[].id]|tostring')" "[\"$BOX\"]"
api GET "/v1/boxes/$BOX"
is 'labels are kept' "$(j '.labels|tostring')" '{"k":"v","team":"x"}'
api GET '/v1/boxes?state=ready'
between 'by state' "$(j '.boxes|length')" 7 100
api GET '/v1/boxes?state=nonsense'
is_error 'no such state' 400 INVALID state

# release
box_use "$ann"
tag_new
api POST "$B/processes" "{\"command\":\"sleep $TAG\"}"
api POST "$B/release"
like 'release' "$STATUS" '^20[04]$'
api GET "$B"
is 'is warm' "$(j .state)" warm
box_new '"user":"ann","thread":"t 1/ü"'
is 'acquired again: the same box' "$STATUS $BOX" "200 $ann"
run 'cat f'
is 'with its files' "$OUT" mine
api GET "$B"
is 'and ready' "$(j .state)" ready

# settings
box_new '"env":{"GREETING":"hi there"}'
run 'echo "$GREETING"'
is 'env of the box' "$OUT" 'hi there'
run 'echo "$GREETING"' '"env":{"GREETING":"other"}'
is 'env of a call wins' "$OUT" other
box_new '"shell":"/bin/sh"'
run 'echo $0'
like 'shell of the box' "$OUT" '^(/bin/)?sh$'
box_new '"shell":"/no/such/shell"'
run 'true'
like 'no such shell is said' "$STATUS $BODY" '^4.*/no/such/shell'
box_new '"user":"idle","thread":"x","idle_timeout_ms":300'
run 'echo kept > f'
tag_new
api POST "$B/processes" "{\"command\":\"sleep $TAG\"}"
pid=$(j .pid)
ok 'a process of a box that idles' eventually 5 tag_alive
released() { api GET "$B" && [ "$(j '[.state,.running,.ended]|tostring')" = '["warm",true,null]' ]; }
if [ "$BACKEND" != remote ]; then # the machine is not asked what runs in its boxes
    ok 'puts it on the warm shelf' eventually 10 released
    now_ms
    after=$((NOW + 1500))
    later() { now_ms && [ "$NOW" -gt "$after" ]; }
    eventually 10 later
    ok 'and is not ended, five idle time-outs later' tag_alive
    api POST "$B/processes/$pid/signal" '{"signal":"SIGKILL"}'
fi
ok 'without one the box ends after the idle time' eventually 20 tag_gone
idled() { api GET "$B" && [ "$(j '[.running,.died]|tostring')" = '[false,null]' ]; }
ok 'which is no death' eventually 20 idled
is 'and the box says why' "$(j .ended)" idle
box_new '"user":"idle","thread":"x"'
run 'cat f'
is 'and the files are kept for the next acquire' "$OUT" kept
mounts() {
    box_new "\"mounts\":[{\"source\":\"$WORK/shared\",\"target\":\"/mnt/shared\"},{\"source\":\"$WORK/shared\","\
"\"target\":\"/mnt/ro\",\"read_only\":true}]"
    if [ "$STATUS" = 201 ]; then
        echo host > "$WORK/shared/h"
        run 'cat /mnt/shared/h; echo inside > /mnt/shared/i; cat /mnt/ro/i'
        is 'mounts' "$OUT" $'host\ninside'
        if [ "$BACKEND" = local ]; then skip 'commands cannot write to a read-only mount' \
            'local: nothing holds commands'; else
            run 'echo x > /mnt/ro/h; echo $?'
            is 'commands cannot write to a read-only mount' "$OUT" 1
        fi
        is 'are seen outside' "$(cat "$WORK/shared/i" 2>&1)" inside
        get /mnt/ro/h
        is 'the file API sees them' "$BODY" host
        put /mnt/ro/x y
        is_error 'a read-only mount' 403 DENIED
        rm -f "$WORK/shared/i"
    else fail 'mounts' "$STATUS $BODY"; fi
    api POST /v1/boxes "{\"backend\":\"$BACKEND\",\"mounts\":[{\"source\":\"$WORK/forbidden\",\"target\":\"/mnt/x\"}]}"
    is_error 'a source that is not allowed' 403 DENIED forbidden
    api POST /v1/boxes "{\"backend\":\"$BACKEND\",\"mounts\":[{\"source\":\"$WORK/shared/../forbidden\","\
"\"target\":\"/mnt/x\"}]}"
    is_error 'nor by way of ..' 403 DENIED
    ln -s ../forbidden "$WORK/shared/link"
    api POST /v1/boxes "{\"backend\":\"$BACKEND\",\"mounts\":[{\"source\":\"$WORK/shared/link\","\
"\"target\":\"/mnt/x\"}]}"
    like 'nor by a link' "$STATUS" '^4'
    rm "$WORK/shared/link"
}
if [[ $BACKEND = remote || $BACKEND = fleet ]]; then
    mount="{\"source\":\"$WORK/shared\",\"target\":\"/mnt/shared\"}"
    api POST /v1/boxes "{\"backend\":\"$BACKEND\",\"mounts\":[$mount]}"
    is_error "no directory of this server is mounted in somebody's machine" 501 UNSUPPORTED mounts
else mounts; fi

# refused
api POST /v1/boxes '{"backend":"nonsense"}'
is_error 'no such backend' 400 INVALID nonsense
api POST /v1/boxes '{"user":"a/b"}'
is_error 'a bad user' 400 INVALID user
api POST /v1/boxes '{"user":""}'
is_error 'an empty user' 400 INVALID user
api POST /v1/boxes '{"network":"host"}'
is_error 'no such network' 400 INVALID network
api POST /v1/boxes '{"template":"no-such-template"}'
like 'no such template' "$STATUS $BODY" '^4.*no-such-template'
api POST /v1/boxes '{"limits":{"memory_mb":-1}}'
is_error 'a negative limit' 400 INVALID memory_mb
api POST /v1/boxes '{"limits":{"memory":1}}'
is_error 'an unknown limit' 400 INVALID memory
for call in 'GET ' 'DELETE ' 'POST /exec' 'GET /files?path=x' 'GET /stat?path=x' 'POST /release' 'GET /processes'; do
    api "${call%% *}" "/v1/boxes/0123456789abcdef${call#* }" "$([[ $call = POST*exec ]] && echo '{"command":"true"}')"
    is_error "unknown box: $call" 404 NOT_FOUND 0123456789abcdef
done
for id in nonsense ../../etc 0123456789ABCDEF 0123456789abcde 0123456789abcdef0 %2e%2e; do
    api GET "/v1/boxes/$id"
    like "a bad id: $id" "$STATUS" '^40[04]$'
done

# delete
box_use "$ann"
tag_new
api POST "$B/processes" "{\"command\":\"trap '' TERM; setsid sleep $TAG & while :; do sleep $TAG; done\"}"
ok 'something runs' eventually 10 tag_alive
api DELETE "$B"
is 'delete' "$STATUS" 204
ok 'its processes are gone' tag_gone
api GET "$B"
is_error 'it is unknown' 404 NOT_FOUND
api DELETE "$B"
is_error 'delete again' 404 NOT_FOUND
is 'no mounts of it' "$(grep -c "$ann" /proc/self/mountinfo)" 0
is 'no cgroups of it' "$(find /sys/fs/cgroup -maxdepth 5 -name "*$ann*" 2> /dev/null)" ''
ok 'no files of it' eventually 10 eval '[ -z "$(find "$STATE" -name "*$ann*")" ]'
box_new '"user":"ann","thread":"t 1/ü"'
is 'the pair gets a new, empty box' "$STATUS" 201
run 'cat f'
if [ "$BACKEND" = remote ]; then is "the files are the machine's, and stay" "$OUT" mine; else isnt \
    'without the old files' "$OUT" mine; fi
api DELETE '/v1/boxes?user=ann'
like "delete all of a user's" "$STATUS" '^20[04]$'
api GET '/v1/boxes?user=ann'
is 'none is left' "$(j '.boxes|length')" 0
api GET "/v1/boxes/$bob"
is "others' are" "$STATUS" 200

# Usage is that of this moment, however often it was asked for.
for round in 1 2; do
    box_new '"user":"gauge","thread":"g"'
    for _ in 1 2 3; do api GET "$B"; done
    before=$(j .usage.pids)
    api POST "$B/processes" '{"command":"exec sleep 60"}'
    grown() { api GET "$B" && { [ "$before" = null ] || [ "$(j .usage.pids)" -gt "$before" ]; }; }
    ok "usage shows a process that was started since, box $round of its name" eventually 10 grown
    api DELETE "$B"
done

# delete while it works
box_new
json_string 'yes > /dev/null'
curl -s --max-time 120 --unix-socket "$SOCKET" -d '{"command":"yes"}' "http://localhost$B/exec" -o "$WORK/interrupted" \
    -w '%{http_code}' > "$WORK/code" &
client=$!
ok 'a command runs' eventually 10 eval 'api GET "$B" && [ "$(j .usage.pids)" != 0 ]'
api DELETE "$B"
is 'delete under a running command' "$STATUS" 204
wait "$client"
like 'which gets a clear answer' "$(< "$WORK/code")" '^(200|404|410|502|503)$'

# A thread's box that is asked for again with other settings.
box_new '"user":"same","thread":"x","labels":{"k":"v"},"env":{"SECRET":"hush"},"idle_timeout_ms":600000'
first=$BOX
box_new '"user":"same","thread":"x","labels":{"k":"v"},"env":{"SECRET":"hush"},"idle_timeout_ms":600000'
is 'the same request finds it again' "$STATUS $BOX" "200 $first"
box_new '"user":"same","thread":"x"'
is 'and one that says less' "$STATUS $BOX" "200 $first"
other() { # other MEMBERS MESSAGE
    api POST /v1/boxes "{\"backend\":\"$BACKEND\",\"user\":\"same\",\"thread\":\"x\",$1}"
    is_error "but not with $1" 409 EXISTS \
        "box $first is already there and was made differently: $2\\. Leave these fields away"
}
other '"network":"open"' 'network is none, not open'
other '"idle_timeout_ms":5,"limits":{"memory_mb":77}' 'memory_mb is [0-9]+, not 77; idle_timeout_ms is 600000, not 5'
other '"env":{"SECRET":"tell"}' 'env SECRET is not what it was made with'
other '"labels":{"k":"w"}' 'it has no label k=w'
other '"template":"another"' 'template is [^,]+, not another'
other '"temporary":true' 'it is not temporary'
box_use "$first"
api DELETE "$B"
