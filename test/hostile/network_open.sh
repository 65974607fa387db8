# Network `open`: cloud metadata, the machine itself, its gateway and services, other boxes, private networks, IPv6,
# addresses in disguise, spoofed sources. In network namespaces of the test's own: D with the daemon, W for the world.
# wall: nftables on the box's interface (a chain of its own for every box); no IPv6; one address
cat > "$WORK/world.py" << 'END'
import socket, select, sys, threading
log = open(sys.argv[1], "a")
def tcp(port):
    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR,
          1); s.bind(("0.0.0.0", port)); s.listen(64)
    while True: s.accept()[0].close()
def udp(port, address): # one socket an address: the answer comes from the one that was asked
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((address, port))
    while True:
        data, peer = s.recvfrom(100); log.write("%s %s\n" % (data.decode(), peer[0])); log.flush(); s.sendto(data, peer)
for port in 80, 53, 7070: threading.Thread(target=tcp, args=(port,)).start()
for address in sys.argv[2:]: threading.Thread(target=udp, args=(53, address)).start()
log.write("ready\n"); log.flush()
END
python=/usr/bin/python3
[ -x "$python" ] || python=python3
addresses='8.8.8.8 169.254.169.254 10.9.9.9 172.16.5.5 192.168.7.7 100.64.1.1 198.18.0.1 10.1.2.3 10.66.0.53'
unshare -n sh -c "ip link set lo up; for a in $addresses; do ip addr add \$a/32 dev lo; done; exec "\
"$python '$WORK/world.py' '$WORK/world' $addresses" > /dev/null 2>&1 &
world=$!
W() { nsenter -t "$world" -n "$@"; }
D() { nsenter -t "$DAEMON_PID" -n "$@"; }
in_world() { grep -qx ready "$WORK/world"; }
eventually 10 in_world
printf 'nameserver 10.66.0.53\nnameserver 127.0.0.53\n' > "$WORK/resolv"
# Without jails made ahead, which have interfaces of their own.
{ grep -v '^pool_size:' "$CONFIG"; printf 'pool_size: 0\nopen_networks:\n  - 10.1.0.0/16\n'; } > "$WORK/open.yaml"
if second_start "$WORK/open.yaml" unshare -n -m sh \
    -c 'mount --bind "$0" /etc/resolv.conf; ip link set lo up; sysctl -qw net.ipv4.ip_forward=1; exec "$@"' \
    "$WORK/resolv" "$BUILD/cubbyd" \
    && D ip link add wan type veth peer name lan netns "$world" && D ip addr add 9.9.9.1/24 dev wan &&
    D ip link set wan up \
    && W ip addr add 9.9.9.2/24 dev lan && W ip link set lan up && D ip route add default via 9.9.9.2 &&
    box_new '"network":"open"'; then
    # the host's own services, on every address of it
    nsenter -t "$DAEMON_PID" -n "$python" "$WORK/world.py" "$WORK/host" > /dev/null 2>&1 &
    services=$!
    in_host() { grep -qx ready "$WORK/host"; }
    eventually 10 in_host
    first=$BOX
    to() { attack isolation "connect $*"; }
    for row in '8.8.8.8 80 OK' '8.8.8.8 53 OK udp' '::ffff:8.8.8.8 80 OK' '10.1.2.3 80 OK' '10.66.0.53 53 OK' \
        '10.66.0.53 53 OK udp' \
        '10.66.0.53 80 ECONNREFUSED' '169.254.169.254 80 ECONNREFUSED' '169.254.169.254 53 EHOSTUNREACH udp' \
    '::ffff:169.254.169.254 80 ECONNREFUSED' \
        '10.9.9.9 80 ECONNREFUSED' '172.16.5.5 80 ECONNREFUSED' '192.168.7.7 80 ECONNREFUSED' \
    '192.168.7.7 53 EHOSTUNREACH udp' '100.64.1.1 80 ECONNREFUSED' \
        '198.18.0.1 80 ECONNREFUSED' '9.9.9.1 7070 ECONNREFUSED' '127.0.0.1 7070 ECONNREFUSED' \
        'fd00:ec2::254 80 ENETUNREACH' '2001:4860:4860::8888 53 ENETUNREACH' '::1 7070 ECONNREFUSED'; do
        read -r address port want proto <<< "$row"
        to "$address" "$port" "$proto"
        is "$address port $port $proto" "$OUT" "$address $want"
    done
    to 224.0.0.99 53 udp
    isnt 'a group' "$OUT" '224.0.0.99 OK'
    run 'ip -4 route | sed -n "s/^default via \([0-9.]*\) .*/\1/p"; ip -4 -o addr show dev eth0 | sed -n "s/.* inet '\
'\([0-9.]*\).*/\1/p"'
    read -r -d '' gateway own <<< "$OUT"
    to "$gateway" 7070
    is 'the gateway is the host, too' "$OUT" "$gateway ECONNREFUSED"
    for word in 2852039166 0xa9fea9fe 0251.0376.0251.0376 169.254.43518; do
        run "python3 -c \"
