# Many at once: commands in one box, boxes beside each other.
# by default: jail local remote

burst() { # burst COUNT URL-PATH BODY: statuses in $WORK/statuses, answers in $WORK/answers
    local i
    for ((i = 0; i < $1; i++)); do
        printf 'unix-socket = "%s"\nurl = "http://localhost%s"\ndata = "%s"\nwrite-out '\
'= "\\n@%%{http_code}\\n"\nmax-time = 60\nnext\n' \
            "$SOCKET" "$2" "${3//\"/\\\"}"
    done | sed '$d' > "$WORK/burst"
    curl -sS --parallel --parallel-immediate --parallel-max "$1" -K "$WORK/burst" > "$WORK/all" 2> /dev/null
    sed -n 's/^@//p' "$WORK/all" > "$WORK/statuses"
    grep -v '^@' "$WORK/all" > "$WORK/answers"
}

burst 100 "$B/exec" '{"command":"echo hi; sleep 0.2; echo ho >&2"}'
is 'a hundred commands at once in one box' "$(sort "$WORK/statuses" | uniq -c | tr -s ' ')" ' 100 200'
is 'every answer is its own' "$(jq -c '[.stdout,.stderr,.exit_code]' "$WORK/answers" | sort | uniq -c | tr -s ' ')" \
    ' 100 ["hi\n","ho\n",0]'
run 'echo "$(ls /proc | grep -c "^[0-9]")"'
[ "$BACKEND" != jail ] || between 'no processes are left over' "$OUT" 1 12
burst 300 "$B/exec" '{"command":"true"}'
is 'three hundred at once: each is run, or refused as too many' "$(grep -cE '^(200|429)$' "$WORK/statuses")" 300
between 'most are run' "$(grep -c '^200$' "$WORK/statuses")" 200 300

ids=()
for i in {1..16}; do
    box_new "\"user\":\"many\",\"thread\":\"$i\"" || break
    ids+=("$BOX")
done
is 'sixteen boxes' "${#ids[@]}" 16
for id in "${ids[@]}"; do
    for _ in 1 2 3; do
        printf 'unix-socket = "%s"\nurl = "http://localhost/v1/boxes/%s/exec"\ndata = "{\\"command\\":\\"echo %s > '\
'me.$$; sleep 0.05; cat me.$$\\"}"\nwrite-out = "\\n"\nmax-time = 60\nnext\n' \
            "$SOCKET" "$id" "$id"
    done
done | sed '$d' > "$WORK/burst"
curl -sS --parallel --parallel-immediate --parallel-max 48 -K "$WORK/burst" > "$WORK/answers" 2> /dev/null
is 'three commands at once in each' \
    "$(jq -r .stdout "$WORK/answers" | sed '/^$/d' | sort | uniq -c | awk '$1 == 3' | wc -l)" 16
pids=()
for id in "${ids[@]}"; do
    curl -s --unix-socket "$SOCKET" -X DELETE "http://localhost/v1/boxes/$id" -o /dev/null -w '%{http_code}\n' \
        >> "$WORK/deleted" &
    pids+=($!)
done
wait "${pids[@]}"
is 'all deleted at once' "$(sort "$WORK/deleted" | uniq -c | tr -s ' ')" ' 16 204'

box_new
fds=$(daemon_fds) threads=$(ls "/proc/$DAEMON_PID/task" | wc -l)
burst 200 "$B/exec" '{"command":"true"}'
burst 200 "$B/exec" '{"command":"true"}'
fewer() { [ "$(daemon_fds)" -le $((fds + 12)) ]; }
ok 'descriptors do not grow' eventually 15 fewer
