# MCP servers that lie, flood, choke or say nothing: each is ended or answered for with a reason, and nobody else
# notices.
# backends: jail

SOURCE=$(< test/lib/mcp_server.py)
S=/v1/mcp/servers
server() { # server NAME MODE [MORE MEMBERS]
    local more=${3-}
    api PUT "$S/$1" "$(jq -nc --arg source "$SOURCE" --arg mode "$2" --argjson more "{$more}" \
        '{command: "python3", args: ["-c", $source, $mode], start_timeout_ms: 20000} + $more')"
}
server good ''
tool good__where
GOOD=$(jq .pid <<< "$TEXT")

while IFS='|' read -r mode text; do
    server "$mode" "$mode" '"timeout_ms":20000'
    tool "$mode"__echo '{"text":"x"}'
    like "a server that is $mode" "$IS_ERROR $TEXT" "^true Error: MCP server '$mode': it was stopped: $text"
    api DELETE "$S/$mode"
done << 'END'
endless|it sent a message of more than 8388608 bytes
huge|it sent a message of more than 8388608 bytes
junk|it prints lines that are not JSON-RPC messages, such as 'this is no message'
broken|it sent an invalid message: 
deep|it sent an invalid message: .*nested deeper
flood|it sends too many unsolicited messages
pings|it (sends too many unsolicited messages|sends requests and does not read)
nothing|its answer has neither a result nor an error
old|it speaks version '1999-01-01'
pages|its list of tools has over 64 pages
END
server wrong wrong
tool wrong__echo '{"text":"x"}'
is 'answers to what nobody asked are nobody'"'"'s' "$IS_ERROR $TEXT" 'false right'
server twice twice
tool twice__echo '{"text":"x"}'
is 'the first of two answers counts' "$IS_ERROR $TEXT" 'false first'
tool twice__echo '{"text":"x"}'
is 'and the second is not taken for the next' "$IS_ERROR $TEXT" 'false first'
server errors errors
tool errors__echo '{"text":"x"}'
is 'standard error holds nothing up' "$IS_ERROR $TEXT" 'false after the noise'
server mute mute '"timeout_ms":300'
tool mute__echo '{"text":"x"}'
is 'one that does not answer' "$IS_ERROR $TEXT" "true Error: MCP server 'mute': it did not answer in time"
for name in wrong twice errors mute; do api DELETE "$S/$name"; done

server silent silent '"start_timeout_ms":500'
server crash crash
now_ms
BEGUN=$NOW
api GET "$B/tools"
now_ms
is 'a list leaves out what does not come up' \
    "$STATUS $(j '[.tools[].name|select(contains("__"))|split("__")[0]]|unique|join(" ")')" '200 good'
between 'and does not wait longer than it may' $((NOW - BEGUN)) 0 $((40000 * ${TEST_SLOW:-1}))
api GET $S/silent
like 'one that says nothing is ended' "$(j '.running[0]|"\(.state) \(.why)"')" \
    "^ended it was stopped: it did not answer 'initialize' in time"
api GET $S/crash
like 'one that cannot begin says why' "$(j '.running[0]|"\(.state) \(.why)"')" \
    '^ended it exited with code 1; its standard error ends with: cannot begin: no configuration'
later() { api GET $S/crash && [ "$(j .running[0].retry_in_ms)" -gt "$1" ]; }
for _ in 1 2 3; do tool crash__x; done
ok 'it is tried at growing intervals' later 3000
now_ms
BEGUN=$NOW
tool crash__x
now_ms
like 'then a call is told when' "$IS_ERROR $TEXT" \
    "^true Error: MCP server 'crash': it ended \(it exited with code 1; .*\); it will be restarted in [0-9]+ s"
between 'at once' $((NOW - BEGUN)) 0 $((20000 * ${TEST_SLOW:-1}))

tool good__where
is 'its neighbours have noticed nothing' "$IS_ERROR $(jq .pid <<< "$TEXT")" "false $GOOD"
for name in silent crash good; do api DELETE "$S/$name"; done