import socket
try: socket.create_connection(('$word', 80), 3); print('open')
except OSError as e: print(e.strerror)\""
        is "169.254.169.254 as $word" "$OUT" 'Connection refused'
    done
    link=$(D ip -o link | sed -n 's/.*\(cubby-[0-9]*\)@.*/\1/p' | head -1)
    local6=$(D ip -6 -o addr show dev "$link" | sed -n 's/.* inet6 \(fe80[^/]*\).*/\1/p')
    if [ -n "$local6" ]; then
        run "python3 -c \"
import socket
try: socket.create_connection(('$local6%eth0', 7070), 3); print('open')
except OSError as e: print(e.strerror or e)\""
        isnt "the host's link-local address" "$OUT" open
    fi
    # positive control: all of these listen
    reaches() { local w; for w in $addresses; do D "$python" \
        -c "import socket; socket.create_connection(('$w', 80), 3)" || return 1; done; }
    ok 'the host reaches every one of them' reaches
    ok "and the world the host's services" W "$python" \
        -c 'import socket; socket.create_connection(("9.9.9.1", 7070), 3)'

    # another box
    box_new '"network":"open"'
    api POST "$B/processes" \
        '{"command":"exec python3 -c \"import socket; s = socket.socket(); s.bind((\\\"0.0.0.0\\\", 8000)); '\
's.listen(); print(\\\"up\\\", flush=True); s.accept(); s.accept()\""}'
    run 'ip -4 -o addr show dev eth0 | sed -n "s/.* inet \([0-9.]*\).*/\1/p"'
    other=$OUT
    isnt 'two boxes have two addresses' "$other" "$own"
    second=$BOX
    listens() { to "$other" 8000; [ "$OUT" = "$other OK" ]; }
    ok 'which listens' eventually 10 listens
    box_use "$first"
    to "$other" 8000
    is 'and cannot be reached by the first' "$OUT" "$other ECONNREFUSED"
    not_ok 'nor by the world' W sh \
        -c "ip route add $other/32 via 9.9.9.1; $python -c \"import socket; socket.create_connection(('$other', "\
"8000), 1)\""

    # a source that is not the box's: as host root in its network namespace, since nobody inside may
    inside=$(awk '{ print $1 }' "$STATE/boxes/$first/jail")
    nsenter -t "$inside" -n ip addr add 10.9.9.77/32 dev eth0
    nsenter -t "$inside" -n ip addr add "$other/32" dev eth0
    for source in 10.9.9.77 "$other" "$own"; do
        nsenter -t "$inside" -n "$python" -c "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('$source', 0)); s.settimeout(1)
s.sendto(b'from-$source', ('8.8.8.8', 53))
try: s.recv(10)
except OSError: pass"
    done
    is 'only what comes from its own address leaves, and under ours' "$(grep from- "$WORK/world")" "from-$own 9.9.9.1"

    # The host's table of connections: one user cannot fill it, by many datagrams of one socket or by many connections.
    flows() { D cat /proc/sys/net/netfilter/nf_conntrack_count; }
    box_use "$first"
    run 'python3 -c "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sent = refused = 0
for port in range(1024, 31024):
    try: s.sendto(b\"x\", (\"8.8.8.8\", port)); sent += 1
    except OSError: refused += 1
print(sent > 1000)"'
    is 'datagrams to 30,000 ports are sent' "$OUT" True
    after=$(flows)
    diag "$after flows after 30,000 datagrams"
    between 'and are a bounded number of flows' "$after" 1000 9000
    to 8.8.8.8 80
    is 'the box then gets no more' "$OUT" '8.8.8.8 ECONNREFUSED'
    box_use "$second"
    to 8.8.8.8 80
    is 'nor does another box of its user' "$OUT" '8.8.8.8 ECONNREFUSED'
    box_new '"network":"open","user":"someone"'
    to 8.8.8.8 80
    is 'somebody else does' "$OUT" '8.8.8.8 OK'
    before=$(flows)
    run 'python3 -c "
import os, socket
def many():
    held = [socket.socket() for i in range(3000)]
    for s in held: s.setblocking(False); s.connect_ex((\"8.8.8.8\", 80))
    os._exit(0)
for i in range(5):
    if os.fork() == 0: many()
for i in range(5): os.wait()
print(True)"'
    is '15,000 connections are begun' "$OUT" True
    diag "$(($(flows) - before)) more flows after 15,000 connections"
    between 'and are a bounded number of flows, too' "$(($(flows) - before))" 1000 9000
    counters() { D nft list sets | grep -c 'set flows-'; }
    is 'each user has a counter' "$(counters)" 2
    api DELETE "$B"
    one_left() { [ "$(counters)" = 1 ]; }
    ok 'which goes with the last box that it counts for' eventually 10 one_left
    kill "$services"
    delete_boxes
    gone() { [ -z "$(D nft list tables)" ] && ! D ip -o link | grep -q cubby-; }
    ok 'the rules and interfaces go with the last box' eventually 10 gone
else like 'what is missing is said' "$STATUS $(j .error.code)" '^501 UNSUPPORTED'; fi
second_end
kill "$world"
