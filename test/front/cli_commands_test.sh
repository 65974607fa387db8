#!/bin/bash
# The commands for people: names of boxes, lists, background commands, files, contexts, and a daemon by `cubby up`.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
write_config
use_cubby
export XDG_STATE_HOME=$WORK/xdg-state
start_or_end "$BUILD/cubbyd"

# ---- names of boxes ----
c create --thread work --json
box=$(jq -r .id <<< "$OUT")
c create --thread work --user ann
other=$OUT
c create --thread alone --user ann
alone=$OUT
c exec @alone -- echo there
is 'a box by its thread' "$CODE $OUT" '0 there'
c exec @work -- true
is 'a thread of two users is refused, with both' "$CODE $ERR" \
    "125 cubby: '@work' fits 2 boxes: @ann/work, @default/work"
c exec @ann/work -- echo of-ann
is 'and named by user and thread' "$CODE $OUT" '0 of-ann'
c ls "${box:0:6}"
is 'a box by the first digits of its ID' "$CODE" 0
c exec "${box:0:3}" -- true
is 'three are too few' "$CODE" 2
c inspect ffff0000ffff
is 'digits that fit no box' "$CODE $ERR" "125 cubby: no box ID begins with 'ffff0000ffff' (see \`cubby ps\`)"
c inspect @nothing
is 'a thread that no box has' "$CODE $ERR" "125 cubby: no box has the thread 'nothing' (see \`cubby ps\`)"
c inspect -
is 'the last one, before any was used on a terminal' "$CODE" 125
timeout 20 "$BUILD/test/ptyrun" 100x20 "expect:$box" -- "$CUBBY" inspect "$box" > "$WORK/screen" 2>&1
c inspect - --query id
is 'the last one that was used on a terminal' "$CODE $OUT" "0 $box"
c rm "$other"
is 'rm' "$CODE $OUT" "0 $other"

# ---- lists ----
c ps -q --filter user=ann
is 'ps -q with a filter' "$CODE $OUT" "0 $alone"
c ps --filter state=ready --filter thread=work --columns id,state,thread
is 'ps: filters and columns' "$(awk 'NR == 2' <<< "$OUT" | xargs)" "$box ready work"
c ps --sort id -q
is 'ps: in order' "$OUT" "$(printf '%s\n' "$box" "$alone" | sort)"
c ps --sort -id -q
is 'ps: and the other way round' "$OUT" "$(printf '%s\n' "$box" "$alone" | sort -r)"
c ps --filter colour=red
like 'ps: a filter that does not exist' "$CODE $ERR" "^2 .*'colour=red' is not a filter"
c ps --columns id,colour
like 'ps: a column that does not exist' "$CODE $ERR" "^2 .*unknown column 'colour'"
c stats -n 1 --json
is 'top, by the name that docker has for it' "$(jq -r '.boxes | map(has("cpu_percent")) | all' <<< "$OUT")" true
screen=$(timeout 30 "$BUILD/test/ptyrun" 120x20 expect:AGE send:m expect:MEMORY send:q -- "$CUBBY" ps -w 2>&1)
is 'ps -w: live until q' "$?" 0
screen=$(timeout 30 "$BUILD/test/ptyrun" 120x20 expect:CPU send:q -- "$CUBBY" top 2>&1)
is 'top: live until q' "$?" 0
c describe "$box"
like 'inspect: a page' "$CODE $OUT" "^0 .*$box.*Last calls"
c inspect --json "$box"
is 'inspect --json' "$(jq -r .thread <<< "$OUT")" work
c info
like 'info' "$CODE $OUT" '^0 .*Version.*jail'

# ---- colours: on terminals only, and not with NO_COLOR ----
esc=$'\033\\['
c ps
unlike 'no colours in a pipe' "$OUT" "$esc"
c --color always ps
like 'but where they are asked for' "$OUT" "$esc.*ready"
screen=$(timeout 20 "$BUILD/test/ptyrun" 120x20 expect:ready -- "$CUBBY" ps 2>&1)
like 'colours on a terminal' "$screen" "${esc}32mready"
screen=$(NO_COLOR=1 timeout 20 "$BUILD/test/ptyrun" 120x20 expect:ready -- "$CUBBY" ps 2>&1)
unlike 'not with NO_COLOR' "$screen" "${esc}32m"

