# Snapshots of files: kept, listed, put back, given to new boxes, in every order; whatever runs meanwhile.
# files: on disk
# not fleet: it looks at layers of this host; front/fleet has what differs

if [[ $BACKEND != jail && $BACKEND != docker ]]; then
    for what in "POST $B/snapshots {}" "GET $B/snapshots " "DELETE $B/snapshots/x " \
        "POST $B/rollback {\"snapshot\":\"x\"}" "POST $B/fork {}" "GET $B/diff "; do
        read -r method path body <<< "$what"
        [[ $BACKEND != remote || $path != */diff ]] || continue # a machine's jail tells that as any other
        api "$method" "$path" "$body"
        is_error "$method ${path##*/}: not with this backend" 501 UNSUPPORTED 'backend'
    done
    skip 'snapshots' "$BACKEND: its boxes have no layers"
    return
fi

# A jail's files become a layer, and layers lie above each other; an engine makes an image of a container, which is
# whole by
# itself, and the container goes on.
same() { [ "$BACKEND" = jail ] && echo "$1" || echo "$2"; } # same IN_A_JAIL IN_A_CONTAINER: what is expected here
layers() { ls "$STATE/layers" | wc -l; } # how many there are
snapshot() { api POST "$B/snapshots" "{\"name\":\"$1\"}"; }
rollback() { api POST "$B/rollback" "{\"snapshot\":\"$1\"}"; }
fork() { api POST "$B/fork" "$1"; } # FORK: the new box's id
forked() { fork "$1"; FORK=$(j .id); }
in_box() { # in_box ID COMMAND: OUT
    local old=$BOX
    box_use "$1"
    run "$2"
    box_use "$old"
}

# ---- diff ----
api GET "$B/diff"
is 'a new box differs in nothing from its template' "$STATUS $(j -c .)" '200 {"changes":[],"truncated":false}'
run 'echo one > a; mkdir d; echo x > d/f; ln -s f d/l'
seen() { j -c ".changes[]|select(.path==\"$1\")|[.change,.type,.size]"; }
if [ "$BACKEND" = jail ]; then
    run 'rm -r /etc/skel; echo hi >> /etc/hostname; rm -r /usr/share/common-licenses; mkdir '\
'/usr/share/common-licenses; echo q > /usr/share/common-licenses/GPL; mkdir -m 700 /root/x; touch /root/x/y; chmod '\
'750 /opt; mv /etc/alternatives /etc/moved' '"user":"root"'
    api GET "$B/diff?limit=100000"
    is 'diff: a new file' "$(seen /workspace/a)" '["added","file",4]'
    is 'diff: a new directory' "$(seen /workspace/d)$(seen /workspace/d/l)" '["added","dir",0]["added","symlink",1]'
    is 'diff: one changed' "$(seen /etc/hostname | cut -d, -f1,2)" '["modified","file"'
    is 'diff: a removed directory, without what was in it' "$(seen /etc/skel)$(seen /etc/skel/.profile)" \
        '["removed","dir",0]'
    is 'diff: a directory made anew: what it has and had' \
        "$(seen /usr/share/common-licenses)$(seen /usr/share/common-licenses/GPL)$(seen \
    /usr/share/common-licenses/BSD)" \
    '["modified","file",2]["removed","file",'"$(stat -c %s /usr/share/common-licenses/BSD)"']'
    is "diff: what is root's alone" "$(seen /root/x/y)" '["added","file",0]'
    is "diff: a directory's mode" "$(seen /opt)" '["modified","dir",0]'
    is 'diff: a moved directory is gone there and new here' "$(seen /etc/alternatives)$(seen /etc/moved)" \
        '["removed","dir",0]["added","dir",0]'
