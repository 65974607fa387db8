# waits
# Twenty milliseconds each way, packets that are lost and others that come late: everything is as it was, only later.
cable delay 20
cable loss 2
cable reorder 5
for i in 1 2 3 4 5; do
    run "echo $i; echo err $i >&2; exit $i"
    is "a command ($i)" "$OUT $ERR $CODE" "$i err $i $i"
done
head -c 2000000 /dev/urandom > "$WORK/some"
SUM=$(sha256sum < "$WORK/some")
upload some "$WORK/some"
is 'an upload' "$STATUS $(sha256sum < "$MACHINE_DIR/some")" "201 $SUM"
get some
is 'a download' "$STATUS $(sha256sum < "$WORK/body")" "200 $SUM"
put tree/a/b/c.txt needle '&parents=1'
api POST "$B/grep" '{"pattern":"needle","path":"tree"}'
is 'a search' "$(j '.matches|map(.path)|tostring')" "[\"$MACHINE_DIR/tree/a/b/c.txt\"]"
curl -sS --unix-socket "$SOCKET" "http://localhost$B/archive?path=tree" | tar -tf - > "$WORK/names"
is 'an archive' "$(grep -c 'c.txt$' "$WORK/names")" 1
OUTPUT=$("$TOOL" ws "$SOCKET" "$B/pty?command=cat" <<< $'send hello\\r\nexpect hello\\r\\nhello\\r\\n')
is 'a terminal' "$(tail -1 <<< "$OUTPUT")" seen
for i in 1 2 3 4 5 6 7 8; do
    curl -sS --unix-socket "$SOCKET" -H 'Content-Type: application/json' \
        -d "{\"command\":\"head -c 50000 /dev/zero | tr '\\\\0' $i; sleep 0.1\"}" "http://localhost$B/exec" \
    > "$WORK/many-$i" &
    pids[i]=$!
done
wait "${pids[@]}"
is 'eight at once, none mixed with another' \
    "$(for i in 1 2 3 4 5 6 7 8; do jq -r .stdout "$WORK/many-$i" | sort -u |
    cut -c1; jq -r '.stdout|length' "$WORK/many-$i"; done | tr '\n' ' ')" \
    "$(for i in 1 2 3 4 5 6 7 8; do printf '%s 50000 ' $i; done)"
latency_told() { api GET "$B" && [ "$(j '.remote.latency_ms >= 20 and .remote.latency_ms < 5000')" = true ]; }
ok 'the latency is told, with the next ping' eventually 30 latency_told

# a slow one: nobody waits for somebody else's large file
cable loss 0
cable reorder 0
cable rate 8
curl -sS --unix-socket "$SOCKET" -o "$WORK/slow" "http://localhost$B/files?path=some" & slow=$!
run 'echo quick'
is 'a command beside a download that fills the cable' "$OUT" quick
ok 'does not wait for its end' kill -0 "$slow"
wait "$slow"
is 'which is whole' "$(sha256sum < "$WORK/slow")" "$SUM"