# ---- background commands ----
c exec -d "$box" -c 'echo one; echo two; echo bad >&2; exit 3'
pid=$OUT
c wait "$box" "$pid"
is 'wait: the exit status of the command' "$CODE $OUT" '3 3'
c logs "$box" "$pid"
is 'logs: what it wrote' "$CODE $OUT $ERR" $'0 one\ntwo bad'
c logs --tail 1 --stdout "$box" "$pid"
is 'logs: the last line' "$CODE $OUT$ERR" '0 two'
c logs "$box"
is 'logs: of all, with their pids' "$OUT" "$pid│ one"$'\n'"$pid│ two"
c exec -d "$box" -- cat
pid=$OUT
printf 'typed\n' > "$WORK/in"
INPUT=$WORK/in c stdin --eof "$box" "$pid"
is 'stdin' "$CODE" 0
c logs -f "$box" "$pid"
is 'logs -f: until it ends' "$CODE $OUT" '0 typed'
c exec -d "$box" -- sleep 1000
pid=$OUT
c kill -s INT "$box" "$pid"
is 'kill' "$CODE $OUT" "0 $pid"
c wait "$box" "$pid"
is 'wait: 128 + the signal' "$CODE" 130
c kill "$box" nothing
is 'kill: not a pid' "$CODE" 2
c exec -s build "$box" -c 'echo in a session'
c logs "$box" build
like 'logs of a session' "$CODE $OUT" '^0 .*in a session'
screen=$(timeout 30 "$BUILD/test/ptyrun" 90x20 -- "$CUBBY" exec -it "$box" stty size 2>&1)
like 'exec -it: a terminal' "$screen" '20 90'

# ---- files ----
c mkdir "$box:d" "$box:d/e"
is 'mkdir' "$CODE" 0
c mkdir "$box:no/such/parent"
is 'mkdir without -p' "$CODE" 125
c mkdir -p "$box:no/such/parent"
is 'mkdir -p' "$CODE" 0
printf 'first\nTODO second\nthird\n' | "$CUBBY" cp - "$box:d/file"
c mv "$box:d/file" "$box:d/e/file"
is 'mv' "$CODE" 0
c mv "$box:d/e/file" "$alone:x"
like 'mv to another box' "$CODE $ERR" '^2 .*within one box'
c stat "$box:d/e/file"
like 'stat' "$CODE $OUT" '^0 .*type +file.*size +24'
c find "$box" '**/file'
is 'find' "$CODE $OUT" '0 /workspace/d/e/file'
c grep -i todo "$box:d"
is 'grep' "$CODE $OUT" '0 /workspace/d/e/file:2:TODO second'
c grep -C 1 -F 'TODO s' "$box:d"
is 'grep with lines around it' "$(wc -l <<< "$OUT") $(head -1 <<< "$OUT")" '3 /workspace/d/e/file-1-first'
c grep nothing-like-it "$box"
is 'grep: nothing matches' "$CODE$OUT" 1
c rm "$box:d"
is 'rm of a directory needs -r' "$CODE" 125
c rm -r "$box:d"
is 'rm -r' "$CODE $OUT" "0 $box:d"
c rm -f "$box:d"
is 'rm -f of what is gone' "$CODE$OUT" 0
printf '#!/bin/sh\necho edited >> "$1"\n' > "$WORK/editor"
chmod +x "$WORK/editor"
echo before | "$CUBBY" cp - "$box:note"
EDITOR=$WORK/editor VISUAL='' c edit "$box:note"
c cat "$box:note"
is 'edit' "$OUT" $'before\nedited'
printf '#!/bin/sh\necho mine >> "$1"; echo theirs | "%s" cp - %s:note\n' "$CUBBY" "$box" > "$WORK/editor"
EDITOR=$WORK/editor VISUAL='' c edit "$box:note"
like 'edit: changed by somebody else in the meantime' "$CODE $ERR" '^125 .*your version is kept in /tmp/cubby-edit'
ok 'which is true' grep -q mine "$(sed -n 's/.*kept in \([^ :]*\).*/\1/p' <<< "$ERR")"
rm -f "$(sed -n 's/.*kept in \([^ :]*\).*/\1/p' <<< "$ERR")"

