# A network policy that changes while connections are open, and while the gate is killed: a tightened policy ends
# what it forbids before it is answered; none, a policy and none again; kept by fork.
# wall: a change is a barrier: the gate judges every open connection anew before it acknowledges; without a gate the
# wall: box's own kernel refuses
. test/lib/world.sh
world_start
printf 'nameserver 93.184.0.53\n' > "$WORK/resolv"
network() { api PUT "$B/network${2-}" "{\"network\":$1}"; }
code() { run "curl -s -m 5 -o /dev/null -w %{http_code} $1"; }
# A connection of the box that stays open: its state is in FILE when it ends.
hold() { # hold ADDRESS PORT FILE
    api POST "$B/processes" '{"command":"python3 hold.py '"$*"'"}'
    eventually 10 held "$3"
}
hold_idle() { # hold_idle KIND ADDRESS PORT FILE
    api POST "$B/processes" '{"command":"rm -f '"$4"'; python3 idle.py '"$*"'"}'
    eventually 10 held "$4"
}
held() { run "cat $1"; [ "$OUT" = open ]; }
ended() { run "cat $1"; [ "$OUT" != open ]; }
if second_start "$CONFIG" unshare -n -m sh \
    -c 'mount --bind "$0" /etc/resolv.conf; sysctl -qw net.ipv4.ip_forward=1; exec "$@"' "$WORK/resolv" \
    "$BUILD/cubbyd" && world_join "$DAEMON_PID" && box_new; then
    put hold.py 'import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
s.settimeout(60)
s.recv(1) if sys.argv[2] == "22" else s.sendall(b"x")
s.recv(999)
open(sys.argv[3], "w").write("open")
try: end = repr(s.recv(1))
except OSError as e: end = e.strerror or str(e)
open(sys.argv[3], "w").write(end)'
    put idle.py 'import socket, ssl, sys
