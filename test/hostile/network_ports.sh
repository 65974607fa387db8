# A hostile server in a box against whoever looks at it: malformed, endless, slow and forged answers, pages that would
# act
# through the browser of whoever opens them.
# wall: one connection a request, answers read strictly and framed anew; pages sandboxed, Origin and Sec-Fetch-Site
# checked
# daemon: plain

attack_put server
api POST "$B/processes" '{"command":"exec /tmp/attack_server"}'
pid=$(j .pid)
api GET "$B/processes/$pid/output?stream=stdout&offset=0&wait_ms=10000"
PORT=$BODY
port() { # port PATH [CURL OPTION...]
    local path=$1
    shift
    API_SECONDS=${API_SECONDS:-20} api GET "$B/ports/$PORT$path" '' "$@"
}
seen() {
    api GET "$B/stat?path=seen-$1"
    [ "$STATUS" = 200 ]
}
port /echo
is 'it answers' "$STATUS" 200

# ---- malformed ----

for bad in $(sed -n 's,^ *{"\(/bad/[a-z-]*\)".*,\1,p' test/hostile/attack_server.c); do
    port "$bad"
    is_error "${bad#/bad/}" 502 PROTOCOL
done
for bad in /interim /many /drip; do
    port "$bad"
    is_error "${bad#/}" 502 PROTOCOL
done
ok 'a head without end is not read for ever' eventually 10 seen drip-closed
for cut in $(sed -n 's,^ *{"\(/cut/[a-z-]*\)".*,\1,p' test/hostile/attack_server.c) /reset; do
    port "$cut"
    like "cut off: ${cut#/cut/}: the client sees that it is" "$STATUS" '^curl-(18|56)'
done

# What a server says beyond its answer is nobody's: two requests on one connection of the client.
both=$(curl -s --unix-socket "$SOCKET" "http://localhost$B/ports/$PORT/more" "http://localhost$B/ports/$PORT/404")
is 'an answer is not forged for the next request' "$both" finenone
# What a client hides in a request does not become a second one in the box.
printf 'POST %s/ports/%s/upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nConnection: content-length, '\
'close\r\n\r\nabcdeGET /echo HTTP/1.1\r\n\r\n' "$B" "$PORT" > "$WORK/smuggle"
is 'a length that is called one of a hop' "$("$TOOL" raw "$SOCKET" 3000 < "$WORK/smuggle")" '201 closed'
printf 'GET %s/ports/%s/echo HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: '\
'Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\nGET /healthz HTTP/1.1\r\nHost: '\
'localhost\r\nConnection: close\r\n\r\n' "$B" "$PORT" > "$WORK/smuggle"
is 'an upgrade that is not taken leaves requests requests' "$("$TOOL" raw "$SOCKET" 5000 < "$WORK/smuggle")" \
    '200 200 closed'

# ---- endless, slow, many ----

before=$(daemon_memory_kb RssAnon)
for i in 1 2 3 4 5 6 7 8; do
    timeout 60 curl -s --limit-rate 50k --unix-socket "$SOCKET" "http://localhost$B/ports/$PORT/endless" > /dev/null \
        & readers[i]=$!
done
timeout 60 curl -s --unix-socket "$SOCKET" "http://localhost$B/ports/$PORT/hang" > /dev/null & hanging=$!
ok 'servers that never end, and one that never begins' eventually 10 seen hangs
neighbour_check 'meanwhile'
port /echo
is 'other requests are served' "$STATUS" 200
between 'the daemon holds no more than windows of it, in KB' $(($(daemon_memory_kb RssAnon) - before)) -100000 20000
kill "${readers[@]}" "$hanging"
wait "${readers[@]}" "$hanging" 2> /dev/null
ok 'what nobody waits for is closed' eventually 10 seen hang-closed
connected() { # connected COUNT: so many connections to the server are open in the box
    run "awk '\$2 ~ /:$(printf %04X "$PORT")\$/ && \$4 == \"01\"' /proc/net/tcp | wc -l"
    [ "$OUT" = "$1" ]
}
for i in {1..60}; do echo "url = http://localhost$B/ports/$PORT/hang"; echo 'output = /dev/null'; done > "$WORK/hangs"
curl -s --parallel --parallel-immediate --parallel-max 60 --unix-socket "$SOCKET" -K "$WORK/hangs" > /dev/null 2>&1 \
    & hanging=$!