else # its user is not root, and a directory in which something changed is not told for that alone
    run 'echo hi >> ~/.profile; mkdir ~/x; touch ~/x/y; mkdir /tmp/t; chmod 700 /tmp/t'
    api GET "$B/diff?limit=100000"
    is 'diff: a new file' "$(seen /workspace/a)" '["added","file",4]'
    is 'diff: a new directory' "$(seen /workspace/d)$(seen /workspace/d/l)" '["added","dir",0]["added","symlink",1]'
    is 'diff: elsewhere' "$(seen /home/agent/x)$(seen /home/agent/x/y)$(seen /tmp/t)" \
        '["added","dir",0]["added","file",0]["added","dir",0]'
    is 'diff: nothing of what was mounted or made for it' \
        "$(j -c '[.changes[].path|select(startswith("/workspace/") or startswith("/home/agent/") or '\
'startswith("/tmp/t")|not)]')" '[]'
fi
api GET "$B/diff?limit=3"
is 'diff: limited' "$(j '[.truncated,(.changes|length)]|tostring')" '[true,3]'
run 'printf x > "$(printf "bad\377name")"'
api GET "$B/diff?limit=1000"
is 'diff: a name that is no UTF-8' \
    "$(j -c '.changes[]|select(.encoding=="base64")|.path' | tr -d '"' | base64 -d | od -An -c | tr -d ' \n')" \
    '/workspace/bad377name'
for query in limit=0 limit=x limit=1000001 what=1; do
    api GET "$B/diff?$query"
    is_error "diff: $query" 400 INVALID
done

# ---- one box, back and forth ----
snapshot one
is 'a snapshot of an idle box' "$STATUS $(j '[.name,.method,.stopped,.layers]|tostring')" \
    "201 $(same '["one","layer",true,1]' '["one","commit",false,1]')"
[ "$BACKEND" = docker ] || is 'copies nothing' "$(j .copied_bytes)" 0
first=$(j .created_at)
like 'says when' "$first" '^20[0-9-]+T[0-9:.]+Z$'
if [ "$BACKEND" = jail ]; then
    run 'cat a d/f; cat /etc/hostname | tail -1; ls /etc/skel 2> /dev/null | wc -l; ls /usr/share/common-licenses'
    is 'the box has all its files' "$OUT" $'one\nx\nhi\n0\nGPL'
fi
run 'echo two > a; rm -r d; mkdir d; touch d/g; echo new > n; rm -r ~/x; touch ~/side'
snapshot two
is 'a second one lies above the first' "$STATUS $(j .layers)" "201 $(same 2 1)"
snapshot again
is 'of a box that wrote nothing since: the same layers' "$STATUS $(j '[.method,.stopped,.layers]|tostring')" \
    "201 $(same '["layer",false,2]' '["commit",false,1]')"
[ "$BACKEND" = docker ] || is 'no layer is made for it' "$(layers)" 2
api POST "$B/snapshots" '{}'
like 'without a name it gets one from the time' "$STATUS $(j .name)" '^201 20[0-9]{6}T[0-9]{6}\.[0-9]{3}Z$'
auto=$(j .name)
api GET "$B/snapshots"
is 'listed, the oldest first' "$(j -c '[.snapshots[].name]')" "[\"one\",\"two\",\"again\",\"$auto\"]"
is 'with what was answered' "$(j '.snapshots[0]|[.created_at,.method,.stopped,.layers]|tostring')" \
    "$(same "[\"$first\",\"layer\",true,1]" "[\"$first\",\"commit\",false,1]")"
rollback one
is 'rolled back; nothing ran' "$STATUS $(j -c .)" '200 {"snapshot":"one","processes_ended":0}'
run 'cat a d/f; ls d; ls n 2>&1 | wc -l; ls ~/side 2> /dev/null'
is 'the files are those of then' "$OUT" $'one\nx\nf\nl\n1'
rollback two
run 'cat a n; ls d'
is 'and forward again' "$OUT" $'two\nnew\ng'
rollback one
run 'echo side > s'
snapshot side
rollback two
run 'ls s 2>&1 | wc -l'
rollback side
run 'cat a s'
is 'another line from the first one' "$OUT" $'one\nside'

