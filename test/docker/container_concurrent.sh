# Many at once: one user and thread is one container, whoever asks and however often; others are made beside it; what is
# deleted
# while it is made is gone; two daemons on one state directory share containers and never fight.

ask() { # ask SOCKET USER THREAD: id and status
    curl -s --max-time 60 --unix-socket "$1" -X POST -H 'Content-Type: application/json' \
        -d "{\"backend\":\"docker\",\"user\":\"$2\",\"thread\":\"$3\",\"template\":\"$IMAGE_BUSYBOX\"}" \
    -w '\n%{http_code}\n' http://localhost/v1/boxes |
        { read -r body && read -r status && echo "$(jq -r '.id // .error.code' <<< "$body") $status"; }
}
callers=()
for i in 1 2 3 4 5 6; do ask "$SOCKET" ann same > "$WORK/same$i" & callers+=($!); done
wait "${callers[@]}"
id=$(printf 'ann:same' | sha256sum | cut -c1-16)
is 'one pair asked for six times at once: made once' "$(cat "$WORK"/same* | sort | uniq -c | sed 's/^ *//')" \
    $'5 '"$id"$' 200\n1 '"$id"' 201'
is 'as one container' "$(containers | grep -c "$id")" 1

callers=()
for i in 1 2 3 4; do ask "$SOCKET" bob "t$i" > "$WORK/many$i" & callers+=($!); done
wait "${callers[@]}"
is 'four pairs at once: four boxes' \
    "$(cut -d' ' -f2 "$WORK"/many* | xargs) $(cut -d' ' -f1 "$WORK"/many* | sort -u | wc -l)" '201 201 201 201 4'
callers=()
for i in 1 2 3 4; do
    curl -s --max-time 60 --unix-socket "$SOCKET" -X POST -H 'Content-Type: application/json' \
        -d "{\"command\":\"seq 1 200000 | md5sum; echo \$HOSTNAME\"}" \
    "http://localhost/v1/boxes/$(cut -d' ' -f1 "$WORK/many$i")/exec" > "$WORK/out$i" & callers+=($!)
done
wait "${callers[@]}"
is 'which work beside each other' "$(for i in 1 2 3 4; do jq -r .stdout "$WORK/out$i" | head -1; done | sort -u)" \
    "$(seq 1 200000 | md5sum)"

# One box, many commands and files.
box_use "$id"
callers=()
for i in {1..24}; do
    curl -s --max-time 60 --unix-socket "$SOCKET" -X POST -H 'Content-Type: application/json' \
        -d "{\"command\":\"echo $i; echo $i > f$i\"}" "http://localhost$B/exec" > "$WORK/out$i" & callers+=($!)
done
wait "${callers[@]}"
is 'two dozen commands at once in one container: each has its own output' \
    "$(for i in {1..24}; do [ "$(jq -r .stdout "$WORK/out$i")" = "$i" ] || echo "$i"; done)" ''
run 'cat f* | sort -n | tail -n 1; ls f* | wc -l; ls /proc | grep -c "^[0-9]*$"'
like 'and nothing of them is left' "$OUT" $'^24\n24\n[3-8]$'

# Deleted while it is made, by whoever knows its name.
deleted=$(printf 'ann:deleted' | sha256sum | cut -c1-16)
for turn in 1 2 3; do
    ask "$SOCKET" ann deleted > "$WORK/deleted" & one=$!
    statuses=
    while [ -d "/proc/$one" ]; do
        api DELETE "/v1/boxes/$deleted"
        statuses+="$STATUS "
        [ "$STATUS" != 204 ] || break
    done
    wait "$one"
    api DELETE "/v1/boxes/$deleted"
    like "turn $turn: deleted while it is made: done or unknown, never half" "$statuses$STATUS" \
        '^((404|204|409|503) )*(204|404)$'
    is "turn $turn: no container is left" "$(containers | grep -c "$deleted")" 0
done

# ---- two daemons ----

first_pid=$DAEMON_PID first_socket=$SOCKET
SOCKET=$WORK/twin
start_daemon "$PROGRAM" || fail 'a second daemon on the same state' "$(tail -3 "$WORK/daemon.log")"
twin_pid=$DAEMON_PID twin_socket=$SOCKET
via_first() { DAEMON_PID=$first_pid SOCKET=$first_socket; }
via_twin() { DAEMON_PID=$twin_pid SOCKET=$twin_socket; }
box_use "$id"
run 'echo by the second > shared'
via_first
run 'cat shared'
is 'a container serves both daemons' "$STATUS $OUT" '200 by the second'
same=0
for i in 1 2 3; do
    ask "$first_socket" both "t$i" > "$WORK/a" & one=$!
    ask "$twin_socket" both "t$i" > "$WORK/b" & two=$!
    wait "$one" "$two"
    [ "$(cut -d' ' -f1 "$WORK/a")" = "$(cut -d' ' -f1 "$WORK/b")" ] &&
        [ "$(cut -d' ' -f2 "$WORK/a" "$WORK/b" | sort | xargs)" = '200 201' ] && same=$((same + 1)) ||
        diag "$(cat "$WORK/a" "$WORK/b")"
done
is 'a pair asked for in both at once is one container, made by one of them' "$same $(containers | wc -l)" "3 9"
kill -KILL "$twin_pid"
wait "$twin_pid" 2> /dev/null
box_use "$(printf 'both:t1' | sha256sum | cut -c1-16)"
run 'echo fine'
is 'one killed: the other serves all' "$STATUS $OUT" '200 fine'
SOCKET=$twin_socket
start_daemon "$PROGRAM" || fail 'it comes again' "$(tail -3 "$WORK/daemon.log")"
twin_pid=$DAEMON_PID
api GET /v1/boxes
is 'and when it comes again it takes nothing from anybody' \
    "$(j '[.boxes[]|select(.running)]|length') $(containers | wc -l)" '9 9'
api DELETE "/v1/boxes/$id"
is 'deleted by one' "$STATUS" 204
via_first
run 'echo fine'
api GET "/v1/boxes/$id"
is 'it is unknown to the other' "$STATUS" 404
kill -TERM "$twin_pid"
wait "$twin_pid"
is 'the second daemon ends in order' $? 0
