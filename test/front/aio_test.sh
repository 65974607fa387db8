#!/bin/bash
# The core of the AIO dialect: envelope and refusals, 422, keys of boxes and other ways to say who asks, the ready
# check, boxes
# that wake, MCP, and what there is not. Its groups have tests of their own.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
write_tokens "$CONFIG"
DAEMON=$BUILD/asan/cubbyd
[ -x "$DAEMON" ] || DAEMON=$BUILD/cubbyd
POOL_SIZE=1
start_or_end "$DAEMON"
as ann POST /v1/boxes '{"thread":"t","idle_timeout_ms":0}'
BOX=$(j .id)
A=/aio/$BOX
refused() { # refused NAME STATUS [REGEX]: in the envelope
    is "$1" "$STATUS $(j -c '[.success, .data, .hint]')" "$2 [false,null,null]"
    [ $# -lt 3 ] || like "$1: the sentence" "$(j .message)" "$3"
}

# ---- the envelope, of refusals too ----
as ann GET "$A/v1/sandbox"
is 'an answer is the envelope' "$STATUS $(j -c '[.success, .message, .hint]')" '200 [true,"Operation successful",null]'
as ann GET "$A/v1/nothing"
is 'no such route: as its server says it' "$STATUS $(j -c .)" '404 {"detail":"Not Found"}'
as ann PUT "$A/v1/sandbox"
is 'another method' "$STATUS $(j -c .)" '405 {"detail":"Method Not Allowed"}'
as ann GET /aio/0123456789abcdef/v1/sandbox
refused 'no such box' 404 'no box'
as bob GET "$A/v1/sandbox"
is "somebody else's box answers as none" "$STATUS $(j -c '[.success,.data,.hint]') $(j .message)" \
    "404 [false,null,null] no box '$BOX'"
as ann GET "/aio/NOT-AN-ID/v1/sandbox"
refused 'what cannot be an id' 404

# ---- bodies ----
read_file() { as ann POST "$A/v1/file/read" "$1"; }
as ann POST "$A/v1/file/write" '{"file":"/tmp/hi","content":"hi"}'
read_file '{}'
is 'a missing member' "$STATUS $(j -c .)" \
    '422 {"detail":[{"loc":["body","file"],"msg":"Field required","type":"missing"}]}'
read_file ''
is 'no body at all' "$STATUS $(j -c .detail[0].loc)" '422 ["body","file"]'
read_file 'null'
is 'null' "$STATUS $(j -c .detail[0].type)" '422 missing'
read_file '{"file":null}'
is 'a member that is null is not there' "$STATUS $(j .detail[0].type)" '422 missing'
read_file '{"file":7}'
is 'a number for a text' "$STATUS $(j -c .)" \
    '422 {"detail":[{"loc":["body","file"],"msg":"Input should be a valid string","type":"string_type"}]}'
read_file '{"file":""}'
is 'an empty text' "$STATUS $(j .detail[0].type)" '422 value_error'
read_file '["a"]'
is 'a list' "$STATUS $(j -c '[.detail[0].loc, .detail[0].type]')" '422 [["body"],"model_attributes_type"]'
read_file '{"file":'
is 'no JSON' "$STATUS $(j -c '[.detail[0].loc, .detail[0].type]')" '422 [["body"],"json_invalid"]'
read_file "{\"file\":$(printf '[%.0s' {1..40})$(printf ']%.0s' {1..40})}"
is 'JSON that is nested too deep' "$STATUS $(j .detail[0].type)" '422 json_invalid'
read_file '{"file":["secret-of-mine"]}'
unlike 'a refusal repeats no value' "$BODY" secret-of-mine
as ann POST "$A/v1/file/write" '{"file":"/workspace/q","content":"","encoding":"secret-of-mine"}'
is 'nor of a word that is none of those there are' "$STATUS $(j .detail[0].msg)" \
    '422 Input should be one of utf-8|base64|raw'
read_file '{"file":"/tmp/hi","later_member":{"a":[1]},"other":null}'
is 'members that nobody knows are nobody'\''s fault' "$STATUS $(j .data.content)" '200 hi'
api POST "$A/v1/file/read?stray=1" '{"file":"/tmp/hi"}' -H 'Authorization: Bearer ann-token-0123456789abcdef00'
is 'nor are parameters' "$STATUS" 200

# ---- who asks ----
api GET "$A/v1/sandbox"
refused 'nobody' 401 'token'
api GET "$A/v1/sandbox" '' -H 'X-AIO-API-Key: ann-token-0123456789abcdef00'
is 'a token in its header' "$STATUS" 200
api GET "$A/v1/sandbox?api_key=ann-token-0123456789abcdef00"
is 'a token as its parameter' "$STATUS" 200
api GET "$A/v1/sandbox" '' -H 'X-AIO-API-Key: wrong'
refused 'a wrong one' 401
api GET "$A/v1/sandbox?api_key=wrong" '' -H 'Authorization: Bearer ann-token-0123456789abcdef00'
is 'Authorization comes first' "$STATUS" 200
api GET "$A/v1/sandbox" '' -H 'X-AIO-API-Key: bob-token-0123456789abcdef00'
refused "somebody else's" 404
api POST "$A/v1/file/write" '{"file":"/tmp/hi","content":"hi"}' -H 'X-AIO-API-Key: eye-token-0123456789abcdef00'
refused 'one that may only read' 403 'only read'
not_ok 'no token is in the log' grep -qE '(ann|bob|eye)-token' "$WORK/daemon.log"

# ---- the key of a box ----
is 'the secret is closed to others' "$(stat -c '%a %u %s' "$STATE/aio-key")" "600 $(id -u) 65"
# digits TEXT: what is made of a text with the secret; key_of ID: the key of a box
digits() { python3 -c \
    'import hmac,sys; print(hmac.new(open(sys.argv[1],"rb").read(64), '\
'sys.argv[2].encode(), "sha256").hexdigest()[:32])' "$STATE/aio-key" "$1"; }
made_ms() { jq -r .created_ms "$STATE/boxes/$1/box.json"; }
key_of() { digits "box $1 $(made_ms "$1")"; }
KEY=$(key_of "$BOX")
api GET "$A~$KEY/v1/sandbox"
is 'the key of a box stands for a token' "$STATUS" 200
api POST "$A~$KEY/v1/file/write" '{"file":"/tmp/hi","content":"hi"}'
is 'for writing, too' "$STATUS" 200
for wrong in '' 0 "${KEY:0:31}" "${KEY}0" "${KEY:0:31}g" "${KEY^^}x" "0${KEY:1}"; do
    [ "$wrong" != "$KEY" ] || wrong=1${KEY:1}
    api GET "$A~$wrong/v1/sandbox"
    refused "not the key: '${wrong:0:40}'" 401
done
as ann GET "$A~00000000000000000000000000000000/v1/sandbox"
refused 'a wrong key beside a good token' 401
api GET "$A~$KEY/v1/sandbox" '' -H 'Authorization: Bearer wrong'
refused 'a wrong token beside a good key' 401
as bob GET "$A~$KEY/v1/sandbox"
refused "a good key beside the token of somebody else" 404
as ann POST /v1/boxes '{"thread":"u"}'
OTHER=$(j .id)
api GET "/aio/$OTHER~$KEY/v1/sandbox"
refused "the key of another box, of the same user" 401
api GET "/v1/boxes/$BOX~$KEY"
is 'other doors know no keys' "$STATUS" 401
as ann POST /v1/boxes '{"thread":"v"}'
AGAIN=$(j .id) OLD=$(key_of "$(j .id)")
api GET "/aio/$AGAIN~$OLD/v1/sandbox"
is 'a key' "$STATUS" 200
as ann POST "/aio/$AGAIN/tickets"
TICKET=$(j .ticket)
as ann DELETE "/v1/boxes/$AGAIN"
api GET "/aio/$AGAIN~$OLD/v1/sandbox"
refused 'of a deleted box opens nothing' 404
as ann POST /v1/boxes '{"thread":"v"}'
is 'a box that is made again has the same id' "$STATUS $(j .id)" "201 $AGAIN"
api GET "/aio/$AGAIN~$OLD/v1/sandbox"
refused 'but another key' 401 'ask for its URL again'
api GET "/aio/$AGAIN/v1/sandbox?ticket=$TICKET"
refused 'and other tickets' 401
api GET "/aio/$AGAIN~$(key_of "$AGAIN")/v1/sandbox"
is 'which is good' "$STATUS" 200
as ann DELETE "/v1/boxes/$AGAIN"
not_ok 'no key is in the log' grep -qF "$KEY" "$WORK/daemon.log"
ok 'though the request is' grep -qF "$A~.../v1/sandbox 200" "$WORK/daemon.log"
not_ok 'nor in the audit log' sh -c "cat '$STATE'/audit.db* | grep -aqF '$KEY'"
as admin GET '/v1/audit?user=ann&limit=1000'
is 'what came with the key is the owner'\''s' \
    "$(j '[.events // .rows | .[] | select(.verb == "aio_file_write")] | length > 0')" true

# ---- tickets ----
as ann POST "$A/tickets"
is 'a ticket' "$STATUS $(j .expires_in)" '200 30'
TICKET=$(j .ticket)
api GET "$A/v1/sandbox?ticket=$TICKET"
is 'lets in' "$STATUS" 200
api GET "/aio/$OTHER/v1/sandbox?ticket=$TICKET"
refused 'to its box only' 401
api GET "$A/v1/sandbox?ticket=$((${TICKET%%-*} + 60000))-${TICKET#*-}"
refused 'for no longer than it says' 401
old=1000-$(digits "ticket $BOX $(made_ms "$BOX") 1000")
api GET "$A/v1/sandbox?ticket=$old"
refused 'one whose time is over' 401 'has expired'
api POST "$A/tickets"
refused 'tickets are for those who are let in' 401
api POST "$A/tickets" '' -H 'X-AIO-API-Key: eye-token-0123456789abcdef00'
refused 'and may write' 403
as ann GET "$A/auth"
is 'whether one is let in' "$STATUS" 200
api GET "$A/auth"
refused 'or not' 401

# ---- the ready check ----
as ann GET "$A/v1/sandbox"
is 'what its clients demand is there' \
    "$(j '[.home_dir, .version, .data, (.detail.system | .os, .os_version, .arch, .user, .home_dir, .timezone)] | '\
'all(type == "string" and length > 0)')" true
is 'and the lists' "$(j \
    '[.detail.runtime.python, .detail.runtime.nodejs, .detail.utils, .detail.system.occupied_ports] | all(type '\
'== "array")')" true
B=/v1/boxes/$BOX
as ann POST "$B/exec" \
    '{"command":"printf %s\\\\n \"$HOME\" \"$(id -un)\" \"$(uname -m)\" \"$(. /etc/os-release; echo $PRETTY_NAME)\"; '\
'readlink -f /usr/bin/python3"}'
TRUE=$(j .stdout)
as ann GET "$A/v1/sandbox"
is 'it is true' "$(j '.home_dir, .detail.system.user, .detail.system.arch, .detail.system.os_version, '\
'(.detail.runtime.python[0] | "/usr/bin/python" + .ver)')" "$TRUE"
as ann POST "$B/processes" \
    '{"command":"exec python3 -c \"import socket,time; s=socket.socket(); s.bind((\\\"127.0.0.1\\\",4711)); '\
's.listen(); time.sleep(1000)\""}'
PID=$(j .pid)
listens() {
    as ann GET "$A/v1/sandbox"
    [ "$(j -c .detail.system.occupied_ports)" = '["4711"]' ]
}
ok 'a server in the box has its port told' eventually 20 listens
as ann POST "$B/exec" \
    '{"command":"cd /etc && rm -f os-release timezone && mkfifo os-release && printf \"%s\" \"a:x:1000:1\" > '\
'passwd","user":"root"}'
as ann GET "$A/v1/sandbox"
is 'files of a box that are not what they should be change nothing but what is told' \
    "$STATUS $(j .detail.system.os_version)" "200 $(sed -n 4p <<< "$TRUE")"
as ann POST "$B/exec" \
    '{"command":"printf \"PRETTY_NAME=\\\"a\\033[31m\\nb\" > /usr/lib/os-release; ln -sf /dev/zero '\
'/etc/timezone","user":"root"}'
as ann GET "$A/v1/sandbox"
unlike 'nothing of it disturbs a terminal' "$(j -r '.detail.system | .os_version, .timezone')" $'\e'
is 'and it is ready all the same' "$STATUS" 200

# ---- a box that died is started again by whoever calls it ----
as ann POST "$B/exec" '{"command":"echo kept > /workspace/f"}'
as admin POST "$B/pause"
as admin POST "$B/resume"
RUNNER=$(runner_of "$BOX" | head -1)
kill -KILL "$RUNNER"
ok 'a box can be killed' eventually 20 test ! -d "/proc/$RUNNER"
as ann GET "$A/v1/sandbox"
is 'a box whose processes were killed wakes' "$STATUS" 200
read_file '{"file":"/workspace/f"}'
is 'with its files' "$STATUS $(j .data.content)" '200 kept'

as ann POST "$A/v1/bash/exec" '{"command":"nohup sleep 4711 > /dev/null 2>&1 & echo x"}'
as ann POST "$B/snapshots" '{"name":"left"}'
is 'what a command left running is there for a snapshot' "$STATUS" 201
as ann POST "$B/exec" '{"command":"pgrep -fx \"sleep 4711\" | wc -l"}'
is 'and lives on after it' "$(j .stdout)" 1
as ann POST "$B/exec" '{"command":"pkill -fx \"sleep 4711\""}'
as ann DELETE "$B/snapshots/left"

# ---- MCP ----
as ann GET "$A/v1/mcp/servers"
is 'the MCP servers' "$STATUS $(j -c .data)" '200 ["cubby"]'
as ann GET "$A/v1/mcp/cubby/tools"
is 'their tools have schemas' \
    "$(j '[.data.tools[] | .inputSchema.type == "object" and (.description | length > 0)] | all')" true
is 'and are those of the native door' "$(j '[.data.tools[].name] | sort | join(" ")')" \
    "$("$DAEMON" --tools | jq -r '[.[].name] | sort | join(" ")')"
as ann GET "$A/v1/mcp/nothing/tools"
refused 'no such server' 404
as ann POST "$A/v1/mcp/cubby/tools/bash" '{"command":"echo $((6*7)); cat f"}'
is 'a call' "$STATUS $(j -c '[.data.content[0].text, .data.isError]')" '200 ["42\nkept\n",null]'
as ann POST "$A/v1/mcp/cubby/tools/read_file" '{"path":"/nothing"}'
is 'what went wrong for a model is its answer' "$STATUS $(j .success) $(j .data.isError)" '200 true true'
as ann POST "$A/v1/mcp/cubby/tools/nothing" '{}'
refused 'no such tool' 404
say() { api POST "$A~$KEY/$1" "$2" -H 'Accept: application/json, text/event-stream' "${@:3}"; }
say mcp '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}'\
',"clientInfo":{"name":"t","version":"1"}}}'
is 'the protocol itself, at the box' "$STATUS $(j .result.serverInfo.name)" '200 cubby'
SESSION=$(header mcp-session-id)
say v1/mcp '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"bash","arguments":{"command":"cat '\
'/workspace/f"}}}' -H "Mcp-Session-Id: $SESSION"
is 'works in that box' "$(j .result.content[0].text)" kept
say mcp '{"jsonrpc":"2.0","id":3,"method":"resources/list"}' -H "Mcp-Session-Id: $SESSION"
is 'whose files are the resources' "$(j -c '[.result.resources[].uri]')" '["file:///workspace/f"]'
as admin GET '/v1/boxes?user=ann'
is 'and no other box was made' "$(j '.boxes | length')" 2
# servers of the same user, in this box, in its thread, and in another box that holds something else
serve() { as ann PUT "/v1/mcp/servers/$1" \
    "$(jq -nc --arg source "$(< test/lib/mcp_server.py)" --argjson more "{$2}" \
    '{command: "python3", args: ["-c", $source]} + $more')"; }
serve here ''
serve fixed '"thread":"t"'
serve private '"thread":"u"'
where() { api POST "/aio/$1/v1/mcp/cubby/tools/$2__echo" '{"text":"reached"}' "${@:3}" &&
    j -c '[.data.content[0].text, .data.isError]'; }
for server in here fixed; do is "with the key: an MCP server of this box ($server)" "$(where "$BOX~$KEY" $server)" \
    '["reached",null]'; done
like 'not one that runs in another box of its user' "$(where "$BOX~$KEY" private)" 'gives access to that box only.*,'\
'true\]$'
as ann POST "$A/tickets"
like 'nor with a ticket' \
    "$(api POST "$A/v1/mcp/cubby/tools/private__echo?ticket=$(j .ticket)" '{"text":"reached"}' &&
    j .data.content[0].text)" 'gives access to that box only'
say mcp '{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"private__echo","arguments":'\
'{"text":"reached"}}}' -H "Mcp-Session-Id: $SESSION"
like 'nor by the protocol itself' "$(j .result.content[0].text)" 'gives access to that box only'
api GET "$A~$KEY/v1/mcp/cubby/tools"
is 'and it is not offered' "$(j -c '[.data.tools[].name | select(endswith("__echo"))] | sort')" \
    '["fixed__echo","here__echo"]'
is 'the token of the user reaches it' \
    "$(where "$BOX" private -H 'Authorization: Bearer ann-token-0123456789abcdef00')" '["reached",null]'
is 'and so does the key of its own box' "$(where "$OTHER~$(key_of "$OTHER")" private)" '["reached",null]'
for server in here fixed private; do as ann DELETE "/v1/mcp/servers/$server"; done

# ---- interpreters ----
# javascript BODY: a piece of it is run; told: how that went
javascript() { as ann POST "$A/v1/nodejs/execute" "$1"; }
told() { j -c '.data | [.status, .exit_code, .stdout, .outputs[-1].output_type, .outputs[-1].ename // '\
'.outputs[-1].data["text/plain"]]'; }
as ann POST "$A/v1/jupyter/execute" '{"code":"class X:\n  def _repr_json_(self): return {\"a\":[1]}\nX()"}'
is 'a value in several forms, JSON as JSON' \
    "$(j -c '.data.outputs[0] | [.output_type, .execution_count, .data["application/json"]]')" \
    '["execute_result",1,{"a":[1]}]'
as ann POST "$A/v1/jupyter/execute" '{"code":"import os; os._exit(3)","session_id":"dies"}'
is 'code that ends its session is answered' \
    "$(j -c '.data | [.status, .execution_count, .outputs[0].ename]') $(j .data.outputs[0].evalue |
    grep -c 'exit code 3')" \
    '["error",null,"DeadKernelError"] 1'
