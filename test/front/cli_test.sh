#!/bin/bash
# The command line against a daemon, and `cubby run` without one.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
write_config
use_cubby

# without a daemon
c run -- echo hello
is 'run: output' "$CODE $OUT" '0 hello'
c run -- sh -c 'echo err >&2; exit 7'
is 'run: exit status and stderr' "$CODE $ERR" '7 err'
c run -- sh -c 'kill -TERM $$'
is 'run: killed by a signal' "$CODE" 143
c run -- no-such-command-x
is 'run: no such command' "$CODE" 127
like 'run: names it' "$ERR" no-such-command-x
c run --workdir /nowhere -- true
is 'run: no such directory to run it in' "$CODE $ERR" "125 cubby: no directory '/nowhere' to run the command in"
c run --workdir /tmp -- nosuch
is 'run: no such command in one that is there' "$CODE" 127
c run --nonsense -- true
is 'run: an unknown option' "$CODE" 2
c run
is 'run: no command' "$CODE" 2
printf 'some input\n' > "$WORK/in"
INPUT=$WORK/in c run -- cat
is 'run: standard input' "$OUT" 'some input'
c run -- sh -c 'id -u; pwd; ls -A'
is 'run: agent, in an empty workspace' "$OUT" $'1000\n/workspace'
mkdir -p "$WORK/project"
echo data > "$WORK/project/file"
c run --mount "$WORK/project:/workspace" -- sh -c 'cat file; echo new > made'
is 'run: a mounted directory' "$CODE $OUT" '0 data'
is 'run: what it writes is there' "$(cat "$WORK/project/made" 2>&1)" new
is 'run: and belongs to its owner' "$(stat -c %u "$WORK/project/made" 2>&1)" "$(stat -c %u "$WORK/project")"
c run --mount "$WORK/project:/workspace:ro" -- sh -c 'echo x > y'
isnt 'run: a read-only mount' "$CODE" 0
c run --mount /no/such/dir:/mnt -- true
is 'run: a source that is not there' "$CODE" 2
c run --memory 64 -- sh -c 'head -c 300m /dev/zero | tail -c 299m | wc -c'
isnt 'run: a memory limit holds' "$OUT" 313524224
c run --env A=b -- sh -c 'echo $A'
is 'run: env' "$OUT" b
head -c 5000000 /dev/urandom > "$WORK/in"
INPUT=$WORK/in c run -- sha256sum
is 'run: five megabytes through' "${OUT%% *}" "$(sha256sum < "$WORK/in" | cut -d' ' -f1)"
is 'run: leaves no mounts' "$(grep -c cubby-run /proc/self/mountinfo)" 0
c doctor
like 'doctor' "$CODE" '^[01]$'
like 'doctor names things' "$OUT" 'namespace'
c doctor --json
ok 'doctor --json' jq -e . <<< "$OUT"
c version
like 'version' "$OUT" '[0-9]+\.[0-9]+'
like 'version says why the daemon is unknown' "$OUT" \
    "cubbyd: unknown \(cannot connect to unix socket $SOCKET: No such file"
c nonsense
is 'an unknown command' "$CODE" 2
c ps
is 'no daemon: status 125' "$CODE" 125
like 'no daemon: says how to start it' "$ERR" cubbyd
is 'no daemon: names the socket and what is wrong with it' "$ERR" \
    "cubby: cannot connect to unix socket $SOCKET: No such file or directory; start \`cubbyd\`, or set CUBBY_URL"

# wrong command lines say what is missing
while IFS='|' read -r words text; do
    c $words
    is "\`cubby $words\`" "$CODE $(head -1 <<< "$ERR")" "2 cubby ${words%% *}: $text"
