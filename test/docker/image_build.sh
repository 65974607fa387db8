# A template of the E2B dialect that is built from an image of the engine: its steps run in a container, and sandboxes
# made from it are containers too.
# box: none

status_is() { api GET "/templates/$TEMPLATE/builds/$ID/status" && [ "$(j .status)" = "$1" ]; }
build() { # build NAME BODY
    api POST /v3/templates "{\"name\":\"$1\"}"
    TEMPLATE=$(j .templateID) ID=$(j .buildID)
    api POST "/v2/templates/$TEMPLATE/builds/$ID" "$2"
}
ended() { status_is ready || status_is error; }

HASH=$(printf '%064d' 1)
echo copied > "$WORK/f" && tar -C "$WORK" -czf "$WORK/f.tar" f
api GET "/templates/x/files/$HASH"
LINK=/$(j .url | cut -d/ -f4-)
api PUT "$LINK" '' --data-binary @"$WORK/f.tar" -H 'Content-Type: application/octet-stream'
is 'an archive' "$STATUS" 201
build own "{\"fromImage\":\"debian:stable-slim\",\"steps\":[{\"type\":\"WORKDIR\",\"args\":[\"/app\"]},
    {\"type\":\"COPY\",\"args\":[\"f\",\"sub/\",\"\",\"\"],\"filesHash\":\"$HASH\"},
    {\"type\":\"RUN\",\"args\":[\"echo \$IMAGE \$(id -u) \$(pwd) > made\"]}]}"
is 'a build from an image' "$STATUS" 202
eventually 60 ended
is 'ends well' "$(j '[.status,.reason.message]|@csv')" '"ready",'
api POST /v2/sandboxes '{"templateID":"own"}'
is 'a sandbox of it' "$STATUS" 201
BOX=$(j .sandboxID) B=/v1/boxes/$(j .sandboxID)
api POST "$B/exec" '{"command":"cat /app/made /app/sub/f; id -u"}'
is 'has the files of its steps' "$(j .stdout)" $'debian 0 /app\ncopied\n0'
api DELETE "$B"
build none '{"fromImage":"no-such/image:1"}'
eventually 30 ended
like 'an image that the engine does not have' "$(j '[.reason.step,.reason.message]|@csv')" '^"base",".*e2b_images'
api DELETE "/templates/$TEMPLATE"
api DELETE /templates/own
is 'a template goes' "$STATUS" 204
rm -f "$STATE"/e2b/uploads/*