# ---- forks ----
forked '{"snapshot":"two","thread":"f1"}'
is 'a fork is a box of the same user that does not run yet' \
    "$STATUS $(j '[.user,.thread,.state,.running,.died]|tostring')" '201 ["default","f1","warm",false,null]'
f1=$FORK
in_box "$f1" 'cat a n; echo mine > a; rm n; cat a'
is 'with the files of the snapshot, its own from then on' "$OUT" $'two\nnew\nmine'
run 'cat a'
is 'the box knows nothing of it' "$OUT" one
fork '{"snapshot":"two","thread":"f1"}'
is_error 'the same pair again' 409 EXISTS
# its own files, as a daemon leaves them that is killed while it makes them
if [ "$BACKEND" = jail ] && [ ! -e "$STATE/store" ]; then
    forked '{"snapshot":"two"}'
    mkdir -p "$STATE/boxes/$FORK/fs/upper" "$STATE/boxes/$FORK/fs/upper.work" "$STATE/boxes/$FORK/half/fs/upper"
    in_box "$FORK" 'cat a n; ls -d /usr/bin'
    is 'half-made files are completed' "$STATUS $OUT" $'200 two\nnew\n/usr/bin'
    in_box "$FORK" 'echo own > own'
    api POST "/v1/boxes/$FORK/snapshots" '{"name":"still"}'
    rm -rf "$STATE/boxes/$FORK/half"
    mkdir -p "$STATE/boxes/$FORK/half/fs/upper"
    in_box "$FORK" 'cat a own'
    is 'and made again beside what was left' "$STATUS $OUT" $'200 two\nown'
    not_ok 'of which nothing stays' test -e "$STATE/boxes/$FORK/half"
    api POST "/v1/boxes/$FORK/snapshots" '{"name":"more"}'
    in_box "$FORK" 'true'
    api POST "/v1/boxes/$FORK/release"
    kill -KILL "$(cut -d' ' -f1 "$STATE/boxes/$FORK/jail")"
    broken() { api GET "/v1/boxes/$FORK" && [ "$(j .died)" != null ]; }
    eventually 10 broken
    mv "$STATE/boxes/$FORK/fs/upper" "$STATE/boxes/$FORK/aside.upper"
    in_box "$FORK" 'true'
    is_error 'a box that cannot start is not unknown' 500 INTERNAL "box $FORK cannot start: "
    mv "$STATE/boxes/$FORK/aside.upper" "$STATE/boxes/$FORK/fs/upper"
    in_box "$FORK" 'cat own'
    is 'and starts when it can' "$STATUS $OUT" '200 own'
    api DELETE "/v1/boxes/$FORK"
fi
run 'echo now > now'
forked '{}'
is 'a fork of the files as they are' "$STATUS $(j .thread)" '201 null'
f2=$FORK
in_box "$f2" 'cat a s now'
is 'has them' "$OUT" $'one\nside\nnow'
api POST "/v1/boxes/$f2/fork" '{"user":"ann","thread":"x"}'
is 'a fork of a fork, for another user' "$STATUS $(j .user)" '201 ann'
f3=$(j .id)
is 'with the id of its pair' "$f3" "$(printf ann:x | sha256sum | cut -c1-16)"
in_box "$f3" 'cat now; stat -c %u:%g now; touch mine'
is 'and its files fit its ids' "$OUT" $'now\n1000:1000'
in_box "$f1" 'rm -rf /workspace/* /etc/hostname 2> /dev/null; ls | wc -l'
run 'cat a s now'
is 'what one removes the others keep' "$OUT" $'one\nside\nnow'

