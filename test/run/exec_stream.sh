# exec as an event stream.
# by default: jail local remote

events() { # the data of events named $1, in order
    awk -v name="$1" '/^event:/ { e = $2 } /^data:/ { if (e == name) print substr($0, 7) }' "$WORK/body"
}

api POST "$B/exec" '{"command":"echo one; echo two >&2; exit 5"}' -H 'Accept: text/event-stream' -N
is 'status' "$STATUS" 200
like 'content type' "$(header content-type)" '^text/event-stream'
between 'started names a pid' "$(events started | jq .pid)" 1 100000000
is 'stdout events' "$(events stdout | jq -rj .data)" one
is 'stderr events' "$(events stderr | jq -rj .data)" two
is 'encoding' "$(events stdout | jq -r .encoding | head -1)" utf-8
is 'exit: the result' "$(events exit | jq -c '[.exit_code,.signal,.timed_out,.stdout_bytes,.stderr_bytes]')" \
    '[5,null,false,4,4]'
is 'exit: without the output' "$(events exit | jq 'has("stdout")')" false
is 'order' "$(sed -n 's/^event: *//p' "$WORK/body" | tr -d '\r' | sed -n '1p;$p' | tr '\n' ' ')" 'started exit '

api POST "$B/exec" '{"command":"printf \"\\377\""}' -H 'Accept: text/event-stream'
is 'bytes in events' "$(events stdout | jq -r '.encoding+" "+.data')" 'base64 /w=='
api POST "$B/exec" '{"command":"printf \"\\303\"; sleep 0.2; printf \"\\274x\""}' -H 'Accept: text/event-stream'
events stdout | while read -r line; do
    if [ "$(jq -r .encoding <<< "$line")" = base64 ]; then jq -rj .data <<< "$line" |
        base64 -d; else jq -rj .data <<< "$line"; fi
done > "$WORK/split"
is 'a character split over two writes is not mangled' "$(od -An -tx1 < "$WORK/split" | tr -d ' \n')" c3bc78
api POST "$B/exec" '{"command":"seq 1 200000"}' -H 'Accept: text/event-stream'
is 'a long stream is whole' "$(events stdout | jq -rj .data | cksum)" "$(seq 1 200000 | cksum)"
is 'a long stream: count' "$(events exit | jq .stdout_bytes)" 1288895
# several at once: what one waiting thread reads for another comes in larger pieces
clients=()
for i in 1 2 3 4; do
    curl -sN --max-time 120 --unix-socket "$SOCKET" -H 'Accept: text/event-stream' \
        -d '{"command":"seq 1 200000"}' "http://localhost$B/exec" > "$WORK/stream.$i" &
    clients+=($!)
done
wait "${clients[@]}"
for i in 1 2 3 4; do
    cp "$WORK/stream.$i" "$WORK/body"
    is "each of four streams at once is whole: $i" "$(events stdout | jq -rj .data | cksum)" "$(seq 1 200000 | cksum)"
done
api POST "$B/exec" '{"command":"echo x; sleep 20","timeout_ms":300}' -H 'Accept: text/event-stream'
is 'time-out in a stream' "$(events exit | jq -c '[.timed_out,.exit_code]')" '[true,null]'
api POST "$B/exec" '{"argv":["no-such-x"]}' -H 'Accept: text/event-stream'
is_error 'an error before the stream is an ordinary error' 404 NOT_FOUND no-such-x

# it comes while the command runs
mkfifo "$WORK/fifo"
curl -sN --max-time 120 --unix-socket "$SOCKET" -H 'Accept: text/event-stream' \
    -d '{"command":"echo early; while [ ! -e go ]; do sleep 0.02; done; echo late"}' "http://localhost$B/exec" \
    > "$WORK/fifo" &
client=$!
exec {stream}< "$WORK/fifo"
seen=
while read -r -t 60 line <&"$stream"; do
    [[ $line == *early* ]] && { seen=early && break; }
done
is 'output comes before the end' "$seen" early
put go ''
like 'and the rest after it' "$(cat <&"$stream")" 'late.*exit'
exec {stream}<&-
wait "$client"
