# Servers in a box, by HTTP and WebSocket below /ports/PORT/, and as bytes.
# by default: jail remote

use_cubby
upload server "$BUILD/test/attack_server" '&mode=0755'
server() { # server [6]: starts one in the current box; PORT
    api POST "$B/processes" "{\"command\":\"exec ./server $*\"}"
    local pid
    pid=$(j .pid)
    PORT=
    listens() {
        api GET "$B/processes/$pid/output?stream=stdout&offset=0&wait_ms=1000"
        PORT=$BODY
        [[ $PORT =~ ^[0-9]+$ ]]
    }
    eventually 10 listens || fail 'a server in the box' "$STATUS $BODY"
}
port() { # port METHOD PATH [CURL OPTION...]
    local method=$1 path=$2
    shift 2
    api "$method" "$B/ports/$PORT$path" '' "$@"
}
seen() { # seen NAME: the server has noted it
    api GET "$B/stat?path=$HOME_IN_BOX/seen-$1"
    [ "$STATUS" = 200 ]
}
run pwd
HOME_IN_BOX=$OUT
server

# ---- what goes in ----

port GET '/echo/a%2Fb/../c?d=e&d=f&%zz' -H 'X-Own: yes' -H 'Connection: x-hop' -H 'X-Hop: no' -H 'TE: trailers' \
    -H 'Referer: http://x/' \
    -H 'Cookie: theirs=1; session=2' -H 'X-Forwarded-Prefix: /forged' -H 'X-Forwarded-For: 1.2.3.4' -H 'Upgrade: h2c'
is 'a request' "$STATUS" 200
request=$(tr -d '\r' <<< "$BODY")
is 'its path and query are as they were sent' "$(head -1 <<< "$request")" 'GET /echo/a%2Fb/../c?d=e&d=f&%zz HTTP/1.1'
like 'the server is asked as itself' "$request" "
Host: localhost:$PORT
"
like 'headers go along' "$request" $'\nx-own: yes\n'
if [ "$BACKEND" = remote ]; then # by the runner, which keeps none
    like 'one connection, one request' "$request" $'\nConnection: close\n'
else unlike 'the connection may be used again' "$request" '[Cc]onnection:'; fi
like 'where it is seen from outside' "$request" "
X-Forwarded-Prefix: /v1/boxes/$BOX/ports/$PORT
"
like 'and by which name' "$request" $'\nX-Forwarded-Host: localhost\nX-Forwarded-Proto: http\n'
unlike 'headers of one hop, cookies of others, referrers, addresses stay outside' "$request" \
    '[Xx]-[Hh]op|[Tt][Ee]:|[Cc]ookie|[Rr]eferer|forged|1\.2\.3\.4|h2c'
port GET ''
is 'without a slash' "$STATUS $(header location)" "308 /v1/boxes/$BOX/ports/$PORT/"
port GET /
is 'at least a slash' "$(head -1 <<< "$BODY" | tr -d '\r')" 'GET / HTTP/1.1'
port GET '?x=1'
is_error 'no query without a slash' 400 INVALID
for method in HEAD DELETE PATCH OPTIONS PROPFIND; do
    port "$method" /echo
    is "$method" "$STATUS" 200
    [ "$method" = HEAD ] || like 'is passed on' "$BODY" "^$method /echo "
done
is 'HEAD has the length' "$(port HEAD /echo; header content-length)" \
    "$(port GET /echo; header content-length | awk '{ print $1 + 1 }')"

# ---- bodies in ----

head -c 3000000 /dev/urandom > "$WORK/random"
port POST /upload --data-binary "@$WORK/random" -H 'Expect:'
is 'a body with a length' "$STATUS ${BODY% *}" '201 3000000'
sum=$BODY
port POST /upload --data-binary "@$WORK/random" -H 'Expect:' -H 'Transfer-Encoding: chunked'
is 'the same in chunks' "$BODY" "$sum"
port POST /upload --data-binary "@$WORK/random" -H 'Expect: 100-continue'
is 'and after 100-continue' "$BODY" "$sum"
port POST /upload --data-binary "@$WORK/random" -H 'Expect:' -H 'Content-Encoding: gzip'
is 'whatever its coding' "$BODY" "$sum"
port POST /upload -H 'Content-Length: 0'
is 'an empty one' "$STATUS ${BODY% *}" '201 0'
port POST /early --data-binary "@$WORK/random" -H 'Expect:'
is 'a server that answers before it has read' "$STATUS $BODY" '413 large'

# ---- answers ----