# ---- a fork runs at its first use ----
runs() { api GET "/v1/boxes/$1"; j '[.state,.running]|tostring'; }
forked '{"snapshot":"two","thread":"later"}'
later=$FORK
is 'looking at a fork does not start it' "$(runs "$later")$(runs "$later")" '["warm",false]["warm",false]'
api POST "/v1/boxes/$later/pause"
is_error 'it has nothing to pause' 400 INVALID
api GET "/v1/boxes/$later/snapshots"
is 'nor have listing its snapshots' "$(j -c .)$(runs "$later")" '{"snapshots":[]}["warm",false]'
api POST "/v1/boxes/$later/snapshots" '{"name":"same"}'
is 'a snapshot of it is what it was made of' "$STATUS $(j '[.method,.stopped,.layers]|tostring')$(runs "$later")" \
    "201 [\"layer\",false,$(same 2 1)][\"warm\",false]"
api POST "/v1/boxes/$later/fork" '{"thread":"latest"}'
latest=$(j .id)
is 'a fork of it needs none to run' "$STATUS $(runs "$later")$(runs "$latest")" '201 ["warm",false]["warm",false]'
api POST "/v1/boxes/$later/rollback" '{"snapshot":"same"}'
is 'rolled back it has ended nothing' "$STATUS $(j .processes_ended)$(runs "$later")" '200 0["warm",false]'
mkdir -m 1700 "$STATE/boxes/00000000000000fa" # a daemon killed while it made a fork
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
start_daemon "$program"
is 'the next daemon knows it as such' "$(runs "$later")$(runs "$latest")" '["warm",false]["warm",false]'
swept() { [ ! -e "$STATE/boxes/00000000000000fa" ]; }
ok 'and sweeps one that was never finished' eventually 10 swept
in_box "$later" 'cat a n'
is 'its first command starts it' "$OUT $(runs "$later")" $'two\nnew ["ready",true]'
api POST /v1/boxes '{"thread":"latest"}'
is 'and so does acquiring it' "$STATUS $(j '[.id,.state,.running]|tostring')" "200 [\"$latest\",\"ready\",true]"
forked '{"thread":"never"}'
api DELETE "/v1/boxes/$FORK"
is 'one that never ran is deleted' "$STATUS $(ls "$STATE/boxes" | grep -c "$FORK")" '204 0'
lost=$(printf default:lost | sha256sum | cut -c1-16)
mkdir -m 700 "$STATE/boxes/$lost"
mkdir "$STATE/boxes/$lost/fs"
[ "$BACKEND" = jail ] || echo '- 0 0 0 0 0 0' > "$STATE/boxes/$lost/docker"
fork '{"thread":"lost"}'
is_error "files of a box that lost its record are not covered by a fork's" 409 EXISTS record
ok 'and are still there' test -d "$STATE/boxes/$lost/fs"
api DELETE "/v1/boxes/$lost"
is 'who may do everything removes them' "$STATUS" 204
mkdir -m 1700 "$STATE/boxes/$lost"
forked '{"thread":"lost"}'
is 'what a daemon left that was killed while it made a box is no hindrance' "$STATUS $FORK" "201 $lost"
in_box "$lost" 'cat a now'
is 'and the fork has its files' "$OUT" $'one\nnow'
api DELETE "/v1/boxes/$lost"
api DELETE "/v1/boxes/$later"
api DELETE "/v1/boxes/$latest"

# ---- with processes ----
tag_new
api POST "$B/processes" \
    "{\"command\":\"i=0; while :; do i=\$((i+1)); echo \$i > new; mv new counter; echo \$i >> log; sleep 0.01; done; "\
"sleep $TAG\"}"
pid=$(j .pid)
counting() { get log && [ "$STATUS" = 200 ]; }
eventually 5 counting
snapshot busy
like 'a snapshot of a busy box is a copy' "$STATUS $(j '[.method,.stopped]|tostring')" \
    '^201 \["(copy|reflink|btrfs|commit)",false\]$'
