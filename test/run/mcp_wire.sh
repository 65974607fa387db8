# MCP over HTTP, the protocol: sessions and whose they are, both eras, headers, and what hostile clients get.
# backends: jail

. test/lib/mcp.sh

# ---- the older era: initialize, sessions ----

begin
is 'initialize answers in plain JSON' "$STATUS $(header content-type)" '200 application/json'
like 'with a session that nobody guesses' "$SESSION" '^[0-9a-f]{32}$'
is 'the version asked for' "$(m .result.protocolVersion)" 2025-11-25
is 'tools and resources are offered' "$(m -c '.result.capabilities|keys')" '["resources","tools"]'
is 'who it is' "$(m .result.serverInfo.name)" cubby
notify notifications/initialized
is 'a notification is taken without a word' "$STATUS '$BODY'" "202 ''"
FIRST_SESSION=$SESSION
begin 2024-11-05
is 'an older version is spoken too' "$(m .result.protocolVersion)" 2024-11-05
begin 1999-01-01
is 'an unknown one: our newest of that era' "$(m .result.protocolVersion)" 2025-11-25
SESSION=$FIRST_SESSION
rpc initialize '{"protocolVersion":"2025-11-25"}' 9
is_rpc_error 'a second initialize is refused' 400 -32600 9 'already'
rpc ping
is 'ping' "$STATUS $(m -c .result)" '200 {}'
rpc ping '{}' '"a \u0001 \"string\""'
is 'an id that is a string comes back the same' "$(m .id)" $'a \001 "string"'
rpc tools/list
is 'the tools are those of REST, in their order' "$(m -c '[.result.tools[].name]')" \
    "$(api GET /v1/tools && j -c '[.tools[].name]')"
rpc tools/list '{"cursor":"x"}'
is_rpc_error 'a cursor nobody gave out' 200 -32602 1
rpc no/such
is_rpc_error 'a method that is not there' 200 -32601 1 "unknown method 'no/such'"
rpc server/discover
is_rpc_error 'discover is of the other era' 200 -32601 1

mcp '{"jsonrpc":"2.0","id":3,"method":"tools/list"}'
is_rpc_error 'without a session' 400 -32000 3 'Mcp-Session-Id'
mcp '{"jsonrpc":"2.0","id":3,"method":"tools/list"}' -H 'Mcp-Session-Id: 00000000000000000000000000000000'
is_rpc_error 'a session that is not there' 404 -32001 3
rpc ping '{}' 1 -H 'MCP-Protocol-Version: 1999-01-01'
is_rpc_error 'a version of the header that nobody speaks' 400 -32000 1
api DELETE /mcp
is 'DELETE without a session' "$STATUS" 400
begin
api DELETE /mcp '' -H "Mcp-Session-Id: $SESSION"
is 'DELETE ends a session' "$STATUS" 204
rpc ping
is_rpc_error 'which is not found afterwards' 404 -32001 1
api DELETE /mcp '' -H "Mcp-Session-Id: $SESSION"
is 'nor ended twice' "$STATUS" 404
api GET /mcp '' -H 'Accept: text/event-stream' -H "Mcp-Session-Id: $FIRST_SESSION"
is 'there is no stream of its own to GET' "$STATUS $(header allow)" '405 DELETE, POST'
mcp '{"jsonrpc":"2.0","id":4,"method":"initialize","params":{}}'
is_rpc_error 'initialize without a version' 200 -32602 4
is 'makes no session' "$(header mcp-session-id)" ''
SESSION=$FIRST_SESSION

# ---- the newer era ----

modern server/discover
is 'discover' "$STATUS $(m \
    -c '[.result.resultType,.result.supportedVersions,(.result.capabilities|keys),.result.cacheScope]')" \
    '200 ["complete",["2026-07-28"],["resources","tools"],"private"]'
