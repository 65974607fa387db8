# A daemon of an ordinary user who may use the engine: its containers have its own ids, the engine mounts, skills are
# copied.
# box: none
# daemon: none

USER_ID=54321 USER_DIR=$(mktemp -d /tmp/cubby-user.XXXXXX)
ordinary=(setpriv "--reuid=$USER_ID" "--regid=$USER_ID" "--groups=$(stat -c %g "$ENGINE_SOCKET")" --inh-caps=-all env \
    "HOME=$USER_DIR")
if ! "${ordinary[@]}" "$BUILD/cubby-runner" --version > /dev/null 2>&1; then
    skip 'a daemon of an ordinary user' "who cannot run $BUILD/cubby-runner"
    rmdir "$USER_DIR"
    return
fi
mkdir "$USER_DIR/dir"
echo mine > "$USER_DIR/dir/mine"
printf 'docker_pull: never\nmount_sources: [%s]\n' "$USER_DIR/dir" > "$USER_DIR/config.yaml"
chown -R "$USER_ID:$USER_ID" "$USER_DIR"
STATE=$USER_DIR/state SOCKET=$USER_DIR/socket CONFIG=$USER_DIR/config.yaml
whose() { stat -c '%u:%g' "$@" | sort -u | xargs; }
if start_daemon "${ordinary[@]}" "$BUILD/cubbyd"; then
    box_new "\"mounts\":[{\"source\":\"$USER_DIR/dir\",\"target\":\"/mnt/dir\"},{\"source\":\"$USER_DIR/dir\","\
"\"target\":\"/mnt/look\",\"read_only\":true}]"
    is 'a box' "$STATUS" 201
    run 'id -u; id -g; pwd; echo x > file; echo y > /mnt/dir/new; cat /mnt/dir/mine; cat /proc/self/status | grep '\
'CapEff'
    is 'commands have the ids of its daemon, and nothing else' "$CODE $OUT" \
        $'0 54321\n54321\n/workspace\nmine\nCapEff:\t0000000000000000'
    put up text
    is 'so have files, wherever they are' "$(whose "$STATE/boxes/$BOX/workspace"{,/file,/up} "$USER_DIR"/dir/*)" \
        54321:54321
    run 'echo x > /mnt/look/new'
    isnt 'what is read-only is' "$CODE" 0
    run 'chmod 4755 /mnt/dir/new; stat -c %a /mnt/dir/new'
    is 'nor does it leave what would give rights there' "$OUT" 644
    api POST /v1/boxes '{"container":{"user":"0"}}'
    is_error 'root is not to be had' 501 UNSUPPORTED 'not root'
    api POST /v1/boxes "{\"template\":\"$IMAGE_BUSYBOX\"}"
    box_use "$(j .id)"
    run 'id -u; touch /bin/x; echo x > file'
    is 'whoever the image wants to be' "$CODE $OUT" '0 54321'

    # ---- the engine mounts by name, and follows what came into its way ----
    mkdir "$USER_DIR/dir/sub" "$USER_DIR/secret"
    echo secret > "$USER_DIR/secret/file"
    chown -R "$USER_ID:$USER_ID" "$USER_DIR/dir/sub" "$USER_DIR/secret"
    box_new "\"user\":\"ann\",\"thread\":\"t\",\"mounts\":[{\"source\":\"$USER_DIR/dir/sub\",\"target\":\"/mnt/sub\"}]"
    run 'ls /mnt/sub; echo x > /mnt/sub/x'
    is 'a directory below another' "$CODE" 0
    kill -KILL "$(cut -d' ' -f2 "$STATE/boxes/$BOX/docker")"
    dead() { api GET "$B" && [ "$(j .state)" != ready ]; }
    ok 'its box dies' eventually 20 dead
    mv "$USER_DIR/dir/sub" "$USER_DIR/dir/gone"
    ln -s "$USER_DIR/secret" "$USER_DIR/dir/sub"
    api POST /v1/boxes '{"user":"ann","thread":"t"}'
    is_error 'whoever can write there cannot lead it elsewhere' 403 DENIED 'mount'
    is 'and nothing of it runs' "$(engine GET "/containers/$(container)/json" | jq .State.Running)" false
    rm "$USER_DIR/dir/sub"
    mv "$USER_DIR/dir/gone" "$USER_DIR/dir/sub"
    api POST /v1/boxes '{"user":"ann","thread":"t"}'
    run 'cat /mnt/sub/x'
    is 'with the directory in its place it is as before' "$STATUS $OUT" '200 x'

    # ---- skills are copies ----
    api POST /v1/boxes '{"user":"ann","agent":"app"}'
    is 'a box with skills' "$STATUS" 201
    ann=$(j .id)
    api POST /v1/boxes '{"user":"bob","agent":"app"}'
    bob=$(j .id)
    box_use "$ann"
    run 'mkdir -p /skills/greet && printf -- "---\nname: greet\ndescription: hello\n---\n" > /skills/greet/SKILL.md '\
'&& ls /workspace/skills'
    is 'one that a user makes, seen in both places' "$CODE $OUT" '0 greet'
    api POST "$B/skills/greet/sync" '{"direction":"to_base"}'
    is 'it becomes public' "$STATUS" 204
    box_use "$bob"
    run 'cat /skills/greet/SKILL.md | sed -n 2p; echo mine >> /skills/greet/SKILL.md; stat -c %u /skills/greet'
    is 'and another has it, as his own copy' "$OUT" $'name: greet\n54321'
    box_use "$ann"
    run 'grep -c mine /skills/greet/SKILL.md'
    is 'for himself alone' "$OUT" 0
    delete_boxes
    is 'nothing is left of them' \
        "$(ls "$STATE/boxes") $(engine GET '/containers/json?all=1' |
    jq -r --arg home "$(< "$STATE/docker-home")" '[.[]|select(.Labels["cubby.home"] == $home)]|length')" ' 0'
    kill -TERM "$DAEMON_PID"
    wait "$DAEMON_PID"
    is 'it ends in order' $? 0
else
    fail 'a daemon of an ordinary user' "$(tail -5 "$WORK/daemon.log")"
fi
DAEMON_PID='' STATE=$WORK/state
rm -rf "$USER_DIR"
