#!/bin/bash
# Template builds of the E2B dialect: with npm's e2b, the newest and an older one; over a killed daemon; and raw, for
# what those clients cannot send.
# backends: jail
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
. test/lib/e2b.sh
e2b_start "$(printf '  - {token: many-%02d-0123456789abcdef0000, user: many%02d, scope: user}\n' \
    $(for i in {1..16}; do echo "$i" "$i"; done))" "  - {token: bob-token-0123456789abcdef00, user: bob, scope: user}" \
    "  - {token: eye-token-0123456789abcdef00, user: ann, scope: read}" \
    '  - {token: admin-token-0123456789abcdef, scope: admin}' 'auth: required' 'max_upload_bytes: 100000' \
    'e2b_images: ["ubuntu=host", "debian:12=base"]'

key() { # key METHOD PATH [BODY] [CURL ARGUMENTS...]: a request of ann's client
    api "$1" "$2" "${3-}" -H "X-API-KEY: $E2B_API_KEY" "${@:4}"
}
refused() { # refused NAME STATUS [REGEX]: {"code","message"}
    is "$1" "$STATUS $(j .code) $(j '.message|type')" "$2 $2 string"
    [ $# -lt 3 ] || like "$1: the sentence" "$(j .message)" "$3"
}
request() { # request NAME: TEMPLATE, ID
    key POST /v3/templates "{\"name\":\"$1\"}"
    TEMPLATE=$(j .templateID) ID=$(j .buildID)
}
start() { # start BODY
    key POST "/v2/templates/$TEMPLATE/builds/$ID" "$1"
}
status_is() { key GET "/templates/$TEMPLATE/builds/$ID/status" && [ "$(j .status)" = "$1" ]; }
logged() { key GET "/templates/$TEMPLATE/builds/$ID/status" && grep -qF "$1" "$WORK/body"; }

# ---- asking for a build ----
key POST /v3/templates '{"name":"Own:v1","tags":["x","v1","own:y"],"unknown":1}'
is 'a build' "$STATUS $(j -c '[.public,.names,.aliases,.tags]')" '202 [false,["own"],["own"],["v1","x","y"]]'
like 'its id is a UUID' "$(j .buildID)" '^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$'
for body in '{}' '{"name":""}' '{"name":"a b"}' '{"name":"../x"}' '{"name":7}' '{"name":"a","tags":["b/c:d e"]}' \
    '{"name":"a","tags":"x"}' '{"name":"a","cpuCount":0}' '{"name":"a","memoryMB":1}' '[]' '{'; do
    key POST /v3/templates "$body"
    refused "not a build: $body" 400
done
key POST /v3/templates '{"name":"base"}'
refused 'a name that is taken' 409
api POST /v3/templates '{"name":"a"}' -H 'X-API-KEY: eye-token-0123456789abcdef00'
refused 'a key that may only read builds nothing' 403
request raw
for body in '{"steps":{}}' '{"steps":[{}]}' '{"steps":[{"type":"EXEC","args":["a"]}]}' \
    '{"steps":[{"type":"RUN","args":[]}]}' '{"steps":[{"type":"RUN","args":[7]}]}' \
    '{"steps":[{"type":"RUN","args":["a\u0000b"]}]}' '{"steps":[{"type":"ENV","args":["a"]}]}' \
    '{"steps":[{"type":"COPY","args":["a","b","",""]}]}' \
    '{"steps":[{"type":"COPY","args":["a","b","",""],"filesHash":"../../x"}]}' '{"startCmd":7}' '{"fromImage":[]}' \
    "{\"steps\":[$(printf '{"type":"RUN","args":["a"]},%.0s' {1..501}){}]}" \
    "{\"steps\":[{\"type\":\"ENV\",\"args\":[$(printf '"a","",%.0s' {1..999})\"b\",\"\"]},
        {\"type\":\"env\",\"args\":[\"c\",\"\"]}]}"; do
    start "$body"
    refused "not steps: ${body:0:60}" 400
done
is 'it still waits' "$(status_is waiting; j .status)" waiting
api GET "/templates/$TEMPLATE/builds/$ID/status" '' -H 'X-API-KEY: bob-token-0123456789abcdef00'
refused "somebody else's build" 404
for id in 00000000-0000-4000-8000-000000000000 "${ID%?}" x "${ID^^}x"; do
    key GET "/templates/$TEMPLATE/builds/$id/status"
    refused "no build: $id" 404
done
start '{"fromImage":"ubuntu:22.04","steps":[{"type":"RUN","args":["echo yes"]}]}'
is 'an image that the configuration maps, without a tag' "$STATUS" 202
start '{"fromImage":"ubuntu:22.04"}'
refused 'it is started once' 400 'not waiting'
ok 'it ends well' eventually 20 status_is ready
key GET "/templates/$TEMPLATE/builds/$ID/status?logsOffset=100"
is 'from the end of the logs: none' "$(j -c .logEntries)" '[]'
key GET "/templates/$TEMPLATE/builds/$ID/status?logsOffset=1"
like 'entries have a level and a step' "$(j -c '[.logEntries[]|[.level,.step,.message]]')" '\["info","1","yes"\]'
key GET "/templates/$TEMPLATE/builds/$ID/logs?direction=backward&limit=1"
is 'logs from their end' "$(j -c '[.logs[].message]')" '["Build finished"]'
for query in logsOffset=-1 logsOffset=x limit=101; do
    key GET "/templates/$TEMPLATE/builds/$ID/status?$query"
    refused "status: $query" 400
done
request private
LOGIN='"fromImageRegistry":{"type":"registry","username":"u","password":"hush"}'
start "{\"fromImage\":\"registry.example.com/app\",$LOGIN}"
ok 'credentials of a registry are refused, not ignored' eventually 10 status_is error
like 'with what to do instead' "$(j .reason.message)" 'credentials of registries; log its container engine in'
is 'and are not kept' "$(grep -l hush "$STATE"/e2b-plane.db*)" ''
request mapped
start "{\"fromImage\":\"ubuntu:24.04\",$LOGIN}"
ok 'an image that the configuration maps needs none' eventually 20 status_is ready

# ---- several users ----
who() { if [ "$1" = ann ]; then key "${@:2}"; else as "$@"; fi; }
build_as() { # build_as USER NAME COMMAND: TEMPLATE, ID of a build that has been started
    who "$1" POST /v3/templates "{\"name\":\"$2\"}"
    TEMPLATE=$(j .templateID) ID=$(j .buildID)
    who "$1" POST "/v2/templates/$TEMPLATE/builds/$ID" "{\"steps\":[{\"type\":\"RUN\",\"args\":[\"$3\"]}]}"
}
begun() { # begun TEMPLATE BUILD: the command of ann's build runs
    key GET "/templates/$1/builds/$2/status" && [ "$(j '[.logEntries[]|select(.message=="long-begun")]|length')" = 1 ]
}
for i in 1 2 3 4; do
    build_as ann "long-$i" 'echo long-begun; sleep 600'
    eval "LONG_$i=\$TEMPLATE BUILD_$i=\$ID"
done
ok 'a user has two builds at once' eventually 20 begun "$LONG_1" "$BUILD_1"
ok 'and not one' eventually 20 begun "$LONG_2" "$BUILD_2"
build_as bob quick 'echo quick'
quick() { as bob GET "/templates/$TEMPLATE/builds/$ID/status" && [ "$(j .status)" = ready ]; }
ok 'somebody with many builds does not keep others waiting' eventually 20 quick
is 'nor have they more than two themselves' "$(begun "$LONG_3" "$BUILD_3"; echo $?)" 1
key DELETE "/templates/$LONG_1"
ok 'when one ends, the next begins' eventually 20 begun "$LONG_3" "$BUILD_3"
for i in 2 3 4; do eval "key DELETE /templates/\$LONG_$i"; done
request deb
start '{"fromImage":"debian:11"}'
eventually 10 status_is error
is 'another tag than the configuration has' "$(j .reason.step)" base
request nobase
start '{"fromTemplate":"nobody-has-it","steps":[{"type":"RUN","args":["echo ran"]}]}'
is 'a build without a base has ended at once' "$STATUS $(status_is error; j -c '[.status,.reason.step]')" \
    '202 ["error","base"]'
is 'and nothing of it ran' "$(j '.logEntries|length')" 1
start '{"fromTemplate":"base"}'
refused 'it does not begin again' 400 'not waiting'

# ---- as many as there may be ----
# waiting METHOD COUNT USER...: asks for so many builds for each, or deletes them; status and sentence of each
waiting() {
    python3 - "${URL#http://}" "$@" << 'END'
import http.client, json, sys
connection = http.client.HTTPConnection(sys.argv[1])
for user in sys.argv[4:]:
    for name in (f"wait-{user}-{number}" for number in range(int(sys.argv[3]))):
        made = sys.argv[2] == "POST"
        connection.request(sys.argv[2], "/v3/templates" if made else f"/templates/{name}",
                           json.dumps({"name": name}) if made else None,
                           {"X-API-KEY": f"many-{user}-0123456789abcdef0000", "Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        print(answer.status, json.loads(text)["message"] if answer.status == 429 else "")
END
}
waiting POST 17 01 > "$WORK/builds"
is 'a user has 16 builds that have not ended' "$(grep -c 202 "$WORK/builds") $(tail -1 "$WORK/builds")" \
    '16 429 16 builds have not ended yet, which is the most of a user'
waiting POST 16 {02..16} > "$WORK/builds"
is 'and all users together 256' "$(tail -1 "$WORK/builds")" \
    '429 256 builds of all users have not ended yet: try again later'
ok 'not fewer' [ "$(grep -c 202 "$WORK/builds")" -ge 224 ]
key POST /v3/templates '{"name":"late"}'
refused 'nobody has one more' 429 'try again later'
waiting DELETE 16 {01..16} > "$WORK/builds"
key POST /v3/templates '{"name":"late"}'
is 'when they are gone, there is room again' "$STATUS" 202

# ---- uploads ----
HASH=$(printf '%064d' 7)
key GET "/templates/$TEMPLATE/files/zz"
refused 'not a hash' 400
key GET "/templates/$TEMPLATE/files/$HASH"
is 'files that are not there' "$STATUS $(j .present)" '201 false'
LINK=$(j .url)
api GET "/templates/$TEMPLATE/files/$HASH" '' -H 'X-API-KEY: eye-token-0123456789abcdef00'
is 'a key that may only read gets no link' "$STATUS $(j 'has("url")')" '201 false'
LINK=$URL/${LINK#http://*/}
curl -sS -o "$WORK/body" -w '%{http_code}' -T /dev/null "${LINK%????}0000" > "$WORK/code"
is 'a forged link' "$(cat "$WORK/code")" 403
curl -sS -o "$WORK/body" -w '%{http_code}' -T /dev/null "${LINK/$HASH/$(printf '%064d' 8)}" > "$WORK/code"
is 'a link of other files' "$(cat "$WORK/code")" 403
head -c 100001 /dev/zero > "$WORK/large"
curl -sS -o "$WORK/body" -w '%{http_code}' -T "$WORK/large" "$LINK" > "$WORK/code"
is 'an archive that is too large' "$(cat "$WORK/code")" 413
curl -sS -o "$WORK/body" -w '%{http_code}' -H 'Transfer-Encoding: chunked' -T "$WORK/large" "$LINK" > "$WORK/code"
is 'the same without its length' "$(cat "$WORK/code")" 413
is 'nothing of it stays' "$(ls "$STATE/e2b/uploads")" ''
mkdir -p "$WORK/tar" && (cd "$WORK/tar" && echo evil > f && ln -s /etc link && ln -s / root)
tar -C "$WORK/tar" -cf "$WORK/evil.tar" --transform 's,^f$,../../../../../../../tmp/cubby-evil,' -P f link root
tar -C "$WORK/tar" -rf "$WORK/evil.tar" --transform 's,^f$,link/passwd,' f
curl -sS -o "$WORK/body" -w '%{http_code}' -T "$WORK/evil.tar" "$LINK" > "$WORK/code"
is 'an archive' "$(cat "$WORK/code")" 201
api GET "/templates/$TEMPLATE/files/$HASH" '' -H 'X-API-KEY: bob-token-0123456789abcdef00'
is "it is not somebody else's" "$(j .present)" false
is 'its link is not in the log' "$(grep -c "${LINK##*-}" "$WORK/daemon.log")" 0
PASSWD=$(sha256sum /etc/passwd)
request evil
start "{\"steps\":[{\"type\":\"COPY\",\"args\":[\".\",\"/x\",\"\",\"\"],\"filesHash\":\"$HASH\"}]}"
ended() { status_is error || status_is ready; }
ok 'an archive that leaves its place ends its build' eventually 20 ended
is 'nothing outside of the box has changed' "$(sha256sum /etc/passwd) $(ls /tmp/cubby-evil 2> /dev/null)" "$PASSWD "
request gone
start "{\"steps\":[{\"type\":\"COPY\",\"args\":[\"a\",\"/x\",\"\",\"\"],\"filesHash\":\"$(printf '%064d' 9)\"}]}"
eventually 20 status_is error
like 'files that were never uploaded' "$(j .reason.message)" 'not uploaded'
request owner
start "{\"steps\":[{\"type\":\"COPY\",\"args\":[\"a\",\"/x\",\"-R\",\"\"],\"filesHash\":\"$HASH\"}]}"
eventually 20 status_is error
like 'an owner that is an option' "$(j .reason.message)" 'invalid owner'
request noisy
start '{"steps":[{"type":"RUN","args":["seq 20000; head -c 100000 /dev/zero"]}]}'
ok 'a build that prints much' eventually 60 status_is ready
key GET "/templates/$TEMPLATE/builds/$ID/status?logsOffset=9999"
is 'has its logs cut' "$(j '.logEntries|length') $(j .logEntries[1].message)" '2 more lines are not kept'

request wide
start '{"steps":[{"type":"RUN","args":["head -c 6000000 /dev/zero | tr \"\\\\0\" a | fold -w 4000"]}]}'
ok 'a build that prints long lines' eventually 60 status_is ready
key GET "/templates/$TEMPLATE/builds/$ID/logs?direction=backward&limit=2"
is 'has its bytes cut' "$(j -c '[.logs[].message]')" '["Build finished","more output is not kept"]'
request vars
start "{\"steps\":[{\"type\":\"ENV\",\"args\":[$(printf '"V%d","x",' {1..400})\"V1\",\"one\",\"V2\",\"\${V1}two\"]},
    {\"type\":\"RUN\",\"args\":[\"echo \$V1 \$V2 \$V400\"]}]}"
ok 'many variables' eventually 30 status_is ready
ok 'have their last values' logged 'one onetwo x'

# ---- another daemon ----
request over
start '{"steps":[{"type":"RUN","args":["date +%N > ~/first"]},{"type":"RUN","args":["echo waits; sleep 3"]},
    {"type":"RUN","args":["echo third >> ~/first"]}]}'
ok 'a build is under way' eventually 20 logged waits
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
e2b_run
is 'a killed daemon is started again' $? 0
ok 'the next one ends the build' eventually 30 status_is ready
like 'without what was done before' "$(j -c '[.logEntries[].message]')" 'CACHED \[builder 1/3\]'
request stops
start '{"steps":[{"type":"RUN","args":["echo waits; sleep 2"]}]}'
ok 'another build is under way' eventually 20 logged waits
kill -TERM "$DAEMON_PID"
wait "$DAEMON_PID"
is 'a daemon that stops does not wait for it' $? 0
e2b_run
ok 'and the next one ends it too' eventually 30 status_is ready
request deleted
start '{"steps":[{"type":"RUN","args":["echo waits; sleep 100"]}]}'
eventually 20 logged waits
key DELETE "/templates/$TEMPLATE"
is 'a template that is being built is deleted' "$STATUS" 204
no_boxes() { as admin GET /v1/boxes && [ "$(j '.boxes|length')" = 0 ]; }
ok 'and its build ends' eventually 10 no_boxes
request unready
start '{"readyCmd":"echo asked >> /tmp/asked; false"}'
one_box() { as admin GET /v1/boxes && [ "$(j '.boxes|length')" = 1 ]; }
ok 'a build that waits to be ready' eventually 20 one_box
key DELETE "/templates/$TEMPLATE"
ok 'ends when its template is deleted' eventually 20 no_boxes
is 'logs go with their builds' "$(python3 -c 'import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute("SELECT count(*) FROM log WHERE build NOT IN (SELECT id FROM build)")
    .fetchone()[0])' "$STATE/e2b-plane.db")" 0

# ---- forks ----
request starts
start '{"startCmd":"true","steps":[{"type":"WORKDIR","args":["/home/user/w"]}]}'
ok 'a template with a start command' eventually 30 status_is ready
key POST /v2/sandboxes '{"templateID":"starts"}'
FROM=$(j .sandboxID)
api POST "/v1/boxes/$FROM/exec" '{"command":"rm -r /home/user/w"}' -H "Authorization: Bearer cubby_$E2B_SECRET"
key POST "/sandboxes/$FROM/fork" '{"count":2}'
is 'forks that cannot start it' "$STATUS $(j -c '[.[]|has("error")]')" '201 [true,true]'
as admin GET /v1/boxes
is 'are not left behind' "$(j -c '[.boxes[].id]')" "[\"$FROM\"]"
key DELETE "/sandboxes/$FROM"

# ---- its own clients ----
e2b_clients_or_skip
program 'e2b 2.51' "$NODE" test/clients/e2b_build.mjs e2b
program 'e2b 2.45' "$NODE" test/clients/e2b_build.mjs e2b-2.45
ok 'no box of a build is left' eventually 10 no_boxes

delete_boxes() { # by an admin: everybody's
    local id
    as admin GET /v1/boxes
    for id in $(j '.boxes[].id'); do as admin DELETE "/v1/boxes/$id"; done
    as admin GET /templates
    for id in $(j '.[]|select(.public|not).templateID'); do as admin DELETE "/templates/$id"; done
    is 'nothing is kept of steps without a template' "$(ls "$STATE/kept")" ''
    rm -f "$STATE"/e2b/uploads/*
}
stop_daemon
finish