is 'every result says who answers' "$(m '.result._meta["io.modelcontextprotocol/serverInfo"].name')" cubby
modern tools/list '' -H 'Mcp-Session-Id: nonsense'
is 'a session is not looked at' "$STATUS $(m '.result|"\(.tools|length > 5) \(.ttlMs >= 0)"')" '200 true true'
modern tools/call '"name":"bash","arguments":{"command":"echo hi"}'
is 'a call' "$(m '"\(.id) \(.result.resultType) \(.result.content[0].text)"')" 'm-1 complete hi'
for method in initialize ping logging/setLevel no/such; do
    modern $method
    is_rpc_error "$method is not of this era" 404 -32601 m-1
done
modern resources/read '"uri":"file:///workspace/none"'
is_rpc_error 'no such resource' 200 -32602 m-1
is 'which one' "$(m .error.data.uri)" file:///workspace/none
CALL='{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"ls","_meta":{'$META'}}}'
V='MCP-Protocol-Version: 2026-07-28'
mcp "$CALL" -H "$V" -H 'Mcp-Method: tools/call' -H 'Mcp-Name: =?base64?bHM=?='
is 'a name wrapped for a header' "$STATUS" 200
mcp "$CALL" -H "$V" -H 'Mcp-Method: tools/call' -H 'Mcp-Name: =?base64?!?='
is_rpc_error 'a wrapping that is none' 400 -32020 8
mcp "$CALL" -H "$V" -H 'Mcp-Method: tools/call' -H 'Mcp-Name: bash'
is_rpc_error 'another name' 400 -32020 8
mcp "$CALL" -H "$V" -H 'Mcp-Method: tools/call'
is_rpc_error 'no name' 400 -32020 8
mcp "$CALL" -H "$V" -H 'Mcp-Method: Tools/Call' -H 'Mcp-Name: ls'
is_rpc_error 'another method' 400 -32020 8
mcp "$CALL" -H "$V" -H 'Mcp-Name: ls'
is_rpc_error 'no method' 400 -32020 8
mcp "$CALL" -H 'Mcp-Method: tools/call' -H 'Mcp-Name: ls'
is_rpc_error 'no version in the header' 400 -32020 8
mcp "$CALL" -H 'MCP-Protocol-Version: 2025-11-25' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: ls'
is_rpc_error 'another version in the header' 400 -32020 8
mcp '{"jsonrpc":"2.0","id":8,"method":"ping","params":{}}' -H "$V" -H 'Mcp-Method: ping'
is_rpc_error 'no version in the message' 400 -32602 8
mcp '{"jsonrpc":"2.0","id":8,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/'\
'protocolVersion":"2026-07-28"}}}' -H "$V" -H 'Mcp-Method: tools/list'
is_rpc_error 'no capabilities of the client' 400 -32602 8
mcp '{"jsonrpc":"2.0","id":8,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/'\
'protocolVersion":"2031-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}' -H 'MCP-Protocol-Version: '\
'2031-01-01' -H 'Mcp-Method: tools/list'
is_rpc_error 'a version of the future' 400 -32022 8
is 'is told what there is' "$(m -c .error.data)" '{"supported":["2026-07-28"],"requested":"2031-01-01"}'

# ---- what hostile clients send ----

bad() { # bad NAME STATUS CODE ID BODY
    mcp "$5"
    is_rpc_error "$1" "$2" "$3" "$4"
}
bad 'nothing' 400 -32700 null ''
bad 'no JSON' 400 -32700 null '{"jsonrpc":"2.0","id":1'
bad 'half an escape' 400 -32700 null '{"jsonrpc":"2.0","id":1,"method":"\ud800"}'
bad 'a key twice' 400 -32700 null '{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}'
bad 'a list of messages' 400 -32600 null '[{"jsonrpc":"2.0","id":1,"method":"ping"}]'
bad 'a number' 400 -32600 null 7
bad 'another JSON-RPC' 400 -32600 1 '{"jsonrpc":"1.0","id":1,"method":"ping"}'
bad 'no method' 400 -32600 1 '{"jsonrpc":"2.0","id":1}'
bad 'a method that is no text' 400 -32600 1 '{"jsonrpc":"2.0","id":1,"method":{}}'
bad 'a method with a NUL' 400 -32600 1 '{"jsonrpc":"2.0","id":1,"method":"ping\u0000x"}'
for id in null 1.5 true '{}' '[]'; do
    bad "the id $id" 400 -32600 null "{\"jsonrpc\":\"2.0\",\"id\":$id,\"method\":\"ping\"}"