port GET /chunked
is 'chunks' "$STATUS $BODY" '200 onetwo'
port GET /close
is 'until the end of the connection' "$STATUS $BODY" '200 until the end'
port GET /204
is '204' "$STATUS$BODY" 204
port GET /304 -H 'If-None-Match: "a"'
is '304' "$STATUS$BODY$(header etag)" '304"a"'
port GET /404
is 'its errors are its own' "$STATUS $BODY" '404 none'
port GET /599
is 'so is an unknown status' "$STATUS $BODY" '599 odd.'
port GET /100
is 'interim answers' "$STATUS $BODY" '200 final'
port GET /big/30000000
is 'a large one' "$STATUS $(stat -c %s "$WORK/body")" '200 30000000'
port GET /redirect
is 'a path in Location' "$(header location)" "/v1/boxes/$BOX/ports/$PORT/there?x=1"
port GET /redirect-away
is 'somebody else in Location' "$(header location)" //evil.example/
port GET /more
is 'what follows an answer is not taken for another one' "$STATUS $BODY" '200 fine'

# ---- what a page may do ----

port GET /origin
head=$(tr -d '\r' < "$WORK/head")
is 'headers that speak for all of the origin stay inside' \
    "$(grep -ciE '^(strict-transport|clear-site|alt-svc|service-worker|www-auth|keep-alive|x-drop)' <<< "$head")" 0
like 'others do not' "$head" $'\nx-keep: 2\n'
like 'a page is in a sandbox' "$head" $'\nContent-Security-Policy: sandbox allow-scripts'
unlike 'that does not give our origin away' "$head" 'allow-same-origin|allow-top-navigation'
like 'beside its own policy' "$head" $'\ncontent-security-policy: default-src'
is 'no referrer, no guessing, no forged id' \
    "$(grep -ciE '^(referrer-policy: no-referrer|x-content-type-options: nosniff)|unsafe-url|forged' <<< "$head")" 2
port GET /cookie
cookies=$(grep -i '^set-cookie' "$WORK/head" | tr -d '\r')
is 'cookies have a name and a path of their own' "$cookies" \
    "set-cookie: cubby-$BOX-$PORT-a=b; HttpOnly; Path=/v1/boxes/$BOX/ports/$PORT/
set-cookie: cubby-$BOX-$PORT-c=d; Path=/v1/boxes/$BOX/ports/$PORT/"
port GET /echo -H "Cookie: x=1; cubby-$BOX-$PORT-a=b; cubby-$BOX-1-a=9;  cubby-$BOX-$PORT-c=d ; "\
"cubby-0123456789abcdef-$PORT-a=8"
like 'and come back under the old one, alone' "$(tr -d '\r' <<< "$BODY")" $'\nCookie: a=b; c=d\n'
port GET /worker.js -H 'Service-Worker: script'
is_error 'a service worker' 403 DENIED 'service worker'

# ---- bad and absent servers ----

for port in 0 65536 99999999999 -1 8080x %0a x; do
    api GET "$B/ports/$port/"
    is_error "port $port" 400 INVALID 'not a port'
    api GET "$B/ports/$port"
    is_error "port $port without a slash" 400 INVALID 'not a port'
done
api GET "$B/ports/../exec"
is_error 'dots for a port' 400 INVALID
api GET "$B/ports/1/"
is_error 'nobody listens' 502 PROTOCOL "nothing listens on port 1 in the box"
api GET "/v1/boxes/0123456789abcdef/ports/80/x"
is_error 'an unknown box' 404 NOT_FOUND
first=$PORT
[ "$BACKEND" = local ] || run 'cat /proc/net/if_inet6'
if [ "$BACKEND" = local ] || grep -q ' lo$' <<< "$OUT"; then
    server 6
    port GET /echo
    is 'a server on ::1' "$STATUS" 200
else skip 'a server on ::1' 'the box has no IPv6'; fi
PORT=$first

# ---- streams ----

timeout 20 curl -sN --unix-socket "$SOCKET" "http://localhost$B/ports/$PORT/events" > "$WORK/stream" & reader=$!
came() { [ "$(cat "$WORK/stream")" = 'data: one' ]; }
ok 'an event comes at once' eventually 20 came
kill "$reader"
wait "$reader" 2> /dev/null
ok 'a client that goes is gone inside' eventually 20 seen events-closed
timeout 20 curl -s --limit-rate 100k --unix-socket "$SOCKET" "http://localhost$B/ports/$PORT/endless" \
    > "$WORK/endless" & reader=$!
