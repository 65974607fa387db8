#!/bin/bash
# The provisioner that DeerFlow's gateway knows: who may ask, one id is one box, statuses and words, the gateway's
# directories as
# mounts, whose files are whose.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
HOME_DIR=$WORK/deer-flow
mkdir -p "$HOME_DIR/skills_view/public/pdf" "$HOME_DIR/users/ann/skills_view/custom" "$WORK/data" "$WORK/outside"
echo 'name: pdf' > "$HOME_DIR/skills_view/public/pdf/SKILL.md"
echo data > "$WORK/data/set"
echo host > "$WORK/outside/secret"
KEY=key-of-the-gateway
echo "$KEY" > "$WORK/key"
cat > "$CONFIG" << END
deerflow_home: $HOME_DIR
deerflow_environment: {FROM_CONFIG: yes-it-is}
deerflow_mounts:
  - {source: $WORK/data, target: /mnt/data, read_only: true}
END
DAEMON=$BUILD/asan/cubbyd
[ -x "$DAEMON" ] || DAEMON=$BUILD/cubbyd
POOL_SIZE=1
start_or_end "$DAEMON"
id_of() { printf %s "$1:$2" | sha256sum | cut -c1-16; } # as the gateway makes them
# Directories of the host are given to these boxes, so their addresses end with a key: one that is missing stays
# visible.
keyless() { sed -E 's/~[0-9a-f]{32}( |$)/\1/; t; s/$/ (no key)/'; }
provision() { # provision ID USER THREAD [MORE JSON MEMBERS]
    api POST /api/sandboxes \
        "{\"sandbox_id\":\"$1\",\"user_id\":\"$2\",\"thread_id\":$([ "$3" = null ] && echo null ||
    echo "\"$3\"")${4:+,$4}}"
}
A=$(id_of ann t1)

# ---- itself ----
api GET /health
is 'health' "$STATUS $BODY" '200 {"status":"ok"}'
api GET /api/capabilities
is 'what it can' "$STATUS $BODY" \
    '200 {"lark_cli_init_image":false,"lark_cli_broker_image":false,"mount_contract_version":2}'
api GET /api/nothing
is 'no such path' "$STATUS $(j .detail)" '404 Not Found'
api PUT /api/sandboxes '{}'
is 'no such method' "$STATUS $(j .detail)" '405 Method Not Allowed'

# ---- one id, one box ----
provision "$A" ann t1 '"include_legacy_skills":false,"provision_lark_cli_runtime":true,"newer":{"a":[1]}'
is 'a sandbox; what is not known is not looked at' \
    "$STATUS $(j '[.sandbox_id,.sandbox_url,.status,.user_id,.thread_id,.mount_contract_version]|join(" ")' |
    keyless)" \
    "200 $A http://localhost/aio/$A Running ann t1 2"
box_use "$A"
api GET "$B"
is 'it is a box of that user and thread' "$(j '[.user,.thread,.id]|join(" ")')" "ann t1 $A"
provision "$A" ann t1
is 'asked for again it is the same' "$STATUS $(j .sandbox_url | keyless)" "200 http://localhost/aio/$A"
api GET "/api/sandboxes/$A"
is 'and told' "$STATUS $(j '[.sandbox_id,.status]|join(" ")')" "200 $A Running"
provision "$A" bob t1
is "another user's request for the same id is refused" "$STATUS" 409
provision "$A" ann t2
is "and another thread's" "$STATUS $(j .detail | grep -c "another box's")" '409 1'
provision 0badcafe bob null
is 'without a thread an id of eight digits' "$STATUS $(j '[.sandbox_id,.user_id,.thread_id]|join(" ")')" \
    '200 0badcafe bob 0badcafe'
api POST /api/sandboxes '{"sandbox_id":"1badcafe"}'
is 'whose user is default' "$STATUS $(j '[.user_id,.thread_id]|join(" ")')" '200 default 1badcafe'
api GET /api/sandboxes
is 'the list' "$(j '[.count, ([.sandboxes[].sandbox_id]|sort|join(" ")), '\
'([.sandboxes[].status]|unique|join(" "))]|join(", ")')" \
    "3, $(printf '%s\n' 0badcafe 1badcafe "$A" | sort | paste -sd' '), Running"
