# A box is deleted while everything runs in it: commands, writes, archives, watches, a terminal, a search.
# wall: PID 1 dies and takes the namespace with it; calls end by their wire; the box's directory is renamed away as a
# whole

# busy: starts one of each in the current box and waits until they run.
box_files() { run 'mkdir -p big && cd big && for i in $(seq 200); do head -c 20000 /dev/zero > f$i; done; seq 200000 '\
'> lines'; }
from() { curl -s --max-time 60 --unix-socket "$SOCKET" -o "$WORK/$1" -w '%{http_code}' "${@:2}" > "$WORK/$1.code" \
    2> /dev/null & }
busy() {
    local url=http://localhost$B
    callers=()
    # A writer that never ends: half a file is in the box when it goes.
    mkfifo "$WORK/slow" 2> /dev/null
    exec {slow}<> "$WORK/slow"
    curl -s --max-time 60 --unix-socket "$SOCKET" -o "$WORK/write" -X PUT -T . "$url/files?path=half" < "$WORK/slow" \
        2> /dev/null {slow}>&- &
    callers+=($!)
    head -c 300000 /dev/zero >&"$slow"
    from exec -X POST -H 'Content-Type: application/json' \
        -d '{"command":"trap : TERM; echo up > up; while :; do sleep 1; done","timeout_ms":60000}' "$url/exec"
    callers+=($!)
    # Curl takes what is there and then waits until its average is right: slow enough to be under way, quick enough to
    # end.
    from tar --limit-rate 500K "$url/archive?path=big"
    callers+=($!)
    from watch -N "$url/watch?path=."
    callers+=($!)
    from grep -X POST -H 'Content-Type: application/json' -d '{"pattern":"(1+)+9$","path":"big"}' "$url/grep"
    callers+=($!)
    mkfifo "$WORK/keys" 2> /dev/null
    exec {keys}<> "$WORK/keys"
    "$TOOL" ws "$SOCKET" "$B/pty?command=cat" < "$WORK/keys" > "$WORK/pty" 2>&1 {keys}>&- &
    callers+=($!)
    printf 'send abc\\r\nexpect abc\nwait\n' >&"$keys"
    tag_new
    api POST "$B/processes" "{\"command\":\"sleep $TAG\"}"
    up() { get up && [ "$STATUS" = 200 ] && tag_alive && [ -s "$WORK/tar" ]; }
    eventually 20 up
}

for turn in 1 2 3; do
    [ "$turn" = 1 ] || box_new "$(head_line "$1" box)"
    box_files
    if busy; then pass "turn $turn: everything runs"; else fail "turn $turn: everything runs" \
        "$STATUS, tar $(wc -c < "$WORK/tar"), $(jobs)"; fi
    busy_box=$BOX
    now_ms
    before=$NOW
    api DELETE "$B"
    is "turn $turn: it is deleted" "$STATUS" 204
    now_ms
    between "turn $turn: at once" $((NOW - before)) 0 3000
    api GET "$B"
    is "turn $turn: and unknown" "$STATUS" 404
    exec {slow}>&- {keys}>&-
    ended() { [ -z "$(left)" ]; }
    left() { local pid; for pid in "${callers[@]}"; do [ ! -d "/proc/$pid" ] ||
        tr '\0' ' ' < "/proc/$pid/cmdline"; done; }
    eventually 20 ended
    is "turn $turn: no call hangs" "$(left)" ''
    now_ms
    diag "turn $turn: the last call ended after $((NOW - before)) ms"
    wait "${callers[@]}" 2> /dev/null
    is "turn $turn: exec says why" "$(cat "$WORK/exec.code") $(jq -r .error.code < "$WORK/exec")" '410 GONE'
    like "turn $turn: in words" "$(jq -r .error.message < "$WORK/exec")" 'the box was deleted'
    ok "turn $turn: no process is left" eventually 5 tag_gone
    is "turn $turn: no file of it" "$(ls -d "$STATE/boxes/$busy_box" 2> /dev/null)" ''
    neighbour_check "after turn $turn"
done

# The same box deleted by several at once.
box_new
box_files
codes=()
for i in 1 2 3 4 5; do
    curl -s --max-time 120 --unix-socket "$SOCKET" -o /dev/null -w '%{http_code}\n' -X DELETE "http://localhost$B" \
        >> "$WORK/deletes" & codes+=($!)
done
wait "${codes[@]}"
is 'deleted by five at once: one did it' "$(sort "$WORK/deletes" | uniq -c | xargs)" '1 204 4 404'

# A hundred thousand files: who deletes waits for a rename, and who calls elsewhere for nothing.
if box_new '"limits":{"pids":64}'; then
    many() { run 'mkdir m && cd m && for d in $(seq 100); do mkdir $d; (cd $d && seq 1000 | xargs touch); done; find '\
'. -type f | wc -l' '"timeout_ms":60000'; }
    many
    is 'a box has 100,000 files' "$OUT" 100000
    worst() { # worst COUNT -> WORST: ms of the slowest exec in the neighbour
        local i before box=$BOX
        WORST=0
        box_use "$NEIGHBOUR"
        for ((i = 0; i < $1; i++)); do
            now_ms
            before=$NOW
            api POST "$B/exec" '{"command":"true"}'
            now_ms
            [ "$((NOW - before))" -le "$WORST" ] || WORST=$((NOW - before))
        done
        box_use "$box"
    }
    worst 20
    idle=$WORST
    now_ms
    before=$NOW
    api DELETE "$B"
    now_ms
    is 'it is deleted' "$STATUS" 204
    between 'at once' $((NOW - before)) 0 15000
    worst 20
    diag "slowest of 20 calls elsewhere: $idle ms before, $WORST ms while its files go"
    between 'meanwhile nobody waits' "$WORST" 0 $((idle * 3 + 3000))
    files_gone() { [ -z "$(ls -A "$STATE/trash")" ]; }
    ok 'and its files go' eventually 120 files_gone
else fail 'a box for many files' "$STATUS $BODY"; fi
GONE=1
box_use "$NEIGHBOUR"
