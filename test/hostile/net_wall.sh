# A network policy: names that are not allowed, other ports, metadata addresses, pings, QUIC, raw sockets, the
# gate's own sockets, other boxes. In network namespaces of the test's own: D with the daemon, W for the world.
# backends: jail docker
# wall: the box's network namespace has only its loopback; every address leads to cubby-gate, which dials itself
. test/lib/world.sh
world_start
printf 'nameserver 93.184.0.53\n' > "$WORK/resolv"
{ cat "$CONFIG"; printf 'open_networks:\n  - 10.7.0.0/16\n'; } > "$WORK/net.yaml"
policy='{"allow":["pypi.test","*.hub.test","git.test:22","db.test:5432","10.7.0.0/16:8443","time.test:123/udp"],'\
'"deny":["bad.hub.test"]}'
if second_start "$WORK/net.yaml" unshare -n -m sh -c 'mount --bind "$0" /etc/resolv.conf; exec "$@"' "$WORK/resolv" \
    "$BUILD/cubbyd" && world_join "$DAEMON_PID" && box_new '"network":'"$policy"; then
    first=$BOX
    run 'curl -s -o /dev/null -w %{http_code} http://pypi.test/'
    is 'an allowed name' "$OUT" 200
    run 'curl -sk -o /dev/null -w %{http_code} https://pypi.test/'
    is 'with TLS' "$OUT" 200
    world_forget
    run 'curl -s http://evil.test/; echo $?'
    is 'another name is not resolved' "$OUT" 6
    is 'the answer of the command says why' "$(j '.network_denied[0].to')" 'evil.test'
    is 'and nothing leaves' "$(world_dns)$(world_tcp)" ''
    run 'curl -s -m 5 --resolve evil.test:80:93.184.0.10 http://evil.test/ -o /dev/null -w %{http_code}'
    is 'nor by its address' "$OUT" 403
    run 'curl -sk -m 5 --resolve pypi.test:443:9.9.9.66 https://pypi.test/ -o /dev/null -w %{http_code}'
    is 'an address of its own leads to the real host' "$OUT" 200
    is 'not to the address' "$(world_tcp | grep 9.9.9.66)" ''
    to() { attack isolation "connect $*"; }
    for row in '169.254.169.254 80 ECONNREFUSED' '168.63.129.16 80 ECONNREFUSED' '0.0.0.1 80 ECONNREFUSED' \
        '93.184.0.10 25 ECONNREFUSED' '93.184.0.10 443 ECONNREFUSED udp' '::ffff:169.254.169.254 80 ECONNREFUSED' \
        '2606:4700::10 443 ENETUNREACH' 'fd00:ec2::254 80 ENETUNREACH' '127.0.0.1 80 ECONNREFUSED'; do
        read -r address port want proto <<< "$row"
        to "$address" "$port" "$proto"
        [[ $BACKEND == docker && $OUT == *' EADDRNOTAVAIL' ]] && want=EADDRNOTAVAIL # an engine without IPv6
        is "$address port $port $proto" "$OUT" "$address $want"
    done
    # A28
    ntp='import socket
def ask(name, port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3)
    try:
        a = socket.gethostbyname(name); s.connect((a, port)); s.send(b"x"); s.recv(99); return "answered"
    except OSError as e: return e.strerror or str(e)
print(ask("time.test", 123), ask("time.test", 124), ask("93.184.0.10", 123), sep="; ")'
    put ntp.py "$ntp"
    run 'python3 ntp.py'
    is 'UDP where the policy says so' "${OUT%%;*}" answered
    isnt 'and nowhere else' "${OUT#*; }" 'answered; answered'
    like 'another port is refused' "$OUT" '; Connection refused'
    # A29
    run 'ping -c 1 -W 2 8.8.8.8 > /dev/null 2>&1; echo $?'
    isnt 'nothing answers a ping' "$OUT" 0
    # A30
    put wall.py 'import ctypes, errno, socket
def tried(what, act):
    try: act(); print(what, "WORKED")
    except OSError as e: print(what, errno.errorcode[e.errno])
def bound(address, port, *options):
    s = socket.socket()
    for level, name in options: s.setsockopt(level, name, 1)
    s.bind((address, port)); s.listen()
