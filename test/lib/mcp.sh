# Helpers for tests of MCP over HTTP: one message and its response, in a session or with the headers of the newer era.
# Sourced
# after lib.sh.

# mcp BODY [CURL OPTION...]: one POST; STATUS, BODY, and MESSAGE: the response, out of the event stream when it is one
mcp() {
    local body=$1
    shift
    printf '%s' "$body" > "$WORK/message"
    api POST /mcp '' -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
        --data-binary "@$WORK/message" "$@"
    MESSAGE=$BODY
    [[ $(header content-type) != text/event-stream ]] || MESSAGE=$(sed -n 's/^data: //p' "$WORK/body" | tail -1)
}
m() { jq -r "$@" <<< "$MESSAGE"; } # m FILTER: of the response
rpc() { # rpc METHOD [PARAMS] [ID] [CURL OPTION...]: in the session SESSION
    mcp "{\"jsonrpc\":\"2.0\",\"id\":${3:-1},\"method\":\"$1\",\"params\":${2:-{\}}}" -H "Mcp-Session-Id: $SESSION" \
        "${@:4}"
}
notify() { # notify METHOD [PARAMS]
    mcp "{\"jsonrpc\":\"2.0\",\"method\":\"$1\",\"params\":${2:-{\}}}" -H "Mcp-Session-Id: $SESSION"
}
begin() { # a new session: SESSION
    mcp '{"jsonrpc":"2.0","id":0,"method":"initialize","params":'\
'{"protocolVersion":"'"${1:-2025-11-25}"'","capabilities":{},
        "clientInfo":{"name":"test","version":"1"}}}' "${@:2}"
    SESSION=$(header mcp-session-id)
}
META='"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}'
modern() { # modern METHOD [MEMBERS OF PARAMS] [CURL OPTION...]: with the headers that go with it
    local method=$1 members=${2-} name
    shift $(($# > 2 ? 2 : $#))
    name=$(jq -r '.name // .uri // ""' <<< "{$members}")
    mcp "{\"jsonrpc\":\"2.0\",\"id\":\"m-1\",\"method\":\"$method\","\
"\"params\":{${members:+$members,}\"_meta\":{$META}}}" \
        -H 'MCP-Protocol-Version: 2026-07-28' -H "Mcp-Method: $method" ${name:+-H "Mcp-Name: $name"} "$@"
}
is_rpc_error() { # is_rpc_error NAME STATUS CODE ID [REGEX]
    is "$1" "$STATUS $(m '"\(.error.code) \(.id)"')" "$2 $3 $4"
    [ $# -lt 5 ] || like "$1: says why" "$(m .error.message)" "$5"
}
ASIDE=$WORK/aside
# A request in the background whose command has begun (it carries TAG): PID of curl.
start_long() { # start_long CURL OPTION...
    curl -sS -N --max-time 60 --unix-socket "$SOCKET" -H 'Content-Type: application/json' \
        -H 'Accept: application/json, text/event-stream' -D "$ASIDE.head" -o "$ASIDE" -w '%{http_code}' "$@" \
        http://localhost/mcp > "$ASIDE.status" 2> "$ASIDE.err" &
    PID=$!
    eventually 20 tag_alive
}