as ann DELETE "$A/v1/jupyter/sessions/dies"
refused 'which is gone' 404 'Session not found'
as ann GET "$A/v1/code/info"
if [ "$(j '[.data.languages[].language] | index("javascript")')" = null ]; then
    skip 'JavaScript' 'the boxes of this machine have no node'
else
    javascript '{"code":"process.stdin.pipe(process.stdout)","stdin":"abc"}'
    is 'a program reads its input' "$(told)" '["ok",0,"abc","stream",null]'
    javascript '{"code":"null.x"}'
    is "a program's uncaught error is an output" "$(told)" '["error",1,"","error","TypeError"]'
    javascript '{"code":"var a = 6 * 7; a","session_id":"n1"}'
    is 'a session answers with the value' "$(told)" '["ok",0,"","execute_result","42"]'
    javascript '{"code":"a + 1","session_id":"n1"}'
    is 'and keeps its names' "$(told) $(j .data.execution_count)" '["ok",0,"","execute_result","43"] 2'
    javascript '{"code":"1","version":"3"}'
    refused 'another version than there is' 400 'this box has Node.js'
    as ann PATCH "$A/v1/nodejs/sessions/n1" '{"max_idle_time":100,"cwd":"/tmp"}'
    is 'a session is changed' "$(j -c '.data.session | [.session_id, .cwd, .max_idle_time, .state]')" \
        '["n1","/tmp",100,"idle"]'
    as ann GET "$A/v1/nodejs/sessions"
    is 'and listed' "$(j -c '.data.sessions | keys')" '["n1"]'
    as ann DELETE "$A/v1/nodejs/sessions/n1"
    is 'and ended' "$STATUS $(j -c .data)" '200 {"deleted":true}'
    as ann GET "$A/v1/nodejs/info"
    is 'what there is' "$(j \
        '.data | (.node_version | startswith("v")) and .current_version == .node_version and (.global_packages | type '\
'== "array")')" true
fi