# ---- sync ----
mkdir -p "$WORK/dir/sub"
echo 1 > "$WORK/dir/one"
echo 2 > "$WORK/dir/sub/two"
ln -s one "$WORK/dir/link"
c sync "$WORK/dir" "$box:p"
is 'sync: everything at first' "$CODE $(sort <<< "$OUT" | xargs)" '0 + link + one + sub + sub/two'
c sync "$WORK/dir" "$box:p"
is 'sync: nothing changed' "$CODE$OUT" 0
echo 33 > "$WORK/dir/one"
rm "$WORK/dir/sub/two"
ln -sf elsewhere "$WORK/dir/link"
c sync --dry-run --delete "$WORK/dir" "$box:p"
is 'sync --dry-run' "$(sort <<< "$OUT" | xargs)" '+ link + one - sub/two'
c sync --delete "$WORK/dir" "$box:p"
c exec "$box" -c 'cat p/one; readlink p/link; ls p/sub'
is 'sync --delete: as it is here' "$OUT" $'33\nelsewhere'
"$CUBBY" sync --watch --exclude skipped "$WORK/dir" "$box:p" > "$WORK/sync.out" 2>&1 & sync=$!
echo live > "$WORK/dir/live"
mkdir -p "$WORK/dir/skipped"
arrived() { "$CUBBY" cat "$box:p/live" 2> /dev/null | grep -q live; }
ok 'sync --watch: a change arrives' eventually 15 arrived
kill -INT "$sync"
wait "$sync"
is 'sync --watch: ends with Ctrl-C' "$?" 0
c ls "$box:p/skipped"
is 'sync --exclude' "$CODE" 125

# ---- watch ----
"$CUBBY" watch --json "$box" > "$WORK/watch.out" 2>&1 & watch=$!
seen() { "$CUBBY" exec "$box" -c 'date +%N > changed' && grep -q '"source":"file".*changed' "$WORK/watch.out"; }
ok 'watch: a file' eventually 15 seen
"$CUBBY" exec -d "$box" -- sleep 0.1 > /dev/null
ok 'watch: a command that ends' eventually 15 grep -q '"source":"command","type":"ended"' "$WORK/watch.out"
"$CUBBY" pause "$box" > /dev/null
"$CUBBY" resume "$box" > /dev/null
ok 'watch: an event' eventually 15 grep -q '"source":"event","type":"paused"' "$WORK/watch.out"
kill "$watch"
wait "$watch" 2> /dev/null

# ---- the API ----
c api /v1/boxes --query boxes.0.state
is 'api' "$CODE $OUT" '0 ready'
c api POST /v1/boxes -d '{"nonsense":1}'
like 'api: an error is printed, with status 1' "$CODE $OUT" '^1 .*"INVALID"'
c api v1/nothing
is 'api: not found' "$CODE" 1
c ls --json "$box:nothing"
is 'errors as JSON with --json' "$CODE $(jq -r .error.code <<< "$ERR")" '125 NOT_FOUND'
c -v ls "$box:nothing"
like 'with -v the code and the request' "$ERR" 'code NOT_FOUND, request [^ -]+'
c machine list
is 'machine' "$CODE" 0
c release "$box"
is 'release' "$CODE $OUT" "0 $box"

c start "$box"
is 'start' "$CODE $OUT" "0 $box"
c port "$box" 8000
like 'port' "$CODE $OUT" "^0 .*/v1/boxes/$box/ports/8000/"
c snapshot create "$box" before
c exec "$box" -c 'echo gone > gone'
c diff "$box"
like 'diff' "$CODE $OUT" '^0 .*/workspace/gone'
c rollback "$box" before
is 'rollback' "$CODE" 0
"$CUBBY" events --after 0 --box "$box" > "$WORK/events.out" & events=$!
ok 'events' eventually 15 grep -q "$box" "$WORK/events.out"
kill "$events"
wait "$events" 2> /dev/null

# ---- before many are lost ----
c rm --all --dry-run
is 'rm --dry-run' "$CODE $(sort <<< "$OUT" | xargs)" "0 $(printf '%s\n' "$box" "$alone" | sort | xargs)"
screen=$(timeout 20 "$BUILD/test/ptyrun" 120x20 'expect:[y/N]' $'send:n\r' -- "$CUBBY" rm --all 2>&1)
is 'rm --all asks on a terminal' "$?" 1
like 'and says how many, and what is lost' "$screen" 'Remove 2 boxes with their processes, files and snapshots'
c ps -q
is 'no is no' "$(wc -l <<< "$OUT")" 2