ok 'sixty that hang' eventually 20 connected 60
kill "$hanging"
wait "$hanging" 2> /dev/null
ok 'are given up with their client' eventually 20 connected 0
run 'echo fine'
is 'the box runs commands' "$OUT" fine

# ---- through a browser ----

"$program" --listen 127.0.0.1:0 --state "$WORK/state-page" --pool-size 0 < /dev/null > "$WORK/page.log" 2>&1 &
PAGE_PID=$!
eventually 20 grep -q 'ready on' "$WORK/page.log" || fail 'a daemon on loopback' "$(tail -3 "$WORK/page.log")"
L=$(sed -n 's/.*ready on [^ ]*:\([0-9]*\),.*/\1/p' "$WORK/page.log")
U=http://127.0.0.1:$L
id=$(curl -s -X POST "$U/v1/boxes" | jq -r .id)
curl -s -T "$BUILD/test/attack_server" "$U/v1/boxes/$id/files?path=server&mode=0755" > /dev/null
pid=$(curl -s "$U/v1/boxes/$id/processes" -d '{"command":"exec ./server"}' | jq -r .pid)
P=$(curl -s "$U/v1/boxes/$id/processes/$pid/output?stream=stdout&offset=0&wait_ms=10000")
page() { # page NAME WANT METHOD PATH HEADERS...
    local name=$1 want=$2 method=$3 path=$4 options=() header
    shift 4
    for header in "$@"; do options+=(-H "$header"); done
    [ "$method" != POST ] || options+=(-d '{}')
    is "$name" "$(curl -s --max-time 120 -o "$WORK/body" -D "$WORK/head" -w '%{http_code}' -X "$method" \
        "${options[@]}" "$U$path")" "$want"
}
preview=/v1/boxes/$id/ports/$P
page 'a page is opened' 200 GET "$preview/echo" 'Sec-Fetch-Site: none' 'Sec-Fetch-Mode: navigate' \
    'Sec-Fetch-Dest: document'
like 'in a sandbox without our origin' "$(header content-security-policy)" '^sandbox allow-scripts'
unlike 'really' "$(header content-security-policy)" 'same-origin'
page 'its pictures and scripts come' 200 GET "$preview/echo" 'Sec-Fetch-Site: cross-site' 'Sec-Fetch-Mode: no-cors' \
    'Sec-Fetch-Dest: script'
page 'it cannot make boxes: a fetch' 403 POST /v1/boxes 'Origin: null' 'Sec-Fetch-Site: cross-site' \
    'Sec-Fetch-Mode: cors' 'Sec-Fetch-Dest: empty'
page 'a form' 403 POST /v1/boxes 'Origin: null' 'Sec-Fetch-Site: cross-site' 'Sec-Fetch-Mode: navigate' \
    'Sec-Fetch-Dest: document'
page 'without an Origin' 403 POST /v1/boxes 'Sec-Fetch-Site: cross-site' 'Sec-Fetch-Mode: no-cors' \
    'Sec-Fetch-Dest: empty'
page 'read files by a script element' 403 GET "/v1/boxes/$id/files?path=server" 'Sec-Fetch-Site: cross-site' \
    'Sec-Fetch-Mode: no-cors' 'Sec-Fetch-Dest: script'
page 'listen to events' 403 GET /v1/events 'Origin: null' 'Sec-Fetch-Site: cross-site' 'Sec-Fetch-Mode: cors' \
    'Sec-Fetch-Dest: empty'