# ---- what there is not ----
for row in 'GET v1/browser/info' 'POST v1/browser/page/navigate' 'DELETE v1/browser/tabs/1' \
    'PUT v1/browser/tabs/1/activate' 'GET v1/browser/proxy.pac' \
    'GET v1/proxy/mappings' 'PUT v1/proxy/upstream' 'POST v1/display/record' 'POST v1/skills/register' \
    'DELETE v1/skills' 'GET v1/skills/x/content' \
    'GET v1/sandbox/observe/status' 'DELETE v1/sandbox/observe/reports/x' 'POST v1/util/convert_to_markdown' \
    'GET v1/sandbox/hooks' 'DELETE v1/sandbox/hooks/x'; do
    as ann "${row%% *}" "$A/${row##* }"
    is "not here: $row" "$STATUS $(j .success) $(j '.message | length > 20')" '501 false true'
done
api GET "$A/v1/browser/info"
refused 'which is for those who are let in' 401

# ---- the manual ----
undescribed() { "$DAEMON" --routes | awk -F'\t' '$3 ~ /^aio_/ { print $1 " " $2 }' |
    grep -vxFf <(sed -n 's/^\.It Pa //p' man/cubby-aio.7); }
is 'cubby-aio(7) has every route' "$(undescribed)" ''
gone() { sed -n 's/^\.It Pa //p' man/cubby-aio.7 | grep \
    -vxFf <("$DAEMON" --routes | awk -F'\t' '{ print $1 " " $2 }'); }
is 'and no other' "$(gone)" ''
finish
