# Hostile payloads and races: the box may suffer; the daemon, other boxes and the host do not.
# by default: jail

upload tool "$TOOL" '&mode=0755'

# what a request says affects the command only
run 'echo fine' '"env":{"LD_PRELOAD":"/nonexistent.so","BASH_ENV":"/workspace/x","PATH":"/'\
'nowhere","IFS":"x","PROMPT_COMMAND":"exit 9"}'
like 'a hostile environment' "$STATUS $OUT" '^200 fine'
run 'mkdir gone && cd gone && rmdir ../gone && pwd > /dev/null; echo still'
is 'a directory removed under a command' "$OUT" still
for cwd in /proc/self/fd/3 /proc/1/root /proc/self/cwd/.. '../../../..'; do
    run 'cat forbidden/secret; ls' "\"cwd\":\"$cwd\""
    unlike "cwd $cwd does not lead out" "$OUT" "secret|${WORK##*/}"
done

# orphans and floods
run 'for i in $(seq 300); do (true & ); done; echo done'
is 'three hundred orphans' "$OUT" done
if [ "$BACKEND" = jail ]; then
    zombies() { run 'cat /proc/[0-9]*/stat 2>/dev/null | grep -c ") Z "' '"user":"root"' && [ "$OUT" = 0 ]; }
    ok 'none stays a zombie' eventually 5 zombies
    before=$(find /sys/fs/cgroup -maxdepth 6 -path "*$BOX*" -type d 2> /dev/null | wc -l)
    for _ in {1..100}; do
        printf 'unix-socket = "%s"\nurl = "http://localhost%s/exec"\ndata = "{\\"command\\":\\"true\\"}"\noutput = '\
'/dev/null\nnext\n' "$SOCKET" "$B"
    done | sed '$d' > "$WORK/many"
    curl -s -K "$WORK/many"
    between 'a hundred commands leave no cgroups behind' \
        $(($(find /sys/fs/cgroup -maxdepth 6 -path "*$BOX*" -type d 2> /dev/null | wc -l) - before)) -100 16
fi

# races with links: a directory that is now a link to the outside, now itself
run 'mkdir -p race/dir; echo inside > race/dir/f'
mkdir -p "$WORK/forbidden/dir"
echo outside > "$WORK/forbidden/dir/f"
run "ln -s '$WORK/forbidden/dir' race/link"
tag_new
json_string './tool swap race/dir race/link 4'
api POST "$B/processes" "{\"command\":$JSON_STRING}"
swapper=$(j .pid)
leaked=
for i in {1..25}; do
    get race/dir/f
    [ "$STATUS:$BODY" != 200:outside ] || leaked+=' read'
    put race/dir/f inside
    put "race/dir/new$i" x '&parents=1'
    api POST "$B/mkdir" "{\"path\":\"race/dir/m$i/n\",\"parents\":true}"
    api POST "$B/edit" '{"path":"race/dir/f","old":"outside","new":"edited"}'
    api POST "$B/move" "{\"from\":\"race/dir/new$i\",\"to\":\"race/dir/moved$i\"}"
    api DELETE "$B/files?path=race/dir/m$i&recursive=1"
    api GET "$B/list?path=race/dir&depth=3"
done
api GET "$B/processes/$swapper"
is 'links swapped under every file call: nothing outside is read' "$leaked" ''
is 'nor written, made, moved or removed' \
    "$(cd "$WORK/forbidden/dir" && find . | sort | tr '\n' ' '; cat "$WORK/forbidden/dir/f")" '. ./f outside'

# a box deleted under a file being written, and under an archive
box_new
second=$B
printf 'PUT %s/files?path=half HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nxxxx' "$second" \
    > "$WORK/half"
"$TOOL" raw "$SOCKET" 120000 < "$WORK/half" > "$WORK/raw" &
writer=$!
json_string 'head -c 100000000 /dev/zero > big; echo made'
run 'head -c 100000000 /dev/zero > big; echo made'
is 'a large file' "$OUT" made
coproc HOLD { "$TOOL" hold "$SOCKET" 1000 \
    "GET $second/archive?path=/workspace HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n" 2>&1; }
holder=$HOLD_PID # bash forgets it when the process ends
read -r -t 60 line <&"${HOLD[0]}"
is 'an archive is under way' "$line" holding
now_ms
start=$NOW
api DELETE "$second"
now_ms
is 'the box is deleted all the same' "$STATUS" 204
between 'at once' $((NOW - start)) 0 20000
eval "exec ${HOLD[1]}>&-"
wait "$holder"
wait "$writer"
like 'the writer gets an error, not a success' "$(< "$WORK/raw")" '^(4|5)[0-9][0-9] |^closed'
api GET "$second"
is_error 'it is gone' 404 NOT_FOUND

# a hog does not slow its neighbour
box_new
neighbour=$BOX
run 'true'
box_new
api POST "$B/processes" '{"command":"yes > /dev/null & yes > /dev/null & yes > /dev/null & wait"}'
box_use "$neighbour"
now_ms
start=$NOW
for _ in 1 2 3; do run 'echo quick'; done
now_ms
between 'three commands beside a hog, in milliseconds' $((NOW - start)) 0 30000
is 'with their output' "$OUT" quick
