#!/bin/bash
# The life of E2B sandboxes: create, connect, lists, time-outs, pause, snapshots, forks, templates; with npm's e2b, the
# newest and an older one; over a restart of the daemon; and raw, for what those clients cannot send.
# backends: jail
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
. test/lib/e2b.sh
e2b_start "  - {token: bob-token-0123456789abcdef00, user: bob, scope: user}" \
    "  - {token: eye-token-0123456789abcdef00, user: ann, scope: read}" \
    '  - {token: admin-token-0123456789abcdef, scope: admin}' 'auth: required'

key() { # key METHOD PATH [BODY] [CURL ARGUMENTS...]: a request of ann's client
    api "$1" "$2" "${3-}" -H "X-API-KEY: $E2B_API_KEY" "${@:4}"
}
inside() { # inside METHOD PATH [CURL ARGUMENTS...]: to the inside of the sandbox ID, by headers
    api "$1" "$2" '' -H "E2b-Sandbox-Id: $ID" -H 'E2b-Sandbox-Port: 49983' "${@:3}"
}
refused() { # refused NAME STATUS [REGEX]: {"code","message"}
    is "$1" "$STATUS $(j .code) $(j '.message|type')" "$2 $2 string"
    [ $# -lt 3 ] || like "$1: the sentence" "$(j .message)" "$3"
}
create() { # create [MEMBERS]: ID, TOKEN
    key POST /v2/sandboxes "{\"templateID\":\"base\"${1:+,$1}}"
    ID=$(j .sandboxID) TOKEN=$(j .envdAccessToken)
}

# ---- who asks ----
api GET /v2/sandboxes
refused 'no key' 401
api GET /v2/sandboxes '' -H 'X-API-KEY: e2b_0123'
refused 'a wrong key' 401
api GET /v2/sandboxes '' -H "X-API-KEY: cubby_$E2B_SECRET"
is 'both spellings of a key are one secret' "$STATUS $(j -c .)" '200 []'
api POST /v2/sandboxes '{"templateID":"base"}' -H 'X-API-KEY: eye-token-0123456789abcdef00'
refused 'a key that may only read makes nothing' 403

use_cubby
CUBBY_TOKEN=cubby_$E2B_SECRET c doctor
like 'cubby doctor says what works and what is missing' "$(grep '^E2B clients' <<< "$OUT")" \
    'ok +served; getHost\(\) needs e2b_domain'

# ---- create ----
create '"timeout":60,"metadata":{"k":"v"},"secure":true,"unknown":{"a":[1]},"autoPause":null'
is 'a sandbox' "$STATUS $(j -c 'del(.sandboxID,.envdAccessToken)')" \
    '201 {"templateID":"base","alias":"base","clientID":"cubby","envdVersion":"0.6.13"}'
like 'an id that nobody guesses' "$ID" '^[0-9a-f]{16}$'
like 'and a token' "$TOKEN" '^[0-9a-f]{64}$'
key GET "/sandboxes/$ID"
is 'what is optional and absent is left out' \
    "$(j -c '[has("network"), has("domain"), has("allowInternetAccess"), has("volumeMounts"), .lifecycle]')" \
    '[false,false,false,false,{"onTimeout":"kill","autoResume":false}]'
like 'times have milliseconds at least' "$(j .startedAt)" '^20[0-9-]+T[0-9:]+\.[0-9]{3,}Z$'
api GET "/sandboxes/$ID" '' -H 'X-API-KEY: eye-token-0123456789abcdef00'
is 'a key that may only read gets no token' "$STATUS $(j -c '[.sandboxID,.envdAccessToken]')" "200 [\"$ID\",null]"
key GET "/sandboxes/$ID-abcd1234"
is 'the suffix of old clients' "$STATUS $(j .sandboxID)" "200 $ID"
for body in '{' '[]' '{}' '{"templateID":7}' '{"templateID":""}' '{"templateID":"base","timeout":0}' \
    '{"templateID":"base","timeout":-1}' '{"templateID":"base","timeout":"x"}' '{"templateID":"a/b/c"}' \
    '{"templateID":"base","metadata":[]}' '{"templateID":"base","metadata":{"a":1}}' \
    '{"templateID":"base","envVars":{"A":null}}' '{"templateID":"base","envVars":{"A=B":"c"}}' \
    '{"templateID":"base","autoPauseMemory":false}' \
    '{"templateID":"base","autoPause":true,"autoPauseMemory":false,"autoResume":{"enabled":true}}' \
    '{"templateID":"base","network":{"denyOut":["10.0.0.0/33"]}}' '{"templateID":"base","network":{"denyOut":[7]}}' \
    '{"templateID":"base","network":{"denyOut":["a.example"]}}' '{"templateID":"base","network":{"allowOut":7}}' \
    '{"templateID":"base","network":{"allowOut":["a.example"],"denyOut":["10.0.0.0/8"]}}' \
    '{"templateID":"base","network":{"allowOut":["a b"],"denyOut":["0.0.0.0/0"]}}' \
    '{"templateID":"base","network":{"egressProxy":{"address":"a:1"}}}' \
    '{"templateID":"base","network":{"rules":{"a.example":[]}}}' '{"templateID":"base","network":{"rules":[1]}}' \
    '{"templateID":"base","network":{"rules":{"a.example":[{"transform":{"headers":[]}}]}}}' \
    '{"templateID":"base","network":{"rules":{"a.example":[{"transform":{"headers":{"a":7}}}]}}}' \
    '{"templateID":"base","network":{"rules":{"a.example":[{"transform":{"headers":{"host":"b"}}}]}}}' \
    '{"templateID":"base","network":{"rules":{"a.example":[{"transform":{"headers":{"a b":"b"}}}]}}}' \
    '{"templateID":"base","network":{"rules":{"a.example":[{"transform":{"headers":{"a":"b\r\nc: d"}}}]}}}' \
    '{"templateID":"base","network":{"rules":{"a.example":[{"transform":{"headers":{"a":"${e2b.iam.x}"}}}]}}}' \
    '{"templateID":"base","network":{"rules":{"a.example":[{"transform":{"headers":{"a":"${e2b.secrets.x}"}}}]}}}' \
    '{"templateID":"base","network":{"rules":{"a.example":[{"transform":{"headers":{}},"other":1}]}}}' \
    '{"templateID":"base","network":{"rules":{"a.example":[{"transform":{}},{"transform":{}}]}}}' \
    '{"templateID":"base","network":{"rules":{"10.0.0.1":[{"transform":{"headers":{"a":"b"}}}]}}}' \
    '{"templateID":"base","network":{"rules":{"a.example:0":[{"transform":{"headers":{"a":"b"}}}]}}}' \
    "{\"templateID\":\"base\",\"network\":{\"rules\":{$(printf '"h%d.example":[],' {1..10})\"x.example\":[]}}}" \
    "{\"templateID\":\"base\",\"network\":{\"rules\":{\"a.example\":[{\"transform\":{\"headers\":{$(
        printf '"h%d":"v",' {1..20})\"x\":\"v\"}}}]}}}" '{"templateID":"base","network":{"egressProxy":"a:1"}}' \
    "{\"templateID\":\"base\",\"network\":{\"rules\":{\"a.example\":[{\"transform\":{\"headers\":{\"a\":\"$(
        printf '%02049d' 0)\"}}}]}}}" \
    '{"templateID":"base","secure":false,"network":{"allowPublicTraffic":false}}' \
    '{"templateID":"base","volumeMounts":[{"name":"v","path":"/v"}]}' '{"templateID":"base","iam":{}}'; do
    key POST /v2/sandboxes "$body"
    refused "refused: ${body:0:140}" 400
