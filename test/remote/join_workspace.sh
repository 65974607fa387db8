# The workspace that a machine gives: one that is not there, that is too much, that goes away; links that lead out of
# it.
log() { tail -3 "$WORK/join-$1.log"; }
try() { # try DIR: OUT, CODE of a join that should not be
    OUT=$(HOME=/root CUBBY_TOKEN=$TOKEN "${RIGHT[@]}" timeout 10 "$CUBBY_JOIN" join \
        --server "wss://$SERVER:$SERVER_PORT" --ca "$WORK/ca.pem" --workspace "$1" --state "$WORK/machine-try" 2>&1 \
    < /dev/null)
    CODE=$?
}
for dir in "$WORK/nothing" "$WORK/ca.pem" / /root; do
    try "$dir"
    is "$dir is refused as a workspace" "$CODE" 2
    like 'with the reason' "$OUT" 'nothing|not a directory|ca.pem|the whole machine|home directory'
done

# defect 6: a sibling with the same beginning, new files under a link that leads out, a link that is changed meanwhile
mkdir -p "$WORK/work-laptop2" "$WORK/outside"
echo hidden > "$WORK/work-laptop2/secret"
echo hidden > "$WORK/outside/secret"
ln -s "$WORK/outside" "$MACHINE_DIR/out"
ln -s "$WORK/outside/secret" "$MACHINE_DIR/link"
for path in "$WORK/work-laptop2/secret" "../work-laptop2/secret" out/secret link "$WORK/outside/secret" \
    /proc/1/root/"$WORK"/outside/secret; do
    get "$path"
    isnt "defect 6: $path is not read" "$STATUS" 200
    unlike 'nor shown' "$BODY" hidden
done
put out/new x
isnt 'defect 6: no new file under a link that leads out' "$STATUS" 201
put out/deep/new x '&parents=1'
isnt 'nor with its parents' "$STATUS" 201
is 'nothing came there' "$(ls "$WORK/outside")" secret
run "cat '$WORK/outside/secret' '$WORK/work-laptop2/secret' out/secret link; echo x > out/new; ls '$WORK' 2>&1"
unlike 'a command does not see it either' "$OUT" 'hidden|outside'
is 'and writes nothing there' "$(ls "$WORK/outside")" secret

# it is removed while joined
box_use "$(machine_box laptop)"
rm -rf "$MACHINE_DIR"
ok 'a workspace that is removed takes the machine offline' machine_is laptop offline 30
run true
is_error 'with the reason' 503 BUSY 'workspace|removed|offline'
ok 'said on the machine too' eventually 10 grep -qi "work-laptop" "$WORK/join-laptop.log"
mkdir -p "$MACHINE_DIR"