done << 'END'
ps extra|unexpected argument 'extra'
cp|missing SRC and DST
cp nobox:/a b|'nobox' is not a box ID (16 hex digits; see `cubby ps`); one of SRC and DST must be ID:PATH
cp a b|one of SRC and DST must be ID:PATH
exec|missing box ID (see `cubby ps`)
exec 0123456789abcdef|missing COMMAND
run|missing COMMAND
pause|missing box ID (see `cubby ps`)
rm|missing box ID (see `cubby ps`), or --all
ls x|'x' is not a box ID (16 hex digits, or its first 4; @THREAD; see `cubby ps`)
snapshot nope|unknown subcommand 'nope': create, list or rm
session|missing subcommand: list, stop or rm
create --memory x|--memory must be a whole number above 0, not 'x'
shell nobox|no box 'nobox'; to run a command in a new box: cubby shell -- nobox
END
c help
is 'the list of commands is in imperatives: no articles, no clauses' \
    "$(awk '/^  [a-z]/ { print $2 }' <<< "$OUT" | grep -cxE 'a|an|the|they|what|who|one|roots|shells|skills|this')" 0
for command in create events; do # their values are long, or not ASCII
    c help "$command"
    is "help $command: one column of descriptions" \
        "$(python3 -c 'import re, sys
print(len({len(re.match(r" +(-\w, )?--[\w-]+( \S+)?  +", line).group()) for line in sys.stdin if re.match(r" +(-\w, '\
')?--", line)}))' <<< "$OUT")" 1
done

# a peer that accepts and says nothing: looked at again at the end
python3 - "$WORK/mute" << 'END' &
import signal, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen(16)
signal.pause()
END
mute=$!
ok 'a mute peer listens' eventually 10 test -S "$WORK/mute"
CUBBY_URL=unix:$WORK/mute timeout 120 "$BUILD/cubby" ps > "$WORK/mute.out" 2>&1 & muted=$!

# what answers is not a daemon
python3 -m http.server --bind 127.0.0.1 --directory "$WORK/project" 0 > "$WORK/web" 2>&1 & web=$!
port() { grep -oE 'port [0-9]+' "$WORK/web" | grep -oE '[0-9]+'; }
export PYTHONUNBUFFERED=1
if eventually 10 port > /dev/null; then
    CUBBY_URL=http://127.0.0.1:$(port) c ps
    is 'another server is named as one' "$ERR" \
        "cubby: http://127.0.0.1:$(port) is not a cubby daemon (it answered 404); check CUBBY_URL"
else skip 'another server' 'python does not say its port'; fi
kill "$web"

# with one
start_or_end "$BUILD/cubbyd"
c create --user ann --thread t1
like 'create prints an id' "$CODE $OUT" '^0 [0-9a-f]{16}$'
box=$OUT
c create --user ann --thread t1
is 'create again finds it' "$OUT" "$box"
c ps
like 'ps lists it' "$OUT" "$box.*ann"
c ps --json
is 'ps --json' "$(jq -r '(.boxes? // .)[0].id' <<< "$OUT")" "$box"
c exec "$box" -- sh -c 'echo in; echo err >&2; exit 4'
is 'exec' "$CODE $OUT $ERR" '4 in err'
c exec "$box" -c 'echo $HOME | wc -c'
is 'exec -c' "$CODE" 0
printf 'a\nb\n' > "$WORK/in"
INPUT=$WORK/in c exec "$box" -- wc -l
is 'exec: standard input' "$OUT" 2
c exec 0123456789abcdef -- true
is 'exec in no box' "$CODE" 125
c exec --json "$box" -- sh -c 'echo in; exit 3'
is 'exec --json: the whole answer, and the exit status' "$CODE $(jq -c '[.stdout,.exit_code]' <<< "$OUT")" \
    '3 ["in\n",3]'
printf 'a\nb\n' > "$WORK/in"
INPUT=$WORK/in c exec --json "$box" -- wc -l
is 'exec --json: standard input' "$(jq -r .stdout <<< "$OUT" | xargs)" 2
c shell "$box" true
like 'shell: a command needs -- before it' "$CODE $ERR" \
    "^2 cubby shell: unexpected argument 'true'; a command needs -- before it: cubby shell $box -- true"
