# Two daemons on one state directory: they share its boxes and never fight.
# backends: jail

first_pid=$DAEMON_PID first_socket=$SOCKET
SOCKET=$WORK/twin
start_daemon "$program"
twin_pid=$DAEMON_PID twin_socket=$SOCKET
is 'a second daemon starts on the same state' "$(kill -0 "$twin_pid" && echo runs)" runs
via_first() { DAEMON_PID=$first_pid SOCKET=$first_socket; }
via_twin() { DAEMON_PID=$twin_pid SOCKET=$twin_socket; }
plain=$BOX
via_twin
run 'echo shared > f; cat f'
is 'a box of the first works through the second' "$STATUS $OUT" '200 shared'
via_first
run 'cat f'
is 'and what it did is there for the first' "$OUT" shared

# One user and thread asked for in both at the same time, again and again.
ask() { # ask SOCKET THREAD
    curl -s --max-time 120 --unix-socket "$1" -X POST -H 'Content-Type: application/json' \
        -d "{\"backend\":\"$BACKEND\",\"user\":\"both\",\"thread\":\"$2\"}" -w '\n%{http_code}\n' \
    http://localhost/v1/boxes
}
same=0 made=0 tries=12
for ((i = 0; i < tries; i++)); do
    ask "$first_socket" "t$i" > "$WORK/a" & one=$!
    ask "$twin_socket" "t$i" > "$WORK/b" & two=$!
    wait "$one" "$two"
    a=$(head -1 "$WORK/a" | jq -r .id) b=$(head -1 "$WORK/b" | jq -r .id)
    [[ $a = "$b" && $a =~ ^[0-9a-f]{16}$ ]] && same=$((same + 1))
    [ "$(cat "$WORK/a" "$WORK/b" | grep -cx 201)" = 1 ] && made=$((made + 1))
done
is 'one pair asked for in both at once is one box' "$same" "$tries"
is 'made by one of them' "$made" "$tries"
via_twin
api GET '/v1/boxes?user=both'
is 'both list all of them' "$(j '.boxes|length')" "$tries"
via_first
api GET '/v1/boxes?user=both'
is 'also the first' "$(j '.boxes|length')" "$tries"
ids=$(j '.boxes[].id')
wrong=0
for id in $ids; do # used in both, then deleted by one
    box_use "$id"
    via_twin
    run true
    [ "$CODE" = 0 ] || wrong=$((wrong + 1))
    via_first
    api DELETE "$B"
    [ "$STATUS" = 204 ] || wrong=$((wrong + 1))
    via_twin
    run true
    [ "$STATUS $(j .error.code)" = '404 NOT_FOUND' ] || { wrong=$((wrong + 1)); diag "after delete: $STATUS $BODY"; }
    api GET "$B"
    [ "$STATUS" = 404 ] || wrong=$((wrong + 1))
    api DELETE "$B"
    [ "$STATUS" = 404 ] || wrong=$((wrong + 1))
done
is 'deleted by one it is unknown to the other, at once' "$wrong" 0
zombies() { # of both; their boxes were made by either and deleted through the first
    grep -sl '^State:.Z' /proc/[0-9]*/status | while read -r status; do
        grep -sqE "^PPid:.($first_pid|$twin_pid)$" "$status" && echo "$status"
    done
}
none_left() { [ -z "$(zombies)" ]; }
ok 'and whoever made it has waited for its runner' eventually 10 none_left
api GET '/v1/boxes?user=both'
is 'and in no list' "$(j '.boxes|length')" 0

# Deleted and made again by one while the other holds a wire to the old runner.
via_first
box_new '"user":"both","thread":"again"'
via_twin
run 'echo old > f'
via_first
api DELETE "$B"
box_new '"user":"both","thread":"again"'
via_twin
run 'cat f; echo new'
is 'made again by one, the other sees the new one' "$OUT" new

# Deleted by both at the same time.
box_new '"user":"both","thread":"end"'
id=$BOX
via_first
run true
end_it() { curl -s -o /dev/null --max-time 120 --unix-socket "$1" -X DELETE -w '%{http_code}\n' \
    "http://localhost/v1/boxes/$id"; }
