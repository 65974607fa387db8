# Clients that send a body, or read an answer, by drops: never silent for long, never done.
# wall: patience that waiting uses up and bytes give back at min_rate_bytes; streams excepted
# daemon: plain
# waits

CLIENT=$BUILD/test/attack_client
dd if=/dev/zero bs=1M count=32 of="$WORK/big" 2> /dev/null
upload big "$WORK/big"
is 'a file to read' "$STATUS" 201
api POST "$B/processes" '{"command":"exec cat"}'
CAT=$(j .pid)
post='Host: localhost\r\nContent-Length: 100000\r\n\r\n'
JOBS=
READERS=
slow() { # slow NAME ARGUMENTS...: in the background, its word in $WORK/slow-NAME
    timeout 150 "$CLIENT" "${@:2}" > "$WORK/slow-$1" 2>&1 &
    case $2 in drops) READERS+=" $!" ;; *) JOBS+=" $!" ;; esac
}
slow json body "$SOCKET" 500 "POST $B/exec HTTP/1.1\r\n$post{"
slow upload body "$SOCKET" 500 "PUT $B/files?path=slow HTTP/1.1\r\n$post"
slow large body "$SOCKET" 500 \
    "PUT $B/files?path=slower HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n"
slow unpack body "$SOCKET" 500 "PUT $B/archive?path=. HTTP/1.1\r\n$post"
slow download drops "$SOCKET" 100 500 "GET $B/files?path=big HTTP/1.1\r\nHost: localhost\r\n\r\n"
slow archive drops "$SOCKET" 100 500 "GET $B/archive?path=. HTTP/1.1\r\nHost: localhost\r\n\r\n"
body='{"command":"yes | head -c 8000000","output_limit_bytes":16000000}'
slow answer drops "$SOCKET" 100 500 "POST $B/exec HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${#body}\r\n\r\n$body"
# what may be slow: typing, and events
timeout 45 "$CLIENT" body "$SOCKET" 1000 "POST $B/processes/$CAT/stdin HTTP/1.1\r\n$post" > "$WORK/slow-typing" &
TYPING=$!
body='{"command":"for i in $(seq 38); do echo line; sleep 1; done"}'
"$CLIENT" drops "$SOCKET" 20 200 \
    "POST $B/exec HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: text/event-stream\r\nContent-Length: "\
"${#body}\r\n\r\n$body" > "$WORK/slow-events" &
EVENTS=$!
neighbour_check 'while they drip'
run 'echo fine'
is 'the box answers too' "$OUT" fine
wait $JOBS
for name in json upload large unpack; do
    read -r status seconds < "$WORK/slow-$name"
    like "$name: a body by drops is ended" "$status" '^(408|-1)$'
    between "$name: within so many seconds" "$seconds" 25 50
done
# What lies in the socket's buffers is read for long: the daemon's own word counts. (exec, the second is the longer)
ended() { ENDED=$(sed -n "s/.* us=\([0-9]*\) .*route=$1\b.*/\1/p" "$WORK/daemon.log" | sort -n | tail -1) &&
    [ "${ENDED:-0}" -gt 40000000 ]; }
for route in file_get archive_get exec; do
    eventually 100 ended "$route" || :
    ended "$route"
    between "$route: an answer read by drops is ended after so many microseconds" "$ENDED" 50000000 100000000
done
kill $READERS
for name in slow slower; do
    get "$name"
    is_error "$name: and leaves nothing" 404 NOT_FOUND
done
wait "$TYPING"
is 'typing a byte a second is not ended' $? 124
wait "$EVENTS"
read -r bytes seconds < "$WORK/slow-events"
between 'nor are events read slowly' "$seconds" 36 120
between 'and they come whole' "$bytes" 2000 20000