done
key POST /v2/sandboxes "{\"templateID\":\"base\",\"metadata\":{\"k\":\"$(printf '%070000d' 0)\"}}"
refused 'metadata of 70 kB' 400 'at most 65536'
key POST /v2/sandboxes '{"templateID":"nothing-of-that-name"}'
refused 'a template that is not there' 404 'not found'
key POST /v2/sandboxes '{"templateID":"base:other"}'
refused 'a tag that is not there' 404
key GET /v2/sandboxes
is 'none of these left a sandbox' "$(j length)" 1

# ---- whose it is ----
for path in "" /metrics /logs; do
    api GET "/sandboxes/$ID$path" '' -H 'X-API-KEY: bob-token-0123456789abcdef00'
    refused "somebody else's sandbox answers as none: GET $path" 404 "doesn't exist or you don't have access"
done
for path in pause resume connect timeout refreshes fork snapshots; do
    api POST "/sandboxes/$ID/$path" '{"timeout":5}' -H 'X-API-KEY: bob-token-0123456789abcdef00'
    refused "somebody else's sandbox answers as none: POST $path" 404
done
api DELETE "/sandboxes/$ID" '' -H 'X-API-KEY: bob-token-0123456789abcdef00'
refused "nobody ends somebody else's" 404
as bob GET /v2/sandboxes
is "nor lists it" "$(j -c .)" '[]'
as bob POST /v1/boxes '{"thread":"t"}'
NATIVE=$(j .id)
key GET "/sandboxes/$NATIVE"
refused 'a box that another API made is not a sandbox' 404

