# Servers in a box under a host name of their own, PORT-ID.localhost: an origin for each, opened by a ticket; and the
# connections to a server that are kept for the next request.
# by default: jail

put_server() { upload server "$BUILD/test/attack_server" '&mode=0755'; }
serve() { # serve COMMAND...: in the current box; PORT is what it prints first
    api POST "$B/processes" "$(jq -nc --arg command "$*" '{command: $command}')"
    local pid
    pid=$(j .pid)
    PORT=
    listens() {
        api GET "$B/processes/$pid/output?stream=stdout&offset=0&wait_ms=1000"
        PORT=${BODY%%[!0-9]*}
        [[ $PORT =~ ^[0-9]+$ ]]
    }
    eventually 10 listens || fail 'a server in the box' "$STATUS $BODY"
}
host() { # host METHOD PATH [CURL OPTION...]: by the name of the current box and port
    local method=$1 path=$2
    shift 2
    api "$method" "$path" '' -H "Host: $PORT-$BOX.localhost" "$@"
}
put_server
serve exec ./server

# ---- what goes in ----

host GET '/echo/a%2Fb/../c?d=e&d=f' -H 'Cookie: a=1; cubby-preview=2; b=3' -H 'Authorization: Basic abc' -H 'X-Own: 1'
is 'a request' "$STATUS" 200
request=$(tr -d '\r' <<< "$BODY")
is 'its path and query are as they were sent' "$(head -1 <<< "$request")" 'GET /echo/a%2Fb/../c?d=e&d=f HTTP/1.1'
like 'the server is asked as itself' "$request" "
Host: localhost:$PORT
"
like 'cookies keep their names, and ours stays outside' "$request" $'\nCookie: a=1; b=3\n'
like 'what is for the server gets to it' "$request" $'\nauthorization: Basic abc\n'
unlike 'there is no prefix' "$request" '[Pp]refix'
for path in /v1/boxes /healthz /openapi.json; do
    host GET "$path"
    like "every path is the server's: $path" "$BODY" "^GET $path HTTP/1.1"
done
api GET "/_preview/$BOX/$PORT/echo"
is_error 'no path leads there' 404 NOT_FOUND
for name in "$PORT-$BOX.localhost.evil" "x-$BOX.localhost" "$PORT-.localhost" "0-$BOX.localhost" \
    "99999-$BOX.localhost"; do
    api GET /echo '' -H "Host: $name"
    is "not such a name: $name" "$STATUS" 404
done
PORT_BEFORE=$PORT PORT=1
host GET /
is_error 'nobody listens' 502 PROTOCOL 'nothing listens on port 1'
PORT=$PORT_BEFORE
api GET / '' -H "Host: $PORT-0123456789abcdef.localhost"
is_error 'an unknown box' 404 NOT_FOUND

# ---- what comes out ----

host GET /origin
head=$(tr -d '\r' < "$WORK/head")
unlike 'a page is not in a sandbox' "$head" 'sandbox allow'
like 'what concerns its own origin passes' "$head" $'\nservice-worker-allowed: /\n'
is 'what concerns more does not' "$(grep -ciE '^(strict-transport|clear-site|alt-svc|x-drop)' <<< "$head")" 0
host GET /cookie
is 'cookies are for its own host alone' "$(grep -i '^set-cookie' "$WORK/head" | tr -d '\r')" \
    'set-cookie: a=b; Path=/; HttpOnly
set-cookie: c=d'
host GET /redirect
is 'a path in Location' "$(header location)" '/there?x=1'
host GET /big/3000000
is 'a large one' "$STATUS $(stat -c %s "$WORK/body")" '200 3000000'

# ---- other sites ----

host POST /echo -H 'Origin: http://evil.example'
is_error 'a page of another site' 403 DENIED 'another site'
host POST /echo -H "Origin: http://1-$BOX.localhost"
is_error 'a page of another port' 403 DENIED 'another site'
host GET /echo -H 'Sec-Fetch-Site: cross-site' -H 'Sec-Fetch-Mode: no-cors'
is_error 'a picture in a page of another site' 403 DENIED 'another site'
host GET /echo -H 'Sec-Fetch-Site: cross-site' -H 'Sec-Fetch-Mode: navigate'
is 'a link is followed' "$STATUS" 200
host POST /echo -H "Origin: http://$PORT-$BOX.localhost" -H 'Sec-Fetch-Site: same-origin'
is 'its own pages' "$STATUS" 200

# ---- connections that are kept ----

server_py=$(cat << 'END'
import http.server, sys
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        self.rfile.read(int(self.headers.get('Content-Length') or 0))
        text = ('%d\n' % self.client_address[1]).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(text)))
        if self.path == '/close': self.send_header('Connection', 'close')
        self.end_headers()
        self.wfile.write(text)
        if self.path == '/close': self.close_connection = True
    do_POST = do_GET
    def log_message(self, *args): pass
