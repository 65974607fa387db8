# Plain HTTP of a box with a policy: a second Host on a kept connection (A21), heads that can be read in two ways (A22),
# use as a proxy (A23), upgrades (A24), redirects (A25), methods and paths.
# wall: every head is read strictly, judged by its own Host and written anew; the answer's end is known or it is refused
. test/lib/world.sh
. test/lib/gate_lab.sh
if lab_start; then
    cat > "$WORK/http.py" << 'PY'
import re, socket, sys
s = socket.create_connection((sys.argv[1], 80), 5); s.settimeout(4)
rest = b""
def answer():
    global rest
    data, rest = rest, b""
    try:
        while b"\r\n\r\n" not in data:
            got = s.recv(4096)
            if not got: return "closed"
            data += got
        head, _, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        while length and len(body) < int(length[1]): body += s.recv(4096)
        rest = body[int(length[1]) if length else 0:]
        return head.split()[1].decode()
    except socket.timeout: return "silent"
    except OSError: return "reset"
out = []
for text in sys.argv[2:]:
    try: s.sendall(text.encode().decode("unicode_escape").encode("latin1"))
    except OSError: out.append("closed"); continue
    out.append(answer())
print(*out)
PY
    http() { in_box python3 "$WORK/http.py" 93.184.0.10 "$@"; }
    get() { printf 'GET %s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n' "$2" "$1"; }
    world_forget
    is 'A21: a kept connection' "$(http "$(get pypi.test /1)" "$(get pypi.test /2)" "$(get a.hub.test /3)")" \
        '200 200 200'
    is 'A21: another allowed Host has its own upstream' "$(world_tcp | grep -c '^http 93.184.0.11 GET a.hub.test /3')" 1
    world_forget
    is 'A21: another Host is refused' "$(http "$(get pypi.test /1)" "$(get evil.test /2)")" '200 403'
    is 'A21: the world saw one request' "$(world_tcp | grep http)" 'http 93.184.0.10 GET pypi.test /1'
    is 'a pipeline is answered in order' "$(http "$(get pypi.test /1)$(get pypi.test /2)" '')" '200 200'
    # A22
    world_forget
    h='Host: pypi.test\r\n'
    for row in 'POST / HTTP/1.1\r\n'"$h"'Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc' \
        'POST / HTTP/1.1\r\n'"$h"'Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc' \
        'POST / HTTP/1.1\r\n'"$h"'Transfer-Encoding: xchunked\r\n\r\n' 'GET / HTTP/1.1\n'"$h"'\n' \
        'GET / HTTP/1.1\r\n'"$h"'A: b\r\n c\r\n\r\n' 'GET / HTTP/1.1\r\nHost : pypi.test\r\n\r\n' \
        'GET / HTTP/1.1\r\n'"$h"'A: \x00\r\n\r\n' 'GET http://evil.test/ HTTP/1.1\r\n'"$h"'\r\n' \
        'GET / HTTP/1.1\r\n'"$h$h"'\r\n' 'GET / HTTP/1.1\r\nHost: pypi.test@evil.test\r\n\r\n' \
        'GET / HTTP/1.1\r\nHost: pypi.test:80:80\r\n\r\n' 'GET / HTTP/1.1\r\nHost: pypi.test evil\r\n\r\n' \
        'GET / HTTP/1.1\r\n\r\n' 'GET / HTTP/1.1\r\nHost: pypi.test:81\r\n\r\n' \
        'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' 'GET / HTTP/1.1\r\nHost: 93.184.0.11\r\n\r\n'; do
        is "A22: ${row:0:60}" "$(http "$row")" 400
    done
    is 'A22: nothing of it is forwarded' "$(world_tcp)" ''
    # A23
    is 'A23: CONNECT' "$(http 'CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n')" 405
    is 'A23: as a proxy to another host' "$(http 'GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n')" 403
    is 'A23: the address of an allowed one' "$(http 'GET http://pypi.test/x HTTP/1.1\r\nHost: pypi.test\r\n\r\n')" 200
    like 'A23: arrives as a path' "$(world_tcp)" 'GET pypi.test /x'
    # A24
    is 'A24: a WebSocket' "$(in_box python3 -c "
import socket
s = socket.create_connection(('93.184.0.10', 80), 5); s.settimeout(4)
s.sendall(b'GET /ws HTTP/1.1\r\nHost: pypi.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
head = s.recv(4096); s.sendall(b'hi'); print(head.split()[1].decode(), s.recv(100).decode())")" '101 ws:hi'
    is 'A24: h2c is taken out' "$(in_box curl -s -m 5 --http2 http://pypi.test/ |
        jq -c '[.fields.upgrade, .fields["http2-settings"], .fields.connection]')" '[null,null,null]'
    # A25
    is 'A25: a redirect to a denied host' "$(in_box curl -sL -m 5 -o /dev/null -w '%{http_code} %{errormsg}' \
        http://pypi.test/redirect/http://evil.test/ | cut -c1-30)" '302 Could not resolve host: ev'
    # bodies
    head -c 300000 /dev/zero | tr '\0' a > "$WORK/body"
    is 'a body with a length arrives' "$(in_box curl -s -m 5 --data-binary @"$WORK/body" http://pypi.test/ |
        jq '.body | length')" 300000
    is 'and one in chunks' "$(in_box curl -s -m 5 -H 'Transfer-Encoding: chunked' --data-binary @"$WORK/body" \
        http://pypi.test/ | jq '.body | length')" 300000
    is 'an answer in chunks' "$(in_box curl -s -m 5 http://pypi.test/chunks)" 'hello world'
    is 'HEAD' "$(in_box curl -sI -m 5 http://pypi.test/ | head -1 | tr -d '\r')" 'HTTP/1.1 200 OK'
    is 'a large answer' "$(in_box curl -s -m 20 http://pypi.test/bytes/50000000 | wc -c)" 50000000
    # methods and paths
    lab '{"put": {"allow": [{"host": "pypi.test", "methods": ["GET"], "paths": ["/simple/**"]}]}}'
    code() { in_box curl -s -m 5 --path-as-is -o /dev/null -w '%{http_code}' "$@"; }
    is 'a method and a path that fit' "$(code http://pypi.test/simple/x/y)" 200
    is 'another path' "$(code http://pypi.test/other)" 403
    is 'another method' "$(code -X POST http://pypi.test/simple/x)" 403
    is 'a path that could be read otherwise' "$(code http://pypi.test/simple/%2e%2e/x) $(code \
        http://pypi.test/simple/../x) $(code http://pypi.test/simple//x)" '403 403 403'
    like 'a row names the request' "$(lab_rows '"\(.kind) \(.name) \(.method) \(.status) \(.why)"')" \
        '2 pypi.test POST 403 request'
    # slow heads
    lab "{\"put\": $LAB_POLICY}"
    now_ms
    before=$NOW
    in_box timeout 15 python3 -c "
import socket
s = socket.create_connection(('93.184.0.10', 80), 5); s.sendall(b'GET / HT'); s.settimeout(14)
try: s.recv(100)
except OSError: pass"
    now_ms
    between 'A40: a head that never ends' $((NOW - before)) 9000 12500
else
    fail 'the lab starts' "$(cat "$WORK/lab/errors")"
fi
lab_end
