# Snapshots where it is hard: bounded files, deep stacks, many hands at once, random work against a copy.
# not remote: its boxes have no layers (run/snapshot tells how that is said)
# by default: jail local remote
# files: on disk

if [[ $BACKEND != jail && $BACKEND != docker ]]; then
    skip 'snapshots' "$BACKEND: its boxes have no layers"
    return
fi
snapshot() { api POST "$B/snapshots" "{\"name\":\"$1\"}"; }
rollback() { api POST "$B/rollback" "{\"snapshot\":\"$1\"}"; }
layers() { ls "$STATE/layers" | wc -l; }

# ---- files with a bound ----
if [ "$BACKEND" = docker ]; then
    skip 'bounded files' 'docker: a bound is of the container, and has no part in what is kept of it'
elif box_new '"limits":{"disk_mb":64}'; then
    run 'echo one > f; ln f g; mkdir d; head -c 1000000 /dev/zero > big'
    snapshot a
    is 'a bounded box is kept' "$STATUS $(j .method)" '201 layer'
    run 'cat f g; stat -c %h f; stat -c %s big; echo two > f; rm -r d; rm /etc/hostname' '"user":"root"'
    is 'and has its files' "$OUT" $'one\none\n2\n1000000'
    run 'head -c 100000000 /dev/zero > huge; stat -c %s huge' '"user":"root"'
    [ "$(tail -1 <<< "$OUT")" -lt 70000000 ] && pass 'and its bound' || fail 'and its bound' "$OUT"
    run 'rm huge' '"user":"root"'
    api POST "$B/processes" '{"command":"exec sleep 1000"}'
    snapshot b
    like 'kept while something runs' "$STATUS $(j .method)" '^201 (copy|reflink|btrfs)$'
    api POST "$B/fork" '{"snapshot":"b"}'
    fork=$(j .id) old=$BOX
    box_use "$fork"
    run 'cat f; ls -d d /etc/hostname 2>&1 | grep -c "No such"; echo mine > mine; cat mine'
    is 'a fork of it' "$OUT" $'two\n2\nmine'
    box_use "$old"
    rollback a
    run 'cat f; ls -d d; echo again > f; cat f'
    is 'and back' "$OUT" $'one\nd\nagain'
    # A snapshot that had to copy, because the box was still in use, adds no layer: deep says that there were many.
    t=0 deep=
    keep() { snapshot "$1" && { [ "$(j .layers)" -le 16 ] || deep=1; }; }
    more() { run 'echo . >> f1' && keep "t$((t += 1))"; }
    for i in {1..16}; do
        run "echo $i > f$i"
        keep "s$i"
    done
    deeper() { [ -n "$deep" ] || { more && [ -n "$deep" ]; }; }
    # The merged layer, whole. Snapshots until then would make the rest deep enough to be merged again, by links to
    # files of this one, which those snapshots keep: then the files below would have two names for good.
    merged() {
        local dir
        for dir in "$STATE"/layers/*/fs/upper/workspace; do
            [ -e "$dir/f1" ] && [ -e "$dir/f16" ] && return
        done
        return 1
    }
    squashed() { more && [ "$(j .layers)" -lt 10 ]; }
    eventually 30 deeper && eventually 30 merged && eventually 30 squashed && pass 'its layers become one' ||
        fail 'its layers become one' "$BODY"
    # f was written since: a link no more. Old layers have the same files under second names, until they are removed.
    alike() { run 'cat f1 f f16; stat -c %h f g; ls d' && [ "$(tail -4 <<< "$OUT" | xargs)" = 'again 16 1 1' ]; }
    eventually 30 alike
    is 'that shows the same' "$(tail -4 <<< "$OUT" | xargs)" 'again 16 1 1'
    api DELETE "/v1/boxes/$fork"
    api DELETE "$B"
else
    skip 'bounded files' "no disk quota here: $(j .error.message | cut -c1-80)"
fi

# ---- random work against a reference ----
# The same commands run in the box and in a directory here; snapshots, rollbacks and forks are copies of that. Files are
# replaced, not written into: a link that an overlay has copied up is a file of its own.
SEED=${SNAPSHOT_SEED:-$SRANDOM}
RANDOM=$((SEED & 32767))
diag "SNAPSHOT_SEED=$SEED"
umask 022
name() { # one of few, up to three deep, in the variable named; no subshell: that would draw from numbers of its own
    local n=(a b c d) path='' depth=$((RANDOM % 3 + 1))
    while ((depth--)); do path+=${path:+/}${n[RANDOM % 4]}; done
    printf -v "$1" %s "$path"
}
change() { # one random command, added to SCRIPT
    local x y command
    name x
    name y
    case $((RANDOM % 9)) in
        0 | 1 | 2) command="echo $RANDOM > .t && mv -fT .t $x || rm -f .t" ;;
        3) command="mkdir -p $x" ;;
        4) command="rm -rf $x" ;;
        5) command="mv -fT $x $y" ;;
        6) command="ln -sfT $y $x" ;;
        7) command="ln -fT $x $y" ;;
        8) command="test ! -L $x -a -d $x && chmod 7$((RANDOM % 8))$((RANDOM % 8)) $x" ;;
    esac
    SCRIPT+="{ $command; } 2> /dev/null; "
}
script() { # a few of them, in SCRIPT
    local i
    SCRIPT='cd t || exit 1; '
    for ((i = 0; i < 8; i++)); do change; done
    SCRIPT+='true'
}
SHOW='cd t && find . -printf "%P %y %m %l\n" | LC_ALL=C sort && find . -type f -print0 | LC_ALL=C sort -z | xargs -0r '\
'sha256sum'
box_new
run 'mkdir t'
here=$WORK/reference
mkdir -p "$here/now/t" "$here/kept"
declare -A kept=()
same=0 steps=0
[ "$BACKEND" = jail ] || SNAPSHOT_STEPS=${SNAPSHOT_STEPS:-8} # each is a container or an image
for ((step = 0; step < ${SNAPSHOT_STEPS:-20}; step++)); do
    script
    run "$SCRIPT"
    (cd "$here/now" && bash -c "$SCRIPT")
    names=("${!kept[@]}")
    pick=${names[RANDOM % (${#names[@]} + (${#names[@]} == 0))]-}
    case $((RANDOM % 8)) in
        0 | 1 | 2)
            snapshot "k$step"
            [ "$STATUS" = 201 ] || fail "step $step: a snapshot" "$BODY"
            cp -a "$here/now" "$here/kept/k$step"
            kept[k$step]=1
            ;;
        3) [ -z "$pick" ] || { rollback "$pick"; rm -rf "$here/now"; cp -a "$here/kept/$pick" "$here/now"; } ;;
        4)
            api POST "$B/fork" "{${pick:+\"snapshot\":\"$pick\"}}"
            [ "$STATUS" = 201 ] || fail "step $step: a fork" "$BODY"
            [ -z "$pick" ] || { rm -rf "$here/now"; cp -a "$here/kept/$pick" "$here/now"; }
            left=$BOX
            box_use "$(j .id)"
            kept=()
            rm -rf "$here/kept"/*
            api DELETE "/v1/boxes/$left"
            ;;
        5) [ -z "$pick" ] || { api DELETE "$B/snapshots/$pick"; unset "kept[$pick]"; rm -rf "$here/kept/$pick"; } ;;
        6) api POST "$B/processes" '{"command":"exec sleep 1000"}' ;;
    esac
    run "$SHOW"
    want=$(cd "$here/now" && bash -c "$SHOW")
    steps=$((steps + 1))
    if [ "$OUT" = "$want" ]; then same=$((same + 1)); else
        fail "step $step: the box is as the reference (SNAPSHOT_SEED=$SEED)" \
            "$(diff <(echo "$OUT") <(echo "$want") | head -20)"
        break
    fi
done
is 'random work, snapshots, rollbacks and forks: the box is as the reference after every step' "$same" "$steps"
rm -rf "$here"

# ---- many hands at once ----
box_new
run 'echo 0 > n'
hands=() turns=6
[ "$BACKEND" = jail ] || turns=2
for hand in {1..4}; do
    (
        for ((turn = 1; turn <= turns; turn++)); do
            curl -s -o /dev/null -w '%{http_code}\n' --unix-socket "$SOCKET" -d '{}' "http://localhost$B/snapshots"
            curl -s -o /dev/null -w '%{http_code}\n' --unix-socket "$SOCKET" \
                -d "{\"command\":\"echo $hand.$turn > h$hand\"}" "http://localhost$B/exec"
            curl -s -o /dev/null -w '%{http_code}\n' --unix-socket "$SOCKET" -d "{\"thread\":\"h$hand\"}" \
                "http://localhost$B/fork"
        done
    ) > "$WORK/hand$hand" &
    hands+=($!)
done
wait "${hands[@]}"
is 'snapshots, commands and forks at once: each is answered' "$(cat "$WORK"/hand? | sort | uniq -c | xargs)" \
    "$((4 * turns)) 200 $((4 * turns + 4)) 201 $((4 * turns - 4)) 409"
run 'cat h1 h2 h3 h4'
is 'and nothing that was written is lost' "$(xargs <<< "$OUT")" "1.$turns 2.$turns 3.$turns 4.$turns"
api GET "$B/snapshots"
is 'every snapshot is there' "$(j '.snapshots|length')" $((4 * turns))
for hand in {1..6}; do curl -s -o /dev/null --unix-socket "$SOCKET" -d '{}' "http://localhost$B/snapshots" & done
api DELETE "$B"
is 'deleted under snapshots' "$STATUS" 204
wait $(jobs -p | grep -vx "$DAEMON_PID")
api GET "$B/snapshots"
is_error 'and gone' 404 NOT_FOUND
delete_boxes
none() { [ -z "$(ls -A "$STATE/layers")" ]; }
eventually 10 none && pass 'no box, no layer' || fail 'no box, no layer' "$(find "$STATE/layers" | head -20)"
box_new