page 'frame the API' 403 GET /v1/boxes 'Sec-Fetch-Site: cross-site' 'Sec-Fetch-Mode: navigate' 'Sec-Fetch-Dest: iframe'
boxes=$(curl -s "$U/v1/boxes" | jq '.boxes | length')
for path in /v1/skills/victim/app/list /v1/skills/victim/app/foo/files '/v1/skills/victim/app/foo/content?path=x' \
    /v1/sandbox/victim/app/files \
    '/v1/sandbox/victim/app/content?path=x' /v1/skills/victim/app/list-with-status \
    '/v1/skills/victim/app/download?name=foo' \
    '/v1/victim/app/files?path=files' '/v1/victim/app/content?path=files/x' /v1/threads/victim/tools \
    "/v1/boxes/$id/tools"; do
    code=$(curl -s --max-time 120 -o "$WORK/body" -w '%{http_code}' -H 'Sec-Fetch-Site: cross-site' \
        -H 'Sec-Fetch-Mode: navigate' -H 'Sec-Fetch-Dest: document' "$U$path")
    case $path in
    */tools) is "a link to what changes something is not followed: $path" "$code" 403 ;;
    *) like "a link shows something: $path" "$code" '^(200|404|500)$' ;;
    esac
done
is 'and no link makes a box' "$(curl -s "$U/v1/boxes" | jq '.boxes | length')" "$boxes"
page 'who types the address may' 200 GET /v1/threads/typed/tools 'Sec-Fetch-Site: none' 'Sec-Fetch-Mode: navigate' \
    'Sec-Fetch-Dest: document'
page "post to another box's server" 403 POST "$preview/upload" 'Origin: null' 'Sec-Fetch-Site: cross-site' \
    'Sec-Fetch-Mode: cors' 'Sec-Fetch-Dest: empty'
page 'open a terminal' 403 GET "/v1/boxes/$id/pty" 'Origin: null' 'Upgrade: websocket' 'Connection: Upgrade' \
    'Sec-WebSocket-Version: 13' 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=='
page "open a WebSocket to a server in a box" 403 GET "$preview/ws" 'Origin: null' 'Upgrade: websocket' \
    'Connection: Upgrade' 'Sec-WebSocket-Version: 13' 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=='
page 'a page on a forwarded port is another origin' 403 POST /v1/boxes 'Origin: http://127.0.0.1:4711' \
    'Sec-Fetch-Site: same-site' 'Sec-Fetch-Mode: no-cors'
page 'whatever it leaves out' 403 GET "/v1/boxes" 'Sec-Fetch-Site: same-site' 'Sec-Fetch-Mode: no-cors'
page 'a service worker is refused' 403 GET "$preview/worker.js" 'Service-Worker: script' 'Sec-Fetch-Site: same-origin' \
    'Sec-Fetch-Mode: same-origin' 'Sec-Fetch-Dest: serviceworker'
page 'our own page may do all that' 201 POST /v1/boxes "Origin: $U" 'Sec-Fetch-Site: same-origin' 'Sec-Fetch-Mode: cors'
page 'tokens in the header of another dialect stay outside' 200 GET "$preview/echo" 'X-AIO-API-Key: token-of-a-user' \
    'X-Plain: goes-in'
like 'what is no secret goes in' "$(< "$WORK/body")" 'goes-in'
unlike 'the token does not' "$(< "$WORK/body")" 'token-of-a-user'
page 'cookies of the machine stay outside' 200 GET "$preview/echo" 'Cookie: session=of-another-service'
unlike 'really' "$(< "$WORK/body")" 'another-service'
for id in $(curl -s "$U/v1/boxes" | jq -r '.boxes[].id'); do curl -s -X DELETE "$U/v1/boxes/$id"; done
kill -TERM "$PAGE_PID"
wait "$PAGE_PID"
is 'it ends in order' $? 0
