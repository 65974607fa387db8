#!/bin/bash
# `cubby join` on this machine, over the daemon's socket: what it refuses, what a box of it sees, how it ends and comes
# back.
# waits
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
. test/lib/remote.sh
write_config
echo 'pool_size: 0' >> "$CONFIG"
use_cubby
CUBBY_JOIN=$CUBBY MACHINE_SERVER=unix:$SOCKET
PROJECT_DIR=$WORK/my\ project=1
mkdir -p "$PROJECT_DIR" "$WORK/forbidden" "$WORK/extra" "$WORK/books"
echo data > "$PROJECT_DIR/file"
echo page > "$WORK/books/page"
echo secret > "$WORK/forbidden/key"
start_daemon "$BUILD/asan/cubbyd" || { fail 'the daemon starts' "$(tail -5 "$WORK/daemon.log")"; finish; exit 1; }

run() { # run COMMAND: in the machine's box; its output in OUT
    api POST "$B/exec" "$(jq -nc --arg c "$1" '{command: $c}')"
    OUT=$(j '.stdout + .stderr')
}
said() { grep -c -- "$1" "$WORK/join-laptop.log"; }
gone() { [ ! -d "/proc/$1" ]; }
joins() { # joins [OPTION...]: as laptop, and its box is ready
    machine_join laptop "$PROJECT_DIR" "$@"
    machine_is laptop ready || { fail 'it joins' "$(tail -5 "$WORK/join-laptop.log")"; return 1; }
    box_use "$(machine_box laptop)"
}
leaves() { # leaves [SIGNAL]: its exit status in CODE
    machine_end "$MACHINE_PID" "${1:-INT}"
    CODE=$?
}

# ---- what makes no sense ----

join_refused() { # join_refused NAME STATUS SENTENCE OPTION...
    local name=$1 status=$2 sentence=$3
    shift 3
    OUT=$(timeout 20 "$CUBBY" join "$@" 2>&1 < /dev/null)
    CODE=$? ERR=$OUT
    is "$name" "$CODE" "$status"
    like "$name: says why" "${ERR%%usage:*}" "$sentence"
}
machine_token laptop
CUBBY_URL= join_refused 'no server' 2 'missing server' -w "$PROJECT_DIR"
export CUBBY_TOKEN=
join_refused 'no token' 2 'missing token' -w "$PROJECT_DIR" --server "$MACHINE_SERVER"
export CUBBY_TOKEN=$TOKEN
join_refused 'no address' 2 'is not the address of a server' -w "$PROJECT_DIR" --server gopher://host
join_refused 'a workspace that is not there' 2 'is not a directory on this machine' -w "$WORK/nowhere" \
    --server "$MACHINE_SERVER"
join_refused 'a file as workspace' 2 'is not a directory on this machine' -w "$PROJECT_DIR/file" \
    --server "$MACHINE_SERVER"
join_refused 'all of the machine' 2 'the whole machine' -w / --server "$MACHINE_SERVER"
HOME=$PROJECT_DIR join_refused 'the home directory' 2 'your home directory' -w "$PROJECT_DIR" --server "$MACHINE_SERVER"
long=$WORK/$(printf 'l%.0s' {1..200})/$(printf 'm%.0s' {1..200})
mkdir -p "$long"
join_refused 'a path too long to be told' 2 'more than 255 bytes' -w "$long" --server "$MACHINE_SERVER"
rm -r "${long%/*}"
join_refused 'an isolation that is none' 2 'jail or none' -w "$PROJECT_DIR" --server "$MACHINE_SERVER" --isolation some
join_refused 'a state inside the workspace' 125 'contain each other' -w "$PROJECT_DIR" --server "$MACHINE_SERVER" \
    --state "$PROJECT_DIR/state"
join_refused 'a read-only directory inside a writable one, without walls' 2 'cannot keep' -w "$WORK" \
    --server "$MACHINE_SERVER" \
    --isolation none --allow "$WORK/books:ro"
join_refused 'a file of certificates that is not there' 2 'ca.pem' -w "$PROJECT_DIR" --server wss://127.0.0.1:1 \
    --ca "$WORK/ca.pem" --state "$WORK/s"

# ---- who may not ----

export CUBBY_TOKEN=cubby_0123456789abcdef
join_refused 'a wrong token' 125 'token' -w "$PROJECT_DIR" --server "$MACHINE_SERVER" --state "$WORK/s"
unlike 'is not tried again' "$ERR" 'trying again'
export CUBBY_TOKEN=$TOKEN
join_refused "another machine's name" 125 "'laptop', not 'desk'" -w "$PROJECT_DIR" --server "$MACHINE_SERVER" \
    --state "$WORK/s" --name desk
is 'nothing is left of those' "$(ls -A "$WORK/s")" ''
unset CUBBY_TOKEN

# ---- joined ----

