# MCP servers of users, in boxes: configured, started, listed and called over HTTP and MCP, cancelled, started again,
# ended. What
# hostile ones do is run/mcp_servers_hostile.sh.
# by default: jail remote

. test/lib/mcp.sh
SOURCE=$(< test/lib/mcp_server.py)
S=/v1/mcp/servers
# server NAME [MODE] [MORE MEMBERS]: configured, with TAG among its arguments
server() {
    local more=${3-}
    api PUT "$S/$1" "$(jq -nc --arg source "$SOURCE" --arg mode "${2-}" --arg tag "$TAG" --argjson more "{$more}" \
        '{command: "python3", args: ["-c", $source, $mode, $tag]} + $more')"
}
tools() { # the names of a server's tools in the current box
    api GET "$B/tools"
    j "[.tools[].name | select(startswith(\"$1__\"))] | join(\" \")"
}
tag_new

# ---- configured ----

api GET $S
is 'a user has none' "$STATUS $BODY" '200 {"servers":[]}'
api GET "$B/tools"
is 'a box has the agent tools' "$STATUS $(j '.tools|map(.name)|index("bash")|type')" '200 number'
server one '' '"env":{"SERVER_KEY":"s3cret-value"}'
is 'one is put' "$STATUS $(j '"\(.name) \(.command) \(.env_names|join(",")) \(.configured) \(.running|length)"')" \
    '201 one python3 SERVER_KEY false 0'
unlike 'what its environment holds is not told' "$BODY" 's3cret'
server one '' '"env":{"SERVER_KEY":"s3cret-value"}'
is 'again' "$STATUS" 200
api GET $S/one
is 'and looked at' "$STATUS $(j .name)" '200 one'
ok 'nothing runs before it is needed' tag_gone
for name in One a__b _a a_ 'a.b' "$(printf 'a%.0s' {1..33})"; do
    server "$name"
    is_error "no name: $name" 400 INVALID "a server's name"
done
api PUT $S/two '{"args":[]}'
is_error 'one without a command' 400 INVALID "'command'"
api PUT $S/two '{"command":"x","shell":true}'
is_error 'a field that is unknown' 400 INVALID "'shell'"
api PUT $S/two '{"command":"x","machine":"m","thread":"t"}'
is_error 'in two places' 400 INVALID "not both"
api PUT $S/two '{"command":"x","type":"http"}'
is_error 'another transport' 400 INVALID "'type'"
api DELETE $S/two
is_error 'one that is not there' 404 NOT_FOUND
api GET "$S?user=somebody"
is "somebody else's are his" "$BODY" '{"servers":[]}'

# ---- listed and called ----

is 'its tools are offered, all pages' "$(tools one)" \
    'one__echo one__add one__where one__slow one__grow one__picture one__die'
is 'with its schemas, and hints that are some' \
    "$(j -c '.tools[]|select(.name == "one__add" or .name == "one__echo")|[.title, .input_schema.required, '\
'.output_schema.type, .annotations]')" \
    '[null,["text"],null,{"readOnlyHint":true}]
["Addition",["a","b"],"object",null]'
api GET $S/one
is 'it runs in this box' "$(j '.running[]|"\(.box) \(.state) \(.tools) \(.left_out) \(.restarts) \(.why)"')" \
    "$BOX ready 7 0 0 null"
tool one__echo '{"text":"héllo \u0001"}'
tool_is 'a call' $'héllo \x01'
tool one__echo '{"text":"fail"}'
tool_fails 'an answer that is an error' 'it failed'
tool one__add '{"a":1.5,"b":2}'
is 'a structured answer' "$TEXT $(j -c .structured)" '3.5 {"sum":3.5}'
tool one__picture
is 'a picture, and what nobody knows' "$(j -c .content) $TEXT" \
    '[{"type":"image","data":"iVBORw==","mimeType":"image/png"}] a picture
