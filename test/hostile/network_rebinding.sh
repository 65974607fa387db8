# A web page in a browser of this machine, or a name that suddenly means 127.0.0.1, against the daemon on loopback.
# wall: Host and Origin checked on every request and upgrade, before anything is done

"$program" --listen 127.0.0.1:0 --state "$WORK/state-page" --pool-size 0 < /dev/null > "$WORK/page.log" 2>&1 &
PAGE_PID=$!
eventually 20 grep -q 'ready on' "$WORK/page.log" || fail 'a daemon on loopback' "$(tail -3 "$WORK/page.log")"
PORT=$(sed -n 's/.*ready on [^ ]*:\([0-9]*\),.*/\1/p' "$WORK/page.log")
page() { # page STATUS-PATTERN HEADERS...: a POST that would make a box
    local want=$1 options=() header
    shift
    for header in "$@"; do options+=(-H "$header"); done
    STATUS=$(curl -s --max-time 60 -o "$WORK/body" -w '%{http_code}' -X POST "${options[@]}" -d '{}' \
        "http://127.0.0.1:$PORT/v1/boxes")
    like "POST with $*" "$STATUS" "$want"
}
for host in evil.example "evil.example:$PORT" 127.0.0.1.evil.example 127.evil.example localhost.evil.example 0.0.0.0 0 \
    [::] 2130706433 0x7f000001 \
    0177.0.0.1 '127.0.0.1@evil.example' "127.0.0.1:$PORT@evil.example" 169.254.169.254 "$(hostname)" \
    'localhost evil.example' [::1].evil.example "[::ffff:10.0.0.1]:$PORT"; do
    page '^40[03]$' "Host: $host"
done
for origin in http://evil.example null https://127.0.0.1.evil.example http://localhost.evil.example file:// \
    'http://evil.example:80/127.0.0.1' \
    "http://evil.example#http://127.0.0.1:$PORT" chrome-extension://abcdef 'http://[::1' http://; do
    page '^403$' "Origin: $origin"
    STATUS=$(curl -s --max-time 60 -o /dev/null -w '%{http_code}' -H "Origin: $origin" -H 'Upgrade: websocket' \
        -H 'Connection: Upgrade' \
        -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==' \
    "http://127.0.0.1:$PORT/v1/boxes/0123456789abcdef/pty")
    is "a WebSocket from $origin" "$STATUS" 403
done
STATUS=$(curl -s -o /dev/null -D "$WORK/head" -w '%{http_code}' -X OPTIONS -H 'Origin: http://evil.example' \
    -H 'Access-Control-Request-Method: POST' "http://127.0.0.1:$PORT/v1/boxes")
is 'a preflight is refused' "$STATUS" 403
unlike 'and allows nothing' "$(< "$WORK/head")" 'Access-Control-Allow'
STATUS=$(curl -s "http://127.0.0.1:$PORT/v1/boxes")
is 'none of them made a box' "$STATUS" '{"boxes":[],"next":null}'
for host in localhost "localhost:$PORT" 127.0.0.1 "127.0.0.1:$PORT" [::1] "[::1]:$PORT" 127.1.2.3; do page '^201$' \
    "Host: $host"; done
page '^201$' "Origin: http://127.0.0.1:$PORT"
for id in $(curl -s "http://127.0.0.1:$PORT/v1/boxes" | jq -r '.boxes[].id'); do curl -s -X DELETE \
    "http://127.0.0.1:$PORT/v1/boxes/$id"; done

# and from a box
run "exec 3<> /dev/tcp/127.0.0.1/$PORT" '"timeout_ms":5000'
isnt 'a box has a loopback of its own' "$CODE" 0
# With a network: a daemon in a network namespace that forwards, and one beside it on every address, the box's gateway
# among them.
echo 'pool_size: 0' > "$WORK/open.yaml"
D() { nsenter -t "$DAEMON_PID" -n "$@"; }
if second_start "$WORK/open.yaml" unshare -n sh -c 'ip link set lo up; sysctl -qw net.ipv4.ip_forward=1; exec "$@"' sh \
    "$program" \
    && D ip link add wan type veth peer name far && D ip addr add 9.9.9.1/24 dev wan && D ip link set wan up &&
    D ip link set far up && D ip route add default via 9.9.9.2 && box_new '"network":"open"'; then
    write_tokens "$WORK/wide.yaml"
    nsenter -t "$DAEMON_PID" -n "$program" --listen 0.0.0.0:0 --state "$WORK/state-wide" --config "$WORK/wide.yaml" \
        --pool-size 0 < /dev/null > "$WORK/wide.log" 2>&1 &
    WIDE_PID=$!
    eventually 20 grep -q 'ready on' "$WORK/wide.log" || fail 'a daemon on all addresses' "$(tail -3 "$WORK/wide.log")"
    WIDE=$(sed -n 's/.*ready on [^ ]*:\([0-9]*\),.*/\1/p' "$WORK/wide.log")
    run "awk '\$2 == \"00000000\" { print \$3 }' /proc/net/route"
    gateway=$((16#${OUT:6:2})).$((16#${OUT:4:2})).$((16#${OUT:2:2})).$((16#${OUT:0:2}))
    for host in "$gateway" 9.9.9.1; do ok "it answers at $host, for the machine" D curl -s -o /dev/null --max-time 20 \
        "http://$host:$WIDE/healthz"; done
    run "for host in 127.0.0.1 $gateway 9.9.9.1; do timeout 2 bash -c \"exec 3<> /dev/tcp/\$host/$WIDE\" 2> /dev/null "\
"&& echo reached \$host; done; echo tried" '"timeout_ms":60000'
    is 'a box with a network reaches it by none of them' "$OUT" tried
    kill -TERM "$WIDE_PID"
    wait "$WIDE_PID"
    is 'it ends in order' $? 0
    api DELETE "$B"
else skip 'a box with a network' "$STATUS $(j .error.message) $(tail -1 "$WORK/daemon.log")"; fi
second_end
kill -TERM "$PAGE_PID"
wait "$PAGE_PID"
is 'it ends in order' $? 0
