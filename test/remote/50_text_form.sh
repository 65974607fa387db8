# waits
# A runner that shares no line with ours, written from PROTOCOL.md in Python: nested at /runner/ws, flat at /ws/{user}. The verbs do not
# know. Each defect that runners of this form have elsewhere is a check here.
machine_end "$MACHINE_PID"
request() { curl -sS --max-time 60 --unix-socket "$SOCKET" "$@"; }
head -c 3000000 /dev/urandom > "$WORK/some"
head -c 9000000 /dev/urandom > "$WORK/more"

stranger_walk() { # stranger_walk FORM: everything that such a box does
    local form=$1
    api GET "$B"
    is "$form: its workspace is the machine's path" "$(j .workspace) $(j .machine)" "$MACHINE_DIR $form"
    run 'pwd; echo err >&2; exit 3'
    is "$form: a command" "$OUT $ERR $CODE" "$MACHINE_DIR err 3"
    run 'printf "\377\376\0x"'
    is "$form: defect 10: bytes that are no text arrive as they are" "$(j .encoding) $(j .stdout | base64 -d | od -An -tx1)" 'base64  ff fe 00 78'
    tag_new
    run "echo begun; sleep $TAG" '"timeout_ms":1000'
    is "$form: defect 1: a time-out is told" "$(j .timed_out) $(j .exit_code) $OUT" 'true null begun'
    ok "$form: and what it ran has ended" eventually 5 tag_gone
    api POST "$B/exec" '{"argv":["/bin/echo","a  b","$HOME","it'"'"'s"]}'
    is "$form: an argument vector" "$(j .stdout)" "a  b \$HOME it's"
    run 'cat; echo "$X"' '"stdin":"from stdin\n","env":{"X":"y z"}'
    is "$form: input and environment" "$OUT" $'from stdin\ny z'
    put d/e/f.txt hello '&parents=1'
    is "$form: a file" "$STATUS $(cat "$MACHINE_DIR/d/e/f.txt")" '201 hello'
    get d/e/f.txt
    is "$form: read" "$STATUS $BODY" '200 hello'
    get nothing
    is_error "$form: one that is not there" 404 NOT_FOUND
    get d
    is_error "$form: a directory is no file" 400 INVALID
    upload some "$WORK/some"
    get some
    is "$form: three megabytes there and back" "$STATUS $(sha256sum < "$WORK/body")" "200 $(sha256sum < "$WORK/some")"
    api GET "$B/stat?path=d/e/f.txt"
    is "$form: stat" "$(j .type) $(j .size) $(j .path)" "file 5 $MACHINE_DIR/d/e/f.txt"
    api GET "$B/list?path=d&depth=2"
    is "$form: list" "$(j '.entries|map(.name)|sort|tostring')" '["e","f.txt"]'
    api POST "$B/grep" '{"pattern":"hel+o","path":"d"}'
    is "$form: grep" "$(j '.matches|map([.path,.line,.text])|tostring')" "[[\"$MACHINE_DIR/d/e/f.txt\",1,\"hello\"]]"
    api POST "$B/glob" '{"pattern":"**/*.txt"}'
    is "$form: glob" "$(j '.paths|tostring')" "[\"$MACHINE_DIR/d/e/f.txt\"]"
    api GET "$B/hash?path=d/e/f.txt"
    is "$form: hash" "$(j .sha256)" "$(printf hello | sha256sum | cut -d' ' -f1)"
    api POST "$B/edit" '{"path":"d/e/f.txt","old":"ell","new":"ipp"}'
    is "$form: edit" "$STATUS $(cat "$MACHINE_DIR/d/e/f.txt")" '200 hippo'
    api POST "$B/move" '{"from":"d/e/f.txt","to":"g.txt"}'
    is "$form: move" "$STATUS $(cat "$MACHINE_DIR/g.txt")" '204 hippo'
    api DELETE "$B/files?path=d&recursive=1"
    is "$form: remove" "$STATUS $(ls "$MACHINE_DIR" | tr '\n' ' ')" '204 g.txt some '
    api POST "$B/pause"
    is_error "$form: what it cannot do is told" 501 UNSUPPORTED
}

stranger_terminal() { # stranger_terminal FORM
    OUTPUT=$("$TOOL" ws "$SOCKET" "$B/pty?cols=100&rows=30" << 'END'
send stty size; echo mar''ker\r
expect 30 100
expect marker
text {"resize":{"cols":132,"rows":43}}
send stty size\r
expect 43 132
send exit 3\r
wait
END
    )
    is "$1: defect 7: a terminal takes input and a new size" "$(tail -n +3 <<< "$OUTPUT" | tr '\n' ' ')" 'seen seen seen closed 1000 '
}