ok 'a flood has begun' eventually 20 test -s "$WORK/endless"
run 'echo meanwhile'
is 'a flood that is read slowly holds up nothing else' "$OUT" meanwhile
kill "$reader"
wait "$reader" 2> /dev/null
ok 'and ends with its reader' eventually 20 seen endless-closed

ws() { # ws PATH: script on standard input; OUTPUT
    OUTPUT=$("$TOOL" ws "$SOCKET" "$B/ports/$PORT$1")
}
ws /ws << 'END'
send hello
expect hello
send \x00\xff
expect \x00\xff
END
is 'a WebSocket to the server' "$(head -4 <<< "$OUTPUT")" 'status 101
accept right
seen
seen'
ok 'its end is seen inside' eventually 5 seen ws-closed
ws /echo << 'END'
END
is 'a server that does not switch' "$(head -1 <<< "$OUTPUT")" 'status 200'
ws '' << 'END'
send GET /chunked HTTP/1.1\r\n\r\n
expect onetwo
END
OUTPUT=$(tr -d '\0' <<< "$OUTPUT")
isnt 'bytes are bytes: chunks are not undone' "$(tail -1 <<< "$OUTPUT")" seen
ws '' << 'END'
send GET /close HTTP/1.1\r\n\r\n
expect until the end
wait
END
like 'any protocol over a WebSocket, and its end' "$OUTPUT" $'seen\nclosed 1000'
ws '' << 'END'
send GET /count HTTP/1.1\r\n\r\n
send 0123456789
text eof
expect counted 33
wait
END
like 'an end towards the server is not the end of its answer' "$OUTPUT" $'seen\nclosed 1000'
OUTPUT=$("$TOOL" ws "$SOCKET" "$B/ports/1" < /dev/null)
like 'nobody there' "$OUTPUT" '^status 502'

# ---- many ----

many() { curl -s --parallel --parallel-max 32 --unix-socket "$SOCKET" \
    "http://localhost$B/ports/$PORT/big/10000?[1-200]" 2> /dev/null | wc -c; }
is 'two hundred at once' "$(many)" 2000000

# ---- the command line ----

c port "$BOX" "$PORT"
is 'cubby port tells where' "$CODE $OUT" "0 http://localhost/v1/boxes/$BOX/ports/$PORT/"
"$CUBBY" port --listen 0 "$BOX" "$PORT" > "$WORK/forward" 2>&1 & forward=$!
local_port() { L=$(sed -n 's,^http://127\.0\.0\.1:\([0-9]*\)/ is port.*,\1,p' "$WORK/forward") && [ -n "$L" ]; }
eventually 10 local_port || fail 'cubby port --listen' "$(< "$WORK/forward")"
is 'leads to the server' "$(curl -s "http://127.0.0.1:$L/close")" 'until the end'
is 'its bytes are exact' "$(curl -s -H 'Expect:' --data-binary "@$WORK/random" "http://127.0.0.1:$L/upload")" "$sum"
is 'many at once' "$(curl -s --parallel --parallel-max 8 "http://127.0.0.1:$L/big/10000?[1-40]" 2> /dev/null | wc -c)" \
    400000
is 'a large answer is exact' "$(curl -s "http://127.0.0.1:$L/big/30000000" | wc -c)" 30000000
is 'an end towards the server is not the end of its answer' "$(python3 -c '
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(b"GET /count HTTP/1.1\r\n\r\n0123456789")
s.shutdown(socket.SHUT_WR)
text = b""
while True:
    more = s.recv(4096)
    if not more: break
    text += more
print(text.decode())' "$L" | grep -o 'counted [0-9]*')" 'counted 33'
kill "$forward"
wait "$forward" 2> /dev/null
c port --browser "$BOX" "$PORT"
case $CODE in
0) like 'a URL for a browser' "$OUT" "^http://$PORT-$BOX\.localhost(:[0-9]+)?/\?cubby_ticket=[0-9]+\.[0-9a-f]{64}$" ;;
*) like 'no URL for a browser where the daemon has no port' "$ERR" 'preview_domain' ;;
esac
c port "$BOX" 0
is 'no port' "$CODE" 2
c port 0123456789abcdef 80
is 'no box' "$CODE" 125

# ---- states and records ----

api POST "$B/pause"
if [[ $STATUS = 20[04] ]]; then
    port GET /echo
    paused=$STATUS$(j .error.code)
    api POST "$B/exec" '{"command":"true"}'
    is 'a paused box answers as to other calls' "$paused" "$STATUS$(j .error.code)"
    api POST "$B/resume"
    port GET /echo
    is 'and goes on with its server' "$STATUS" 200