tried("transparent", lambda: socket.socket().setsockopt(socket.SOL_IP, 19, 1))
tried("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP))
tried("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
tried("gate", lambda: bound("127.255.255.254", 1))
tried("reuseport", lambda: bound("127.255.255.254", 1, (socket.SOL_SOCKET, socket.SO_REUSEPORT)))
tried("reuseaddr", lambda: bound("127.255.255.254", 1, (socket.SOL_SOCKET, socket.SO_REUSEADDR)))
tried("resolver", lambda: bound("127.0.0.53", 53, (socket.SOL_SOCKET, socket.SO_REUSEPORT)))'
    for user in agent root; do
        api POST "$B/exec" '{"command":"python3 wall.py; ip route del local 0.0.0.0/0 table local 2>&1;'\
' ip addr del 10.204.0.2/32 dev lo 2>&1;'\
' ip route add default dev lo 2>&1; nft flush ruleset 2>&1","user":"'$user'"}'
        [ "$STATUS" = 200 ] || continue
        unlike "$user of the box changes nothing" "$(j .stdout)" WORKED
        unlike "nor as the gate" "$(j .stdout)" 'gate WORKED'
    done
    run 'curl -s -o /dev/null -w %{http_code} http://pypi.test/'
    is 'traffic is as before' "$OUT" 200
    # A31
    put loop.py 'import socket
ends = set()
for i in range(1000):
    s = socket.socket(); s.settimeout(5)
    try: s.connect(("127.255.255.254", 1)); ends.add(repr(s.recv(1)))
    except OSError as e: ends.add(e.strerror or str(e))
    s.close()
print(*sorted(ends))'
    run 'python3 loop.py'
    unlike 'the gate itself is no way out' "$OUT" 'timed out'
    run 'curl -s -o /dev/null -w %{http_code} http://pypi.test/'
    is 'and serves after a thousand tries' "$OUT" 200
    # a gate that was taken over: its user on the host reaches no more than a policy could allow
    gate=$(stat -c %u "/proc/$(pgrep -P "$DAEMON_PID" cubby-gate)")
    taken() { nsenter -t "$DAEMON_PID" -n setpriv --reuid "$gate" --clear-groups /usr/bin/python3 -c '
import socket, sys
try: socket.create_connection((sys.argv[1], int(sys.argv[2])), 3); print("open")
except OSError as e: print("refused")' "$@"; }
    for row in '93.184.0.10 80 open' '10.7.1.1 8443 open' '93.184.0.53 53 open' '169.254.169.254 80 refused' \
        '168.63.129.16 80 refused' '10.9.9.9 80 refused' '100.100.100.200 80 refused' '9.9.9.1 22 refused' \
        '127.0.0.1 80 refused' '2606:4700::10 443 open' 'fd00:ec2::254 80 refused'; do
        read -r address port want <<< "$row"
        is "the gate's user on the host: $address port $port" "$(taken "$address" "$port")" "$want"
    done
    D() { nsenter -t "$DAEMON_PID" -n "$@"; }
    is 'which a table of its own says' "$(D nft list tables | grep -c cubby-gate)" 1
    gate=$(pgrep -P "$DAEMON_PID" cubby-gate) limit=
    while IFS=: read -r _ kinds path; do
        case $kinds in
        '') file=/sys/fs/cgroup$path/memory.max ;;
        *memory*) file=/sys/fs/cgroup/memory$path/memory.limit_in_bytes ;;
        *) continue ;;
        esac
        [ -e "$file" ] && limit=$(cat "$file")
    done < "/proc/$gate/cgroup"
    is 'its memory is limited' "$limit" $((1024 << 20))
    # A13
    api POST "$B/processes" '{"command":"exec python3 -m http.server 80"}'
    box_new '"network":'"$policy"
    run 'curl -s -m 5 -o /dev/null -w %{http_code} http://10.204.0.2/'
    isnt "another box's server" "$OUT" 200
    api DELETE "$B"
    box_use "$first"
    # attribution
    audit() { api GET "/v1/audit?box=$first&verb=net_dns"; j '.events[].outcome' | grep -qx DENIED; }
    eventually 10 audit
    named=$(j '.events[].detail' | grep -m 1 '^evil.test ')
    by='exec=[0-9]* curl -s http://evil.test/; echo'
    [ "$BACKEND" = jail ] || by= # commands of containers have no cgroups of their own
    like 'the audit log has the attempt, with its command' "$named" "^evil.test A* by default *$by"
    api DELETE "$B"
    second_end
else
    ok 1 'a daemon with a world around it'
fi
world_end