(content of an unsupported type: strange)'
tool one__none
tool_fails 'a tool that it has not' "Error: MCP server 'one': no tool 'none'"
tool two__none
is_error 'a server that is not there' 404 NOT_FOUND "there is no tool 'two__none'"
tool one__echo '[]'
tool_fails 'arguments that are no object' 'Error: the arguments must be a JSON object'
tool one__where
run pwd
is 'it runs in the workspace, with its environment' "$(jq -r '"\(.cwd) \(.env.SERVER_KEY)"' <<< "$TEXT")" \
    "${OUT%$'\n'} s3cret-value"
FIRST_PID=$(jq .pid <<< "$TEXT")
tool one__where
is 'the same process answers' "$(jq .pid <<< "$TEXT")" "$FIRST_PID"
tool one__echo '{"text":"x","times":300000}'
like 'a long answer is kept or cut' "${#TEXT} $TEXT" '^[0-9]{4,5} '

# Many at once: one reads for all, and everybody gets his own.
for i in {1..12}; do
    curl -sS --max-time 60 --unix-socket "$SOCKET" -d "{\"text\":\"number $i\"}" "http://localhost$B/tools/one__echo" \
        > "$WORK/many.$i" &
    MANY[i]=$!
done
wait "${MANY[@]}"
is 'answers of many at once are not mixed up' "$(for i in {1..12}; do jq -r .text "$WORK/many.$i"; done)" \
    "$(printf 'number %d\n' {1..12})"

# ---- started again ----

tool one__die
tool_fails 'one that dies in a call says why' \
    "Error: MCP server 'one': it exited with code 3; its standard error ends with: I was told to die"
api GET $S/one
is 'and what comes next' \
    "$(j '.running[0]|"\(.state) \(.why|split(";")[0]) \(.retry_in_ms > 0 and .retry_in_ms <= 1000)"')" \
    'ended it exited with code 3 true'
tool one__echo '{"text":"again"}'
tool_is 'the next call starts it again' again
api GET $S/one
is 'which is counted' "$(j '.running[0]|"\(.state) \(.restarts)"')" 'ready 1'
run "kill -9 $(tool one__where; jq .pid <<< "$TEXT")"
tool one__echo '{"text":"killed"}'
tool_is 'one that was killed while nobody asked is started again too' killed
server one '' '"env":{"SERVER_KEY":"another"}'
tool one__where
is 'what was configured anew runs anew, at once' "$(jq -r .env.SERVER_KEY <<< "$TEXT")" another
api GET $S/one
is 'and that was no failure' "$(j '.running[0]|"\(.why) \(.retry_in_ms)"')" 'null 0'
server one '' '"disabled":true'
is 'disabled' "$(tools one)" ''
tool one__echo '{"text":"x"}'
is_error 'it is not there' 404 NOT_FOUND
server one '' "\"start_timeout_ms\":20000"

# ---- cancelled, out of time ----

server one '' '"env":{"SERVER_LOG":"server.log"}'
logged() { get server.log && [[ $BODY == *"$1"* ]]; }
curl -sS --max-time 60 --unix-socket "$SOCKET" -d '{}' "http://localhost$B/tools/one__slow" > /dev/null 2>&1 &
PID=$!
ok 'a slow call runs' eventually 20 logged 'slow begins'
kill "$PID"
wait "$PID" 2> /dev/null
ok 'a client that hangs up cancels it there' eventually 20 logged 'slow cancelled'
tool one__echo '{"text":"alive"}'
tool_is 'and the server goes on' alive
server one '' '"timeout_ms":300'
tool one__slow
tool_fails 'a call that is out of time' "Error: MCP server 'one': it did not answer in time"

# ---- over MCP ----