# ---- the inside ----
inside GET /health
is 'the inside, by headers' "$STATUS" 204
inside POST /process.Process/List
is 'a missing token' "$STATUS $(j -c .)" \
    '401 {"code":401,"message":"unauthorized access, please provide a valid access token or method signing if '\
'supported"}'
SAVED=$ID
create
inside POST /process.Process/List -H "X-Access-Token: $TOKEN" -H 'Content-Type: application/json' -d '{}'
is 'the right one' "$STATUS" 200
ID=$SAVED
inside POST /process.Process/List -H "X-Access-Token: $TOKEN" -H 'Content-Type: application/json' -d '{}'
is "another sandbox's token" "$STATUS" 401
ID=$NATIVE
inside GET /health
is 'a box that another API made' "$STATUS $(j -c .)" \
    "502 {\"sandboxId\":\"$NATIVE\",\"message\":\"The sandbox was not found\",\"code\":502}"
ID=$SAVED
for path in /_e2b/$ID/49983/health /%5fe2b/$ID/49983/health //_e2b/$ID/49983/health /_E2B/$ID/49983/health; do
    key GET "$path"
    is "its inside has no path: $path" "$STATUS" 404
done
api GET /health '' -H "E2b-Sandbox-Id: $ID"
refused 'one of the two headers' 400
for port in 0 65536 x -1 ''; do
    api GET /health '' -H "E2b-Sandbox-Id: $ID" -H "E2b-Sandbox-Port: $port"
    refused "port '$port'" 400
done
api GET /health '' -H 'E2b-Sandbox-Id: ../../x' -H 'E2b-Sandbox-Port: 49983'
refused 'what cannot be an id' 400
api GET "/files?path=a&signature=v1_AAAA"
is 'a forged signature leads nowhere' "$STATUS" 404

# ---- time ----
key POST "/sandboxes/$ID/timeout" '{}'
refused 'no time-out' 400
key POST "/sandboxes/$ID/refreshes" '{"duration":3601}'
refused 'a refresh of more than an hour' 400
key GET "/sandboxes/$ID"
END=$(j .endAt)
key POST "/sandboxes/$ID/refreshes" '{"duration":1}'
is 'a refresh' "$STATUS" 204
key GET "/sandboxes/$ID"
is 'only ever lengthens' "$(j .endAt)" "$END"
key POST "/sandboxes/$ID/connect" '{}'
refused 'the older connect wants a time-out' 400
key POST "/v2/sandboxes/$ID/connect" '{}'
is 'the newer one does not' "$STATUS" 200
key POST "/sandboxes/$ID/resume" '{}'
refused 'one that runs is not resumed' 409

