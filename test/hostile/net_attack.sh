# A box with a policy whose root tries other ways out: sockets of every family and protocol, options that change routes
# and marks, namespaces, netlink, BPF, io_uring, fast open, addresses of its own choice, multicast, IPv6, another box
# (A13); then requests that are smuggled to an inspected host, HTTP/2 there (A26), and a resolver that lies.
# wall: the box's namespace has only its loopback, and every packet there is TCP or DNS to the gate, or refused; no
# wall: process of the box has a capability over that namespace; the seal reads requests strictly and speaks HTTP/1.1
. test/lib/world.sh
world_start
printf 'nameserver 93.184.0.53\n' > "$WORK/resolv"
{ cat "$CONFIG"; printf 'gate_ca_file: %s\n' "$WORLD/ca.pem"; } > "$WORK/net.yaml"
policy='{"allow":["pypi.test","*.hub.test"],"deny":["bad.hub.test"]}'
zone() { jq -c ". + $1" "$WORLD/zone.json" > "$WORLD/zone.next" && mv "$WORLD/zone.next" "$WORLD/zone.json"; }
code() { run "curl -s -m 8 -o /dev/null -w %{http_code} $1"; }
if second_start "$WORK/net.yaml" unshare -n -m sh -c 'mount --bind "$0" /etc/resolv.conf; exec "$@"' "$WORK/resolv" \
    "$BUILD/cubbyd" && world_join "$DAEMON_PID"; then
    api PUT /v1/secrets/hub \
        '{"value":"ghp_0123456789abcdefghijklmnopqrstuvwxyzAB","hosts":["api.hub.test"],"env":"HUB"}'
    box_new "\"network\":$policy,\"secrets\":[\"hub\"]" || return 0
    first=$BOX
    upload ways.py test/lib/net_ways.py
    world_forget
    for user in agent root; do
        api POST "$B/exec" '{"command":"python3 ways.py","user":"'$user'","timeout_ms":100000}'
        is "$user of the box tries every way" "$(j .exit_code) $(j .stdout | wc -l)" '0 50'
        is "and none of them works" "$(j .stdout | grep WORKED)" ''
    done
    is 'nothing of it left the box' "$(world_tcp; world_dns)" ''
    code https://pypi.test/ -k
    code http://pypi.test/
    is 'and it is served as before' "$OUT" 200
    # A13
    api POST "$B/processes" '{"command":"exec python3 -m http.server 8080 --bind 0.0.0.0"}'
    own() { code http://127.0.0.1:8080/; [ "$OUT" = 200 ]; }
    ok 'A13: 127.0.0.1 is the box itself' eventually 10 own
    code http://10.204.0.2:8080/
    is 'A13: so is its own address' "$OUT" 200
    box_new "\"network\":$policy"
    for at in 127.0.0.1:8080 10.204.0.2:8080 10.204.0.2:80 '[::1]:8080' "$first:8080" 9.9.9.1:8080; do
        code "http://$at/"
        is "A13: another box's server as $at" "$OUT" 000
    done
    api DELETE "$B"
    box_use "$first"
    # Smuggling to an inspected host, A26
    upload smuggle.py test/lib/net_smuggle.py
    world_forget
    run 'python3 smuggle.py' '"timeout_ms":60000'
    is 'a request that can be read in two ways is refused' "$(grep -vE ' 4[0-9][0-9]$' <<< "$OUT")" \
        "$(printf '%s\n' 'bad chunk size closed' 'huge chunk size closed' 'alpn http/1.1' 'h2 alone refused')"
    like 'a pipeline is judged one by one' "$OUT" 'pipeline 200 421'
    like 'A26: a connection is not reused for another host' "$OUT" 'reused 421'
    is 'the host saw none of what was hidden' "$(world_tcp | grep -E 'inner|bad.hub')" ''
    # A resolver that lies: names that lead elsewhere, loops, more than fits
    zone '{"a.hub.test": {"cname": ["x.evil.test", "y.evil.test"], "a": ["10.9.9.9"]},
        "b.hub.test": {"raw": "c00c00010001"}, "c.hub.test": {"many": 300},
        "d.hub.test": {"name": "pypi.test", "a": ["9.9.9.66"]}, "e.hub.test": {"cname": ["e.hub.test"]},
        "f.hub.test": {"cname": ["169.254.169.254"], "a": ["169.254.169.254"]}}'
    world_forget
    for name in a b d e f; do
        code "http://$name.hub.test/"
        is "an answer that leads elsewhere: $name" "$OUT" 000
    done
    run 'getent ahostsv4 c.hub.test | awk "{print \$1}" | sort -u | wc -l'
    between 'an answer that is too long is cut' "$OUT" 0 16
    is 'none of these was dialed' "$(world_tcp)" ''
    code http://pypi.test/
    is 'the gate serves on' "$OUT" 200
    api DELETE "$B"
    second_end
else
    fail 'a daemon with a world around it'
fi
world_end
