# waits
# Two connections under one name: the one that answers stays; a dead one gives way; and its late end takes nothing from
# the new one.
run 'echo first > who; echo 1'
is 'the first machine' "$OUT" 1
FIRST=$MACHINE_PID
mkdir -p "$WORK/work-second"
CUBBY_TOKEN=$TOKEN "${RIGHT[@]}" "$CUBBY_JOIN" join --server "wss://$SERVER:$SERVER_PORT" \
    --ca "$WORK/ca.pem" --workspace "$WORK/work-second" --state "$WORK/machine-second" < /dev/null \
    > "$WORK/join-second.log" 2>&1 & SECOND=$!
echo "$SECOND" >> "$WORK/machine-pids"
ok 'a second one under the same name is refused' eventually 15 grep -qi 'another machine\|already' \
    "$WORK/join-second.log"
run 'cat who'
is 'the first one goes on' "$OUT" first
api GET "$B"
is 'and is the one that counts' "$(j .workspace)" "$MACHINE_DIR"
machine_end "$SECOND"

# the first one hangs without a word (its connection is there, nobody answers): the next takes its place
kill -STOP "$FIRST"
mkdir -p "$WORK/machine-third"
CUBBY_TOKEN=$TOKEN "${RIGHT[@]}" "$CUBBY_JOIN" join --server "wss://$SERVER:$SERVER_PORT" \
    --ca "$WORK/ca.pem" --workspace "$WORK/work-second" --state "$WORK/machine-third" < /dev/null \
    > "$WORK/join-third.log" 2>&1 & THIRD=$!
echo "$THIRD" >> "$WORK/machine-pids"
taken() { api GET "$B" && [ "$(j .workspace) $(j .state)" = "$WORK/work-second ready" ]; }
ok 'a new one takes the place of one that does not answer' eventually 30 taken
run 'echo third > who; pwd'
is 'and is the box' "$OUT" "$WORK/work-second"
kill -CONT "$FIRST"
ok 'the old one is told' eventually 20 grep -qi 'another machine\|already\|place' "$WORK/join-laptop.log"
machine_end "$FIRST"
run 'cat who'
is 'defect 3: the end of the old connection does not remove the new one' "$OUT" third
ok 'it stays online' machine_state laptop ready