api POST /v1/boxes '{"user":"ann","thread":"native"}'
NATIVE=$(j .id)
api GET /api/sandboxes
is 'has only what was provisioned' "$(j .count)" 3
api GET "/api/sandboxes/$NATIVE"
is 'no other box is told' "$STATUS $(j .detail)" "404 Sandbox '$NATIVE' not found"
provision "$NATIVE" ann native
is 'nor taken' "$STATUS" 409
api DELETE "/api/sandboxes/$NATIVE"
is 'nor deleted' "$STATUS $BODY" "200 {\"ok\":true,\"sandbox_id\":\"$NATIVE\"}"
api GET "/v1/boxes/$NATIVE"
is 'it is there' "$STATUS" 200
api GET "/api/reconciliation/sandboxes/$A"
is 'reconciliation: found' \
    "$STATUS $(j '[.sandbox_id,.backend_namespace,.status,.user_id,.thread_id,.mount_contract_version]|join(" ")')" \
    "200 $A cubby found ann t1 2"
FIRST_LIFE=$(j .incarnation_id)
api GET /api/reconciliation/sandboxes/00000000
is 'reconciliation: absent' "$STATUS $(j '[.sandbox_id,.status]|join(" ")')" '200 00000000 absent'
like 'an incarnation has a name' "$FIRST_LIFE" .

# ---- many at once ----
C=$(id_of ann race)
for i in 1 2 3 4 5 6 7 8; do
    curl -s --unix-socket "$SOCKET" -o "$WORK/race$i" -w '%{http_code}\n' -X POST http://localhost/api/sandboxes \
        -H 'Content-Type: application/json' -d "{\"sandbox_id\":\"$C\",\"user_id\":\"ann\",\"thread_id\":\"race\"}" &
done > "$WORK/race"
wait $(jobs -p | grep -vx "$DAEMON_PID")
is 'eight provisions at once are one box' \
    "$(sort "$WORK/race" | uniq -c | tr -s ' ') $(cat "$WORK"/race[1-8] | jq -r .sandbox_url | keyless | sort -u)" \
    " 8 200 http://localhost/aio/$C"

# ---- bad requests ----
unfit() { # unfit NAME MEMBER BODY
    api POST /api/sandboxes "$3"
    is "422: $1" "$STATUS $(j '.detail[0].loc|join(".")') $(j '.detail[0]|has("msg") and has("type")')" \
        "422 body.$2 true"
}
unfit 'no id' sandbox_id '{}'
unfit 'an id that is no text' sandbox_id '{"sandbox_id":7}'
for id in '' x 0123456789abcdeg 0123456789ABCDEF 0badcaf 0badcafe0 ../../../../etc/x '0badcafe\u0000'; do
    unfit "no id: '$id'" sandbox_id "{\"sandbox_id\":\"$id\"}"
done
for thread in '' 'a b' ../x "$(printf 'x%.0s' {1..65})" 'a/b' 'ä'; do
    unfit "no thread: '${thread:0:20}'" thread_id "{\"sandbox_id\":\"0badcafe\",\"thread_id\":\"$thread\"}"
done
for user in '' . .. 'a b' a/b a@b "$(printf 'x%.0s' {1..129})"; do
    unfit "no user: '${user:0:20}'" user_id "{\"sandbox_id\":\"0badcafe\",\"user_id\":\"$user\"}"
done
unfit 'mounts that are none' extra_mounts '{"sandbox_id":"2badcafe","extra_mounts":{}}'
for body in '' 'no json' '[]' '"x"' '{"sandbox_id":"0badcafe"'; do
    api POST /api/sandboxes "${body:- }"
    is "422: the body '$body'" "$STATUS $(j '.detail|type')" '422 array'
done
provision 2badcafe ann x '"required_mount_contract_version":3'
is 'another contract of mounts' "$STATUS $BODY" '409 {"detail":{"code":"mount_contract_changed","actual":2}}'
provision 2badcafe ann x '"required_mount_contract_version":2'
is 'ours' "$STATUS" 200
api DELETE /api/sandboxes/2badcafe

