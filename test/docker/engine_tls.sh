# An engine elsewhere, by TCP with TLS and certificates on both sides: boxes as everywhere; and whoever is not whom one
# takes it
# for is not talked to, in words that say what to do.
# engine: none
# daemon: none
# waits
certs=$WORK/certs
mkdir -p "$certs"/{server,client,stranger,no_client,empty}
authority() { # authority DIR NAME
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$2" -keyout "$1/ca.key" \
        -out "$1/ca.pem" 2> /dev/null
}
certificate() { # certificate DIR AUTHORITY EXTENSION
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$(basename "$1")" -keyout "$1/key.pem" \
        -out "$1/csr" 2> /dev/null &&
        openssl x509 -req -in "$1/csr" -CA "$2/ca.pem" -CAkey "$2/ca.key" -CAcreateserial -days 2 \
        -extfile <(echo "$3") -out "$1/cert.pem" 2> /dev/null
}
{ authority "$certs" engines && authority "$certs/stranger" strangers &&
    certificate "$certs/server" "$certs" 'subjectAltName=IP:127.0.0.1' &&
    certificate "$certs/client" "$certs" 'extendedKeyUsage=clientAuth' &&
    certificate "$certs/stranger" "$certs/stranger" 'extendedKeyUsage=clientAuth'; } ||
    fail 'certificates' 'openssl made none'
cp "$certs/ca.pem" "$certs/client"
cp "$certs/ca.pem" "$certs/no_client"

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
ENGINE_OWN=$(mktemp -d "${TMPDIR:-/tmp}/cubby-engine.XXXXXX")
if engine_launch "$ENGINE_OWN" --tlsverify --tlscacert "$certs/ca.pem" --tlscert "$certs/server/cert.pem" \
    --tlskey "$certs/server/key.pem" -H "tcp://127.0.0.1:$port" &&
    image_busybox; then

    # ---- who is whom ----

    seen() { env -u DOCKER_HOST "$@" "$BUILD/cubby" doctor --json |
        jq -r '.checks[]|select(.name|test("^container engine$|connection"))|"\(.ok) \(.detail) \(.fix)"'; }
    url=tcp://127.0.0.1:$port verify='DOCKER_HOST='$url
    like 'both show certificates' "$(seen "$verify" DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH="$certs/client")" \
        "^true dockerd .* at $url null"$'\n''true TLS, certificate verified null$'
    like 'the engine is unknown to the authority' \
        "$(seen "$verify" DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH="$certs/stranger")" \
    "^false no usable answer at $url the certificate of the container engine at $url does not verify: .*ca.pem"
    like 'its certificate names another host' \
        "$(seen DOCKER_HOST="tcp://localhost:$port" DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH="$certs/client")" \
    '^false .*does not verify: .*host ?name'
    like 'we show none' "$(seen "$verify" DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH="$certs/no_client")" \
        '^false .*refuses our certificate .*cert.pem and key.pem'
    cp "$certs/ca.pem" "$certs/stranger/ca.pem"
    like 'we show one of a stranger' "$(seen "$verify" DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH="$certs/stranger")" \
        '^false .*refuses our certificate .*cert.pem and key.pem'
    like 'there is no authority to go by' "$(seen "$verify" DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH="$certs/empty")" \
        "^false .*'$certs/empty/ca.pem': No such file"
    like 'it is spoken to in the clear' "$(seen "$verify")" '^false .*HTTP request to an HTTPS server'
    like 'nobody is there' \
        "$(seen DOCKER_HOST="tcp://127.0.0.1:$(python3 \
    -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')" DOCKER_TLS_VERIFY=1 \
    DOCKER_CERT_PATH="$certs/client")" '^false none at tcp://127.0.0.1:[0-9]+ '

    # ---- boxes ----

    unset DOCKER_HOST
    printf '%s\n' "docker_host: $url" "docker_cert_dir: $certs/client" >> "$CONFIG"
    start_daemon "$PROGRAM" || fail 'a daemon' "$(tail -5 "$WORK/daemon.log")"
    box_new "\"template\":\"$IMAGE_BUSYBOX\""
    is 'a box on an engine elsewhere' "$STATUS $(j .workspace)" '201 /workspace'
    head -c 3000000 /dev/urandom > "$WORK/large"
    upload large "$WORK/large"
    run 'id -u; pwd; sha256sum large | cut -c1-64'
    is 'commands, and a large file in' "$CODE $OUT" $'0 0\n/workspace\n'"$(sha256sum < "$WORK/large" | cut -c1-64)"
    curl -s --max-time 60 --unix-socket "$SOCKET" "http://localhost$B/files?path=large" | cmp - "$WORK/large" &&
        pass 'and out' || fail 'and out' 'another one'
    kill -KILL "$DAEMON_PID"
    wait "$DAEMON_PID" 2> /dev/null
    start_daemon "$PROGRAM" || fail 'a new daemon starts' "$(tail -5 "$WORK/daemon.log")"
    run 'wc -c < large'
    is 'the next daemon finds it' "$STATUS $OUT" '200 3000000'
    api POST "$B/snapshots" '{"name":"s"}'
    is 'a snapshot' "$STATUS" 201
    run 'rm large'
    api POST "$B/rollback" '{"snapshot":"s"}'
    run 'wc -c < large'
    is 'is put back, with the workspace' "$STATUS $OUT" '200 3000000'
    api DELETE "$B"
    is 'deleted' "$STATUS" 204
    is 'with its container' "$(engine GET '/containers/json?all=1')" '[]'
else
    skip 'an engine with TLS' "$ENGINE_WHY"
fi
