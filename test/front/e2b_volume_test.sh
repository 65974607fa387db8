#!/bin/bash
# Volumes of the E2B dialect: with npm's e2b, the newest and an older one; and raw, for what those clients cannot send.
# backends: jail
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
. test/lib/e2b.sh
e2b_start "  - {token: bob-token-0123456789abcdef00, user: bob, scope: user}" \
    "  - {token: eye-token-0123456789abcdef00, user: ann, scope: read}" \
    '  - {token: admin-token-0123456789abcdef, scope: admin}' 'auth: required' 'max_upload_bytes: 4000000'
export E2B_VOLUME_API_URL=$URL

key() { # key METHOD PATH [BODY] [CURL ARGUMENTS...]: a request of ann's client
    api "$1" "$2" "${3-}" -H "X-API-KEY: $E2B_API_KEY" "${@:4}"
}
content() { # content METHOD WHAT QUERY [CURL ARGUMENTS...]: by the token of the volume
    api "$1" "/volumecontent/$ID/$2?$3" '' -H "Authorization: Bearer $TOKEN" "${@:4}"
}
refused() { # refused NAME STATUS: {"code","message"}
    is "$1" "$STATUS $(j .code) $(j '.message|type')" "$2 $2 string"
}

for body in '{}' '{"name":""}' '{"name":"a/b"}' '{"name":".."}' '{"name":"a b"}' '{"name":7}'; do
    key POST /volumes "$body"
    refused "not a volume: $body" 400
done
api POST /volumes '{"name":"a"}' -H 'X-API-KEY: eye-token-0123456789abcdef00'
refused 'a key that may only read makes none' 403
key POST /volumes '{"name":"mine"}'
is 'a volume' "$STATUS $(j .name)" '201 mine'
ID=$(j .volumeID) TOKEN=$(j .token)
key POST /volumes '{"name":"mine"}'
refused 'twice' 409
api GET "/volumes/$ID" '' -H 'X-API-KEY: bob-token-0123456789abcdef00'
refused "somebody else's" 404
api GET "/volumes/$ID" '' -H 'X-API-KEY: eye-token-0123456789abcdef00'
is 'a key that may only read does not get its token' "$STATUS $(j 'has("token")')" '200 false'
as bob POST /volumes '{"name":"mine"}'
is 'names are each user'"'s own" "$STATUS" 201
OTHER=$(j .token)

api GET "/volumecontent/$ID/dir?path=/"
is 'content without a token' "$STATUS $(j .code)" '401 unauthorized'
api GET "/volumecontent/$ID/dir?path=/" '' -H "X-API-KEY: $E2B_API_KEY"
is 'a key is not a token' "$STATUS" 401
api GET "/volumecontent/$ID/dir?path=/" '' -H "Authorization: Bearer $OTHER"
is "another volume's token" "$STATUS" 401
content GET dir path=/
is 'its own' "$STATUS $(j -c .)" '200 []'
for path in ../x /../../etc /a/../../..; do
    content GET dir "path=$path"
    like "nothing is above it: $path" "$STATUS $(j -c .)" '^(404|200 \[\])'
done
content PUT file path=../../escaped --data-binary x -H 'Content-Type: application/octet-stream'
is 'a path that leads up stays inside' "$STATUS $(ls "$STATE/e2b/volumes/$ID") $(ls "$STATE/e2b")" \
    $'201 escaped uploads\nvolumes'
for query in path= path=%00 path=/ 'path=/a&mode=99999' 'path=/a&uid=-1' ''; do
    content PUT file "$query" --data-binary x -H 'Content-Type: application/octet-stream'
    is "not a file: $query" "$STATUS" 400
done
content PUT 'file' 'path=/s&mode=3583' --data-binary x -H 'Content-Type: application/octet-stream'
is 'no set-id bits are given' "$STATUS $(stat -c %a "$STATE/e2b/volumes/$ID/s")" '201 777'
head -c 4000001 /dev/zero > "$WORK/large"
content PUT file path=/large -T "$WORK/large" -H 'Content-Type: application/octet-stream'
is 'a file that is too large' "$STATUS $(j .code) $(ls -A "$STATE/e2b/volumes/$ID" | grep -c 'large\|cubby')" \
    '413 too_large 0'