diag "$(j '.method + ", pause " + (.pause_ms|tostring) + " ms"')"
[ "$(j .pause_ms)" != 0 ] && pass 'and tells the pause' || fail 'and tells the pause' "$BODY"
api GET "$B/processes/$pid"
is 'the process lives on' "$(j .state)" running
forked '{"snapshot":"busy"}'
f4=$FORK
in_box "$f4" 'c=$(cat counter) l=$(tail -1 log); [ $c = $l ] || [ $c = $((l + 1)) ] && echo consistent'
is 'the copy is of one moment' "$OUT" consistent
rollback busy
between 'a rollback ends the processes, and says how many' "$(j .processes_ended)" 1 3
api GET "$B/processes/$pid"
is_error 'they are gone' 404 NOT_FOUND
run 'cat a; test -s log && echo log'
is 'and the files are those of the copy' "$OUT" $'one\nlog'

# An ended process whose output somebody may still want, and files in memory, keep the runner.
api POST "$B/processes" '{"command":"echo kept"}'
pid=$(j .pid)
ended() { api GET "$B/processes/$pid" && [ "$(j .state)" = exited ]; }
eventually 5 ended
run 'echo more > more'
snapshot held
is 'output of an ended process is not lost to a snapshot' "$(j .stopped)" false
api GET "$B/processes/$pid/output"
is 'it is there' "$BODY" kept
rollback held
run 'echo shared > /dev/shm/x; echo more > more2'
snapshot shm
run 'cat /dev/shm/x'
is 'nor what is in /dev/shm' "$OUT" shared

# ---- bad input ----
for name in '' . .. a/b 'a b' "$(printf %065d 0)" 'ü' '%00' '$x'; do
    api POST "$B/snapshots" "{\"name\":\"$name\"}"
    is_error "the name '${name:0:10}'" 400 INVALID
done
snapshot one
is_error 'a name that is taken' 409 EXISTS one
rollback none
is_error 'rollback to what is not there' 404 NOT_FOUND none
api POST "$B/rollback" '{}'
is_error 'rollback to nothing' 400 INVALID snapshot
fork '{"snapshot":"none"}'
is_error 'fork of what is not there' 404 NOT_FOUND none
fork '{"user":"a b"}'
is_error 'fork for no user' 400 INVALID user
fork '{"mounts":[]}'
is_error 'fork with an unknown field' 400 INVALID mounts
api DELETE "$B/snapshots/none"
is_error 'removing what is not there' 404 NOT_FOUND
api DELETE "$B/snapshots/%2e%2e%2f%2e%2e%2fbox"
is_error 'removing by a path' 400 INVALID slash
for what in 'POST snapshots {}' 'GET snapshots' 'POST rollback {"snapshot":"one"}' 'POST fork {}' 'GET diff'; do
    read -r method path body <<< "$what"
    api "$method" "/v1/boxes/0123456789abcdef/$path" "$body"
    is_error "$method $path of no box" 404 NOT_FOUND
done

# ---- a limit ----
box_new
api GET "/v1/boxes/$BOX/snapshots"
is 'a new box has none' "$(j -c .)" '{"snapshots":[]}'
if [ "$BACKEND" = docker ]; then
    skip 'as many snapshots as there may be' 'docker: 256 images take minutes; a jail shows it'
else
    urls=$(printf "http://localhost$B/snapshots %.0s" {1..256})
    curl -s --unix-socket "$SOCKET" -X POST -d '{}' $urls > /dev/null
    api GET "$B/snapshots"
    is 'as many snapshots as there may be, made in a row' "$(j '.snapshots|length')" 256
    snapshot more
    is_error 'and no more' 429 LIMIT 256
fi
api DELETE "$B"
is 'a box with all of them is deleted' "$STATUS" 204

# ---- across restarts ----
box_new '"user":"ann","thread":"keep"'
keep=$BOX
run 'echo 1 > f'
snapshot s1
run 'echo 2 > f'
snapshot s2
run 'echo 3 > f'
for signal in TERM KILL; do
    kill "-$signal" "$DAEMON_PID"
    wait "$DAEMON_PID" 2> /dev/null
    start_daemon "$program"
    api GET "$B/snapshots"
    is "$signal: the snapshots are there" "$(j -c '[.snapshots[].name]')" '["s1","s2"]'
    run 'cat f'
    is "$signal: and the box" "$OUT" 3
