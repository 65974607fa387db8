# A box with a policy that uses up what there is: ten thousand connections, as many that say nothing, a thousand new
# ones a second (A39), hellos and heads that never end (A40), no ports left, a dead resolver (A41), all of the bandwidth
# (A42), connection tracking (A43). Beside it a second box connects, and must not notice.
# NET_EXHAUST_SECONDS: how long the thousand a second last (default 8; a minute in full).
# wall: limits of connections, rate and bandwidth per box in the gate, which gives each box its turn; no conntrack
# daemon: plain
. test/lib/world.sh
world_start
printf 'nameserver 93.184.0.53\n' > "$WORK/resolv"
many='"limits":{"connections":4096,"per_second":10000}'
policy='"network":{"allow":["pypi.test","db.test:5432","git.test:22"]}'
if second_start "$CONFIG" unshare -n -m sh -c 'mount --bind "$0" /etc/resolv.conf; exec "$@"' "$WORK/resolv" \
    "$BUILD/cubbyd" && world_join "$DAEMON_PID" && box_new "$policy"; then
    D() { nsenter -t "$DAEMON_PID" -n "$@"; }
    gate() { for pid in $(pgrep -x cubby-gate); do
        [ "/proc/$pid/ns/net" -ef "/proc/$DAEMON_PID/ns/net" ] && echo "$pid"; done; }
    rss() { awk '/^VmRSS/ { print $2 }' "/proc/$(gate)/status"; }
    network() { api PUT "$B/network" "{\"network\":{\"allow\":[\"pypi.test\",\"db.test:5432\",\"git.test:22\"],$1}}"; }
    attacker=$BOX
    upload exhaust.py test/lib/net_exhaust.py
    box_new "\"network\":{\"allow\":[\"pypi.test\",\"db.test:5432\"],$many}"
    quiet=$BOX
    upload exhaust.py test/lib/net_exhaust.py
    # p95 of a hundred connections of the other box, in microseconds
    connects() { box_use "$quiet"; run 'python3 exhaust.py connect db.test 5432 100'; box_use "$attacker"; }
    begin() { api POST "$B/processes" "{\"command\":\"exec python3 exhaust.py $1 > out 2>&1\"}"; }
    said() { run 'cat out'; [ -n "$OUT" ]; }
    # The processors are shared with what attacks, with a world in Python and with other tests. Whatever waited for a
    # limit, or for its turn behind the other box, would wait for seconds: half of one says that nothing does.
    beside() { # beside NAME COMMAND
        begin "$2"
        connects
        between "$1: the other box connects as before" "$OUT" 1 500000
        eventually 60 said
    }
    box_use "$attacker"
    base=$(rss)
    count_file=net/netfilter/nf_conntrack_count
    tracked() { D cat "/proc/sys/$count_file" 2> /dev/null || echo none; }
    track=$(tracked)

    # A39
    network '"limits":{"connections":256,"per_second":10000}'
    beside 'A39: 10,000 connections' 'many db.test 5432 10000'
    is 'A39: as many as the limit are served' "$OUT" 256
    beside 'A39: 10,000 that say nothing' 'silent pypi.test 443 10000'
    between 'A39: as many as the limit stay open' "$OUT" 1 256
    network '"limits":{"connections":256,"per_second":50}'
    seconds=${NET_EXHAUST_SECONDS:-8}
    beside "A39: 1,000 a second for $seconds s" "pace db.test 5432 1000 $seconds"
    between 'A39: 50 a second are served, and the first 200' "$OUT" $((seconds * 40)) $((seconds * 55 + 260))
    # A40
    network "$many"
    beside 'A40: 1,000 hellos that never end' 'hellos pypi.test 443 1000'
    between 'A40: each is closed after 10 s' "$OUT" 9000 13000
    beside 'A40: 1,000 heads of a byte a second' 'heads pypi.test 80 1000'
    between 'A40: each is closed after 10 s, too' "$OUT" 9000 13000
    between 'A39, A40: the gate has grown by at most 24 MB' $(($(rss) - base)) -100000 24576
    # A43
    run 'python3 exhaust.py connect db.test 5432 9000' '"timeout_ms":60000'
    between 'A43: 10,000 connections' "$OUT" 1 1000000
    is 'A43: the kernel tracked none of them' "$(tracked)" "$track"
    # A41 (a gate without descriptors: net_tcp)
    served() { run 'python3 exhaust.py many db.test 5432 50'; [ "$OUT" = 50 ]; }
    ports=$(D sysctl -n net.ipv4.ip_local_port_range)
    D sysctl -qw 'net.ipv4.ip_local_port_range=40000 40009'
    run 'python3 exhaust.py many db.test 5432 50'
    between 'A41: ten ports are ten connections' "$OUT" 1 10
    audit() { api GET "/v1/audit?box=$attacker&verb=net_connect&limit=100"; j '.events[].detail' | grep -q busy; }
    ok 'A41: a row says that it is busy' eventually 10 audit
    D sysctl -qw "net.ipv4.ip_local_port_range=$ports"
    ok 'A41: with ports all are served' eventually 10 served
    # A41: resolver
    W ip addr del 93.184.0.53/32 dev lo
    api PUT "$B/network" '{"network":{"allow":["a.hub.test"]}}'
    run 'timeout 30 getent ahostsv4 a.hub.test; echo $?'
    isnt 'A41: without a resolver a name fails' "$OUT" 0
    W ip addr add 93.184.0.53/32 dev lo
    resolved() { run 'getent ahostsv4 a.hub.test'; [ "$CODE" = 0 ]; }
    ok 'A41: and is there again with one' eventually 20 resolved
    # A42
    network "$many"
    begin 'download pypi.test 80 4'
    box_use "$quiet"
    run 'python3 exhaust.py download pypi.test 80 3'
    alone=$OUT
    box_use "$attacker"
    eventually 20 said
    between 'A42: next to a box that takes all, a box has its part' $((alone * 100 / (alone + OUT))) 30 70
    network '"limits":{"mbit":10}'
    run 'python3 exhaust.py download pypi.test 80 4'
    between 'A42: 10 Mbit are 10 Mbit' "$OUT" 9000 11000
    connects
    between 'the other box connects as before after all of it' "$OUT" 1 500000
    for box in "$attacker" "$quiet"; do api DELETE "/v1/boxes/$box"; done
    second_end
else
    fail 'a daemon with a world around it'
fi
world_end
