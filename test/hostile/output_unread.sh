# Output without end for a client that reads none of it.
# wall: credit per call: the daemon holds a window a call, then the command waits
# daemon: plain

loud='while :; do echo oooooooooooooooooooooooooooooooo; echo eeeeeeeeeeeeeeeeeeeeeeeee >&2; done'
tag_new
body="{\"command\":\"sh -c '$loud' $TAG\",\"timeout_ms\":60000}"
request="POST $B/exec HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nContent-Length: ${#body}\r\n\r\n$body"
before=$(daemon_memory_kb VmRSS)
HOLDERS=()
for i in {1..8}; do
    "$TOOL" hold "$SOCKET" 2000 "$request" < <(read -r -t 60 -u "$LIB_NEVER") > "$WORK/hold$i" &
    HOLDERS+=($!)
done
all_hold() { [ "$(cat "$WORK"/hold? | grep -c holding)" = 8 ]; }
ok 'eight clients began to read and stopped' eventually 20 all_hold
# Silent only when everything between is full: the counter of the box's output stands still.
cpu() { api GET "$B" && j .usage.cpu_ms; }
stopped() { local a b; a=$(cpu); read -r -t 0.3 -u "$LIB_NEVER"; b=$(cpu); [ "$((b - a))" -lt 20 ]; }
ok 'their commands wait' eventually 20 stopped
ok 'and are there' tag_alive
between 'memory of the daemon for them, in KB' $(($(daemon_memory_kb VmRSS) - before)) -100000 16000
run 'echo fine'
is 'the box itself goes on' "$OUT" fine
neighbour_check 'meanwhile'
kill "${HOLDERS[@]}"
wait "${HOLDERS[@]}" 2> /dev/null
ok 'their commands end when they go' eventually 10 tag_gone

# The same without a stream: everything is read, the middle is dropped, memory stays.
before=$(daemon_memory_kb VmRSS)
run "$loud" '"timeout_ms":3000,"output_limit_bytes":100000'
is 'a flood in a JSON answer ends at its time' "$STATUS $(j .timed_out) $(j .stdout_truncated) $(j .stderr_truncated)" \
    '200 true true true'
between 'and counts what there was' "$(j .stdout_bytes)" 200000 100000000000
between 'memory of the daemon for it, in KB' $(($(daemon_memory_kb VmRSS) - before)) -100000 8000