joins --allow "$WORK/extra" --allow "$WORK/books:ro" -e COLOUR=blue
like 'it says so' "$(cat "$WORK/join-laptop.log")" \
    "joined .* as laptop of user default: agents work in $PROJECT_DIR \(isolation jail\)"
is 'the box is at its own path' "$(api GET "$B" && j .workspace)" "$PROJECT_DIR"
run 'pwd; cat file; echo $HOME $COLOUR; echo new > made; ls -d /workspace /tmp/home'
is 'and so are commands' "$OUT" "$PROJECT_DIR
data
/tmp/home blue
/tmp/home
ls: cannot access '/workspace': No such file or directory"
is 'what they write belongs to the owner of the directory' "$(stat -c %u "$PROJECT_DIR/made")" \
    "$(stat -c %u "$PROJECT_DIR")"
run "ls $WORK; cat $WORK/forbidden/key $WORK/state/lock; id -u; ls /proc | grep -cx $MACHINE_PID"
is 'nothing else of the machine is seen' "$OUT" "books
extra
my project=1
1000
0
cat: $WORK/forbidden/key: No such file or directory
cat: $WORK/state/lock: No such file or directory"
run "echo x > $WORK/extra/x && cat $WORK/books/page && echo x > $WORK/books/x"
like 'allowed directories, one of them only to be read' "$OUT" "^page.*books/x: Read-only file system"
is 'the allowed one was written to' "$(cat "$WORK/extra/x")" x
put "$WORK/books/y" x
is 'nor by a file call' "$STATUS $(ls "$WORK/books")" '403 page'
put "upload" bytes
is 'a file call finds the workspace' "$(cat "$PROJECT_DIR/upload")" bytes
unlike 'its token is in no argument and no variable of what it starts' "$(ps -eo args)" "$TOKEN"
run 'env; cat /proc/1/environ'
unlike 'nor in the box' "$OUT" "$TOKEN"
CUBBY_TOKEN=$TOKEN join_refused 'a second one for the same directory' 125 'already joined to' \
    --server "$MACHINE_SERVER" -w "$PROJECT_DIR" --state "$WORK/machine-laptop"

first=$BOX
api POST /v1/boxes '{"machine":"laptop","thread":"other"}'
is 'one more box on it' "$STATUS $(j .machine) $(j .workspace)" "201 laptop $PROJECT_DIR"
box_use "$(j .id)"
run 'cat file; ls -A /tmp/home; : > /tmp/mine'
is 'has the same files' "$OUT" data
second=$BOX
box_use "$first"
run 'ls /tmp'
unlike 'and a place of its own, which the other one does not see' "$OUT" mine

# ---- killed, and back ----

api POST "$B/processes" '{"command":"while :; do echo tick; read -t 0.1 <> <(:); done"}'
pid=$(j .pid)
kill -KILL "$MACHINE_PID"
wait "$MACHINE_PID" 2> /dev/null
ok 'killed: the box is offline' machine_is laptop offline
api POST "$B/exec" '{"command":"true"}'
is 'and says so' "$STATUS $(j .error.code)" '503 BUSY'
joins --allow "$WORK/extra"
api GET "$B/processes/$pid"
is 'its processes are found again' "$(j .state)" running
box_use "$second"
run 'ls /tmp/mine'
is 'also those of the other box' "$OUT" /tmp/mine
box_use "$first"

# ---- the end ----

claims() { grep -lsF " $WORK/machine-laptop/" /run/cubby/ids/[0-9]* | wc -l; } # boxes of root have ids of their own
is 'two boxes run' "$(claims)" 2
leaves
is 'was stopped there' "$CODE" 0
is 'nothing is left: files' "$(find "$WORK/machine-laptop" -mindepth 2)" ''
is 'boxes' "$(claims)" 0
is 'mounts' "$(grep -c "$PROJECT_DIR" /proc/self/mountinfo)" 0
is 'the workspace stays' "$(cat "$PROJECT_DIR/file")" data
api POST "$B/exec" '{"command":"true"}'
like 'the server knows why' "$(j .error.message)" 'was stopped there'

# ---- without walls ----

joins --isolation none --allow "$WORK/extra" --allow "$WORK/books:ro"
like 'none is said loudly' "$(cat "$WORK/join-laptop.log")" 'WARNING: --isolation none.*all your rights'
is 'and told to the server' "$(api GET "$B" && j .remote.isolation)" none
run "pwd; cat $WORK/forbidden/key; id -u"
is 'commands are as their user' "$OUT" "$PROJECT_DIR
secret
$(id -u)"
ln -s "$WORK/forbidden" "$PROJECT_DIR/away"
ln -s "$WORK/extra" "$PROJECT_DIR/extra"
ln -s ../books "$PROJECT_DIR/books"
for path in away/key "$WORK/forbidden/key" ../forbidden/key extra/../forbidden/key /etc/passwd; do
    get "$path"
    is "a file call does not leave: $path" "$STATUS $(j .error.code)" '403 DENIED'