s = socket.create_connection((sys.argv[2], int(sys.argv[3])))
s.settimeout(60)
if sys.argv[1] == "tls": s = ssl._create_unverified_context().wrap_socket(s, server_hostname=sys.argv[2])
s.sendall(b"GET / HTTP/1.1\r\nHost: pypi.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"); s.recv(999)
open(sys.argv[4], "w").write("open")
try: end = repr(s.recv(1))
except OSError as e: end = e.strerror or str(e)
open(sys.argv[4], "w").write(end)'
    run 'curl -s -m 5 http://pypi.test/; echo $?'
    is 'no network: nothing is resolved' "$OUT" 6
    api POST "$B/processes" '{"command":"exec sleep 1000"}'
    witness=$(j .pid)
    network '{"allow":["pypi.test","git.test:22","db.test:5432"]}'
    is 'a policy while it runs' "$STATUS $(j .generation)" '200 1'
    code http://pypi.test/
    is 'counts at once' "$OUT" 200
    hold git.test 22 git
    hold db.test 5432 db
    network '{"allow":["pypi.test","db.test:5432"]}'
    is 'a host less ends its connections' "$STATUS $(j .cut)" '200 1'
    ok 'at the box, too' eventually 5 ended git
    run 'cat db'
    is 'and leaves the others' "$OUT" open
    network '{"allow":["pypi.test"]}' '?existing=keep'
    is 'unless they are to be kept' "$STATUS $(j .cut)" '200 0'
    run 'cat db'
    is 'then they stay' "$OUT" open
    api PATCH "$B/network" '{"allow":{"add":["a.hub.test"]},"deny":{"add":["bad.hub.test"]}}'
    is 'entries are added' "$(j '.network.allow | length') $(j '.network.deny[0]')" '2 bad.hub.test'
    code http://a.hub.test/
    is 'and count' "$OUT" 200
    api PATCH "$B/network" '{"allow":{"remove":["nobody.test"]}}'
    is 'an entry that is not there' "$STATUS" 404
    network '{"allow":["*.com"]}'
    is 'a star over all of .com is refused' "$STATUS" 400
    code http://a.hub.test/
    is 'and nothing changed' "$OUT" 200
    # A34: an idle WebSocket, and one over TLS
    network '{"allow":["pypi.test","git.test:22"]}'
    hold_idle ws pypi.test 80 ws
    hold_idle tls pypi.test 443 tls
    run 'cat ws tls'
    is 'A34: two that say nothing' "$OUT" openopen
    network '{"allow":["db.test:5432"]}'
    is 'A34: idle ones are cut, too' "$STATUS $(j .cut)" '200 2'
    for one in ws tls; do ok "A34: $one at the box" eventually 5 ended "$one"; done
    network '{"allow":["pypi.test"]}'
    hold_idle tls pypi.test 443 tls
    network '{"allow":[{"host":"pypi.test","methods":["GET"]}]}'
    is 'A34: one that is looked into from now on is cut' "$STATUS $(j .cut)" '200 1'
    ok 'A34: at the box, too' eventually 5 ended tls
    network '{"allow":["a.hub.test"]}'
    api DELETE "$B/network"
    is 'no network again' "$STATUS $(j .network)" '200 none'
    code http://pypi.test/
    is 'counts at once' "$OUT" 000
    api GET "$B/processes/$witness"
    is 'the same processes run' "$(j .state)" running
    network '{"allow":["pypi.test"]}'
    code http://pypi.test/
    is 'and a policy again' "$OUT" 200
    api GET "$B/network/test?to=pypi.test:443"
    is 'what would happen: allowed' "$(j .allowed) $(j .why)" 'true pypi.test'
    api GET "$B/network/test?to=evil.test"
    is 'or not' "$(j .allowed) $(j .why)" 'false default'
    # all of the network, and less again
    hold pypi.test 80 page
    network '"open"'
    is 'open while it runs' "$STATUS $(j .network)" '200 open'
    ok 'ends what the gate relayed' eventually 5 ended page
    code http://evil.test/
    is 'and reaches every name' "$OUT" 200
    run 'ip -4 -o addr show dev eth0 | wc -l; ip -4 -o addr show dev lo | wc -l'
    is 'through an interface of its own' "$OUT" $'1\n1'
    to() { attack isolation "connect $*"; }
    for never in 169.254.169.254 168.63.129.16 100.100.100.200 10.9.9.9; do
        to "$never" 80
        is "$never is refused" "$OUT" "$never ECONNREFUSED"
    done
    hold git.test 22 git
    world_forget
    network '{"allow":["pypi.test"]}'
    is 'a policy again' "$STATUS" 200
    code http://evil.test/
    is 'which counts' "$OUT" 000
    code http://pypi.test/
    is 'allows what it allows' "$OUT" 200
    is 'and the interface is gone' "$(nsenter -t "$DAEMON_PID" -n ip -o link | grep -c cubby-)" 0
    is 'nothing else left' "$(world_dns | grep -v pypi.test)$(world_tcp | grep -v 93.184.0.10)" ''
    network '"open"'
    network '"none"'
    code http://pypi.test/
    is 'from open to nothing' "$STATUS $OUT" '200 000'
    network '"open"'
    code http://pypi.test/
    is 'from nothing to open' "$OUT" 200
    api GET "$B/processes/$witness"
    is 'the same processes run still' "$(j .state)" running
    nsenter -t "$DAEMON_PID" -n sysctl -qw net.ipv4.ip_forward=0
    network '{"allow":["pypi.test"]}'
    network '"open"'
    is 'open on a machine that cannot is refused' "$STATUS $(j .error.code)" '501 UNSUPPORTED'
    api GET "$B/network"
    is 'and the box has what it had' "$(j '.network.allow[0]')" pypi.test
    code http://pypi.test/
    is 'in fact' "$OUT" 200
    # A37
    gate=$(pgrep -P "$DAEMON_PID" cubby-gate)
    kill -9 "$gate"
    again() { code http://pypi.test/; [ "$OUT" = 200 ]; }
    ok 'a gate that was killed is started again' eventually 10 again
    isnt 'as another process' "$(pgrep -P "$DAEMON_PID" cubby-gate)" "$gate"
    code http://evil.test/
    is 'with the same policy' "$OUT" 000
    # a daemon that was killed: the gate goes with it, the kernel refuses, the next one serves as before
    api POST "$B/processes" '{"command":"while :; do curl -s -m 5 -o /dev/null -w %{http_code} http://pypi.test/; '\
'echo; curl -s -m 5 -o /dev/null -w %{http_code} http://evil.test/ >> evil; sleep 0.1; done >> codes"}'
    served() { run 'tail -1 codes'; [ "$OUT" = 200 ]; }
    ok 'a program that goes on asking' eventually 10 served
    nsenter -t "$DAEMON_PID" -n -m sleep 1000 &
    holder=$! gate=$(pgrep -P "$DAEMON_PID" cubby-gate)
    held_open() { grep -qx sleep "/proc/$holder/comm"; }
    eventually 10 held_open
    kill -9 "$DAEMON_PID"
    wait "$DAEMON_PID" 2> /dev/null
    gate_gone() { ! kill -0 "$gate" 2> /dev/null; }
    ok 'the gate ends with its daemon' eventually 5 gate_gone
    refused() { [ "$(tail -1 "$(find "$STATE/boxes/$BOX" -name codes -size +0 2> /dev/null | head -1)")" = 000 ]; }
    ok 'the box is refused meanwhile' eventually 10 refused
    world_forget
    start_daemon nsenter -t "$holder" -n -m "$BUILD/cubbyd"
    by_itself() { world_tcp | grep -q 93.184.0.10; }
    ok 'the next daemon serves it, before anybody asks for the box' eventually 20 by_itself
    ok 'with its own program' eventually 10 served
    run 'sort -u evil'
    is 'and nothing else was ever reached' "$OUT" "$(printf '0%.0s' $(seq "${#OUT}"))"
    kill "$holder"
    # A38
    api POST "$B/fork" '{}'
    fork=$(j .id) box=$BOX
    api GET "/v1/boxes/$fork/network"
    is 'a fork has the policy' "$(j '.network.allow[0]')" pypi.test
    box_use "$fork"
    code http://pypi.test/
    is 'and is served by it' "$OUT" 200
    code http://evil.test/
    is 'alone' "$OUT" 000
    api DELETE "$B"
    box_use "$box"
    api DELETE "$B"
    second_end
fi
world_end