c pause "$box"
c exec "$box" -- true
is 'a paused box: the hint is a command' "$CODE $ERR" \
    "125 cubby: box $box is paused; resume it first (\`cubby resume $box\`)"
c resume "$box"
c exec "$box" -- mkfifo pipe
c ls -l "$box"
like 'ls -l shows a FIFO as one' "$OUT" $'\np[rw-]{9} '
c exec "$box" -- rm pipe
head -c 1000000 /dev/urandom > "$WORK/file"
c cp "$WORK/file" "$box:/workspace/file"
is 'cp up' "$CODE $ERR" '0 '
c cp "$box:/workspace/file" "$WORK/back"
ok 'cp down is exact' cmp "$WORK/file" "$WORK/back"
mkdir -p "$WORK/dir/sub"
echo x > "$WORK/dir/sub/x"
c cp "$WORK/dir" "$box:/workspace/dir"
c cat "$box:/workspace/dir/sub/x"
is 'cp of a directory, cat' "$OUT" x
c cp "$box:/workspace/dir" "$WORK/dir2"
is 'cp of a directory back' "$(cat "$WORK/dir2/sub/x" 2>&1)" x
c ls "$box:/workspace"
is 'ls' "$(sort <<< "$OUT")" $'dir\nfile'
c cat "$box:/workspace/none"
is 'cat of nothing' "$CODE" 125
like 'names it' "$ERR" none
c ls --json "$box"
ok 'ls --json' jq -e . <<< "$OUT"
c cp "$WORK/file" "$box:/nodir/sub/file"
is 'cp to a directory that is missing: how to make it' "$CODE $ERR" \
    "125 cubby: no directory '/nodir/sub' in the box; create it: cubby exec $box -- mkdir -p /nodir/sub"
c cp "$WORK/file" "$box:/nodir/"
is 'the same with a slash' "$ERR" \
    "cubby: no directory '/nodir' in the box; create it: cubby exec $box -- mkdir -p /nodir"

# boxes are listed right after a snapshot and a fork, whatever runs in them; subcommands have synonyms
c snapshot create "$box" s
c fork "$box"
forked=$OUT
c ps
is 'ps lists a fork that does not run yet, and its origin' "$(grep -cE "$box|$forked" <<< "$OUT")" 2
for word in list ls; do
    c snapshot $word "$box"
    is "snapshot $word" "$CODE $(awk 'NR > 1 { print $1 }' <<< "$OUT")" '0 s'
    c session $word "$box"
    is "session $word" "$CODE" 0
    c mcp-server $word
    is "mcp-server $word" "$CODE" 0
    c token $word
    is "token $word" "$CODE" 0
done
c snapshot remove "$box" s
is 'snapshot remove' "$CODE $OUT" '0 s'
c rm "$forked"

# completion comes from the table of commands
completes() { # completes NAME EXPECTED WORDS...
    local name=$1 expected=$2
    shift 2
    c completion words "$@"
    is "completion: $name" "$CODE $(xargs <<< "$OUT")" "0 $expected"
}
completes 'a command' 'snapshot' snap
completes 'subcommands' 'create list rm' snapshot ''
completes 'an id for a subcommand' "$box" snapshot list ''
completes 'of one that begins so' 'publish' skill pub
completes 'backends' 'jail docker local' create --backend ''
completes 'choices of an option' 'none open' create --net ''
completes 'templates, each once' 'host' create --template ''
for command in exec pause resume rollback fork diff export port shell rm; do completes "an id for $command" "$box" \
    $command ''; done
completes 'ID: where a path follows' "$box:" cat ''
completes 'a path in the box' "$box:dir/sub/" cat "$box:dir/s"
completes 'options' '--force' cp --f
completes 'a file of this machine' 'FILES' template import x ''
CUBBY_URL=unix:/nowhere completes 'nothing without a daemon, silently' '' rm ''
if command -v bash > /dev/null; then
    words=$(PATH=$(dirname "$CUBBY"):$PATH bash \
        -c 'source <(cubby completion bash); COMP_LINE="cubby snapshot li"; COMP_POINT=17; _cubby; '\
'echo "${COMPREPLY[*]}"' 2> /dev/null)
    is 'the script for bash asks it' "$words" list