stranger_background() { # stranger_background FORM
    api POST "$B/processes" '{"command":"for i in 1 2 3 4 5; do echo line $i; sleep 0.3; done; exit 4"}'
    local pid offset=0 all=
    pid=$(j .pid)
    is "$1: in the background" "$STATUS" 201
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        api GET "$B/processes/$pid/output?stream=stdout&offset=$offset&wait_ms=1000"
        offset=$(header X-Next-Offset) all+=$BODY$'\n'
        [ "$(header X-Process-State)" != exited ] || [ -n "$BODY" ] || break
    done
    is "$1: defect 8: its output comes once, by offset" "$(grep . <<< "$all")" "$(seq -f 'line %g' 1 5)"
    api GET "$B/processes/$pid"
    is "$1: with its exit code" "$(j .state) $(j .exit_code)" 'exited 4'
    tag_new
    api POST "$B/processes" "{\"command\":\"sleep $TAG\"}"
    pid=$(j .pid)
    ok "$1: another one" eventually 5 tag_alive
    api POST "$B/processes/$pid/signal" '{"signal":"SIGKILL"}'
    gone() { api GET "$B/processes/$pid" && [ "$(j .state) $(j .signal)" = 'exited SIGKILL' ]; }
    ok "$1: defect 8: killed is told as killed" eventually 5 gone
    ok "$1: and it is" eventually 5 tag_gone
}

stranger_stdin() { # stranger_stdin FORM: its runner writes pieces of a stream in any order
    seq 1 200000 > "$WORK/lines"
    ok "$1: streamed input arrives in order" sh -c "'$BUILD/cubby' exec '$BOX' -- cat < '$WORK/lines' | cmp - '$WORK/lines'"
    is "$1: and whole" "$("$BUILD/cubby" exec "$BOX" -c 'sha256sum' < "$WORK/more")" "$(sha256sum < "$WORK/more")"
}

for form in nested flat; do
    machine_token "$form"
    path=/runner/ws
    [ "$form" = nested ] || path=/ws/default
    machine_stranger "$form" "$path" --form "$form"
    if ! machine_is "$form" ready; then
        fail "$form: it joins" "$(tail -3 "$WORK/join-$form.log")"
        continue
    fi
    pass "$form: it joins"
    box_use "$(machine_box "$form")"
    stranger_walk "$form"
    stranger_terminal "$form"
    stranger_background "$form"
    upload more "$WORK/more"
    is "$form: defect 9: a file of any size" "$STATUS $(sha256sum < "$MACHINE_DIR/more")" "201 $(sha256sum < "$WORK/more")"
    get more
    is "$form: and back" "$STATUS $(sha256sum < "$WORK/body")" "200 $(sha256sum < "$WORK/more")"
    stranger_stdin "$form"
    # defect 2
    request -o "$WORK/out" -w '%{http_code}' -H 'Content-Type: application/json' -d '{"command":"echo > begun; sleep 50"}' "http://localhost$B/exec" > "$WORK/status" & call=$!
    ok "$form: a command runs" eventually 5 test -e "$MACHINE_DIR/begun"
    kill -KILL "$MACHINE_PID"
    wait "$MACHINE_PID" 2> /dev/null
    now_ms
    before=$NOW
    wait "$call"
    now_ms
    is "$form: defect 2: a call on a connection that ends fails" "$(< "$WORK/status") $(jq -r .error.code "$WORK/out")" '410 GONE'
    between "$form: at once" $((NOW - before)) 0 3000
    ok "$form: and it is offline" machine_is "$form" offline 3
    pkill -P "$MACHINE_PID" 2> /dev/null
done

machine_token simple
machine_stranger simple /ws/default --form flat --lack cancel,stdio_start,pty_create --lossy --token-in-message
ok 'the least that a runner must do' machine_is simple ready
box_use "$(machine_box simple)"
run 'echo x; exit 1'
is 'commands' "$OUT $CODE" 'x 1'
put a hello
get a
is 'files' "$BODY" hello
upload more "$WORK/more"
is_error 'large ones are refused' 413 TOO_LARGE
api GET "$B/pty?command=cat" '' -H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=='
isnt 'what it lacks is no hang' "$STATUS" 200
run 'echo still'
is 'and it goes on' "$OUT" still
