# The configuration: mounts with placeholders, users' own options, templates; SIGHUP reads it again without losing
# anything.
# backends: jail

config=$WORK/conf.yaml users=$WORK/users
mkdir -p "$users" "$WORK/templates/small/usr/share" "$WORK/plain"
echo 'of the template' > "$WORK/templates/small/usr/share/mark"

write_conf() { # write_conf MORE...: lines
    cat > "$config" << END
allow_local: true
auth: auto
peer_uids: [0]
END
    printf '%s\n' "$@" >> "$config"
}
SEEN=0
reload() { # the daemon has read it and said so
    SEEN=$(wc -c < "$WORK/daemon.log")
    kill -HUP "$DAEMON_PID"
    eventually 10 said 'configuration .* read again|stays as it was'
}
said() { tail -c +$((SEEN + 1)) "$WORK/daemon.log" | grep -qE "$1"; }
told() { tail -c +$((SEEN + 1)) "$WORK/daemon.log"; }
make_box() { api POST /v1/boxes "{\"backend\":\"$BACKEND\"${1:+,$1}}" && box_use "$(j .id)"; }

export CUBBY_TEST_KEY=key-of-the-environment
write_conf "mounts:" "  - {source: '$users/{user}/threads/{thread}/workspace', target: /workspace, create: true}" \
    "  - {source: $WORK/plain, target: /mnt/plain, read_only: true}" \
    'env: {FROM_FILE: 1, SECRET_KEY: $CUBBY_TEST_KEY}' \
    'users:' \
    '  ann: {env: {FROM_FILE: 2}, max_boxes_per_user: 1, idle_timeout_ms: 5000000}' \
    '  eve: {busy_timeout_ms: 1000}'
