# Ten thousand idle connections: at most 2 KB each, and no slower answer meanwhile.
# daemon: plain
# by default: jail local remote

idle=10000
ulimit -n $((idle + 1000)) 2> /dev/null || { skip 'ten thousand idle connections' \
    "only $(ulimit -n) descriptors here"; return; }
run 'true'
before=$(daemon_memory_kb RssAnon)
coproc HOLD { "$TOOL" idle "$SOCKET" "$idle" 2>&1; }
holder=$HOLD_PID # bash forgets it when the process ends
read -r -t 60 line <&"${HOLD[0]}"
is 'ten thousand connections' "$line" idle
between 'memory of the daemon for them, in KB' $(($(daemon_memory_kb RssAnon) - before)) 0 $((idle * 2))
now_ms
start=$NOW
api GET /healthz
now_ms
is 'it answers' "$STATUS" 200
between 'in milliseconds' $((NOW - start)) 0 10000
run 'echo fine'
is 'and runs commands' "$OUT" fine
between 'threads do not stay' "$(ls "/proc/$DAEMON_PID/task" | wc -l)" 1 200
eval "exec ${HOLD[1]}>&-"
wait "$holder"
closed() { [ "$(ls "/proc/$DAEMON_PID/fd" | wc -l)" -lt 500 ]; }
ok 'they are closed when the client goes' eventually 20 closed