done
rollback s1
run 'cat f'
is 'a rollback after that' "$OUT" 1
rollback s2

# ---- deleted in any order ----
api DELETE "$B/snapshots/s1"
is 'the lower of two goes' "$STATUS" 204
run 'cat f'
is 'and the box has its files' "$OUT" 2
forked '{"snapshot":"s2"}'
last=$FORK
api DELETE "$B"
is 'the box goes before its fork' "$STATUS" 204
in_box "$last" 'cat f'
is 'which has its files' "$OUT" 2
count=$(layers)
api DELETE "/v1/boxes/$last"
eventually 5 test "$(layers)" -lt "$count" && pass 'with the last that needs it a layer goes' ||
    fail 'with the last that needs it a layer goes' "$(layers) of $count"
api DELETE "/v1/boxes/$f3"
api DELETE "/v1/boxes/$f1"
box_use "$f2"
run 'cat a s now'
is 'forks of forks lose nothing' "$OUT" $'one\nside\nnow'
delete_boxes
none() { [ -z "$(ls -A "$STATE/layers")" ]; }
eventually 5 none && pass 'no box, no layer' || fail 'no box, no layer' "$(ls -R "$STATE/layers" | head -20)"
box_new

# ---- the command line ----
use_cubby
run 'echo 1 > f'
c snapshot create "$BOX" cli
is 'cubby snapshot create' "$CODE $OUT" '0 cli'
c snapshot create --json "$BOX"
is 'cubby snapshot create --json' "$CODE $(jq -r .method <<< "$OUT")" "0 $(same layer commit)"
auto=$(jq -r .name <<< "$OUT")
c snapshot list "$BOX"
like 'cubby snapshot list' "$OUT" $'^NAME +CREATED[^\n]+\ncli +20[-0-9: ]+ +(layer|commit) +[0-9.]+ ms +[0-9]+ +1\n'
c snapshot rm "$BOX" "$auto" none
is 'cubby snapshot rm: what is there goes, what is not fails' "$CODE $OUT" "125 $auto"
c snapshot list --json "$BOX"
is 'cubby snapshot list --json' "$(jq -c '[.snapshots[].name]' <<< "$OUT")" '["cli"]'
run 'echo 2 > f'
c diff "$BOX"
is 'cubby diff' "$CODE $(tail -n +2 <<< "$OUT" | tr -s ' ')" '0 added file 2 /workspace/f'
c fork --thread made --json "$BOX"
is 'cubby fork --json' "$CODE $(jq -r .thread <<< "$OUT")" '0 made'
c fork -s cli "$BOX"
in_box "$OUT" 'cat f'
is 'cubby fork' "$CODE $OUT" '0 1'
tag_new
api POST "$B/processes" "{\"command\":\"exec sleep $TAG\"}"
c rollback "$BOX" cli
# a container's runner has a process for each
is 'cubby rollback says what it ended' "$CODE $ERR" "0 cubby: $(same '1 process was' '2 processes were') ended"
run 'cat f'
is 'and the file is back' "$OUT" 1
# Each turn starts its runner anew. What started it may take a while to go, and is not of the box.
others=0
for i in {1..20}; do
    api POST "$B/processes" "{\"command\":\"exec sleep $TAG\"}"
    c rollback "$BOX" cli
    [ "$ERR" = "cubby: $(same '1 process was' '2 processes were') ended" ] || others=$((others + 1))
done
is 'what starts a box is not one of its processes' "$others" 0
for words in 'snapshot' 'snapshot what' 'snapshot create' 'snapshot rm x' 'snapshot rm 0123456789abcdef a/b' \
    'rollback' 'fork' 'diff a b' 'diff --limit x 0123456789abcdef'; do
    c $words
    is "cubby $words: usage" "$CODE" 2
done