if [ "$BACKEND" = jail ]; then # whose boxes are those of threads
    begin
    is 'changes of the list are told' "$(m .result.capabilities.tools.listChanged)" true
    HERE=(-H 'Cubby-Thread: with-servers')
    rpc tools/list '{}' 1 "${HERE[@]}"
    is 'the list over MCP' \
        "$STATUS $(m -c '[.result.tools[]|select(.name|startswith("one__"))|[.name,(.inputSchema|type)]][0:2]')" \
        '200 [["one__echo","object"],["one__add","object"]]'
    rpc tools/call '{"name":"one__add","arguments":{"a":1,"b":2}}' 2 "${HERE[@]}"
    is 'a call over MCP' "$(m -c '.result|[.content[0].text,.structuredContent,.isError]')" '["3",{"sum":3},null]'
    rpc tools/call '{"name":"one__picture","arguments":{}}' 2 "${HERE[@]}"
    is 'a picture over MCP' "$(m -c '.result.content|map(.type)')" '["text","image"]'
    modern tools/call '"name":"one__echo","arguments":{"text":"new"}' "${HERE[@]}"
    is 'in the newer era' "$(m '.result.content[0].text')" new
    rpc tools/call '{"name":"one__grow","arguments":{}}' 3 "${HERE[@]}"
    is 'a list that grew is told once' "$(sed -n 's/^data: //p' "$WORK/body" | jq -c '[.method, .id]')" \
        '["notifications/tools/list_changed",null]
[null,3]'
    rpc tools/list '{}' 4 "${HERE[@]}"
    is 'and has the new one' "$(m '[.result.tools[]|select(.name == "one__grown0")]|length')" 1
    rpc tools/call '{"name":"one__grown0","arguments":{}}' 4 "${HERE[@]}"
    like 'nothing more is told' "$(header content-type)" '^application/json'
    server one '' ''
    start_slow() {
        curl -sS -N --max-time 60 --unix-socket "$SOCKET" -H 'Content-Type: application/json' \
            -H "Mcp-Session-Id: $SESSION" \
            -H 'Accept: application/json, text/event-stream' "${HERE[@]}" -o "$ASIDE" http://localhost/mcp \
            -d '{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"one__slow","arguments":{},"_meta":'\
'{"progressToken":"p"}}}' &
        PID=$!
    }
    start_slow
    told() { grep -q 'step 3' "$ASIDE"; }
    ok 'progress is passed on' eventually 20 told
    notify notifications/cancelled '{"requestId":9}'
    wait "$PID"
    is 'a cancelled call has no response' "$(grep -c '"id":9' "$ASIDE")" 0
    api POST /v1/boxes '{"thread":"other"}'
    OTHER=$(j .id)
    server one '' '"thread":"other"'
    rpc tools/call '{"name":"one__echo","arguments":{"text":"far"}}' 5 "${HERE[@]}"
    is 'one with a place of its own runs there, whoever asks' \
        "$(m '.result.content[0].text') $(api GET $S/one; j '.running|map(.box)|index("'"$OTHER"'")|type')" 'far number'
    server one '' '"machine":"nowhere"'
    rpc tools/call '{"name":"one__echo","arguments":{"text":"far"}}' 6 "${HERE[@]}"
    like 'a machine that has not joined is an error, and nothing runs elsewhere' "$(m '.result.content[0].text')" \
        "MCP server 'one': the machine 'nowhere' has not joined"
fi

if [ "$BACKEND" = remote ]; then
    api GET "$B"
    server one '' "\"machine\":\"$(j .machine)\""
    tool one__echo '{"text":"there"}'
    tool_is 'one that runs on a machine, whoever asks' there
fi

# ---- by hand, from a file, without a daemon ----

