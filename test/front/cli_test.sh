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
c nonsense
is 'an unknown command' "$CODE" 2
c ps
is 'no daemon: status 125' "$CODE" 125
like 'no daemon: says how to start it' "$ERR" cubbyd

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

# agent tools by hand
c tool
is 'tool: the list' "$CODE $(awk 'NR > 1 { print $1 }' <<< "$OUT" | sort | xargs)" "0 $("$BUILD/cubbyd" --tools | jq -r '.[].name' | sort | xargs)"
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
is 'tool: none of this name' "$CODE ${ERR%%$'\n'*}" "2 cubby tool: there is no tool 'nonsense'; \`cubby tool\` lists them"
c tool ls nonsense
like 'tool: a word that is no argument' "$CODE $ERR" "^2 cubby tool: an argument is KEY=VALUE"
c tool ls path=@/no/such/file
like 'tool: a file that is not there' "$CODE $ERR" "^2 cubby tool: no file '/no/such/file' here"
c tool ls --box 123
is 'tool: no box id' "$CODE" 2
c tool bash 'command=echo a box of its own' --thread by-hand
is 'tool: in the box of a thread' "$CODE $OUT" '0 a box of its own'
c ps --json
is 'tool: which was made' "$(jq -r '[(.boxes? // .)[] | select(.thread == "by-hand")] | length' <<< "$OUT")" 1
c rm "$(jq -r '(.boxes? // .)[] | select(.thread == "by-hand").id' <<< "$OUT")"
screen=$(timeout 20 "$BUILD/test/ptyrun" 100x20 expect:plain -- "$CUBBY" tool bash --box "$box" 'command=printf "\033]0;owned\007plain\n"' 2>&1)
is 'tool: nothing in it can disturb a terminal' "$(tr -d '\r' <<< "$screen" | sed -n 1p)" '\x1b]0;owned\x07plain'

# a terminal
if command -v script > /dev/null; then
    screen=$(printf 'stty size; tty\nexit 5\n' | timeout 20 script -qec "stty cols 90 rows 20; $CUBBY shell $box" /dev/null 2>&1)
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
stop_daemon
finish