# ---- the gateway's directories ----
T1=$HOME_DIR/users/ann/threads/t1
run 'cd /mnt/user-data && ls -d workspace uploads outputs && echo made > workspace/w && cat '\
'/mnt/skills/public/pdf/SKILL.md /mnt/data/set && echo $FROM_CONFIG'
is 'the directories of the thread, the public skills, the configured mount and variable' "$OUT $CODE" \
    $'outputs\nuploads\nworkspace\nname: pdf\ndata\nyes-it-is 0'
is 'what the box wrote is in the thread' "$(cat "$T1/user-data/workspace/w")" made
is 'and belongs to whom the home belongs to' \
    "$(stat -c '%u %g' "$T1/user-data/workspace/w" "$T1/user-data/outputs" "$T1" | sort -u)" \
    "$(stat -c '%u %g' "$HOME_DIR")"
(umask 077 && echo upload > "$T1/user-data/uploads/u")
run 'cat /mnt/user-data/uploads/u && echo more >> /mnt/user-data/uploads/u && mv /mnt/user-data/uploads/u '\
'/mnt/user-data/outputs/u'
is "the gateway's files of mode 0600 can be read and changed" \
    "$OUT $CODE $(tail -1 "$T1/user-data/outputs/u") $(stat -c %a "$T1/user-data/outputs/u")" 'upload 0 more 600'
run 'umask 077; echo own > /mnt/user-data/outputs/own'
is "and the box's by the gateway" "$(cat "$T1/user-data/outputs/own") $(stat -c %u "$T1/user-data/outputs/own")" \
    "own $(stat -c %u "$HOME_DIR")"
echo later > "$HOME_DIR/users/ann/skills_view/custom/later"
echo agent > "$T1/acp-workspace/a"
run 'cat /mnt/skills/custom/later /mnt/acp-workspace/a'
is 'what the gateway adds later is seen' "$OUT" $'later\nagent'
for path in /mnt/skills/public/x /mnt/skills/custom/x /mnt/skills/integrations/x /mnt/acp-workspace/x /mnt/data/x \
    /mnt/skills/public/pdf/SKILL.md; do
    run "echo x > $path"
    like "read-only: $path" "$CODE $ERR" '^[12] .*Read-only'
done
run 'ls -A /mnt/skills; cat /proc/self/mountinfo'
is 'no legacy skills unless asked for' "$(head -3 <<< "$OUT" | paste -sd' ')" 'custom integrations public'
box_use 0badcafe
run 'echo bob > /mnt/user-data/workspace/f'
is 'a sandbox without a thread has its own directory' \
    "$(cat "$HOME_DIR/users/bob/threads/0badcafe/user-data/workspace/f")" bob

# ---- extra mounts ----
refused() { # refused DETAIL MOUNTS
    provision 2badcafe ann x "\"extra_mounts\":$2"
    is "400: $1" "$STATUS $(j .detail)" "400 $1"
}
mount_of() { printf '{"host_path":"%s","container_path":"%s","read_only":%s}' "$1" "$2" "${3:-false}"; }
refused 'Too many extra mounts; max is 10' \
    "[$(for i in 1 2 3 4 5 6 7 8 9 10 11; do mount_of "$HOME_DIR/$i" /mnt/acp-workspace; done | sed 's/}{/},{/g')]"
refused 'Extra mount host path must be absolute: users/ann' "[$(mount_of users/ann /mnt/acp-workspace)]"
refused "Extra mount host path is outside DeerFlow state: $WORK/outside" \
    "[$(mount_of "$WORK/outside" /mnt/acp-workspace)]"
refused "Extra mount host path is outside DeerFlow state: $HOME_DIR-2/x" \
    "[$(mount_of "$HOME_DIR-2/x" /mnt/acp-workspace)]"
refused "Extra mount host path is outside DeerFlow state: $HOME_DIR/../outside" \
    "[$(mount_of "$HOME_DIR/../outside" /mnt/acp-workspace)]"