# ---- pause ----
key POST "/sandboxes/$ID/pause"
is 'pause, without a body' "$STATUS" 204
key POST "/sandboxes/$ID/pause" '{}'
refused 'twice' 409
inside GET /health
is 'a paused one does not answer' "$STATUS $(j .message)" '502 The sandbox was not found'
key POST "/sandboxes/$ID/fork" '{}'
refused 'nor is it forked' 409
key POST "/sandboxes/$ID/resume" '{"timeout":60}'
is 'resume' "$STATUS $(j .sandboxID)" "201 $ID"
exec_in() { # exec_in COMMAND: OUT, by the native API
    api POST "/v1/boxes/$ID/exec" "{\"command\":\"$1\"}" -H "Authorization: Bearer cubby_$E2B_SECRET"
    OUT=$(j .stdout)
}
exec_in 'echo here > f; cat /proc/sys/kernel/random/boot_id'
BOOT=$OUT
key POST "/sandboxes/$ID/pause" '{"memory":false}'
is 'pause without memory' "$STATUS" 204
exec_in 'echo no'
is 'use alone does not start it' "$STATUS" 409
key POST "/sandboxes/$ID/connect" '{"timeout":60}'
is 'connect does' "$STATUS" 201
exec_in 'cat f /proc/sys/kernel/random/boot_id'
is 'with its files' "${OUT%%$'\n'*}" here
isnt 'and a new boot id' "${OUT#*$'\n'}" "$BOOT"
create '"timeout":60,"autoPause":true,"autoResume":{"enabled":true}'
key POST "/sandboxes/$ID/pause"
inside GET /health
is 'without its token nothing wakes it' "$STATUS" 401
inside GET /health -H "X-Access-Token: $TOKEN"
is 'with it use does' "$STATUS" 204

# ---- lists ----
for query in limit=0 limit=101 limit=x nextToken=zzz state=other order=up startedAfter=today template=base:x \
    nextToken="$(printf '1|a|asc' | base64)"; do
    key GET "/v2/sandboxes?$query"
    refused "list: $query" 400
done
key GET '/v2/sandboxes?template=nothing'
is 'an unknown template: none' "$STATUS $(j -c .)" '200 []'
key GET '/v2/sandboxes?metadata=k%3Dv'
is 'by metadata' "$(j length)" 1
key GET "/v2/sandboxes?startedAfter=2200-01-01T00:00:00%2B01:00"
is 'by time' "$(j length)" 0

# ---- snapshots and templates ----
key POST "/sandboxes/$ID/snapshots" '{"name":"Mine:v1"}'
is 'a snapshot with a name and a tag' "$STATUS $(j -c .names)" '201 ["mine"]'
SNAPSHOT=$(j .snapshotID)
like 'its id has no slash' "$SNAPSHOT" '^[0-9a-f]{16}:v1$'
key POST "/sandboxes/$ID/snapshots" '{"name":"base"}'
refused 'a name that is taken' 409
key POST "/sandboxes/$ID/snapshots" '{"name":"../x"}'
refused 'what is not a name' 400
api POST /v2/sandboxes "{\"templateID\":\"$SNAPSHOT\"}" -H 'X-API-KEY: bob-token-0123456789abcdef00'
refused "somebody else's snapshot" 404
key GET /templates/aliases/mine:v1
is 'it is a template' "$STATUS $(j .templateID)" "200 ${SNAPSHOT%:*}"
key GET /templates/aliases/mine
refused 'without its tag it is not' 404
key POST /templates/tags '{"target":"mine:v1","tags":["default","latest"]}'
is 'more tags' "$STATUS $(j -c .tags)" '201 ["default","latest"]'
key DELETE /templates/tags '{"name":"mine","tags":["v1"]}'
is 'one less' "$STATUS" 204
key GET /templates/mine/tags
is 'its tags' "$(j -c '[.[].tag]')" '["default","latest"]'
key POST "/sandboxes/$ID/fork" '{"count":101}'
refused 'too many forks' 400
key POST "/sandboxes/$ID/fork" '{"count":2,"timeout":60}'
is 'forks' "$STATUS $(j length) $(j -c '[.[].sandbox.templateID]')" '201 2 ["base","base"]'
key DELETE "/templates/${SNAPSHOT%:*}"
is 'a template goes' "$STATUS" 204
key DELETE "/templates/${SNAPSHOT%:*}"
refused 'once' 404
key DELETE /templates/base
refused 'base does not' 404
key GET "/events/sandboxes/$ID?orderAsc=true&limit=100"
like 'what happened to it' "$(j -c '[.[].event_label]')" '"created".*"paused".*"checkpointed"'

