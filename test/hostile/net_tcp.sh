# Connections of a box with a policy: addresses without a name, moved names (A10), other addresses for an allowed name
# (A11), this machine (A12), other networks (A14), ClientHellos of all kinds (A15 to A18), a Host other than the SNI
# (A19), other protocols (A20), QUIC (A27), UDP (A28), the gate's own address (A31), IPv6 (A32); the change that is a
# barrier (A33, A36), a killed gate (A37), one without descriptors (A41), limits (A39, A42), a question and its answer.
# wall: the gate dials the name itself, never what the box aimed at; one decision for all; the kernel refuses without it
. test/lib/world.sh
. test/lib/gate_lab.sh
zone() { jq -c ". + $1" "$WORLD/zone.json" > "$WORLD/zone.next" && mv "$WORLD/zone.next" "$WORLD/zone.json"; }
if lab_start; then
    look() { in_box getent ahostsv4 "$1" | awk 'NR == 1 { print $1 }'; }
    say() { # say ADDRESS PORT TEXT: what comes back
        in_box timeout 8 python3 -c "
import socket, sys
try:
    s = socket.create_connection(('$1', $2), 3); s.settimeout(4); s.sendall(b'$3')
    print(s.recv(200).decode().strip() or 'closed')
except socket.timeout: print('silent')
except OSError as e: print(e.strerror)"
    }
    hello() { in_box python3 test/lib/hello.py "$@"; }
    refused='Connection refused|Connection reset by peer'
    # A10
    like 'A10: an address that no look-up gave' "$(say 93.184.0.13 22 x)" "$refused"
    is 'A10: looked up' "$(look git.test)" 93.184.0.13
    like 'A10: the same address now' "$(say 93.184.0.13 22 x)" '^SSH-2.0-world 93.184.0.13'
    zone '{"git.test": {"a": ["93.184.0.12"], "ttl": 0}}'
    lab '{"drop": true}' && lab "{\"put\": $LAB_POLICY}"
    zone '{"git.test": {"a": ["93.184.0.13"], "ttl": 0, "next": {"a": ["93.184.0.12"], "ttl": 0}}}'
    look git.test > /dev/null
    like 'A10: a name that moved is reached where it is' "$(say 93.184.0.13 22 x)" '^SSH-2.0-world 93.184.0.12'
    # A11
    world_forget
    is 'A11: an allowed name at another address' "$(in_box curl -s -m 5 -k https://pypi.test/ --resolve \
        pypi.test:443:9.9.9.66 | jq -r .at)" 93.184.0.10
    is 'A11: over plain HTTP' "$(in_box curl -s -m 5 http://pypi.test/ --resolve pypi.test:80:9.9.9.66 | jq -r .at)" \
        93.184.0.10
    is 'A11: that address sees nothing' "$(world_tcp | grep 9.9.9.66)" ''
    # A12
    nsenter -t "$LAB_PID" -n python3 -m http.server 7777 --bind 0.0.0.0 > /dev/null 2>&1 &
    server=$!
    serves() { nsenter -t "$LAB_PID" -n curl -s -o /dev/null http://127.0.0.1:7777/; }
    eventually 10 serves
    host_name=host.cubby.internal
    is 'A12: the machine has no name without an entry' "$(look $host_name)" ''
    like 'A12: its address' "$(say 9.9.9.1 7777 'GET / HTTP/1.0\r\n\r\n')" "$refused"
    lab "{\"put\": {\"allow\": [\"host:7777\", \"host:7778\", \"9.9.9.0/24:7777\"]}}"
    like 'A12: its address, with a network that has it' "$(say 9.9.9.1 7777 'GET / HTTP/1.0\r\n\r\n')" "$refused"
    address=$(look $host_name)
    like 'A12: with an entry' "$(say "$address" 7777 'GET / HTTP/1.0\r\n\r\n')" '^HTTP/1.0 200'
    like 'A12: a port that the configuration does not name' "$(say "$address" 7778 'GET / HTTP/1.0\r\n\r\n')" "$refused"
    kill "$server"
    wait "$server" 2> /dev/null
    lab "{\"put\": $LAB_POLICY}"
    # A14
    like 'A14: a network that is allowed' "$(say 10.7.1.1 8443 x)" '^10.7.1.1 x'
    like 'A14: another port' "$(say 10.7.1.1 8444 x)" "$refused"
    like 'A14: another network' "$(say 10.8.0.1 8443 x)" "$refused"
    like 'A14: as a mapped address' "$(say ::ffff:10.7.1.1 8443 x)" '^10.7.1.1 x'
    is 'A14: a name that leads there without private' "$(hello 10.7.1.1 443 sni=inner.test)" 'alert 112'
    like 'A14: a row says why' "$(lab_rows '"\(.denied) \(.name) \(.why)"')" '1 inner.test private'
    # A15 to A18
    is 'A15: no name' "$(hello 93.184.0.10 443)" 'alert 112'
    is 'A15: an address as the name' "$(hello 93.184.0.10 443 sni=93.184.0.10)" 'alert 112'
    is 'A16: upper case' "$(hello 93.184.0.10 443 sni=PYPI.TEST)" server
    is 'A16: a dot at the end' "$(hello 93.184.0.10 443 sni=pypi.test.)" server
    for name in "$(printf 'a%.0s' {1..300}).test" 'pypi.test\x00' 'pypi .test' 'pypi.test,evil.test'; do
        is "A16: ${name:0:20}" "$(hello 93.184.0.10 443 "sni=$name")" 'alert 112'
    done
    is 'A16: the extension twice' "$(hello 93.184.0.10 443 sni=pypi.test twice)" 'alert 112'
    is 'A16: an empty list' "$(hello 93.184.0.10 443 empty)" 'alert 112'
    is 'A17: in single bytes' "$(hello 93.184.0.10 443 sni=pypi.test split=bytes)" server
    is 'A17: in four records' "$(hello 93.184.0.10 443 sni=pypi.test split=records)" server
    is 'A17: 12 KiB' "$(hello 93.184.0.10 443 sni=pypi.test pad=12000)" server
    is 'A17: 17 KiB' "$(hello 93.184.0.10 443 sni=pypi.test pad=17000)" 'alert 112'
    is 'A17: never finished' "$(hello 93.184.0.10 443 sni=pypi.test cut wait=12)" 'alert 112'
    is 'A18: ECH with an outer name that is not allowed' "$(hello 93.184.0.10 443 sni=evil.test ech)" 'alert 112'
    is 'A18: GREASE' "$(hello 93.184.0.10 443 sni=pypi.test ech)" server
    is 'A19: another Host inside is not seen' "$(in_box curl -s -m 5 -k -H 'Host: other.test' https://pypi.test/ |
        jq -r .host)" other.test
    lab '{"rows": true}'
    is 'A20: HTTP on 443' "$(hello 93.184.0.10 443 'raw=GET / HTTP/1.1\r\n\r\n')" 'alert 112'
    is 'A20: SSH on 443' "$(hello 93.184.0.10 443 'raw=SSH-2.0-x\r\n')" 'alert 112'
    like 'A20: TLS on 80' "$(hello 93.184.0.10 80 sni=pypi.test)" 'HTTP/1.1 400'
    like 'A20: SSH on 80' "$(hello 93.184.0.10 80 'raw=SSH-2.0-x\r\n')" 'HTTP/1.1 400'
    like 'A20: the reason is in the row' "$(lab_rows .why)" 'not TLS'
    # A27, A28
    udp() { in_box python3 -c "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2); s.connect(('$1', $2)); s.send(b'x')
try: print(s.recv(100).decode())
except socket.timeout: print('silent')
except OSError as e: print(e.strerror)"; }
    is 'A27: QUIC' "$(udp 93.184.0.10 443)" 'Connection refused'
    look time.test > /dev/null
    is 'A28: NTP to an allowed name, from the address that was asked' "$(udp 93.184.0.20 123)" '93.184.0.20 x'
    is 'A28: the same port of another address' "$(udp 93.184.0.21 123)" silent
    is 'A28: another port' "$(udp 93.184.0.20 124)" 'Connection refused'
    # A31, A32
    for _ in {1..50}; do say 127.255.255.254 1 x; done | sort -u > "$WORK/own"
    like "A31: the gate's own address" "$(cat "$WORK/own")" "^($refused)$"
    lab '{"count": true}'
    between 'A31: nothing is left of it' "$(jq .active <<< "$LAB_ANSWER")" 0 4
    like 'A32: a name with IPv6 only gets an address of ours' "$(look six.test)" '^198\.18\.0\.' 
    is 'A32: and the gate dials IPv6' "$(in_box curl -s -m 5 -k https://six.test/ | jq -r .at)" 2606:4700::10
    like 'A32: an IPv6 address itself' "$(say 2606:4700::10 443 x)" unreachable
    # A33, A36
    lab '{"count": true}'
    dials=$(jq .dials <<< "$LAB_ANSWER")
    in_box curl -s -k -m 60 https://pypi.test/bytes/100000000000 > /dev/null &
    download=$!
    idle() { in_box openssl s_client -quiet -connect 93.184.0.11:443 -servername "$1" < "$WORK/idle" > /dev/null 2>&1; }
    mkfifo "$WORK/idle"
    exec 9<> "$WORK/idle"
    idle a.hub.test &
    other=$!
    idle b.hub.test &
    last=$!
    three() { lab '{"count": true}'; [ "$(jq '.dials * 9 + .active' <<< "$LAB_ANSWER")" -ge $((dials * 9 + 30)) ]; }
    ok 'three connections are open' eventually 10 three
    lab "{\"put\": {\"allow\": [\"*.hub.test\"], \"deny\": [\"b.hub.test\"]}}"
    is 'A33: the change cuts two' "$(jq .cut <<< "$LAB_ANSWER")" 2
    now_ms
    before=$NOW
    wait "$download"
    isnt 'A33: the download has ended' $? 0
    wait "$last"
    isnt 'A36: so has the denied one of the same address' $? 0
    now_ms
    between 'A33: at once' $((NOW - before)) 0 500
    ok 'A36: the other goes on' kill -0 "$other"
    like 'A33: rows say so' "$(lab_rows '"\(.kind) \(.name) \(.why)"')" '3 pypi.test default'
    exec 9>&-
    kill "$other"
    wait "$other" 2> /dev/null
    # A37
    lab "{\"put\": $LAB_POLICY}"
    address=$(look git.test)
    lab '{"kill": true}'
    like 'A37: without a gate nothing passes' "$(say "$address" 22 x)" "$refused|silent|timed out"
    lab '{"start": true}'
    look git.test > /dev/null
    like 'A37: with a new one it does' "$(say "$address" 22 x)" '^SSH-2.0-world'
    # A41
    lab '{"kill": true}'
    lab '{"start": true, "descriptors": 60}'
    lab '{"put": {"allow": ["db.test:5432"], "limits": {"connections": 4096, "per_second": 10000}}}'
    look db.test > /dev/null
    between 'A41: without descriptors some connections are served' \
        "$(in_box python3 test/lib/net_exhaust.py many db.test 5432 200)" 1 30
    recovered() { [ "$(in_box python3 test/lib/net_exhaust.py many db.test 5432 5)" = 5 ]; }
    ok 'A41: and more when they are closed, by the same gate' eventually 10 recovered
    lab '{"kill": true}'
    lab '{"start": true}'
    # limits
    lab "{\"put\": {\"allow\": [\"db.test:5432\"], \"limits\": {\"connections\": 5, \"per_second\": 20}}}"
    look db.test > /dev/null
    in_box python3 -c "
import socket, time
held = []
for i in range(100):
    s = socket.socket(); s.settimeout(2); s.connect_ex(('93.184.0.13', 5432)); held.append(s)
alive = 0
for s in held:
    try: s.send(b'x'); alive += s.recv(100).startswith(b'93.')
    except OSError: pass
print(alive)" > "$WORK/alive"
    is 'A39: so many connections and no more' "$(cat "$WORK/alive")" 5
    like 'A39: a row says which limit' "$(lab_rows .why)" 'limit:connections'
    lab "{\"put\": {\"allow\": [\"pypi.test\"], \"limits\": {\"mbit\": 10}}}"
    now_ms
    before=$NOW
    in_box curl -s -k -m 20 https://pypi.test/bytes/2500000 -o /dev/null
    now_ms
    between 'A42: 20 Mbit take two seconds at 10 Mbit' $((NOW - before)) 1700 3200
    # questions
    lab '{"put": {"mode": "ask", "allow": ["pypi.test"], "deny": ["bad.hub.test"], "ask_timeout_ms": 5000}}'
    world_forget
    lab '{"rows": true}'
    in_box curl -s -m 10 -k https://evil.test/ > "$WORK/asked" &
    asked=$!
    question() { lab_rows 'select(.kind == 4).question' > "$WORK/question"; [ -s "$WORK/question" ]; }
    ok 'ask: a question is put' eventually 5 question
    is 'ask: nothing has left' "$(world_dns; world_tcp)" ''
    lab "{\"answer\": $(head -1 "$WORK/question"), \"allow\": true, \"for_ms\": 3000}"
    wait "$asked"
    is 'ask: allowed, it goes on' "$(jq -r .at "$WORK/asked")" 9.9.9.66
    is 'ask: and for a while without another question' "$(in_box curl -s -m 4 -k https://evil.test/ | jq -r .at)" \
        9.9.9.66
    is 'ask: a deny entry is never asked about' "$(look bad.hub.test)" ''
    lab '{"put": {"mode": "observe", "allow": ["pypi.test"]}}'
    lab '{"rows": true}'
    is 'observe: not allowed passes' "$(in_box curl -s -m 4 -k https://evil.test/ | jq -r .at)" 9.9.9.66
    like 'observe: and is recorded' "$(lab_rows '"\(.observed) \(.name) \(.why)"')" '1 evil.test default'
    like 'observe: private addresses stay closed' "$(say 10.8.0.1 8443 x)" "$refused"
    # what it gave up
    gate=$(pgrep -P "$LAB_PID" cubby-gate)
    is 'the gate has a user of its own and no capabilities' "$(awk '/^Uid/ { print $2 } /^CapEff/ { print $2 }
        /^Seccomp:/ { print $2 }' "/proc/$gate/status" | tr '\n' ' ')" '300000000 0000000000000000 2 '
    is 'an empty root' "$(ls -A "/proc/$gate/root")" ''
else
    fail 'the lab starts' "$(cat "$WORK/lab/errors")"
fi
lab_end
