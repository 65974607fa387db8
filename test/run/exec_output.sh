# A gigabyte of output: memory flat, head and tail kept, counts true. A client that does not read.
# daemon: plain
# by default: jail local remote

run 'true'
before=$(daemon_memory_kb VmHWM)
RUN_TIMEOUT_MS=120000 API_SECONDS=150 run 'echo first; head -c 1073741824 /dev/zero | tr "\0" x; echo last'
is 'a gigabyte: status' "$STATUS" 200
is 'a gigabyte: exit code' "$CODE" 0
is 'a gigabyte: the count is true' "$(j .stdout_bytes)" $((1073741824 + 11))
is 'a gigabyte: cut' "$(j .stdout_truncated)" true
is 'a gigabyte: head' "$(head -c 20 <<< "$OUT")" $'first\nxxxxxxxxxxxxxx'
is 'a gigabyte: tail' "$(tail -c 9 <<< "$OUT")" xxxxlast
between 'a gigabyte: at most a default limit came back' "$(j '.stdout|length')" 1000000 1060000
between 'a gigabyte: growth of the daemon in KB' $(($(daemon_memory_kb VmHWM) - before)) 0 24000

# A client that does not read an event stream stops its own command and nothing else.
tag_new
body="{\"command\":\"(exec -a x$TAG sleep $TAG)& yes\",\"timeout_ms\":60000}"
request="POST $B/exec HTTP/1.1\\r\\nHost: localhost\\r\\nAccept: text/event-stream\\r\\nContent-Length: "\
"${#body}\\r\\n\\r\\n"
before=$(daemon_memory_kb VmHWM)
coproc HOLD { "$TOOL" hold "$SOCKET" 100000 "$request$body" 2>&1; }
holder=$HOLD_PID # bash forgets it when the process ends
read -r -t 60 line <&"${HOLD[0]}"
is 'the stream began' "$line" holding
run 'echo still here'
is 'other commands of the box go on' "$OUT" 'still here'
run 'sleep 1' # the time in which an unbounded queue would grow
between 'growth of the daemon in KB' $(($(daemon_memory_kb VmHWM) - before)) 0 16000
ok 'the command waits' tag_alive
eval "exec ${HOLD[1]}>&-"
wait "$holder"
ok 'the client hangs up: the command ends' eventually 10 tag_gone
