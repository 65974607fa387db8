# MCP over HTTP, what reaches a box: tools, progress, cancellation that kills, files as resources. The reference clients
# have a
# test of their own (test/front/mcp_test.sh), the protocol itself is run/mcp_wire.sh.
# backends: jail

. test/lib/mcp.sh
begin
FIRST_SESSION=$SESSION

# ---- calls ----

rpc tools/call '{"name":"write_file","arguments":{"path":"/workspace/a b.txt","content":"hello\n"}}' 1 \
    -H 'Cubby-Thread: mcp-test'
is 'a tool runs' "$STATUS $(m '.result.isError // false')" '200 false'
rpc tools/call '{"name":"bash","arguments":{"command":"cat \"a b.txt\"; exit 3"}}' 7 -H 'Cubby-Thread: mcp-test'
like 'its text' "$(m '.result.content[0].text')" '^hello'
is 'beside it what a program reads' "$(m .result.structuredContent.exit_code)" 3
is 'where the text stands too' "$(m '.result.structuredContent.text == .result.content[0].text')" true
rpc tools/call '{"name":"bash","arguments":{"command":"cat a*"},"_meta":{"cubby/thread":"mcp-other"}}'
like 'another thread is another box' "$(m '.result.content[0].text')" 'No such file'
rpc tools/call '{"name":"read_file","arguments":{"path":"/workspace/none"}}' 1 -H 'Cubby-Thread: mcp-test'
like 'what a model can mend is a result' "$(m '"\(.result.isError) \(.result.content[0].text)"')" '^true Error: '
rpc tools/call '{"name":"read_file","arguments":{"file":"x"}}'
like 'arguments that do not fit too, naming the field' "$(m '"\(.result.isError) \(.result.content[0].text)"')" \
    "^true Error: .*'file'"
rpc tools/call '{"name":"no_tool"}'
is_rpc_error 'a tool that is not there' 200 -32602 1 'no_tool'
rpc tools/call '{"name":"ls","arguments":[1]}'
is_rpc_error 'arguments that are no object' 200 -32602 1
rpc tools/call '{"name":"bash","arguments":{"command":"echo $KEY"},"_meta":{"cubby/secrets":{"KEY":"s3cret-value"}}}'
like 'a secret of the call stays one' "$(m '.result.content[0].text')" 'redacted'
unlike 'it is nowhere in the answer' "$BODY" 's3cret'
rpc tools/call '{"name":"ls","_meta":{"cubby/secrets":{"KEY":1}}}'
is_rpc_error 'a secret that is no text' 400 -32602 1 'cubby/secrets'
# 1x1 PNG
PNG=iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==
rpc tools/call '{"name":"bash","arguments":{"command":"printf %s '$PNG' | base64 -d > p.png"}}' 1 \
    -H 'Cubby-Thread: mcp-test'
rpc tools/call '{"name":"read_file","arguments":{"path":"p.png"}}' 1 -H 'Cubby-Thread: mcp-test'
is 'a picture is a picture' "$(m '.result.content[0]|"\(.type) \(.mimeType) \(.data)"')" "image image/png $PNG"

# What a command prints is text, whatever it says: it cannot end its event or answer for us.
FORGED=$(jq -nc --arg command \
    $'printf \'a\\n\\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\\r\\n\\n\\342\\200\\250\\033[31m\\377\'' \
    '{name: "bash", arguments: {command: $command}, _meta: {progressToken: 2}}')
rpc tools/call "$FORGED"
is 'forged events stay text' \
    "$(grep -c '^data: ' "$WORK/body") $(m '.result.content[0].text|contains("\n\ndata: {\"jsonrpc\"")')" \
    "$(grep -c '^event: ' "$WORK/body") true"
rpc tools/call '{"name":"bash","arguments":{"command":"head -c 50000000 /dev/zero | tr \"\\0\" x"}}'
between 'a huge result is bounded' "$(stat -c %s "$WORK/body")" 1000 200000

# ---- progress ----

STEPS='{"name":"bash","arguments":{"command":"for i in 1 2 3; do echo step $i; sleep 0.3; done"}'
rpc tools/call "$STEPS}"
is 'without a token the answer is plain JSON' "$(header content-type)" application/json
rpc tools/call "$STEPS,\"_meta\":{\"progressToken\":\"tok\"}}"
is 'with one it is a stream' "$(header content-type) $(header x-accel-buffering)" 'text/event-stream no'
sed -n 's/^data: //p' "$WORK/body" > "$WORK/events"
is 'which ends in the response' "$(tail -1 "$WORK/events" | jq -r '"\(.id) \(.result.structuredContent.exit_code)"')" \
    '1 0'
is 'before it only progress, counting up' \
    "$(head -n -1 "$WORK/events" | jq \
    -sr '(map(.method)|unique|join(" ")) + " " + (map(.params.progressToken)|unique|join(" ")) + " " +
        ((map(.params.progress)) as $p | ($p == ($p|sort|unique) and ($p|length) >= 2)|tostring)')" \
    'notifications/progress tok true'
like 'saying what happens' "$(jq -r '.params.message // empty' "$WORK/events")" 'step'
api POST /mcp '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'"$STEPS,\"_meta\":{\"progressToken\":1}}}" \
    -H "Mcp-Session-Id: $SESSION" -H 'Accept: application/json'
MESSAGE=$BODY
is 'a client that takes no stream gets plain JSON' "$(header content-type) $(m .result.structuredContent.exit_code)" \
    'application/json 0'

# ---- cancelling kills, the whole tree ----