if second_start "$config" "$program"; then
    like 'the log names the file' "$(cat "$WORK/daemon.log")" "configuration $config"

    # a workspace on the host
    make_box '"user":"bob","thread":"t/1"'
    is 'a box with configured mounts' "$STATUS" 201
    host=$users/bob/threads/t%2F1/workspace
    is 'its directory is made on the host, for nobody else' "$(stat -c '%a %u' "$host" "$users/bob" | tr '\n' ' ')" \
        "700 $(id -u) 700 $(id -u) "
    api PUT "/v1/boxes/$BOX/files?path=/workspace/up" 'from the API'
    is 'an upload' "$STATUS" 201
    run 'cat up && echo more >> up && echo made > own && mkdir dir && echo deep > dir/file && cat up'
    is 'is writable in the box' "$OUT" $'from the APIfrom the APImore'
    is 'a file of the box lies on the host' "$(cat "$host/own" "$host/dir/file")" $'made\ndeep'
    is 'and belongs to the owner of the directory' "$(stat -c %u "$host/own")" "$(stat -c %u "$host")"
    echo 'from the host' > "$host/there"
    api GET "/v1/boxes/$BOX/files?path=/workspace/there"
    is 'a file of the host is read through the API' "$STATUS $BODY" '200 from the host'
    run 'echo $FROM_FILE $SECRET_KEY'
    is 'variables, one from the environment of the daemon' "$OUT" '1 key-of-the-environment'
    api PUT "/v1/boxes/$BOX/files?path=/mnt/plain/x" x
    is_error 'read_only holds' 403 DENIED
    [ "$BACKEND" = local ] || run 'echo x > /mnt/plain/x'
    not_ok 'on the host, too' test -e "$WORK/plain/x"
    first=$BOX
    make_box '"user":"bob"'
    ok 'without a thread the id names it' test -d "$users/bob/threads/%id-$BOX/workspace"
    make_box '"user":"..","thread":".."'
    is 'a user called ..' "$STATUS" 201
    ok 'stays inside' test -d "$users/%2E./threads/%2E./workspace"
    make_box "\"user\":\"bob\",\"thread\":\"n\",\"mounts\":[{\"source\":\"$WORK/plain\",\"target\":\"/workspace\"}]"
    like 'a request cannot replace a configured mount' "$STATUS $BODY" '^(400|403) .*(twice|not allowed)'

    if [ "$BACKEND" = jail ]; then
        box_use "$first"
        api POST "/v1/boxes/$BOX/fork" '{"user":"ann","thread":"forked"}'
        is 'a fork for somebody else' "$STATUS" 201
        box_use "$(j .id)"
        run 'ls; echo $FROM_FILE'
        is "has that one's workspace and variables" "$OUT" 2
        ok 'on the host, too' test -d "$users/ann/threads/forked/workspace"
        api DELETE "/v1/boxes/$BOX"
    fi

    # somebody's own options
    make_box '"user":"ann","thread":"1"'
    run 'echo $FROM_FILE'
    is "ann's own variable" "$OUT" 2
    api GET "/v1/boxes/$BOX"
    is 'and idle time-out' "$(j .idle_timeout_ms)" 5000000
    make_box '"user":"ann","thread":"2"'
    is_error 'and her quota' 429 LIMIT

    # what runs keeps an idle box, and not for ever
    make_box '"user":"eve","thread":"1","idle_timeout_ms":200'
    tag_new
    api POST "$B/processes" "{\"command\":\"sleep $TAG\"}"
    ended() { api GET "$B" && [ "$(j .running)" = false ]; }
    ok 'a busy box ends after the time that its user has for that' eventually 20 ended
    [ "$BACKEND" = remote ] || is 'and says what was ended' "$(j .ended)" "idle; ended what ran: sleep $TAG"
    api DELETE "$B"

    # a source that is not there is said, and nothing is made
    api GET /v1/boxes
    before=$(j '.boxes|length')
    rm -rf "$WORK/plain"
    make_box '"user":"bob","thread":"2"'
    like 'a mount whose source is missing is named' "$STATUS $BODY" "^500 .*source '$WORK/plain' of the configuration"
    ln -s /etc "$WORK/plain"
    make_box '"user":"bob","thread":"2"'
    like 'a link in its place is refused' "$STATUS $BODY" \
        "^500 .*source '$WORK/plain' of the configuration passes a link"
    rm "$WORK/plain"
    mkdir "$WORK/plain"
    mkdir -p "$users/bob/threads/3"
    ln -s /etc "$users/bob/threads/3/workspace"
    make_box '"user":"bob","thread":"3"'
    like 'and a link below a placeholder' "$STATUS $BODY" '^500 .*passes a link'
    api GET /v1/boxes
    is 'no box was made' "$(j '.boxes|length')" "$before"

    # a link that comes later, while the box sleeps
    if [ "$BACKEND" != local ]; then
        box_use "$first"
        api POST "/v1/boxes/$BOX/release"
        mv "$host" "$host.away"
        ln -s /etc "$host"
        kill -TERM "$DAEMON_PID" && wait "$DAEMON_PID"
        sed 's/^allow_local/end_boxes: true\nallow_local/' "$config" > "$config.new" && mv "$config.new" "$config"
        start_daemon "$program" # adopts it
        kill -TERM "$DAEMON_PID" && wait "$DAEMON_PID" # and ends its processes
        start_daemon "$program"
        run 'cat /workspace/passwd'
        is_error 'a link that came while the box slept is not followed' 403 DENIED
        like 'and named' "$BODY" "source '$host'"
        unlike 'nothing of the host is shown' "$BODY" 'root:'
        rm "$host"
        mv "$host.away" "$host"
        run 'cat own'
        is 'with its directory back the box goes on' "$OUT" made
    else skip 'a link that came while the box slept' 'local boxes see the host'; fi

    # SIGHUP
    write_conf 'env: {FROM_FILE: 3}' 'memory_mb: 0' 'pids: 0' "mount_sources: [$WORK/plain]" \
        'users: {ann: {max_boxes_per_user: 5}}' 'max_threads: 100' 'log_level: debug'
    reload
    like 'what changed is said by name' "$(told)" 'changed: .*mount_sources, env, mounts, .*users'
    unlike 'no value of it' "$(told)" key-of-the-environment
    like 'what needs a restart, too' "$(told)" 'only change at the next start: .*max_threads'
    make_box '"user":"ann","thread":"2"'
    is 'a quota that rose counts at once' "$STATUS" 201
    run 'echo $FROM_FILE; test -e /mnt/plain; echo $?'
    is 'as do variables and mounts' "$OUT" $'3\n1'
    box_use "$first"
    run 'echo $FROM_FILE; cat own'
    is 'a box that is there keeps what it was made with' "$OUT" $'1\nmade'
    make_box "\"mounts\":[{\"source\":\"$WORK/plain\",\"target\":\"/mnt/p\"}]"
    is 'mount_sources that came' "$STATUS" 201
    make_box "\"mounts\":[{\"source\":\"$users\",\"target\":\"/mnt/p\"}]"
    is_error 'and nothing else' 403 DENIED

    write_conf 'env: {FROM_FILE: 4}' 'memory_mb: 0' 'pids: -5'
    reload
    like 'a bad file is refused with its line' "$(told)" "stays as it was: $config line 6: pids must be a number"
    make_box '"user":"ann","thread":"3"'
    run 'echo $FROM_FILE'
    is 'as a whole' "$OUT" 3
    write_conf 'peer_uids: [nobody-of-that-name]'
    reload
    like 'so is a file that names what is not there' "$(told)" \
        'stays as it was: .*twice|stays as it was: .*nobody-of-that-name'

    write_conf "templates: [host, {name: small, path: $WORK/templates/small}]" 'networks: [none]' \
        'users: {ann: {templates: [host]}}'
    reload
    if [ "$BACKEND" = jail ]; then
        make_box '"template":"small"'
        is 'a template from a path' "$STATUS" 201
        api GET "/v1/boxes/$BOX/files?path=/usr/share/mark"
        is 'is imported' "$STATUS $BODY" '200 of the template'
    fi
    if [ "$BACKEND" != docker ]; then # whose images have options of their own: test/docker/image_choice.sh
        make_box '"template":"other"'
        is_error 'one that is not listed' 403 DENIED
        make_box '"user":"ann","template":"small"'
        is_error 'nor for whom it is not' 403 DENIED
    fi
    make_box '"network":"open"'
    is_error 'a network that is not allowed' 403 DENIED
    is 'the secret is not in the log' "$(grep -c key-of-the-environment "$WORK/daemon.log")" 0

    # many at once: reading again tears nothing
    for i in $(seq 10); do
        write_conf "env: {FROM_FILE: $i, AGAIN: $i}"
        kill -HUP "$DAEMON_PID"
        make_box ''
        run 'echo $FROM_FILE=$AGAIN'
        [ "${OUT%=*}" = "${OUT#*=}" ] || { torn=$((torn + 1)) && diag "torn: $OUT"; }
    done
    is 'no box has half of a configuration' "${torn-0}" 0
    delete_boxes
    second_end
    is 'it ends in order' $? 0
else
    fail 'a daemon with mounts' "$(tail -5 "$WORK/daemon.log")"
    second_end
fi
