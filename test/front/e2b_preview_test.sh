#!/bin/bash
# Servers in E2B sandboxes: by host and by headers, the proxy's own answers, traffic tokens, masked hosts, late servers.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
DAEMON=$BUILD/asan/cubbyd
[ -x "$DAEMON" ] || DAEMON=$BUILD/cubbyd
write_config
printf 'e2b_domain: sbx.localhost\ne2b_network: none\n' >> "$CONFIG"
start_or_end "$DAEMON"

sandbox() { # sandbox BODY: BOX, and its box by the native API
    api POST /sandboxes "$1"
    is 'a sandbox' "$STATUS" 201
    box_use "$(j .sandboxID)"
}
serve() { # serve: PORT
    curl -s --unix-socket "$SOCKET" -T "$BUILD/test/attack_server" \
        "http://localhost$B/files?path=/tmp/server&mode=0755" > /dev/null
    api POST "$B/processes" "{\"command\":\"exec /tmp/server ${1-}\"}"
    local pid
    pid=$(j .pid)
    api GET "$B/processes/$pid/output?stream=stdout&offset=0&wait_ms=10000"
    PORT=$BODY
}
host() { # host METHOD PATH [CURL OPTION...]
    local method=$1 path=$2
    shift 2
    api "$method" "$path" '' -H "Host: $PORT-$BOX.sbx.localhost" "$@"
}

sandbox '{"templateID":"base","timeout":600}'
serve
host GET '/echo?x=1' -H 'Authorization: Bearer theirs' -H 'Cookie: a=b' -H "Origin: https://$PORT-$BOX.sbx.localhost"
is 'a server by its host' "$STATUS" 200
request=$(tr -d '\r' <<< "$BODY")
is 'its path and query' "$(head -1 <<< "$request")" 'GET /echo?x=1 HTTP/1.1'
like 'it hears its own name' "$request" "
Host: $PORT-$BOX.sbx.localhost
"
like 'and all that is for it' "$request" $'\nauthorization: Bearer theirs\norigin: https://'
like 'cookies too' "$request" $'\nCookie: a=b\n'
host GET /origin
unlike 'no sandbox policy' "$(< "$WORK/head")" 'sandbox allow'
api GET /echo '' -H "E2b-Sandbox-Id: $BOX" -H "E2b-Sandbox-Port: $PORT" -H 'X-Access-Token: secret'
is 'the same by headers' "$STATUS" 200
unlike 'which stay outside' "$BODY" '[Ee]2b-|secret'
host GET /big/3000000
is 'a large answer' "$STATUS $(stat -c %s "$WORK/body")" '200 3000000'
OWN=$PORT PORT=1
now_ms
begun=$NOW
host GET /
is 'nobody listens' "$STATUS $(jq -c . <<< "$BODY")" \
    "502 {\"sandboxId\":\"$BOX\",\"message\":\"The sandbox is running but port is not open\",\"port\":1,\"code\":502}"
now_ms
between 'it was tried for a second, in ms' $((NOW - begun)) 900 6000
host GET / -A 'Mozilla/5.0 (X11; Linux x86_64)'
is 'a page for a browser' "$STATUS $(grep -ci '^content-type: text/html' "$WORK/head")" '502 1'
like 'that says the same' "$BODY" '<title>Closed Port Error</title>.*port is not open'
host GET / -A 'Mozilla/5.0 (X11; Linux x86_64)' -H 'Sec-Fetch-Dest: empty'
is 'not for the requests of a page' "$STATUS $(jq -c .port <<< "$BODY")" '502 1'
PORT=7171
host GET /echo & waiting=$!
serve 7171
wait "$waiting"
host GET /echo
is 'a server that came up' "$STATUS" 200
PORT=$OWN
api GET / '' -H 'Host: 80-0123456789abcdef.sbx.localhost'
is 'an unknown sandbox' "$STATUS $(jq -c . <<< "$BODY")" \
    '502 {"sandboxId":"0123456789abcdef","message":"The sandbox was not found","code":502}'
api GET / '' -H 'Host: nothing.sbx.localhost'
is 'not such a name' "$STATUS" 400
host GET /bad/garbage
is 'a server that does not speak HTTP' "$STATUS $(j .code)" '502 502'
api DELETE "/sandboxes/$BOX"
host GET /echo
is 'after its end' "$STATUS $(j .message)" '502 The sandbox was not found'

sandbox '{"templateID":"base","timeout":600,"network":{"allowPublicTraffic":false,"maskRequestHost":"name:${PORT}"}}'
traffic=$(j .trafficAccessToken)
serve
host GET /echo
is 'private traffic' "$STATUS $(j .code) $(j .sandboxId)" "403 403 $BOX"
host GET /echo -H 'e2b-traffic-access-token: 00'
is 'with a wrong token' "$STATUS" 403
host GET /echo -H "e2b-traffic-access-token: $traffic"
is 'with its token' "$STATUS" 200
unlike 'which stays outside' "$BODY" "$traffic"
like 'a masked host' "$(tr -d '\r' <<< "$BODY")" "
Host: name:$PORT
"
api DELETE "/sandboxes/$BOX"

sandbox '{"templateID":"base","timeout":600,"autoPause":true,"autoResume":{"enabled":true}}'
serve
api POST "/sandboxes/$BOX/pause"
if [ "$STATUS" = 204 ]; then
    host GET /echo
    is 'traffic wakes a paused sandbox that may be woken' "$STATUS" 200
else skip 'a paused sandbox' "$BODY"; fi
api DELETE "/sandboxes/$BOX"
stop_daemon
finish
