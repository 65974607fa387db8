# Another user of the machine against a root daemon: over loopback and over a socket he may open, without a token.
# wall: peers told apart by uid (SO_PEERCRED, sock_diag), mount sources and local boxes by configuration only

USERS=$(mktemp -d "${TMPDIR:-/tmp}/cubby-users.XXXXXX")
chmod 755 "$USERS"
cp "$TOOL" "$USERS/tool"
ADMIN=admin-token-0123456789abcdef

users_start() { # users_start LISTEN, the configuration on standard input: PORT, USERS_LOG
    { cat; echo "pool_size: 0"; } > "$WORK/users.yaml"
    USERS_LOG=$WORK/users.log
    : > "$USERS_LOG"
    rm -rf "$WORK/state-users"
    ASAN_OPTIONS=exitcode=99 "$program" --listen "$1" --state "$WORK/state-users" --config "$WORK/users.yaml" \
        < /dev/null >> "$USERS_LOG" 2>&1 &
    USERS_PID=$!
    eventually 20 grep -q 'ready on' "$USERS_LOG" || fail 'a daemon for local users' "$(tail -3 "$USERS_LOG")"
    PORT=$(sed -n 's/.*ready on [^ ]*:\([0-9]*\),.*/\1/p' "$USERS_LOG")
}
users_again() { # users_again, the configuration on standard input
    { cat; echo "pool_size: 0"; } > "$WORK/users.yaml"
    kill -HUP "$USERS_PID"
    eventually 20 grep -q "read again" "$USERS_LOG" || fail 'the configuration is read again' "$(tail -3 "$USERS_LOG")"
}
users_end() {
    kill -TERM "$USERS_PID"
    wait "$USERS_PID"
    is 'it ends in order' $? 0
    unlike 'and the sanitizers are silent' "$(< "$USERS_LOG")" 'Sanitizer|runtime error:'
}
as() { setpriv --reuid="$1" --regid="$1" --clear-groups "${@:2}"; } # as UID COMMAND...
# ask UID WHERE METHOD PATH [BODY [CURL OPTION...]]: ANSWER, "status body"; WHERE is a URL or unix:PATH
ask() {
    local options=(-sS --max-time 120 -X "$3" -w '\n%{http_code}') url=$2
    [ $# -lt 5 ] || [ -z "$5" ] || options+=(-d "$5")
    [[ $2 != unix:* ]] || options+=(--unix-socket "${2#unix:}") url=http://localhost
    ANSWER=$(as "$1" curl "${options[@]}" "${@:6}" "$url$4" 2>&1)
    ANSWER="${ANSWER##*$'\n'} ${ANSWER%$'\n'*}"
}
boxes() { ask 0 "$1" GET /v1/boxes && jq -r '.boxes|length' <<< "${ANSWER#* }"; }
MAKE='{"backend":"local"}'

# What the contract says of a daemon that hands out nothing of the host: whoever is on loopback is an admin, of boxes.
users_start "127.0.0.1:0" <<< ''
like 'a root daemon on loopback warns' "$(< "$USERS_LOG")" 'every local user is an admin'
ask 65534 "http://127.0.0.1:$PORT" GET /v1/boxes
like 'by default another user is let in' "$ANSWER" '^200 '
ask 65534 "http://127.0.0.1:$PORT" POST /v1/boxes "$MAKE"
like 'but gets no box without walls' "$ANSWER" '^501 .*UNSUPPORTED.*allow_local'
for source in / /root /etc /proc/1/root "$WORK" /dev ../..; do
    ask 65534 "http://127.0.0.1:$PORT" POST /v1/boxes "{\"mounts\":[{\"source\":\"$source\",\"target\":\"/mnt/x\"}]}"
    like "nor a mount of $source" "$ANSWER" '^40[03] .*(DENIED|INVALID)'
done
users_end

# Where the host is at stake, it matters who asks.
mkdir -p "$WORK/h/alice" "$WORK/h/rootonly" "$WORK/d/private"
chmod 700 "$WORK/h" "$WORK/d"
echo 'of alice alone' > "$WORK/h/alice/secret"
echo 'of root alone' > "$WORK/h/rootonly/secret"
chmod 600 "$WORK"/h/*/secret
echo 'of the gateway alone' > "$WORK/d/private/db"
for allowed in 'allow_local: true' "mount_sources: [$WORK/shared]" \
    "mounts: [{source: '$WORK/h/{user}', target: /data}, {source: $WORK/h/rootonly, target: /rootonly}]" \
    "users: {alice: {mounts: [{source: $WORK/h/alice, target: /data}]}}" \
    "deerflow_home: $WORK/d" "deerflow_mounts: [{source: $WORK/d/private, target: /mnt/private}]"; do
    users_start "127.0.0.1:0" <<< "$allowed"
    for call in 'GET /v1/boxes' "POST /v1/boxes $MAKE" 'POST /v1/boxes {"user":"alice"}' 'GET /v1/info' \
        'GET /metrics'; do
        read -r method path body <<< "$call"
        ask 65534 "http://127.0.0.1:$PORT" "$method" "$path" "$body"
        like "${allowed%%:*}: another user needs a token: $call" "$ANSWER" '^401 .*UNAUTHORIZED.*uid 65534'
    done
    ask 65534 "http://127.0.0.1:$PORT" POST /api/sandboxes \
        "{\"sandbox_id\":\"aaaa1111\",\"thread_id\":\"t\",\"user_id\":\"alice\",
        \"extra_mounts\":[{\"host_path\":\"$WORK/d/private\",\"container_path\":\"/mnt/integrations/lark-cli/data\","\
"\"read_only\":false}]}"
    like "${allowed%%:*}: a gateway's box needs one, too" "$ANSWER" '^401 '
    ask 65534 "http://127.0.0.1:$PORT" GET /healthz
    like 'healthz is open' "$ANSWER" '^200 '
    ask 0 "http://127.0.0.1:$PORT" GET /v1/boxes
    is 'root is root, and no box was made' "$ANSWER" '200 {"boxes":[],"next":null}'
    users_end
done

# A box keeps its mounts when the configuration no longer names them: the daemon stays closed until it is started again.
users_start "127.0.0.1:0" <<< "mounts: [{source: $WORK/h/rootonly, target: /rootonly}]"
ask 0 "http://127.0.0.1:$PORT" POST /v1/boxes '{"thread":"t"}'
id=$(jq -r .id <<< "${ANSWER#* }")
users_again <<< ''
ask 65534 "http://127.0.0.1:$PORT" POST "/v1/boxes/$id/exec" '{"command":"cat /rootonly/secret"}'
like 'another user does not see the mount of a box that was there before a reload' "$ANSWER" '^401 .*uid 65534'
ask 0 "http://127.0.0.1:$PORT" POST "/v1/boxes/$id/exec" '{"command":"cat /rootonly/secret"}'
like 'though it is still there' "$ANSWER" '^200 .*of root alone'
ask 0 "http://127.0.0.1:$PORT" DELETE "/v1/boxes/$id"
users_end

# What an ordinary user's daemon hands out is that user's.
own=$(mktemp -d /tmp/cubby-own.XXXXXX)
chown 4242:4242 "$own"
USERS_AS=(setpriv --reuid=4242 --regid=4242 --clear-groups --inh-caps=-all env "HOME=$own" "XDG_RUNTIME_DIR=$own")
if ! "${USERS_AS[@]}" "$BUILD/cubby-runner" --version > /dev/null 2>&1; then
    skip "an ordinary user's daemon" "uid 4242 cannot run $BUILD/cubby-runner"
else
    printf 'allow_local: true\nallow_weaker: [limits]\npool_size: 0\n' > "$own/config"
    chmod 644 "$own/config"
    USERS_LOG=$WORK/users.own.log # the other one has a line of readiness already
    ASAN_OPTIONS=exitcode=99 "${USERS_AS[@]}" "$program" --listen 127.0.0.1:0 --state "$own/state" \
        --config "$own/config" < /dev/null > "$USERS_LOG" 2>&1 &
    USERS_PID=$!
    eventually 20 grep -q 'ready on' "$USERS_LOG" || fail "an ordinary user's daemon" "$(tail -3 "$USERS_LOG")"
    PORT=$(sed -n 's/.*ready on [^ ]*:\([0-9]*\),.*/\1/p' "$USERS_LOG")
    ask 65534 "http://127.0.0.1:$PORT" POST /v1/boxes "$MAKE"
    like "an ordinary user's daemon: another user needs a token" "$ANSWER" '^401 .*uid 65534'
    ask 4242 "http://127.0.0.1:$PORT" POST /v1/boxes "$MAKE"
    like 'its own user does not' "$ANSWER" '^201 '
    users_end
fi
rm -rf "$own"

# Closed sockets are shown to the asker as root's: a request whose sender has gone is nobody's.
users_start "127.0.0.1:0" <<< 'allow_local: true'
request="POST /v1/boxes HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${#MAKE}\r\n\r\n$MAKE"
for i in {1..150}; do
    printf "$request" | as 65534 "$USERS/tool" raw "$PORT" 0 > /dev/null
    printf "$request" | as 65534 "$USERS/tool" raw "$PORT" 0 half > /dev/null
done
finished() { [ "$(grep -c ' route=box_acquire' "$USERS_LOG")" -ge 300 ]; }
eventually 20 finished || :
between 'requests of senders who are gone by then were looked at' "$(grep -c 'POST /v1/boxes 401' "$USERS_LOG")" 100 300
is 'and none was let in' "$(grep -c 'POST /v1/boxes 20' "$USERS_LOG") $(boxes "http://127.0.0.1:$PORT")" '0 0'
like 'half-closed, he still hears no' "$(printf "$request" | as 65534 "$USERS/tool" raw "$PORT" 5000 half)" '^401 '
like 'and root yes' "$(printf 'GET /v1/boxes HTTP/1.1\r\nHost: localhost\r\n\r\n' |
    "$USERS/tool" raw "$PORT" 5000 half)" '^200 '