done
put "away/new" x
is 'nor makes a file under a link that leads away' "$STATUS $(ls "$WORK/forbidden")" '403 key'
put "extra/new" fresh
is 'but under one that leads into an allowed directory' "$STATUS $(cat "$WORK/extra/new")" '201 fresh'
get "books/page"
is 'or reads it' "$STATUS $BODY" '200 page'
put "books/page" x
is 'and never writes what is read-only' "$STATUS $(cat "$WORK/books/page")" '403 page'
get "missing"
is 'a sentence has the path as it is here' "$(j .error.message)" "no file '$PROJECT_DIR/missing'"

# links that change all the time never lead out
(while :; do ln -sfn "$WORK/forbidden" "$PROJECT_DIR/turn"; ln -sfn "$WORK/extra" "$PROJECT_DIR/turn"; done) \
    2> /dev/null &
turner=$!
echo allowed > "$WORK/extra/key"
leaked=0 read=0
for ((i = 0; i < 30; i++)); do
    get "turn/key"
    [ "$BODY" != secret ] || leaked=$((leaked + 1))
    [ "$BODY" != allowed ] || read=$((read + 1))
    put "turn/raced" x
done
kill "$turner"
wait "$turner" 2> /dev/null
is 'a link that changes while it is followed never leads out' "$leaked $(ls "$WORK/forbidden")" '0 key'
isnt 'though it was followed' "$read" 0

# ---- revoked, removed ----

api DELETE "/v1/tokens/$TOKEN_ID"
wait "$MACHINE_PID"
is 'a token that is revoked ends it' "$?" 125
like 'with the reason' "$(tail -1 "$WORK/join-laptop.log")" 'revoked|token'
machine_token laptop
joins
mv "$PROJECT_DIR" "$WORK/moved"
wait "$MACHINE_PID"
is 'so does a workspace that is moved away' "$?" 125
like 'with the reason here' "$(tail -1 "$WORK/join-laptop.log")" 'was removed or moved away'
ok 'the box is offline' machine_is laptop offline
api POST "$B/exec" '{"command":"true"}'
like 'and there' "$(j .error.message)" 'was removed or moved away'
mv "$WORK/moved" "$PROJECT_DIR"

# ---- text alone, a terminal, SIGTERM ----

joins --text
run 'head -c 300000 /dev/zero | tr "\0" x | wc -c; cat file'
is 'text messages carry it all' "$OUT" $'300000\ndata'
leaves TERM
is 'SIGTERM ends it as well' "$CODE" 0
screen=$(CUBBY_TOKEN=$TOKEN timeout 30 "$BUILD/test/ptyrun" 100x20 'expect:1 box' 'send:\x03' expect:leaving \
    -- "$CUBBY" join --server "$MACHINE_SERVER" -w "$PROJECT_DIR" \
    --state "$WORK/machine-laptop" 2>&1)
is 'Ctrl-C on a terminal' "$?" 0
like 'a line tells how it is' "$screen" 'laptop: online, ([0-9.]+ ms, )?1 box'

# ---- an ordinary user ----

if [ "$(id -u)" = 0 ] && setpriv --reuid 65534 --regid 65534 --clear-groups -- unshare -Ur true 2> /dev/null; then
    mkdir "$WORK/ordinary" "$WORK/ordinary/bin" "$WORK/ordinary/p"
    cp "$BUILD/cubby" "$BUILD/cubby-runner" "$WORK/ordinary/bin"
    echo own > "$WORK/ordinary/p/file"
    chmod 755 "$WORK"
    chown -R 65534:65534 "$WORK/ordinary"
    chmod 666 "$SOCKET"
    (cd / && exec setpriv --reuid 65534 --regid 65534 --clear-groups -- env -i HOME="$WORK/ordinary" PATH="$PATH" \
        CUBBY_TOKEN="$TOKEN" \
        "$WORK/ordinary/bin/cubby" join --server "$MACHINE_SERVER" -w "$WORK/ordinary/p" > "$WORK/join-laptop.log" \
    2>&1) &
    MACHINE_PID=$!
    machine_is laptop ready || fail 'an ordinary user joins' "$(cat "$WORK/join-laptop.log")"
    run 'pwd; cat file; id -u; echo x > made; ls -A '"$WORK"
    is "an ordinary user's box" "$OUT" "$WORK/ordinary/p
own
1000
ordinary"
    is 'writes as that user' "$(stat -c %u "$WORK/ordinary/p/made")" 65534
    leaves
    is 'and ends' "$CODE $(find "$WORK/ordinary/.local" -type f)" '0 '
else
    skip "an ordinary user's box" 'no user namespaces for ordinary users here'
fi
machines_end
stop_daemon
finish
