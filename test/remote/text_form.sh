# waits
# A runner that shares no line with ours, written from PROTOCOL.md in Python: nested at /runner/ws, flat at /ws/{user}.
# The verbs do not
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
    is "$form: defect 10: bytes that are no text arrive as they are" \
        "$(j .encoding) $(j .stdout | base64 -d | od -An -tx1)" 'base64  ff fe 00 78'
    tag_new
    now_ms
    local before=$NOW
    run "echo begun; sleep $TAG & sleep $TAG" '"timeout_ms":1000'
    now_ms
    is "$form: defect 1: a time-out is told" "$(j .timed_out) $(j .exit_code) $OUT" 'true null begun'
    between "$form: in time, whatever holds its output" $((NOW - before)) 1000 30000
    ok "$form: and what it ran has ended, children too" eventually 5 tag_gone
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
    ln -s /etc/passwd "$MACHINE_DIR/out"
    for path in /etc/passwd ../../etc/passwd out; do
        get "$path"
        is_error "$form: files outside of the workspace are out of reach: $path" 403 DENIED
    done
    rm "$MACHINE_DIR/out"
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
    is "$1: defect 7: a terminal takes input and a new size" "$(tail -n +3 <<< "$OUTPUT" | tr '\n' ' ')" \
        'seen seen seen closed 1000 '
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
    "$BUILD/cubby" exec "$BOX" -c 'cat > streamed' < "$WORK/lines"
    ok "$1: streamed input arrives in order" cmp "$WORK/lines" "$MACHINE_DIR/streamed"
    is "$1: and whole" "$("$BUILD/cubby" exec "$BOX" -c sha256sum < "$WORK/more")" "$(sha256sum < "$WORK/more")"
}