kind = http.server.ThreadingHTTPServer if sys.argv[1] == 'many' else http.server.HTTPServer
server = kind(('127.0.0.1', 0), H)
print(server.server_address[1], flush=True)
server.serve_forever()
END
)
run 'command -v python3'
if [ "$CODE" = 0 ]; then
    put server.py "$server_py"
    serve exec python3 server.py many
    host GET /
    first=$BODY
    host GET /
    is 'the next request goes over the same connection' "$BODY" "$first"
    host GET /close
    host GET /
    isnt 'not after its server said that it closes it' "$BODY" "$first"
    first=$BODY
    host POST / -d 'x'
    isnt 'what may not be sent twice never goes over an idle one' "$BODY" "$first"
    is 'many at once' "$(curl -s --parallel --parallel-max 16 --unix-socket "$SOCKET" -H "Host: $PORT-$BOX.localhost" \
        "http://localhost/?[1-100]" 2> /dev/null | grep -c '^[0-9]')" 100
    # A server that serves one connection at a time does not read another while ours is open.
    serve exec python3 server.py one
    now_ms
    begun=$NOW
    for method in GET POST GET POST; do host "$method" / -d x; done
    is 'a server with one connection at a time' "$STATUS" 200
    is 'several at once' "$(curl -s --parallel --parallel-max 4 --unix-socket "$SOCKET" -H "Host: "\
"$PORT-$BOX.localhost" \
        "http://localhost/?[1-12]" 2> /dev/null | grep -c '^[0-9]')" 12
    now_ms
    between 'is not held up, in ms' $((NOW - begun)) 0 3500
    idle() { run "awk '\$2 ~ /:$(printf %04X "$PORT")\$/ && \$4 == \"01\"' /proc/net/tcp | wc -l"; [ "$OUT" = 0 ]; }
    ok 'an idle connection is closed after some seconds' eventually 15 idle
else skip 'connections that are kept' 'no python3'; fi

# ---- tickets ----

write_tokens "$WORK/preview.yaml"
echo 'preview_domain: boxes.example:7443' >> "$WORK/preview.yaml"
second_start "$WORK/preview.yaml" "$program"
ticket() { # ticket WHO PORT: TICKET, or STATUS and BODY of a refusal
    as "$1" POST "$B/tickets" "{\"port\":$2}"
    TICKET=$(j .ticket)
}
named() { # named PATH [CURL OPTION...]: by the configured domain
    local path=$1
    shift
    api GET "$path" '' -H "Host: $PORT-$BOX.boxes.example:7443" "$@"
}
as ann POST /v1/boxes "{\"backend\":\"$BACKEND\"}"
other=$(j .id)
as ann POST /v1/boxes "{\"backend\":\"$BACKEND\"}"
box_use "$(j .id)"
curl -s --unix-socket "$SOCKET" -H 'Authorization: Bearer ann-token-0123456789abcdef00' -T "$BUILD/test/attack_server" \
    "http://localhost$B/files?path=server&mode=0755" > /dev/null
as ann POST "$B/processes" '{"command":"exec ./server"}'
pid=$(j .pid)
as ann GET "$B/processes/$pid/output?stream=stdout&offset=0&wait_ms=5000"
PORT=$BODY
named /echo
is_error 'without a ticket' 401 UNAUTHORIZED "POST /v1/boxes/$BOX/tickets"
named /echo -H 'Authorization: Bearer ann-token-0123456789abcdef00'
is "the owner's token" "$STATUS" 200
unlike 'which stays outside' "$BODY" 'ann-token'
named /echo -H 'Authorization: Bearer bob-token-0123456789abcdef00'
is_error "somebody else's token" 404 NOT_FOUND
ticket bob "$PORT"
is_error "a ticket for somebody else's box" 404 NOT_FOUND
ticket eye "$PORT"
is_error 'a token that may only read' 403 DENIED
ticket ann 0
is_error 'not a port' 400 INVALID
ticket ann "$PORT"
is 'a ticket' "$STATUS $(j .origin)" "201 http://$PORT-$BOX.boxes.example:7443"
is 'and its URL' "$(j .url)" "http://$PORT-$BOX.boxes.example:7443/?cubby_ticket=$TICKET"
named "/echo?a=b&cubby_ticket=$TICKET&c=d"
is 'leaves the address' "$STATUS $(header location)" '303 /echo?a=b&c=d'
cookie=$(header set-cookie)
like 'and becomes a cookie' "$cookie" '^cubby-preview=[0-9]+\.[0-9a-f]{64}; Path=/; Max-Age=43200; HttpOnly; '\
'SameSite=Lax$'
cookie=${cookie%%;*}
named "//evil.example/?cubby_ticket=$TICKET"
is 'it does not lead away' "$(header location)" '/evil.example/'
named /echo -H "Cookie: cubby-preview=1.x; x=y; $cookie" -H 'Authorization: Bearer of-the-server'
is 'which opens the preview' "$STATUS" 200
like 'with what is for the server' "$BODY" 'of-the-server'
unlike 'and without the cookie' "$BODY" 'cubby-preview'
api GET /echo '' -H "Host: $PORT-$other.boxes.example:7443" -H "Cookie: $cookie"
is_error 'not that of another box' 401 UNAUTHORIZED
api GET "/echo?cubby_ticket=$TICKET" '' -H "Host: $PORT-$other.boxes.example:7443"
is_error 'nor does the ticket' 401 UNAUTHORIZED 'is for another box or has expired'
api GET /echo '' -H "Host: $PORT-0123456789abcdef.boxes.example:7443" -H "Cookie: $cookie"
is_error 'a box that does not exist answers as one that is not shown' 401 UNAUTHORIZED
named "/echo?cubby_ticket=${TICKET%?}"
is_error 'a broken ticket' 401 UNAUTHORIZED 'is for another box or has expired'
named /echo -H "Cookie: cubby-preview=$TICKET"
is_error 'a ticket is not a cookie' 401 UNAUTHORIZED
api GET "/v1/boxes" '' -H "Cookie: $cookie"
is_error 'a cookie opens nothing else' 401 UNAUTHORIZED
as ann DELETE "$B"
as ann DELETE "/v1/boxes/$other"
second_end
is 'the second daemon ends in order' $? 0
