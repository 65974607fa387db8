# Five hundred commands at once in one box.
# wall: the table of commands (256) and the calls a box may have at once: 429 beyond, and no queue without an end

some_run() { api GET "$B" && [ "$(j .usage.pids)" -gt 100 ]; }
for i in {1..500}; do
    printf 'unix-socket = "%s"\nurl = "http://localhost%s/exec"\ndata = "{\\"command\\":\\"echo %d; exec sleep '\
'4\\"}"\noutput = "%s"\nwrite-out = "%d %%{http_code}\\n"\nnext\n' \
        "$SOCKET" "$B" "$i" "$WORK/at-once.$i" "$i"
done | sed '$d' > "$WORK/at-once"
now_ms
start=$NOW
curl -sS --max-time 60 -Z --parallel-immediate --parallel-max 300 -K "$WORK/at-once" > "$WORK/codes-1" 2> /dev/null &
client=$!
ok 'they run' eventually 20 some_run
neighbour_check 'meanwhile'
wait "$client"
now_ms
codes=$(cut -d' ' -f2 "$WORK/codes-1" | sort | uniq -c | tr -s ' ' | tr '\n' ',')
diag "$codes in $((NOW - start)) ms"
like 'each is answered: done or refused' "$codes" '^ [0-9]+ 200,( [0-9]+ 429,)?$'
done=$(grep -c ' 200$' "$WORK/codes-1")
between 'many are done' "$done" 100 500
wrong=0 unclear=0
while read -r i code; do
    case $code in
        200) [ "$(jq -r .stdout < "$WORK/at-once.$i")" = "$i" ] || wrong=$((wrong + 1)) ;;
        *) [ "$(jq -r .error.code < "$WORK/at-once.$i")" = LIMIT ] || unclear=$((unclear + 1)) ;;
    esac
done < "$WORK/codes-1"
is 'with their own output' "$wrong" 0
is 'refusals say LIMIT' "$unclear" 0
run 'echo fine'
is 'afterwards the box goes on' "$OUT" fine

# What commands left running stays in the list, each of them; more than the list can hold are refused.
box_new '"limits":{"pids":1000}'
for i in {1..270}; do
    printf '%s\n' "unix-socket = \"$SOCKET\"" "url = \"http://localhost/aio/$BOX/v1/bash/exec\"" \
        'data = "{\"command\":\"sleep 4000 > /dev/null 2>&1 & echo left\"}"' \
        'header = "Content-Type: application/json"' 'output = /dev/null' 'write-out = "%{http_code}\n"' next
done | sed '$d' > "$WORK/leaving"
curl -s --parallel --parallel-max 16 -K "$WORK/leaving" > "$WORK/left" 2> /dev/null
left=$(grep -c 200 "$WORK/left")
between 'so many commands leave something' "$left" 200 256
is 'the others are refused as a limit' "$(sort -u "$WORK/left" | tr '\n' ' ')" '200 429 '
api GET "$B/processes"
is 'the list has every one of them' "$(j '[.processes[] | select(.command | contains("sleep 4000"))] | length')" "$left"
first=$(j '[.processes[] | select(.command | contains("sleep 4000"))][0].pid')
run 'echo no room'
is_error 'no command beside them' 429 LIMIT 'have left processes'
api POST "$B/processes/$first/signal" '{"signal":"KILL"}'
again() { run 'pgrep -xc sleep' && [ "$OUT" = $((left - 1)) ]; }
ok 'until one of them is ended' eventually 20 again
api DELETE "$B"
box_use "$ATTACKED"
