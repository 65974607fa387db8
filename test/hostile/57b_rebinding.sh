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
    STATUS=$(curl -s --max-time 60 -o "$WORK/body" -w '%{http_code}' -X POST "${options[@]}" -d '{}' "http://127.0.0.1:$PORT/v1/boxes")
    like "POST with $*" "$STATUS" "$want"
}
for host in evil.example "evil.example:$PORT" 127.0.0.1.evil.example 127.evil.example localhost.evil.example 0.0.0.0 0 [::] 2130706433 0x7f000001 \
    0177.0.0.1 '127.0.0.1@evil.example' "127.0.0.1:$PORT@evil.example" 169.254.169.254 "$(hostname)" 'localhost evil.example' [::1].evil.example "[::ffff:10.0.0.1]:$PORT"; do
    page '^40[03]$' "Host: $host"
done
for origin in http://evil.example null https://127.0.0.1.evil.example http://localhost.evil.example file:// 'http://evil.example:80/127.0.0.1' \
    "http://evil.example#http://127.0.0.1:$PORT" chrome-extension://abcdef 'http://[::1' http://; do
    page '^403$' "Origin: $origin"
    STATUS=$(curl -s --max-time 60 -o /dev/null -w '%{http_code}' -H "Origin: $origin" -H 'Upgrade: websocket' -H 'Connection: Upgrade' \
        -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==' "http://127.0.0.1:$PORT/v1/boxes/0123456789abcdef/pty")
    is "a WebSocket from $origin" "$STATUS" 403
done
STATUS=$(curl -s -o /dev/null -D "$WORK/head" -w '%{http_code}' -X OPTIONS -H 'Origin: http://evil.example' -H 'Access-Control-Request-Method: POST' "http://127.0.0.1:$PORT/v1/boxes")
is 'a preflight is refused' "$STATUS" 403
unlike 'and allows nothing' "$(< "$WORK/head")" 'Access-Control-Allow'
STATUS=$(curl -s "http://127.0.0.1:$PORT/v1/boxes")
is 'none of them made a box' "$STATUS" '{"boxes":[]}'
for host in localhost "localhost:$PORT" 127.0.0.1 "127.0.0.1:$PORT" [::1] "[::1]:$PORT" 127.1.2.3; do page '^201$' "Host: $host"; done
page '^201$' "Origin: http://127.0.0.1:$PORT"
for id in $(curl -s "http://127.0.0.1:$PORT/v1/boxes" | jq -r '.boxes[].id'); do curl -s -X DELETE "http://127.0.0.1:$PORT/v1/boxes/$id"; done

# and from a box
run "exec 3<> /dev/tcp/127.0.0.1/$PORT" '"timeout_ms":5000'
isnt 'a box has a loopback of its own' "$CODE" 0
api POST /v1/boxes '{"backend":"jail","network":"open"}'
if [ "$STATUS" = 201 ]; then
    box_use "$(j .id)"
    run "command -v bash > /dev/null && for host in 127.0.0.1 \$(ip route 2> /dev/null | sed -n 's/default via \\([^ ]*\\).*/\\1/p'); do timeout 3 bash -c \"exec 3<> /dev/tcp/\$host/$PORT\" 2> /dev/null && echo reached \$host; done; echo tried" '"timeout_ms":20000'
    is 'nor does one with a network reach it' "$OUT" tried
    api DELETE "$B"
    box_use "$ATTACKED"
else skip 'a box with a network' "$(j .error.message)"; fi
kill -TERM "$PAGE_PID"
wait "$PAGE_PID"
is 'it ends in order' $? 0
