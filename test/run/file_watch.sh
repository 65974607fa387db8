# watch: changes as an event stream.
# by default: jail local remote

# what cannot be watched is the caller's mistake, and said so
run 'mkdir -p bad; echo x > bad/plain; ln -s loop bad/loop'
for row in 'bad/plain/x 400' 'bad/loop 400' 'bad/none 404'; do
    api GET "$B/watch?path=${row% *}" '' --max-time 20
    is "not watched: ${row% *}" "$STATUS" "${row#* }"
done

run 'rm -r bad; mkdir -p w/sub'
watch_open() { # watch_open QUERY: the stream is descriptor $STREAM
    rm -f "$WORK/watch"
    mkfifo "$WORK/watch"
    curl -sN --max-time 60 --unix-socket "$SOCKET" "http://localhost$B/watch?$1" > "$WORK/watch" &
    WATCHER=$!
    exec {STREAM}< "$WORK/watch"
    watch_for ready '' # from here on nothing is missed
}
watch_close() {
    kill "$WATCHER" 2> /dev/null
    wait "$WATCHER" 2> /dev/null
    exec {STREAM}<&-
}
# Reads until an event NAME whose data matches REGEX comes: 0, or 1 after a minute. SEEN: what came meanwhile.
watch_for() {
    local event='' line
    SEEN=
    while read -r -t 60 line <&"$STREAM"; do
        line=${line%$'\r'}
        SEEN+="$line;"
        case $line in
            event:*) event=${line#event:} event=${event# } ;;
            data:*) [[ $event = "$1" && $line =~ $2 ]] && return 0 ;;
        esac
    done
    return 1
}
expect() { # expect NAME EVENT REGEX
    if watch_for "$2" "$3"; then pass "$1"; else fail "$1" "saw: $SEEN"; fi
}

watch_open 'path=w'
put w/new.txt one
expect 'created' created 'new\.txt'
run 'echo more >> w/new.txt'
expect 'modified' modified 'new\.txt'
api POST "$B/move" '{"from":"w/new.txt","to":"w/other.txt"}'
expect 'moved' moved 'other\.txt'
api DELETE "$B/files?path=w/other.txt"
expect 'removed' removed 'other\.txt'
put w/sub/deep.txt x
put w/last.txt x
expect 'not recursive: the next event is of the directory itself' created 'last\.txt'
unlike 'and nothing of below' "$SEEN" 'deep\.txt'
# An edit exchanges the old version for the new one: that is one change, and no hidden name shows.
api POST "$B/edit" '{"path":"w/last.txt","old":"x","new":"y"}'
put w/after.txt x
expect 'an edit' created 'after\.txt'
like 'it is a change of the file' "$SEEN" 'event: modified;data: [^;]*last\.txt'
unlike 'and nothing else' "$SEEN" 'moved|cubby-tmp'
watch_close

watch_open 'path=w&recursive=1'
put w/sub/deep2.txt x
expect 'recursive' created 'sub/deep2\.txt'
run 'mkdir -p w/sub/fresh && echo x > w/sub/fresh/f.txt && sleep 0.2 && echo y > w/sub/fresh/g.txt'
expect 'a new directory is watched, too' created 'fresh/g\.txt'
watch_close

api GET "$B/watch?path=nowhere"
is_error 'watch of nothing' 404 NOT_FOUND
watch_open 'path=w'
api DELETE "$B"
is 'a box can be deleted under a watch' "$STATUS" 204
wait "$WATCHER"
pass 'and the stream ends'
exec {STREAM}<&-