refused "Extra mount host path is outside DeerFlow state: $HOME_DIR" "[$(mount_of "$HOME_DIR" /mnt/acp-workspace)]"
refused "Extra mount host path belongs to another user: $HOME_DIR/users/bob/x" \
    "[$(mount_of "$HOME_DIR/users/bob/x" /mnt/acp-workspace)]"
refused "Extra mount host path belongs to another user: $HOME_DIR/users/annabel" \
    "[$(mount_of "$HOME_DIR/users/annabel" /mnt/acp-workspace)]"
refused "Extra mount host path belongs to another user: $HOME_DIR/users" \
    "[$(mount_of "$HOME_DIR/users" /mnt/integrations/lark-cli/data)]"
refused 'Extra mount path must be absolute: mnt/x' "[$(mount_of "$HOME_DIR/x" mnt/x)]"
refused 'Unsupported extra mount path: /etc' "[$(mount_of "$HOME_DIR/x" /etc)]"
refused 'Unsupported extra mount path: /mnt/acp-workspace/../x' "[$(mount_of "$HOME_DIR/x" /mnt/acp-workspace/../x)]"
refused 'Duplicate extra mount path: /mnt/acp-workspace' \
    "[$(mount_of "$HOME_DIR/x" /mnt/acp-workspace),$(mount_of "$HOME_DIR/y" /mnt/acp-workspace)]"
api GET /api/sandboxes/2badcafe
is 'nothing was made' "$STATUS" 404
ln -s "$WORK/outside" "$HOME_DIR/users/ann/link"
provision 2badcafe ann x "\"extra_mounts\":[$(mount_of "$HOME_DIR/users/ann/link" /mnt/acp-workspace)]"
like 'a link leads nowhere' "$STATUS $(j .detail)" '^403 .*passes a link'
LARK=$HOME_DIR/users/ann/integrations/lark-cli
mkdir -p "$LARK/config/locks" "$LARK/data" "$HOME_DIR/own-acp"
echo conf > "$LARK/config/c"
provision 2badcafe ann x \
    "\"include_legacy_skills\":true,\"extra_mounts\":[$(mount_of "$LARK/config" /mnt/integrations/lark-cli/config \
    true),$(
    mount_of "$LARK/config/locks" /mnt/integrations/lark-cli/config/locks),$(mount_of "$LARK/data" \
        /mnt/integrations/lark-cli/data),$(
    mount_of "$HOME_DIR/own-acp" /mnt/acp-workspace),$(mount_of \
        "$HOME_DIR/users/ann/threads/x/user-data/.upload-conversions" /mnt/user-data/.upload-conversions true)]"
is 'extra mounts' "$STATUS" 200
box_use 2badcafe
echo other > "$HOME_DIR/own-acp/a"
run 'cd /mnt/integrations/lark-cli && cat config/c ../../acp-workspace/a && echo l > config/locks/l && echo d > '\
'data/d && ls -d /mnt/skills/legacy /mnt/user-data/.upload-conversions'
is 'are where they were asked for, instead of the usual one' \
    "$OUT $CODE $(cat "$LARK/config/locks/l" "$LARK/data/d" | paste -sd' ')" \
    $'conf\nother\n/mnt/skills/legacy\n/mnt/user-data/.upload-conversions 0 l d'
run 'echo x > /mnt/integrations/lark-cli/config/x; echo x > /mnt/acp-workspace/x; echo x > '\
'/mnt/user-data/.upload-conversions/x'
is 'and some of them can only be read, whatever was asked' "$(grep -c 'Read-only' <<< "$ERR")" 3
run 'ln -s /etc /mnt/user-data/out; rm -rf /mnt/user-data/workspace; ln -s /etc /mnt/user-data/workspace'
api DELETE /api/sandboxes/2badcafe
provision 2badcafe ann x
run 'readlink /mnt/user-data/workspace'
is 'a link in the place of a directory stays what it is, and is no way out' "$STATUS $OUT" '200 /etc'