if [ "$BACKEND" = jail ]; then
    server one
    cubby() { CUBBY_URL=unix:$SOCKET timeout 60 "$BUILD/cubby" "$@"; }
    is 'cubby mcp-server add' \
        "$(KEY=here cubby mcp-server add --env KEY --env A=b --timeout 7 hand -- python3 -c x --flag 2>&1)" ''
    api GET $S/hand
    is 'puts what was said' "$(j -c '[.command,.args,(.env_names|sort),.timeout_ms]')" \
        '["python3",["-c","x","--flag"],["A","KEY"],7000]'
    like 'cubby mcp-server list' "$(cubby mcp-server list)" 'hand +- +- +python3 -c x --flag'
    is 'cubby tool calls them, with numbers as the schema says' \
        "$(cubby tool --box "$BOX" one__add a=2 b=3) $(cubby tool --thread with-servers one__add a=2 b=4)" '5 6'
    is 'cubby mcp-server rm' "$(cubby mcp-server rm hand 2>&1) $(cubby mcp-server rm hand 2>&1)" \
        " cubby: no MCP server 'hand'"

    jq -nc --arg source "$SOURCE" \
        '{mcpServers: {own: {type: "stdio", command: "python3", args: ["-c", $source], env: {SERVER_KEY: "k"}}}}' \
    > "$WORK/servers.json"
    mkdir -p "$WORK/own"
    {
        printf '%s\n' '{"jsonrpc":"2.0","id":0,"method":"initialize","params":'\
'{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}' \
            '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"own__where","arguments":{}}}'
        eventually 30 grep -q '"id":1' "$WORK/own.out"
    } | timeout 60 "$BUILD/cubby" mcp --workspace "$WORK/own" --servers "$WORK/servers.json" > "$WORK/own.out" \
        2> "$WORK/own.err"
    is 'cubby mcp has those of a file' \
        "$(jq -r 'select(.id == 1).result.content[0].text|fromjson|"\(.cwd) \(.env.SERVER_KEY)"' "$WORK/own.out")" \
    '/workspace k'
    echo '{"mcpServers":{"own":{"url":"http://x"}}}' > "$WORK/servers.json"
    like 'and says what is wrong with it' \
        "$("$BUILD/cubby" mcp --workspace "$WORK/own" --servers "$WORK/servers.json" 2>&1 < /dev/null)" \
        "servers.json: MCP server 'own': .*'url'"

    { cat "$CONFIG"; printf \
        'mcp_servers:\n  all:\n    command: python3\n    args: [-c, x]\n    env: {KEY: $HOME}\nusers:\n  bob:\n    '\
'mcp_servers:\n      own: {command: y, disabled: true, timeout_ms: 5000}\n'; } > "$WORK/servers.yaml"
    second_start "$WORK/servers.yaml" "$program"
    api GET $S
    is 'the configuration has some for everybody' "$(j -c '[.servers[]|[.name,.command,.configured,.env_names]]')" \
        '[["all","python3",true,["KEY"]]]'
    api GET "$S?user=bob"
    is 'and others for one' "$(j -c '[.servers[]|[.name,.disabled,.timeout_ms]]')" '[["own",true,5000]]'
    api PUT $S/all '{"command":"z"}'
    is_error 'which are not changed' 409 EXISTS 'is in the configuration'
    api DELETE $S/all
    is_error 'nor removed' 403 DENIED 'is in the configuration'
    api PUT "$S/all?user=bob" '{"command":"z"}'
    is 'one of his own may have the name' "$STATUS" 201
    sed -i 's/command: y/command: ""/' "$WORK/servers.yaml"
    like 'one that is wrong is named, with its line' "$("$BUILD/cubbyd" --config "$WORK/servers.yaml" --check 2>&1)" \
        "line [0-9]+: mcp_servers: own: 'command'"
    second_end
    is 'that daemon ends' $? 0
fi

# ---- ended ----

server one
tool one__echo '{"text":"x"}'
ok 'it runs' tag_alive
api DELETE $S/one
is 'removed' "$STATUS" 204
ok 'it ends' eventually 20 tag_gone
server one
box_new
tool one__echo '{"text":"x"}'
tool_is 'in another box' x
api DELETE "$B"
ok 'it ends with its box' eventually 20 tag_gone
api GET $S/one
is 'and is forgotten with it' "$(j ".running|map(select(.box == \"$BOX\"))|length")" 0
api DELETE $S/one
box_new

# ---- other servers ----

server modern modern
tool modern__echo '{"text":"x"}'
tool_is 'a server of the newer era' x
server greeting greeting
tool greeting__echo '{"text":"x"}'
tool_is 'one that greets first' x
server odd odd
api GET "$B/tools"
is 'tools that cannot be offered are left out' "$(j '[.tools[].name|select(startswith("odd__"))]|length')" 7
api GET $S/odd
is 'and counted' "$(j '.running[0].left_out')" 6
api PUT $S/none '{"command":"/no/such/program"}'
tool none__x
like 'a program that is not there' "$IS_ERROR $TEXT" "^true Error: MCP server 'none': .*no/such/program"
for name in modern greeting odd none; do api DELETE "$S/$name"; done