stranger_tools() { # stranger_tools FORM: what agents use
    tool bash_background '{"command":"sleep 1.2; echo done"}'
    tool bash_output "{\"pid\":$(grep -oE '[0-9]+' <<< "$TEXT" | head -1),\"wait_ms\":20000}"
    like "$1: a background command has its duration" "$TEXT" 'after 1\.[0-9] s'
    api POST "/aio/$BOX/v1/shell/exec" '{"command":"cd /tmp; pwd"}'
    is "$1: the AIO shell" "$STATUS $(j .data.output)" '200 /tmp'
    api PUT "/v1/mcp/servers/$1" \
        "$(jq -nc --arg machine "$1" --arg source "$(< test/lib/mcp_server.py)" \
    '{command: "python3", args: ["-c", $source], machine: $machine}')"
    tool "${1}__where"
    is "$1: an MCP server there begins in the workspace" "$(jq -r .cwd <<< "$TEXT")" "$MACHINE_DIR"
    api DELETE "/v1/mcp/servers/$1"
    run "mkdir -p skills/dated; printf -- '---\nname: dated\ndescription: x\n---\n' > skills/dated/SKILL.md"
    api POST /v1/registry "{\"box\":\"$BOX\",\"name\":\"dated\"}"
    run 'rm -rf skills'
    api POST "$B/skills" '{"entry":"dated"}'
    is "$1: a skill is installed" "$STATUS" 201
    between "$1: and is as old as it is" $(($(date +%s) - $(stat -c %Y "$MACHINE_DIR/skills/dated/SKILL.md"))) -10 600
    rm -rf "$MACHINE_DIR/skills"
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
    is "$form: defect 9: a file of any size" "$STATUS $(sha256sum < "$MACHINE_DIR/more")" \
        "201 $(sha256sum < "$WORK/more")"
    get more
    is "$form: and back" "$STATUS $(sha256sum < "$WORK/body")" "200 $(sha256sum < "$WORK/more")"
    stranger_stdin "$form"
    stranger_tools "$form"
    # defect 2
    request -o "$WORK/out" -w '%{http_code}' -H 'Content-Type: application/json' \
        -d '{"command":"echo > begun; sleep 50"}' "http://localhost$B/exec" > "$WORK/status" & call=$!
    ok "$form: a command runs" eventually 5 test -e "$MACHINE_DIR/begun"
    kill -KILL "$MACHINE_PID"
    wait "$MACHINE_PID" 2> /dev/null
    now_ms
    before=$NOW
    wait "$call"
    now_ms
    is "$form: defect 2: a call on a connection that ends fails" \
        "$(< "$WORK/status") $(jq -r .error.code "$WORK/out")" '410 GONE'
    between "$form: at once" $((NOW - before)) 0 3000
    ok "$form: and it is offline" machine_is "$form" offline 3
    pkill -P "$MACHINE_PID" 2> /dev/null
done

# The address that a runner announces is not used for anything.
machine_token own
machine_stranger own /ws/default --http-addr 10.77.0.2:8099
ok 'a runner that registers twice, with an address' machine_is own ready
box_use "$(machine_box own)"
upload more "$WORK/more"
is 'a large file' "$STATUS $(sha256sum < "$MACHINE_DIR/more")" "201 $(sha256sum < "$WORK/more")"
get more
is 'and back' "$STATUS $(sha256sum < "$WORK/body")" "200 $(sha256sum < "$WORK/more")"
"${RIGHT[@]}" bash -c ': < /dev/tcp/10.77.0.2/8099'
ok 'whoever connects to what it announced would be seen' eventually 10 grep -q connected "$WORK/join-own.log"
is 'nobody else has' "$(grep -c connected "$WORK/join-own.log")" 1
is 'our runner is there, by its hash, for its user alone' \
    "$(cd "$WORK/machine-own/.cache/cubby" && sha256sum * && stat -c %a .)" \
    "$(sha256sum < "$BUILD/cubby-runner" | sed "s/\(.*\)  -/\1  runner-\1/")
700"
inode=$(stat -c %i "$WORK/machine-own/.cache/cubby"/runner-*)
kill -KILL "$MACHINE_PID"
wait "$MACHINE_PID" 2> /dev/null
ok 'its runner goes' machine_is own offline
machine_stranger own /ws/default
ok 'and comes again' machine_is own ready
box_use "$(machine_box own)"
run 'echo again'
is 'with what was carried before' "$OUT $(stat -c %i "$WORK/machine-own/.cache/cubby"/runner-*)" "again $inode"

few() { # few NAME REASON: what a runner can do itself, and the reason for the rest
    ok "$1: it joins" machine_is "$1" ready
    box_use "$(machine_box "$1")"
    run 'echo x; echo err >&2; exit 1'
    is "$1: a command" "$OUT $ERR $CODE" 'x err 1'
    run 'pwd; cat; echo "$X"' '"cwd":"/","stdin":"in\n","env":{"X":"y z"}'
    is "$1: with a directory, input and variables" "$OUT" $'/\nin\ny z'
    tag_new
    now_ms
    local before=$NOW
    run "echo begun; sleep $TAG & sleep $TAG" '"timeout_ms":1000'
    now_ms
    is "$1: a time-out is reported" "$(j .timed_out) $OUT" 'true begun'
    between "$1: in time, whatever holds its output" $((NOW - before)) 1000 30000
    ok "$1: and what it ran has ended, children too" eventually 5 tag_gone
    put d/a hello '&parents=1'
    is "$1: a file" "$STATUS" 201
    get d/a
    is "$1: read" "$STATUS $BODY" '200 hello'
    api GET "$B/list?path=d"
    is "$1: listed" "$(j '.entries|map([.name,.type,.size])|tostring')" '[["a","file",5]]'
    api GET "$B/stat?path=d/a"
    like "$1: looked at" "$(j .type) $(j .size) $(j .mtime)" "^file 5 $(date +%Y)"
    upload some "$WORK/some"
    get some
    is "$1: three megabytes there and back" "$STATUS $(sha256sum < "$WORK/body")" "200 $(sha256sum < "$WORK/some")"
    upload more "$WORK/more"
    is_error "$1: larger ones are refused" 413 TOO_LARGE "$2"
    api POST "$B/grep" '{"pattern":"hello"}'
    is_error "$1: what it cannot do is refused with the reason" 501 UNSUPPORTED "$2"
    api POST "$B/processes" '{"command":"true"}'
    is_error "$1: as is the background" 501 UNSUPPORTED "$2"
    api DELETE "$B/files?path=d&recursive=1"
    is "$1: removed" "$STATUS" 204
    get d/a
    is_error "$1: and gone" 404 NOT_FOUND
}

machine_token simple
machine_stranger simple /ws/default --form flat --lack stdio_start,stdio_write,stdio_close --lossy --token-in-message
few simple 'it starts no programs with open streams'
machine_token half
machine_stranger half /ws/default --lack stdio_start --habit fickle
ok 'a runner that closes streams and starts none' machine_is half ready
box_use "$(machine_box half)"
upload some "$WORK/some"
get some
like 'a content that cannot be read is an error, not a broken answer' "$STATUS $(j .error.code) $(j .error.message)" \
    '^50[0-9] IO .*the disk is tired'
machine_token noexec
mkdir -p "$WORK/machine-noexec"
STRANGER_IN=(unshare --mount --propagation private sh \
    -c 'mount -t tmpfs -o noexec,mode=700 none "$0" && mkdir "$0/w" "$0/tmp" && mount --bind "$0/w" "$1" && shift && '\
'exec "$@"' "$WORK/machine-noexec" "$WORK/work-noexec")
machine_stranger noexec /runner/ws
STRANGER_IN=()
few noexec 'it cannot be executed \(Linux '

# A runner that does not say where its workspace is, and refuses it as a path: found with its first command.
machine_token nowhere
machine_stranger nowhere /ws/default --no-workspace --lack stdio_start,stdio_write,stdio_close
few nowhere 'open streams'
api GET "$B"
is 'its workspace is found' "$(j .workspace)" "$MACHINE_DIR"
run pwd
is 'and commands run there' "$OUT" "$MACHINE_DIR"
machine_token lost
machine_stranger lost /ws/default --no-workspace
ok 'the same with our runner' machine_is lost ready
box_use "$(machine_box lost)"
run 'pwd; echo x > here'
get here
is 'works there' "$OUT $BODY" "$MACHINE_DIR x"
