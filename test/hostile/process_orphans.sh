# Ten thousand orphans, reparented to PID 1.
# wall: PID 1 reaps whatever it is given; the leaf ends what lives
# box: "limits":{"pids":128}

api GET "$B"
before=$(j .usage.pids)
attack orphans 10000 '"timeout_ms":120000'
is 'ten thousand orphans' "$OUT $CODE" 'orphans 10000 0'
api GET "$B"
between 'and as many processes as before' $(($(j .usage.pids) - before)) -1 1
zombies() { run 'cat /proc/[0-9]*/stat 2> /dev/null | grep -c ") Z "' '"user":"root"' && [ "$OUT" = 0 ]; }
ok 'no zombie' eventually 5 zombies
api POST "$B/processes" '{"command":"/tmp/attack_orphans 1000000"}'
pid=$(j .pid)
now_ms
start=$NOW
for _ in 1 2 3 4 5; do run 'true'; [ "$STATUS" = 200 ] || [ "$STATUS" = 429 ] ||
    fail 'a command meanwhile' "$STATUS $BODY"; done
now_ms
between 'a flood of them keeps nobody waiting' $((NOW - start)) 0 30000
api POST "$B/processes/$pid/signal" '{"signal":"KILL"}'
few() { api GET "$B" && [ "$(j .usage.pids)" -le $((before + 1)) ]; }
ok 'and leaves nothing' eventually 5 few