fi

# agent tools by hand
c tool
is 'tool: the list' "$CODE $(awk 'NR > 1 { print $1 }' <<< "$OUT" | sort | xargs)" \
    "0 $("$BUILD/cubbyd" --tools | jq -r '.[].name' | sort | xargs)"
c tool --json
ok 'tool: with its schemas' jq -e '.[0].input_schema.type == "object"' <<< "$OUT"
c tool bash --box "$box" 'command=cat dir/sub/x; exit 4'
is 'tool: what an agent would see' "$CODE $OUT" '0 x

Exit Code: 4'
printf 'one\ntwo\nthree' > "$WORK/in"
c tool write_file --box "$box" path=by-tool "content=@$WORK/in"
is 'tool: a value from a file' "$CODE $OUT" '0 OK'
INPUT=$WORK/in c tool write_file --box "$box" path=by-tool content=@- append=true
is 'tool: from standard input, and one that is no text' "$CODE $OUT" '0 OK'
c tool read_file path=by-tool start_line=3 end_line=4 --box "$box"
is 'tool: numbers, and options at the end' "$CODE $OUT" $'0 threeone\ntwo'
c tool read_file '{"path":"by-tool","start_line":2,"end_line":2}' --box "$box"
is 'tool: one object' "$CODE $OUT" '0 two'
c tool read_file path=by-tool start_line=x --box "$box"
is 'tool: an error is a text with status 1' "$CODE $OUT" "1 Error: 'start_line' must be an integer, not a string"
c tool nonsense
is 'tool: none of this name' "$CODE ${ERR%%$'\n'*}" "2 cubby tool: unknown tool 'nonsense'; \`cubby tool\` lists them"
c tool ls nonsense
like 'tool: a word that is no argument' "$CODE $ERR" "^2 cubby tool: an argument must be KEY=VALUE"
c tool ls path=@/no/such/file
like 'tool: a file that is not there' "$CODE $ERR" "^2 cubby tool: no file '/no/such/file' on this machine"
c tool ls --box 123
is 'tool: no box id' "$CODE" 2
c tool bash 'command=echo a box of its own' --thread by-hand
is 'tool: in the box of a thread' "$CODE $OUT" '0 a box of its own'
c ps --json
is 'tool: which was made' "$(jq -r '[(.boxes? // .)[] | select(.thread == "by-hand")] | length' <<< "$OUT")" 1
c rm "$(jq -r '(.boxes? // .)[] | select(.thread == "by-hand").id' <<< "$OUT")"
screen=$(timeout 20 "$BUILD/test/ptyrun" 100x20 expect:plain -- "$CUBBY" tool bash --box "$box" \
    'command=printf "\033]0;owned\007plain\n"' 2>&1)
is 'tool: nothing in it can disturb a terminal' "$(tr -d '\r' <<< "$screen" | sed -n 1p)" '\x1b]0;owned\x07plain'

# a terminal
if command -v script > /dev/null; then
    screen=$(printf 'stty size; tty\nexit 5\n' | timeout 20 script -qec "stty cols 90 rows 20; $CUBBY shell $box" \
        /dev/null 2>&1)
    code=$?
    is 'shell: exit status' "$code" 5
    like 'shell: on a terminal of this size' "$screen" '20 90'
else skip 'shell' 'no script(1) here'; fi
c rm "$box"
is 'rm' "$CODE" 0
c ps --json
is 'none is left' "$(jq -r '(.boxes? // .)|length' <<< "$OUT")" 0
c rm "$box"
is 'rm of no box' "$CODE" 125
wait "$muted"
is 'a mute peer is given up, with a hint' "$? $(< "$WORK/mute.out")" \
    "125 cubby: $WORK/mute accepts connections but does not answer: is it a cubby daemon? Check CUBBY_URL"
kill "$mute"
stop_daemon
finish