done
bad 'an endless id' 400 -32600 null "{\"jsonrpc\":\"2.0\",\"id\":\"$(printf %0400d 0)\",\"method\":\"ping\"}"
bad 'params that are a list' 400 -32602 1 '{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}'
bad '_meta that is none' 400 -32602 1 '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":1}}'
bad 'a token that is none' 400 -32602 1 \
    '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"progressToken":{}}}}'
bad 'deep nesting' 400 -32700 null "$(head -c 200000 /dev/zero | tr '\0' '[')"
bad 'very many values' 400 -32700 null "[$(yes 0, | head -70000 | tr -d '\n')0]"
mcp '{"jsonrpc":"2.0","id":1,"result":{}}'
is 'an answer to what nobody asked' "$STATUS" 400
mcp '{"jsonrpc":"2.0","id":1,"result":{}}' -H "Mcp-Session-Id: $SESSION"
is 'in a session it is taken and forgotten' "$STATUS '$BODY'" "202 ''"
mcp '{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}' -H "Mcp-Session-Id: $SESSION"
is 'a notification that is wrong' "$STATUS '$BODY'" "400 ''"
head -c 34000000 /dev/zero | tr '\0' ' ' > "$WORK/huge"
api POST /mcp '' -H 'Content-Type: application/json' --data-binary "@$WORK/huge"
is 'more than 32 MiB' "$STATUS $(j .error.code)" '413 -32000'
api POST /mcp '' -H 'Content-Type: application/json' -H 'Transfer-Encoding: chunked' --data-binary "@$WORK/huge"
is 'also when it does not say so before' "$STATUS $(j .error.code)" '413 -32000'
rm -f "$WORK/huge"
for type in text/plain application/x-www-form-urlencoded application/jsonp ''; do
    api POST /mcp '' -H "Content-Type: $type" --data-binary '{"jsonrpc":"2.0","id":1,"method":"ping"}'
    is "the content type '$type'" "$STATUS $(j .error.code)" '415 -32000'
done
api POST /mcp '' -H 'Content-Type: application/json; charset=utf-8' -H 'Accept: text/html' --data-binary '{}'
is 'a client that takes neither JSON nor a stream' "$STATUS" 406