tree() { # a command that starts a child, a grandchild and one in a session of its own, all with TAG
    tag_new
    TREE="{\"name\":\"bash\",\"arguments\":{\"command\":\"sh -c 'sleep $TAG & wait' & setsid sleep $TAG & echo begun; "\
"sleep $TAG\"}"
}
tree
start_long -H "Mcp-Session-Id: $SESSION" -d '{"jsonrpc":"2.0","id":"long","method":"tools/call","params":'"$TREE}}"
ok 'a command runs' tag_alive
rpc ping
is 'others are answered meanwhile' "$STATUS" 200
rpc tools/call '{"name":"ls"}' '"long"'
is_rpc_error 'the id of one that runs is not taken twice' 400 -32600 long
notify notifications/cancelled '{"requestId":"other"}'
notify notifications/cancelled '{"requestId":"long","reason":"enough"}'
is 'cancelling it is taken' "$STATUS" 202
ok 'nothing of its tree is left' eventually 10 tag_gone
wait "$PID"
is 'its request ends without a response' "$(< "$ASIDE.status") '$(< "$ASIDE")'" "202 ''"
tree
begin
start_long -H "Mcp-Session-Id: $SESSION" \
    -d '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":'"$TREE,\"_meta\":{\"progressToken\":1}}}"
api DELETE /mcp '' -H "Mcp-Session-Id: $SESSION"
ok 'the end of its session ends it too' eventually 10 tag_gone
wait "$PID"
SESSION=$FIRST_SESSION
tree
start_long -H "Mcp-Session-Id: $SESSION" -d '{"jsonrpc":"2.0","id":6,"method":"tools/call","params":'"$TREE}}"
kill "$PID"
wait "$PID" 2> /dev/null
rpc tools/call '{"name":"bash","arguments":{"command":"echo other"}}'
ok 'in the older era a command outlives its connection' tag_alive
notify notifications/cancelled '{"requestId":6}'
ok 'and is cancelled all the same' eventually 10 tag_gone
tree
start_long -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: bash' \
    -d '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":'"$TREE,\"_meta\":{$META}}}"
kill "$PID"
wait "$PID" 2> /dev/null
ok 'in the newer era hanging up cancels, and nothing is left' eventually 10 tag_gone

# ---- files as resources ----

rpc resources/list '{}' 1 -H 'Cubby-Thread: never-used'
is 'looking makes no box' "$STATUS $(m -c .result.resources)" '200 []'
api GET /v1/boxes
is 'none at all' "$(j '[.boxes[]|select(.thread=="never-used")]|length')" 0
rpc tools/call '{"name":"bash","arguments":{"command":"mkdir -p d node_modules; touch node_modules/x; for i in $(seq '\
'1 450); do echo $i > d/f$i; done; printf \"\\377\\0\" > bin; head -c 9000000 /dev/zero > big; printf x > '\
'\"d/caf$(printf \"\\351\")\"; ln -s /etc/passwd link"}}' 1 -H 'Cubby-Thread: mcp-test'
rpc resources/list '{}' 1 -H 'Cubby-Thread: mcp-test'
is 'a list has pages' "$(m '.result|"\(.resources|length) \(.nextCursor != null)"')" '200 true'
is 'names become addresses' "$(m -c '.result.resources[0]|[.uri,.name,.size]')" \
    '["file:///workspace/a%20b.txt","a b.txt",6]'
: > "$WORK/uris"
CURSOR=
while m -r '.result.resources[].uri' >> "$WORK/uris" && CURSOR=$(m '.result.nextCursor // empty') &&
    [ -n "$CURSOR" ]; do
    rpc resources/list "{\"cursor\":\"$CURSOR\"}" 1 -H 'Cubby-Thread: mcp-test'
done
is 'all of them, each once, without what is ignored and without links' \
    "$(sort -u "$WORK/uris" | wc -l) $(wc -l < "$WORK/uris") $(grep -c 'node_modules\|link' "$WORK/uris")" '455 455 0'
rpc resources/list '{"cursor":"!"}' 1 -H 'Cubby-Thread: mcp-test'
is_rpc_error 'a cursor nobody gave out' 200 -32602 1
rpc resources/templates/list
is 'how an address is made' "$(m '.result.resourceTemplates[0].uriTemplate')" 'file:///workspace/{+path}'
read_uri() { rpc resources/read "{\"uri\":\"$1\"}" 1 -H 'Cubby-Thread: mcp-test'; }
read_uri 'file:///workspace/a%20b.txt'
is 'a text' "$(m -c '.result.contents[0]|[.uri,.mimeType,.text]')" \
    '["file:///workspace/a%20b.txt","text/plain","hello\n"]'
read_uri 'file:///workspace/bin'
is 'what is no text, as base64' "$(m -c '.result.contents[0]|[.mimeType,.blob]')" '["application/octet-stream","/wA="]'
read_uri 'file:///workspace/d/caf%E9'
is 'any name can be asked for' "$(m '.result.contents[0].text')" x
read_uri 'file:///workspace/p.png'
is 'a picture has its type' "$(m '.result.contents[0].mimeType')" image/png
read_uri 'file:///workspace/big'
is_rpc_error 'more than 8 MiB is not a resource' 200 -32602 1 'read_file'
for uri in file:///workspace/none file:///etc/passwd file:///workspace/../etc/passwd \
    file:///workspace/%2e%2e/etc/passwd \
    file:///workspace/a%00b http://x/y file://host/workspace/bin 'file:///workspace/%zz' ''; do
    read_uri "$uri"
    is_rpc_error "no resource: '$uri'" 200 -32002 1
done
read_uri file:///workspace/d
is_rpc_error 'a directory is none' 200 -32602 1
rpc resources/read '{}'
is_rpc_error 'no address' 200 -32602 1