content DELETE path path=/
is 'its top stays' "$STATUS" 400
for mounts in '{}' '[7]' '[{"name":"mine"}]' '[{"name":"mine","path":"x"}]' '[{"name":"mine","path":"/a/../b"}]' \
    '[{"name":"mine","path":"/a"},{"name":"mine","path":"/a"}]' '[{"name":"../..","path":"/a"}]' \
    '[{"name":"mine","path":"/proc/x"}]' '[{"name":"none","path":"/a"}]'; do
    key POST /v2/sandboxes "{\"templateID\":\"base\",\"volumeMounts\":$mounts}"
    refused "mounts: $mounts" 400
done
as bob POST /v1/boxes "{\"mounts\":[{\"source\":\"$STATE/e2b/volumes/$ID\",\"target\":\"/m\"}]}"
is "a volume is no source of other mounts" "$STATUS" 403
key POST /v2/sandboxes '{"templateID":"base","volumeMounts":[{"name":"mine","path":"/data"}]}'
BOX=$(j .sandboxID)
key DELETE "/volumes/$ID"
refused 'one that is mounted stays' 409
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
e2b_run
content GET file path=/s
is 'volumes and tokens outlive the daemon' "$STATUS $(cat "$WORK/body")" '200 x'
key POST "/sandboxes/$BOX/pause" '{"memory":false}'
key POST "/sandboxes/$BOX/connect" '{"timeout":60}'
is 'a sandbox starts again with its volume' "$STATUS" 201
key DELETE "/sandboxes/$BOX"
mkdir "$STATE/e2b/volumes/$ID/held"
if mount -t tmpfs held "$STATE/e2b/volumes/$ID/held" 2> /dev/null; then
    key DELETE "/volumes/$ID"
    like 'a removal that is cut off' "$STATUS" '^[45]'
    umount "$STATE/e2b/volumes/$ID/held"
    key POST /v2/sandboxes '{"templateID":"base","volumeMounts":[{"name":"mine","path":"/data"}]}'
    is 'is not mounted any more' "$STATUS" 400
fi
key DELETE "/volumes/$ID"
is 'it goes' "$STATUS $(ls "$STATE/e2b/volumes" | wc -l)" '204 1'
content GET dir path=/
is 'and its token with it' "$STATUS" 401

# ---- its own clients ----
e2b_clients_or_skip
program 'e2b 2.51' "$NODE" test/clients/e2b_volume.mjs e2b
program 'e2b 2.45' "$NODE" test/clients/e2b_volume.mjs e2b-2.45

delete_boxes() { # by an admin: everybody's
    local id
    as admin GET /v1/boxes
    for id in $(j '.boxes[].id'); do as admin DELETE "/v1/boxes/$id"; done
    as admin GET /volumes
    for id in $(j '.[].volumeID'); do as admin DELETE "/volumes/$id"; done
}
# ---- a bound ----
echo 'e2b_volume_mb: 8' >> "$CONFIG"
kill -HUP "$DAEMON_PID"
eventually 10 grep -q 'read again' "$WORK/daemon.log"
key POST /volumes '{"name":"bounded"}'
if [ "$STATUS" = 201 ]; then
    ID=$(j .volumeID) TOKEN=$(j .token)
    content PUT file path=/half --data-binary @<(head -c 3900000 /dev/zero) -H 'Content-Type: application/octet-stream'
    content PUT file path=/rest --data-binary @<(head -c 3900000 /dev/zero) -H 'Content-Type: application/octet-stream'
    content PUT file path=/over --data-binary @<(head -c 3900000 /dev/zero) -H 'Content-Type: application/octet-stream'
    is 'more than fits' "$STATUS" 507
else
    refused 'a bound that the kernel cannot hold: no volume' 501
    like 'with the fix' "$(j .message)" 'at most 8 MB \(e2b_volume_mb\): .*(prjquota|projects|root)'
    is 'nothing is left of it' "$(key GET /volumes; j '[.[].name]|contains(["bounded"])')" false
fi
stop_daemon
finish