# ---- dead, idle, deleted ----
box_use "$A"
run 'echo kept > /workspace/kept; cp /bin/true /tmp/t'
kill -9 "$(runner_of "$A")"
died() { api GET "/v1/boxes/$A" && [ "$(j .died)" != null ]; }
eventually 10 died
api GET "/api/sandboxes/$A"
is 'one whose processes were killed would be served, and is told so' "$STATUS $(j .status)" '200 Running'
api GET "$B"
is 'telling starts nothing' "$(j .running)" false
provision "$A" ann t1
run 'cat /workspace/kept /mnt/user-data/workspace/w'
is 'provisioned again it goes on with its files' "$STATUS $OUT" $'200 kept\nmade'
curl -sS --max-time 60 --unix-socket "$SOCKET" "http://localhost$B/exec" \
    -d '{"command":"echo begun > /mnt/user-data/outputs/begun; sleep 1000"}' > "$WORK/exec" &
EXEC=$!
eventually 10 test -e "$T1/user-data/outputs/begun"
api DELETE "/api/sandboxes/$A"
is 'deleted while a command runs' "$STATUS $BODY" "200 {\"ok\":true,\"sandbox_id\":\"$A\"}"
wait "$EXEC"
is 'whose caller is told at once' $? 0
like 'and why' "$(cat "$WORK/exec")" 'the box was deleted'
is "the thread's files stay" "$(cat "$T1/user-data/workspace/w")" made
api GET "/api/sandboxes/$A"
is 'it is gone' "$STATUS $(j .detail)" "404 Sandbox '$A' not found"
api DELETE "/api/sandboxes/$A"
is 'deleted again' "$STATUS $(j .ok)" '200 true'
api DELETE '/api/sandboxes/no%20id%22'
is 'what never was can be deleted, too' "$STATUS $(j .sandbox_id)" '200 no id"'
provision "$A" ann t1
api GET "/api/reconciliation/sandboxes/$A"
isnt 'made anew it is another one' "$(j .incarnation_id)" "$FIRST_LIFE"
run 'cat /mnt/user-data/workspace/w; ls /workspace'
is "with the thread's files, and none of the old one's own" "$OUT" made
stop_daemon

# ---- keys ----
with_key() { # with_key KEY METHOD PATH [BODY]
    api "$2" "$3" "${4-}" -H "X-API-Key: $1"
}
mkdir -p "$HOME_DIR"
cat > "$CONFIG" << END
deerflow_home: $HOME_DIR
deerflow_api_key_file: $WORK/key
deerflow_url: https://boxes.example/cubby/
END
rm -rf "$STATE"
start_daemon "$DAEMON" || fail 'a daemon with a key' "$(tail -5 "$WORK/daemon.log")"
for path in /api/sandboxes /api/capabilities /api/sandboxes/0badcafe /api/reconciliation/sandboxes/0badcafe; do
    api GET $path
    is "no key: $path" "$STATUS $(j .detail)" '401 Unauthorized: X-API-Key is missing or wrong'
    for key in x "$KEY-" "${KEY%?}" "${KEY^^}"; do
        with_key "$key" GET $path
        is "a wrong key: $key" "$STATUS" 401
    done
done
with_key '' POST /api/sandboxes '{"sandbox_id":"0badcafe"}'
is 'an empty one' "$STATUS" 401
with_key x DELETE /api/sandboxes/0badcafe
is 'nor to delete' "$STATUS" 401
with_key "$KEY" POST /api/sandboxes '{"sandbox_id":"0badcafe"}'
is 'the key; the URL is the configured one' "$STATUS $(j .sandbox_url | keyless)" \
    '200 https://boxes.example/cubby/aio/0badcafe'