# ---- completion ----
completes() { # completes NAME EXPECTED WORDS...
    local name=$1 expected=$2
    shift 2
    c completion words "$@"
    is "completion: $name" "$CODE $(xargs <<< "$OUT")" "0 $expected"
}
completes 'threads' '@alone' exec @a
c exec -s build "$box" -c true
completes 'sessions, where a session may follow' 'build' session rm "$box" ''
completes 'choices of --type' 'paused' events --type pau
completes 'a command by its beginning' 'inspect' insp

# ---- contexts ----
stop_daemon
sed -i '/^auth:/d' "$CONFIG"
printf 'auth: required\ntokens:\n  - {token: admin-token-0123456789abcdef, scope: admin}\n' >> "$CONFIG"
start_or_end "$BUILD/cubbyd"
echo wrong > "$WORK/in"
INPUT=$WORK/in c login
is 'login with a wrong token: status 4, nothing kept' "$CODE $(ls "$WORK/xdg-config/cubby" 2>/dev/null)" '4 '
echo admin-token-0123456789abcdef > "$WORK/in"
INPUT=$WORK/in c login --name home "unix:$SOCKET"
is 'login' "$CODE$OUT" 0
is 'the token is ours alone' "$(stat -c %a "$WORK/xdg-config/cubby/config")" 600
c ps -q
is 'and used with that URL' "$CODE" 0
CUBBY_URL='' c ps -q
is 'which is the current one' "$CODE" 0
c context list
is 'context list' "$(awk 'NR == 2' <<< "$OUT" | xargs)" "* home unix:$SOCKET yes"
unlike 'no token is shown' "$OUT" admin-token
c -C nowhere ps
is 'a context that does not exist' "$CODE $ERR" \
    "125 cubby: no context 'nowhere'; \`cubby context ls\` lists them"
CUBBY_URL=unix:/nowhere c -C home ps -q
is '-C is used before the environment' "$CODE" 0
printf 'other\n' > "$WORK/in"
CUBBY_URL=unix:$WORK/elsewhere c ps
unlike 'the token goes to no other URL' "$ERR" token
c context use home
is 'context use' "$CODE $OUT" '0 home'
c logout home
is 'logout' "$CODE $OUT" '0 home'
c ps
is 'and the token is gone' "$CODE" 4
stop_daemon

# ---- a daemon by `cubby up` ----
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export CUBBY_URL=http://127.0.0.1:$port
c up --state "$WORK/up-state" -- --pool-size 1 --config "$CONFIG"
is 'up' "$CODE" 0
like 'up: says each step' "$ERR" 'this machine has what boxes need.*cubbyd runs and answers at .*logged in'
like 'up: and what to do next' "$OUT" 'cubby shell.*cubby open.*claude mcp add cubby'
c create
is 'a first box' "$CODE" 0
c up --state "$WORK/up-state"
like 'up again changes nothing' "$CODE $ERR" '^0 .*a daemon answers'
BROWSER=true c open --print "${OUT%% *}" 2> /dev/null
BROWSER=true c open
like 'open: the address of the page, with a ticket where one is needed' "$CODE $OUT" \
    "^0 http://127.0.0.1:$port/ui/boxes(#t=[^ ]+)?$"
c down --boxes
is 'down --boxes' "$CODE" 0
c ps
is 'and it is gone' "$CODE" 125
c down
is 'down: nothing to stop' "$CODE" 125

# ---- every command of the help ----
c help
is 'help has groups' "$(grep -c '^[A-Z][a-z ]*:$' <<< "$OUT")" 8
commands=$(awk '/^  [a-z-]+ +[a-z]/ { print $1 }' <<< "$OUT")
for command in $commands; do
    c help "$command"
    like "help $command has an example" "$OUT" 'Examples:.*cubby '
    ok "a test runs $command" grep -qE "(\bc|CUBBY\"?|cubby) ([a-z-]+ )?$command\b" -r test --include='*.sh'
done
for word in stop unpause describe stats delete images attach browse list; do
    c "$word" --help
    is "'$word' is understood" "$CODE" 0
done
finish
