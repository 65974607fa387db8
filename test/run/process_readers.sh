# Readers of a background process: events from an offset of each stream, any number of readers, each of which gets all
# of it while the process waits for the slowest; tags, arguments and directories in lists.
# by default: jail local remote

follow() { # follow PID QUERY FILE: in the background; FOLLOWER
    curl -sN --max-time 120 --unix-socket "$SOCKET" -H 'Accept: text/event-stream' \
        "http://localhost$B/processes/$1/output?$2" > "$3" &
    FOLLOWER=$!
}
reader_events() { # reader_events NAME FILE: the data of events of that name, in order
    awk -v name="$1" '/^event:/ { e = $2 } /^data:/ { if (e == name) print substr($0, 7) }' "$2"
}
reader_has() { grep -qs "$1" "$2"; }
spawn() { # spawn COMMAND [MORE MEMBERS]: PID
    json_string "$1"
    api POST "$B/processes" "{\"command\":$JSON_STRING${2:+,$2}}"
    PID=$(j .pid)
}

# ---- what a list says of it ----
spawn 'cat > /dev/null' '"tag":"reader one","cwd":"/workspace"'
api GET "$B/processes/$PID"
is 'a tag and a directory' "$(j -c '[.tag,.cwd,.argv]')" '["reader one","/workspace",null]'
api GET "$B/processes"
is 'the tag in the list' "$(j -r ".processes[]|select(.pid==$PID)|.tag")" 'reader one'
api POST "$B/processes/$PID/signal" '{"signal":"KILL"}'
api POST "$B/processes" '{"argv":["sh","-c","exit 3","a b"]}'
PID=$(j .pid)
api GET "$B/processes/$PID"
is 'its arguments' "$(j -c '[.argv,has("tag")]')" '[["sh","-c","exit 3","a b"],false]'
json_string "$(printf 'x%.0s' {1..129})"
api POST "$B/processes" "{\"command\":\"true\",\"tag\":$JSON_STRING}"
is_error 'a tag has a limit' 400 INVALID "'tag' is longer than 128 bytes"

# ---- events ----
spawn 'while read line; do echo "out $line"; echo "err $line" >&2; done; exit 4'
follow "$PID" '' "$WORK/one"
one=$FOLLOWER
ok 'a reader is attached' eventually 20 reader_has '^event: started' "$WORK/one"
is 'and told where it begins' "$(reader_events started "$WORK/one" | jq -c .)" \
    "{\"pid\":$PID,\"stdout_offset\":0,\"stderr_offset\":0}"
api POST "$B/processes/$PID/stdin" first
api POST "$B/processes/$PID/stdin" $'\n'
ok 'output comes' eventually 20 reader_has 'err first' "$WORK/one"
kill "$one"
wait "$one" 2> /dev/null
api POST "$B/processes/$PID/stdin" $'second\n'
follow "$PID" 'offset=10&stderr_offset=4' "$WORK/two"
two=$FOLLOWER
follow "$PID" 'offset=9223372036854775807&stderr_offset=9223372036854775807' "$WORK/three"
three=$FOLLOWER
ok 'one that comes back begins where it was' eventually 20 reader_has 'second' "$WORK/two"
ok 'another begins now' eventually 20 reader_has '^event: started' "$WORK/three"
api POST "$B/processes/$PID/stdin?eof=1" $'third\n'
wait "$two" "$three"
is 'from its offset of stdout' "$(reader_events stdout "$WORK/two" | jq -rj .data)" $'out second\nout third'
is 'and of stderr' "$(reader_events stderr "$WORK/two" | jq -rj .data)" $'first\nerr second\nerr third'
is 'the end' "$(reader_events exit "$WORK/two" | jq -c '[.exit_code,.stdout_bytes]')" '[4,31]'
is 'both have it' "$(reader_events exit "$WORK/three" | jq .exit_code)" 4
is 'what came before is not sent to who begins now' "$(reader_events stdout "$WORK/three" | jq -rj .data)" 'out third'
follow "$PID" '' "$WORK/late"
wait "$FOLLOWER"
is 'one that has ended is read all the same' "$(reader_events stdout "$WORK/late" | jq -rj .data | cksum)" \
    "$(printf 'out first\nout second\nout third\n' | cksum)"
api GET "$B/processes/999999/output" '' -H 'Accept: text/event-stream'
is_error 'no such process' 404 NOT_FOUND 'no process 999999'

# ---- nothing is lost while somebody reads, and the process waits ----
spawn 'while [ ! -e go ]; do sleep 0.02; done; seq 1 1000000; echo over >&2; touch done'
mkfifo "$WORK/slow"
follow "$PID" '' "$WORK/slow"
slow=$FOLLOWER
exec {stream}< "$WORK/slow"
follow "$PID" '' "$WORK/fast"
fast=$FOLLOWER
ok 'a second reader is attached' eventually 20 reader_has '^event: started' "$WORK/fast"
read -r -u "$stream" line
put go ''
ok 'the second reader gets what the first leaves room for' eventually 20 reader_has 'data' "$WORK/fast"
run 'test -e done && echo done || echo waits'
is 'the process waits for the slowest reader' "$(j .stdout)" $'waits'
cat <&"$stream" > "$WORK/slow.all"
exec {stream}<&-
wait "$slow" "$fast"
is 'the slow reader has all of it' "$(reader_events stdout "$WORK/slow.all" | jq -rj .data | cksum)" \
    "$(seq 1 1000000 | cksum)"
is 'so has the fast one' "$(reader_events stdout "$WORK/fast" | jq -rj .data | cksum)" "$(seq 1 1000000 | cksum)"
is 'and both the other stream' "$(reader_events stderr "$WORK/fast" | jq -rj .data)" over

# ---- a reader that goes lets the process go on ----
spawn 'seq 1 1000000; touch done2; cat'
mkfifo "$WORK/gone"
follow "$PID" '' "$WORK/gone"
gone=$FOLLOWER
exec {stream}< "$WORK/gone"
read -r -u "$stream" line
kill "$gone"
wait "$gone" 2> /dev/null
exec {stream}<&-
ok 'it goes on when its reader has gone' eventually 20 get done2
api POST "$B/processes/$PID/signal" '{"signal":"KILL"}'