# ---- secrets: stored, and never given out ----
key POST /secrets '{"name":"Api_Key","value":"s3cr3t-value","metadata":{"a":"b"}}'
is 'a secret' "$STATUS $(j -c 'del(.secretID,.createdAt,.updatedAt)')" \
    '201 {"name":"api_key","currentVersion":1,"metadata":{"a":"b"}}'
SECRET=$(j .secretID)
key POST /secrets '{"name":"API_KEY","value":"x"}'
refused 'twice' 409
key POST "/secrets/$SECRET" '{"value":"another-value"}'
is 'another value' "$STATUS $(j -c '[.currentVersion,.metadata]')" '200 [2,{"a":"b"}]'
key GET /secrets
is 'the list has no values' "$(j length) $(grep -c value "$WORK/body")" '1 0'
key GET /secrets/api_key
is 'one, by its name' "$STATUS $(j .secretID)" "200 $SECRET"
api GET "/secrets/$SECRET" '' -H 'X-API-KEY: bob-token-0123456789abcdef00'
refused "somebody else's" 404
for body in '{}' '{"name":"a b","value":"x"}' '{"name":"a"}' '{"name":"a","value":"x","metadata":{"b":1}}'; do
    key POST /secrets "$body"
    refused "not a secret: $body" 400
done
key DELETE /secrets/api_key
is 'it goes' "$STATUS" 204
key DELETE /secrets/api_key
refused 'once' 404
is 'no value is in the log or on the disk' \
    "$(grep -rl 's3cr3t-value' "$WORK/daemon.log" "$STATE"/*.db* 2> /dev/null)" ''

# ---- the network ----
key PUT "/sandboxes/$ID/network" '{"denyOut":["a.example"]}'
refused 'a rule that cannot be held' 400
first=$ID
create '"network":{"denyOut":["10.0.0.0/8"],"allowOut":["10.1.0.0/16"],"httpsPorts":[8443]}'
api GET "/v1/boxes/$ID/network" '' -H "Authorization: Bearer cubby_$E2B_SECRET"
is 'what is allowed is cut out of what is denied' "$(j -c '[.network.deny[0], (.network.deny|length)]')" \
    '["10.0.0.0/16:*",8]'
key PUT "/sandboxes/$ID/network" '{"denyOut":["0.0.0.0/0"],"allowOut":["a.example"]}'
is 'other rules' "$STATUS" 204
api GET "/v1/boxes/$ID/network" '' -H "Authorization: Bearer cubby_$E2B_SECRET"
is 'are its policy' "$(j -c .network.allow)" '["a.example"]'
key GET "/sandboxes/$ID"
is 'and shown as they were given, with what is not about them' "$(j -cS .network)" \
    '{"allowOut":["a.example"],"denyOut":["0.0.0.0/0"],"httpsPorts":[8443]}'
