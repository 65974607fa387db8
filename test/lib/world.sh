# The internet of the network tests: a namespace W with its own DNS, HTTP, TLS and other servers (world.py), and
# addresses of the whole internet on its loopback. Nothing leaves these namespaces. Needs root.
#   world_start            W runs; its files are below $WORLD: zone.json, dns.log, tcp.log, ca.pem
#   world_join PID         the network namespace of PID gets a way to W: 9.9.9.1 there, W is 9.9.9.2 and everything else
#   W COMMAND...           in W
#   world_forget; world_dns; world_tcp     empties both logs; what was asked and what was connected since
WORLD_ADDRESSES='93.184.0.53 93.184.0.10 93.184.0.11 93.184.0.12 93.184.0.13 93.184.0.20 93.184.0.21 93.184.0.22 8.8.8.8
 9.9.9.66 10.7.1.1 10.8.0.1 10.9.9.9 169.254.169.254 168.63.129.16 100.100.100.200'

world_zone() {
    cat > "$WORLD/zone.json" << 'ZONE'
{"pypi.test": {"a": ["93.184.0.10"]}, "a.hub.test": {"a": ["93.184.0.11"]}, "b.hub.test": {"a": ["93.184.0.11"]},
 "bad.hub.test": {"a": ["93.184.0.11"]}, "api.hub.test": {"a": ["93.184.0.12"]}, "*.hub.test": {"a": ["93.184.0.11"]},
 "git.test": {"a": ["93.184.0.13"]}, "db.test": {"a": ["93.184.0.13"]}, "time.test": {"a": ["93.184.0.20"]},
 "evil.test": {"a": ["9.9.9.66"]}, "inner.test": {"a": ["10.7.1.1"]}, "six.test": {"aaaa": ["2606:4700::10"]}}
ZONE
}

world_start() {
    WORLD=$WORK/world.d
    mkdir -p "$WORLD"
    world_zone
    : > "$WORLD/dns.log"
    : > "$WORLD/tcp.log"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=world \
        -keyout "$WORLD/ca.key" -out "$WORLD/ca.pem" 2> /dev/null
    local names=DNS:pypi.test,DNS:*.hub.test,DNS:git.test,DNS:evil.test,DNS:six.test
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=pypi.test -keyout "$WORLD/key.pem" \
        2> /dev/null | openssl x509 -req -CA "$WORLD/ca.pem" -CAkey "$WORLD/ca.key" -days 7 -out "$WORLD/leaf.pem" \
        -extfile <(echo "subjectAltName=$names") 2> /dev/null
    cat "$WORLD/leaf.pem" "$WORLD/key.pem" > "$WORLD/world.pem"
    local python=/usr/bin/python3
    [ -x "$python" ] || python=python3
    unshare -n sh -c 'ip link set lo up; for a in $1; do ip addr add "$a/32" dev lo; done
        ip -6 addr add 2606:4700::10/128 dev lo nodad; exec "$2" "$3" "$4"' \
        sh "$WORLD_ADDRESSES" "$python" "$(dirname "${BASH_SOURCE[0]}")/world.py" "$WORLD" > "$WORLD/out" 2>&1 &
    WORLD_PID=$!
    world_ready() { grep -qx ready "$WORLD/tcp.log"; }
    eventually 10 world_ready
}

W() { nsenter -t "$WORLD_PID" -n "$@"; }

world_join() { # world_join PID
    nsenter -t "$1" -n ip link add wan type veth peer name lan netns "$WORLD_PID" &&
        nsenter -t "$1" -n sh -c 'ip link set lo up; ip addr add 9.9.9.1/24 dev wan; ip link set wan up
            ip -6 addr add 2606:4700:ffff::1/64 dev wan nodad' &&
        W sh -c 'ip addr add 9.9.9.2/24 dev lan; ip link set lan up
            ip -6 addr add 2606:4700:ffff::2/64 dev lan nodad' &&
        nsenter -t "$1" -n sh -c 'ip route add default via 9.9.9.2; ip -6 route add default via 2606:4700:ffff::2'
}

world_forget() { : > "$WORLD/dns.log"; : > "$WORLD/tcp.log"; }
world_dns() { sort -u "$WORLD/dns.log"; }
world_tcp() { grep -v ready "$WORLD/tcp.log" | sort -u; }
world_end() { kill "$WORLD_PID" 2> /dev/null; wait "$WORLD_PID" 2> /dev/null; }