# Many at once, answered when each is done, each by its own id.
BURST=()
for i in 1 2 3 4 5 6 7 8; do
    BURST+=(--next -sS --unix-socket "$SOCKET" -H 'Content-Type: application/json' -H 'Accept: application/json' \
        -H "Mcp-Session-Id: $SESSION"
        -d '{"jsonrpc":"2.0","id":'$i',"method":"tools/call","params":{"name":"bash","arguments":{"command":"sleep '\
'0.'$((9 - i))'; echo n-'$i'"}}}'
        -o "$WORK/burst.$i" http://localhost/mcp)
done
curl -sS --parallel --parallel-immediate "${BURST[@]:1}" 2> /dev/null
is 'parallel calls get their own answers' \
    "$(for i in 1 2 3 4 5 6 7 8; do jq -r '"\(.id) \(.result.content[0].text|rtrimstr("\n"))"' "$WORK/burst.$i"; done \
    | paste -sd,)" \
    '1 n-1,2 n-2,3 n-3,4 n-4,5 n-5,6 n-6,7 n-7,8 n-8'

# More sessions than one may have: the one unused longest goes.
begin
OLDEST=$SESSION
for i in $(seq 1 257); do
    printf 'next\nunix-socket = "%s"\nurl = "http://localhost/mcp"\nheader = "Content-Type: application/json"\noutput '\
'= "/dev/null"\ndata = "{\\"jsonrpc\\":\\"2.0\\",\\"id\\":0,\\"method\\":\\"initialize\\",'\
'\\"params\\":{\\"protocolVersion\\":\\"2025-11-25\\"}}"\n' "$SOCKET"
done | tail -n +2 > "$WORK/many"
curl -sS -K "$WORK/many"
rpc ping
is_rpc_error 'the sessions of one user are bounded' 404 -32001 1
begin
rpc ping
is 'a new one is to be had' "$STATUS" 200

# ---- whose ----

write_tokens "$WORK/mcp.yaml"
echo 'drain_ms: 500' >> "$WORK/mcp.yaml"
token() { printf 'Authorization: Bearer %s-token-0123456789abcdef%s' "$1" "$([ "$1" = admin ] || echo 00)"; }
if second_start "$WORK/mcp.yaml" "$program"; then
    begin
    is 'without a token nobody begins' "$STATUS" 401
    begin 2025-11-25 -H "$(token eye)"
    is 'nor with one that may only read' "$STATUS" 403
    begin 2025-11-25 -H "$(token ann)"
    is 'a user begins' "$STATUS" 200
    rpc ping '{}' 1 -H "$(token ann)"
    is 'and goes on' "$STATUS" 200
    rpc ping '{}' 1 -H "$(token bob)"
    is_rpc_error "somebody else's session is like none" 404 -32001 1
    api DELETE /mcp '' -H "Mcp-Session-Id: $SESSION" -H "$(token bob)"
    is 'which he cannot end' "$STATUS" 404
    rpc tools/call '{"name":"bash","arguments":{"command":"echo mine > mark"}}' 1 -H "$(token ann)"
    told() {
        api GET '/v1/audit?verb=mcp&user=ann' '' -H "$(token admin)"
        [ "$(j '[.events[]|select(.detail == "bash echo mine > mark" and .outcome == "ok")]|length')" = 1 ]
    }
    ok 'the audit log tells the tool and its command' eventually 5 told
    begin 2025-11-25 -H "$(token bob)"
    rpc tools/call '{"name":"bash","arguments":{"command":"cat mark"}}' 1 -H "$(token bob)"
    like 'the same thread of another user is another box' "$(m '.result.content[0].text')" 'No such file'
    long() { # long AUTHORIZATION: a command that outlives connections
        tag_new
        start_long -H "$1" -H "Mcp-Session-Id: $SESSION" \
            -d '{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"bash","arguments":'\
'{"command":"sleep '"$TAG"'"}}}'
    }
    api POST /v1/tokens '{"user":"bob"}' -H "$(token admin)"
    ID=$(j .id)
    long "Authorization: Bearer $(j .token)"
    api DELETE "/v1/tokens/$ID" '' -H "$(token admin)"
    ok 'who loses his token loses what runs' eventually 10 tag_gone
    wait "$PID" 2> /dev/null
    long "$(token bob)"
    kill -TERM "$DAEMON_PID"
    wait "$DAEMON_PID"
    is 'a daemon told to end does not wait for what outlives connections' $? 0
    ok 'and leaves nothing of it' eventually 10 tag_gone
    wait "$PID" 2> /dev/null
    start_daemon "$program"
    begin 2025-11-25 -H "$(token ann)"
    rpc tools/call '{"name":"bash","arguments":{"command":"cat mark"}}' 1 -H "$(token ann)"
    is 'files are there again in a new session' "$(m '.result.content[0].text')" mine
    for user in ann bob; do api DELETE "/v1/boxes?user=$user" '' -H "$(token admin)"; done
    second_end
    is 'it ends in order' $? 0
else
    fail 'a daemon that demands tokens' "$(tail -5 "$WORK/daemon.log")"
    second_end
fi