key DELETE "/sandboxes/$ID"
ID=$first
key PUT /sandboxes/0123456789abcdef/network '{}'
refused 'of a sandbox that is not there' 404
key GET /teams
is 'a team' "$(j -c '[.[0].teamID, .[0].isDefault]')" '["ann",true]'
key GET "/sandboxes/$ID/logs"
like 'what was done in a sandbox' "$(j -c '[.logEntries[].message]')" 'e2b_create'
key GET "/sandboxes/metrics?sandbox_ids=$ID,0123456789abcdef"
is 'what several use' "$(j -c '.sandboxes|keys')" "[\"$ID\"]"

# ---- another daemon ----
create '"timeout":2'
BRIEF=$ID
create '"timeout":600,"metadata":{"over":"restart"}'
key GET "/sandboxes/$ID"
BEFORE=$(j -c 'del(.endAt)')
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
e2b_run
is 'a killed daemon is started again' $? 0
key GET "/sandboxes/$ID"
is 'a sandbox is what it was' "$(j -c 'del(.endAt)')" "$BEFORE"
ended() { key GET "/sandboxes/$BRIEF" && [ "$STATUS" = 404 ]; }
ok 'a deadline is kept' eventually 5 ended
inside POST /process.Process/List -H "X-Access-Token: $TOKEN" -H 'Content-Type: application/json' -d '{}'
is 'and so is its token' "$STATUS" 200

# ---- more streams than a user may have ----
cp "$CONFIG" "$WORK/config.before"
echo 'max_requests_per_user: 8' >> "$CONFIG"
kill -HUP "$DAEMON_PID"
eventually 10 grep -q 'read again' "$WORK/daemon.log"
START='{"process":{"cmd":"/bin/sleep","args":["600"]},"stdin":false}'
{ printf '\0\0\0\0'; printf "\\x$(printf %x ${#START})$START"; } > "$WORK/start"
STREAMS=()
for i in {1..8}; do
    curl -sN --unix-socket "$SOCKET" -X POST http://localhost/process.Process/Start --data-binary "@$WORK/start" \
        -H "E2b-Sandbox-Id: $ID" -H 'E2b-Sandbox-Port: 49983' -H "X-Access-Token: $TOKEN" \
        -H 'Content-Type: application/connect+json' > "$WORK/stream.$i" 2>&1 &
    STREAMS+=($!)
done
begun() { [ "$(grep -lc '"start"' "$WORK"/stream.* | wc -l)" = 8 ]; }
ok 'eight streams' eventually 10 begun
inside GET /envs -H "X-Access-Token: $TOKEN"
refused 'one request more' 429 'max_requests_per_user.*try again later'
kill "${STREAMS[@]}"
wait "${STREAMS[@]}" 2> /dev/null
free() { inside GET /envs -H "X-Access-Token: $TOKEN" && [ "$STATUS" = 200 ]; }
ok 'when they have hung up there is room again' eventually 10 free
inside POST /process.Process/List -H "X-Access-Token: $TOKEN" -H 'Content-Type: application/json' -d '{}'
is 'and what they started still runs' "$(j '.processes|length')" 8
cp "$WORK/config.before" "$CONFIG"
kill -HUP "$DAEMON_PID"
again() { [ "$(grep -c 'read again' "$WORK/daemon.log")" = 2 ]; }
eventually 10 again

# ---- its own clients ----
e2b_clients_or_skip
program 'e2b 2.51' "$NODE" test/clients/e2b_sandbox.mjs e2b
program 'e2b 2.45' "$NODE" test/clients/e2b_sandbox.mjs e2b-2.45

delete_boxes() { # by an admin: everybody's
    local id
    as admin GET /v1/boxes
    for id in $(j '.boxes[].id'); do as admin DELETE "/v1/boxes/$id"; done
    as admin GET /snapshots
    for id in $(j '.[].snapshotID'); do as admin DELETE "/templates/$id"; done
}
stop_daemon
finish
