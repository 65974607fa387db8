# Clients that go in the middle of every kind of call: reset, closed, half closed.
# wall: the waiting thread watches the client's socket; what it held is freed on every way out
# config: max_calls_per_box: 4

CLIENT=$BUILD/test/attack_client
dd if=/dev/zero bs=1M count=64 of="$WORK/big" 2> /dev/null
upload big "$WORK/big"
is 'a file to read' "$STATUS" 201
api POST "$B/processes" '{"command":"exec cat"}'
CAT=$(j .pid)
# But for those by which threads are woken: a thread that waited once keeps one, and how many threads wait is chance.

request_of() { # request_of KIND: REQUEST, READ (bytes of the answer to wait for)
    local body extra=
    READ=50
    case $1 in
    exec) set -- POST exec "{\"command\":\"sleep $TAG\"}" && READ=0 ;;
    events) set -- POST exec "{\"command\":\"sleep $TAG\"}" && extra='Accept: text/event-stream\r\n' ;;
    output) set -- GET "processes/$CAT/output?wait_ms=60000" '' && READ=0 ;;
    watch) set -- GET 'watch?path=.' '' ;;
    download) set -- GET 'files?path=big' '' ;;
    archive) set -- GET 'archive?path=.' '' ;;
    terminal)
        set -- GET "pty?command=$(encode "sleep $TAG")" ''
        extra='Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: '\
'AAAAAAAAAAAAAAAAAAAAAA==\r\n' ;;
    upload) set -- PUT 'files?path=up' "half of it" && extra='Content-Length: 100000000\r\n' READ=0 ;;
    unpack) set -- PUT 'archive?path=.' "half of it" && extra='Content-Length: 100000000\r\n' READ=0 ;;
    stdin) set -- POST "processes/$CAT/stdin" "half of it" && extra='Content-Length: 100000000\r\n' READ=0 ;;
    body) set -- POST exec '{"command"' && extra='Content-Length: 1000\r\n' READ=0 ;;
    esac
    body=$3
    [[ -z $body || $extra = *Content-Length* ]] || extra+="Content-Length: ${#body}\r\n"
    REQUEST="$1 $B/$2 HTTP/1.1\r\nHost: localhost\r\n$extra\r\n$body"
}
begun() { # the request is being served: its command runs, or the daemon has a thread for it
    case $1 in exec | events | terminal) tag_alive ;; *) : ;; esac
}
free() { # all four calls of the box are to be had again
    local i pids=
    for i in 1 2 3; do
        (WORK=$WORK/free$i && mkdir -p "$WORK" && API_SECONDS=10 run 'sleep 0.05' && [ "$STATUS" = 200 ]) & pids+=" $!"
    done
    for i in $pids; do wait "$i" || return 1; done
}

free
before=$(daemon_fds)
for kind in exec events output watch download archive upload unpack stdin body terminal; do
    for how in reset close half; do
        [[ $how != half || $kind != download && $kind != archive ]] || continue # it only said that it sends no more
        tag_new
        request_of "$kind"
        coproc VANISH { "$CLIENT" vanish "$SOCKET" "$how" "$READ" "$REQUEST" 2>&1; }
        pid=$! in=${VANISH[1]} line=
        read -r -t 60 line <&"${VANISH[0]}"
        eventually 10 begun "$kind" || line+=' not begun'
        eval "exec $in>&-"
        wait "$pid"
        is "$kind, $how: begun" "$line" ready
        case $kind in exec | events) ok "$kind, $how: the command has ended" eventually 10 tag_gone ;; esac
        [ "$kind" != terminal ] || ok "$kind, $how: the terminal lives on, as it should" tag_alive
        ok "$kind, $how: its call is free again" eventually 10 free
    done
done
api GET "$B/processes"
for pid in $(j '.processes[] | select(.state == "running") | .pid'); do api POST "$B/processes/$pid/signal" \
    '{"signal":"KILL"}'; done
few() { [ "$(daemon_fds)" -le $((before + 3)) ]; }
if eventually 10 few; then pass 'no descriptor is left'; else fail 'no descriptor is left' \
    "$before before, $(daemon_fds) now"; fi
api GET "$B/files?path=up"
is_error 'and nothing of half an upload' 404 NOT_FOUND