api GET /health
is 'health needs none' "$STATUS" 200
api GET /v1/boxes
is 'the key is of that door alone: others are as ever' "$STATUS" 200
not_ok 'no log has the key' grep -qF "$KEY" "$WORK/daemon.log"
not_ok 'nor the audit log' sh -c "cat '$STATE'/audit.db* | grep -aqF '$KEY'"
stop_daemon
write_tokens "$CONFIG"
rm -rf "$STATE"
start_daemon "$DAEMON" || fail 'a daemon with tokens' "$(tail -5 "$WORK/daemon.log")"
api GET /api/sandboxes
is 'where tokens are demanded one is' "$STATUS" 401
like 'told so' "$(j .detail)" '^Unauthorized: '
with_key wrong GET /api/sandboxes
is 'a key that is no token' "$STATUS" 401
with_key ann-token-0123456789abcdef00 GET /api/sandboxes
is "a user's token" "$STATUS" 403
with_key admin-token-0123456789abcdef POST /api/sandboxes '{"sandbox_id":"0badcafe"}'
like "an admin's token is a key; the URL has one of its own" "$STATUS $(j .sandbox_url)" \
    '^200 http://localhost/aio/0badcafe~[0-9a-f]{32}$'
as ann POST /v1/boxes '{"labels":{"provisioner":"deerflow"}}'
is_error "a user's box cannot pass for a provisioned one" 403 DENIED 'provisioner=deerflow'
as ann POST /v1/boxes '{"labels":{"provisioner":"mine"}}'
is 'other labels are free' "$STATUS" 201
as admin DELETE "/v1/boxes/$(j .id)"
with_key admin-token-0123456789abcdef GET /api/sandboxes
is 'the list has what was provisioned' "$STATUS $(j '[.sandboxes[].sandbox_id]|join(" ")')" '200 0badcafe'
box_use 0badcafe
as admin POST "$B/exec" \
    '{"command":"cd /mnt/user-data/workspace && echo x > f && ls -d /mnt/user-data/* /mnt/acp-workspace /mnt/skills/*"}'
is 'without a home the directories are the box'"'"'s own' "$(j .stdout)" \
    $'/mnt/acp-workspace\n/mnt/skills/custom\n/mnt/skills/integrations\n/mnt/skills/public\n/mnt/user-data/outputs\n'\
$'/mnt/user-data/uploads\n/mnt/user-data/workspace'
with_key admin-token-0123456789abcdef POST /api/sandboxes \
    "{\"sandbox_id\":\"1badcafe\",\"extra_mounts\":[$(mount_of "$WORK/outside" /mnt/acp-workspace)]}"
as admin POST /v1/boxes/1badcafe/exec '{"command":"ls -A /mnt/acp-workspace"}'
is 'and nothing of the host is mounted' "$STATUS $(j .stdout)" '200 '
as admin DELETE /v1/boxes/1badcafe
as admin DELETE /v1/boxes/0badcafe
kill -TERM "$DAEMON_PID"
wait "$DAEMON_PID"
is 'the daemon ends in order' $? 0
DAEMON_PID=

# ---- configurations ----
wrong() { # wrong REGEX LINE...
    printf '%s\n' "${@:2}" > "$WORK/wrong.yaml"
    like "refused: $2" "$("$DAEMON" --config "$WORK/wrong.yaml" --check 2>&1)" "$1"
}
wrong 'deerflow_home .* must be an absolute path' 'deerflow_home: .deer-flow'
wrong 'deerflow_home .* must be an absolute path' 'deerflow_home: /srv/../x'
wrong 'deerflow_home: .*No such file' 'deerflow_home: /nonexistent/deer-flow'
wrong 'deerflow_mounts: .*No such file' 'deerflow_mounts: [{source: /nonexistent/x, target: /mnt/x}]'
wrong 'deerflow_url must begin' 'deerflow_url: cubby:7070'
wrong 'unknown backend' 'deerflow_backend: kubernetes'
wrong 'deerflow_network must be one of none\|open' 'deerflow_network: host'
wrong 'give one of them' 'deerflow_api_key: x' "deerflow_api_key_file: $WORK/key"
wrong 'No such file' "deerflow_api_key_file: $WORK/none"
wrong 'printable' 'deerflow_api_key: "a b"'
chmod 666 "$WORK/key"
wrong 'only its owner can write' "deerflow_api_key_file: $WORK/key"
wrong 'is given twice' 'deerflow_mounts: [{source: /srv, target: /mnt/x}, {source: /opt, target: /mnt/x}]'
wrong 'is not set' 'deerflow_api_key: ${NO_SUCH_VARIABLE}'
finish