end_it "$first_socket" > "$WORK/a" & one=$!
end_it "$twin_socket" > "$WORK/b" & two=$!
wait "$one" "$two"
is 'deleted by both, one has deleted it' "$(sort "$WORK/a" "$WORK/b" | xargs)" '204 404'

# Idle boxes: the first daemon evicts, the second makes and uses them.
via_twin
box_new '"user":"idle","idle_timeout_ms":2500'
idle=$BOX
run 'echo kept > f'
in_use() { run 'sleep 4; cat f' && [ "$OUT" = kept ]; }
ok 'what the other uses is not evicted, however long it takes' in_use
stopped() { api GET "/v1/boxes/$idle" && [ "$(j .state)" != ready ]; }
ok 'what nobody uses is, whoever made it' eventually 15 stopped
run 'cat f'
is 'and goes on when it is used' "$STATUS $OUT" '200 kept'

# A third one that ends a box's runner, and is killed at any step of that: what it had begun is no death. Its last steps
# come after the answer, when files go in the background.
ARM=$WORK/arm deaths=0 hits=0
over() { [ -s "$ARM.hit" ] || ! compgen -G "$STATE/trash/box-*-$quiet"; }
for n in 1 2 3; do
    via_twin
    box_new '"user":"quiet"'
    quiet=$BOX
    run 'echo mine > f'
    rm -f "$ARM" "$ARM.hit"
    SOCKET=$WORK/third
    start_daemon "$BUILD/test/crash" "$ARM" -- "$program" || break
    run true
    echo "$n files" > "$ARM"
    curl -s -o /dev/null --max-time 60 --unix-socket "$SOCKET" -X DELETE "http://localhost$B"
    eventually 10 over
    [ ! -s "$ARM.hit" ] || hits=$((hits + 1))
    kill -KILL "$DAEMON_PID" 2> /dev/null
    wait "$DAEMON_PID" 2> /dev/null
    via_twin
    box_use "$quiet"
    run 'cat f'
    [ "$STATUS" != 404 ] || continue # it was deleted all the same
    [ "$STATUS $OUT" = '200 mine' ] || { deaths=$((deaths + 1)); diag \
        "n=$n killed before $(cat "$ARM.hit"): $STATUS $BODY"; }
    api GET "$B"
    [ "$(j '[.died,.restarted]|tostring')" = '[null,null]' ] ||
        { deaths=$((deaths + 1)); diag "n=$n killed before $(cat "$ARM.hit"): $(j '[.died,.restarted]|tostring')"; }
    api DELETE "$B"
done
between 'a daemon was killed while it deleted a box' "$hits" 2 3
is 'what it had begun to end is not taken for dead' "$deaths" 0

# The reaper dies: the other one takes over, and adopts what it did not know.
via_first
box_new '"user":"idle","idle_timeout_ms":1000'
orphan=$BOX
box_use "$plain"
tag_new
api POST "$B/processes" "{\"command\":\"sleep $TAG\"}"
pid=$(j .pid)
kill -KILL "$first_pid"
wait "$first_pid" 2> /dev/null
via_twin
if [ "$BACKEND" != local ]; then
    api GET "$B/processes/$pid"
    is 'one is killed: the other has its boxes, and what runs in them' "$(j .state)" running
fi
run 'cat f'
is 'and their files' "$OUT" shared
evicted() { api GET "/v1/boxes/$orphan" && [ "$STATUS" = 200 ] && [ "$(j .state)" != ready ]; }
ok 'and evicts and cleans instead of it' eventually 15 evicted
no_slots_of_dead() {
    local dir owner
    for dir in "$STATE"/boxes/.slot-*; do
        [ -d "$dir" ] || continue
        read -r _ _ owner _ < "/run/cubby/ids/${dir##*-}" && [ "$owner" != "$first_pid" ] || return 1
    done
}
ok 'what the dead one kept ready is gone' eventually 15 no_slots_of_dead
box_use "$plain"