else skip 'a paused box' "$(j .error.message)"; fi
port GET '/echo/told?secret=word'
audited() { api GET "/v1/audit?box=$BOX&verb=port&tail=1&limit=5"; [[ $BODY = *"GET $PORT/echo/told\""* ]]; }
ok 'the audit log has method, port and path' eventually 10 audited
api GET "/v1/audit?box=$BOX&verb=port&tail=1&limit=5"
unlike 'and no query' "$BODY" 'secret=word'

# ---- whose ----

write_tokens "$WORK/tokens.yaml"
second_start "$WORK/tokens.yaml" "$program"
as ann POST /v1/boxes "{\"backend\":\"$BACKEND\"}"
box_use "$(j .id)"
as bob GET "$B/ports/$PORT/"
is_error "somebody else's port" 404 NOT_FOUND
as eye GET "$B/ports/$PORT/"
is_error 'a token that may only read' 403 DENIED
api GET "$B/ports/$PORT/"
is_error 'no token' 401 UNAUTHORIZED
as admin POST "$B/exec" '{"command":"pwd"}'
HOME_IN_BOX=$(j .stdout)
curl -s --unix-socket "$SOCKET" -H 'Authorization: Bearer ann-token-0123456789abcdef00' -T "$BUILD/test/attack_server" \
    "http://localhost$B/files?path=server&mode=0755" > /dev/null
as ann POST "$B/processes" '{"command":"exec ./server"}'
pid=$(j .pid)
as ann GET "$B/processes/$pid/output?stream=stdout&offset=0&wait_ms=5000"
PORT=$BODY
as ann GET "$B/ports/$PORT/echo"
is "the owner's token opens it" "$STATUS" 200
unlike 'and stays outside' "$BODY" 'token|[Aa]uthorization'
as ann DELETE "$B"
second_end
is 'the second daemon ends in order' $? 0

# ---- a box with a network, a server that others wrote ----

api POST /v1/boxes "{\"backend\":\"$BACKEND\",\"network\":\"open\"}"
if [ "$STATUS" = 201 ]; then
    box_use "$(j .id)"
    upload server "$BUILD/test/attack_server" '&mode=0755'
    server
    port GET /chunked
    is 'a box with a network' "$STATUS $BODY" '200 onetwo'
    api DELETE "$B"
else skip 'a box with a network' "$(j .error.message)"; fi
box_use "${FIRST[4]}"
run 'command -v python3'
if [ "$CODE" = 0 ] && [ "$BACKEND" != local ]; then
    put page/index.html '<p>hello' '&parents=1'
    api POST "$B/processes" '{"command":"cd page && exec python3 -m http.server 8123"}'
    PORT=8123
    serves() { port GET /; [ "$STATUS" = 200 ]; }
    ok "python's server" eventually 20 serves
    port GET /index.html
    is 'its file' "$BODY" '<p>hello'
    is 'its type' "$(header content-type)" text/html
    port GET /none
    is 'its errors' "$STATUS" 404
else skip "python's server" 'no python3, or the ports are the machine'"'"'s own'; fi

# ---- use ----

# What runs in the background would keep the box.
echo 'busy_timeout_ms: 0' >> "$CONFIG"
kill -HUP "$DAEMON_PID"
reread() { grep -q 'configuration .* read again; changed: .*busy_timeout_ms' "$WORK/daemon.log"; }
ok 'the daemon has read that' eventually 10 reread
box_new '"thread":"ports","idle_timeout_ms":700'
upload server "$BUILD/test/attack_server" '&mode=0755'
run pwd
HOME_IN_BOX=$OUT
server
timeout 30 curl -sN --unix-socket "$SOCKET" "http://localhost$B/ports/$PORT/events" > "$WORK/stream" & reader=$!
ok 'a stream of a box with a short time-out' eventually 5 came
now_ms
until_ms=$((NOW + 1500))
passed() { now_ms; [ "$NOW" -ge "$until_ms" ]; }
eventually 5 passed
ok 'a box with an open stream is not idle' kill -0 "$reader"
kill "$reader"
wait "$reader" 2> /dev/null
now_ms
until_ms=$((NOW + 2500))
eventually 5 passed
port GET /echo
is_error 'afterwards it is; a stopped box is started again, without its server' 502 PROTOCOL 'nothing listens'
server
timeout 30 curl -sN --unix-socket "$SOCKET" "http://localhost$B/ports/$PORT/events" > "$WORK/stream" & reader=$!
ok 'a stream of a box' eventually 5 came
api DELETE "$B"
wait "$reader"
# 0: its server's end came first, which is a stream's end
like 'that is deleted ends at once' "$STATUS $?" '^204 (0|18|56)$'