users_end

# auth: peer, a socket open to all, a list of uids
users_start "127.0.0.1:0,unix:$USERS/socket" << END
auth: peer
socket_mode: "0666"
peer_uids: ["1234", "1235=alice", nobody=bob]
tokens: [{token: $ADMIN, scope: admin}]
END
is 'the socket has its mode' "$(stat -c %a "$USERS/socket")" 666
for where in "http://127.0.0.1:$PORT" "unix:$USERS/socket"; do
    kind=${where%%:*}
    ask 4321 "$where" GET /v1/boxes
    like "$kind: an unlisted uid needs a token" "$ANSWER" '^401 .*uid 4321'
    ask 4321 "$where" GET /v1/boxes '' -H "Authorization: Bearer $ADMIN"
    like "$kind: with one he is whoever it says" "$ANSWER" '^200 '
    ask 0 "$where" GET /v1/boxes '' -H 'Authorization: Bearer nonsense'
    like "$kind: a wrong one is wrong for root too" "$ANSWER" '^401 '
    ask 1234 "$where" GET /metrics
    like "$kind: a listed uid is an admin" "$ANSWER" '^200 '
    ask 1235 "$where" POST /v1/boxes '{"thread":"t"}'
    like "$kind: a uid that stands for a user has his boxes" "$ANSWER" '^20[01] .*"user":"alice"'
    id=$(jq -r .id <<< "${ANSWER#* }")
    ask 1235 "$where" POST /v1/boxes '{"user":"bob"}'
    like "$kind: nobody else's" "$ANSWER" '^403 .*DENIED'
    ask 65534 "$where" GET "/v1/boxes/$id"
    like "$kind: and others do not see them" "$ANSWER" '^404 '
    ask 65534 "$where" GET /v1/boxes
    is "$kind: in no list either" "$ANSWER" '200 {"boxes":[],"next":null}'
done
ask 1235 "unix:$USERS/socket" DELETE "/v1/boxes/$id"
users_end

# the other clothes of loopback
if grep -q '^00000000000000000000000000000001 ' /proc/net/if_inet6 2> /dev/null; then
    users_start '[::1]:0' <<< 'auth: peer'
    ask 65534 "http://[::1]:$PORT" GET /v1/boxes
    like 'IPv6: another user' "$ANSWER" '^401 .*uid 65534'
    ask 0 "http://[::1]:$PORT" GET /v1/boxes
    like 'IPv6: root' "$ANSWER" '^200 '
    users_end
    users_start '[::]:0' << END
auth: peer
tokens: [{token: $ADMIN, scope: admin}]
END
    ask 65534 "http://127.0.0.1:$PORT" GET /v1/boxes
    like 'IPv4 in IPv6: another user' "$ANSWER" '^401 .*uid 65534'
    ask 0 "http://127.0.0.1:$PORT" GET /v1/boxes
    like 'IPv4 in IPv6: root' "$ANSWER" '^200 '
    users_end
else skip 'IPv6 loopback' 'this machine has none'; fi
rm -rf "$USERS"
