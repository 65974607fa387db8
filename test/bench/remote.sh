# The bench of machines that join: two network namespaces, joined by veth (0 ms) and then by a cable of 20 ms each way
# (test/lib/linkem.c; kernels need no netem). Sourced by bench.sh for its part `remote`, which has WORK, BUILD, BENCH.
# BENCH_CABLES chooses one of them. TLS both for the daemon and for nginx, with the same certificate.

remote_certificate() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=bench \
        -addext 'subjectAltName=IP:10.77.0.1' \
        -keyout "$WORK/tls.key" -out "$WORK/tls.pem" 2> /dev/null
}

remote_cable() { # remote_cable veth|DELAY: LEFT and RIGHT
    coproc CABLE { exec "$BUILD/test/linkem" --offload 100 101; }
    CABLE_END=$CABLE_PID
    read -r -u "${CABLE[0]}" _
    LEFT=(nsenter "--net=/proc/$CABLE_END/fd/100") RIGHT=(nsenter "--net=/proc/$CABLE_END/fd/101")
    if [ "$1" = veth ]; then
        "${LEFT[@]}" ip link del cable
        "${RIGHT[@]}" ip link del cable
        "${LEFT[@]}" ip link add cable type veth peer name cable netns "/proc/$CABLE_END/fd/101"
        "${LEFT[@]}" ip addr add 10.77.0.1/24 dev cable
        "${RIGHT[@]}" ip addr add 10.77.0.2/24 dev cable
        "${LEFT[@]}" ip link set cable up
        "${RIGHT[@]}" ip link set cable up
    else
        echo "delay $1" >&"${CABLE[1]}"
        read -r -u "${CABLE[0]}" _
    fi
}

remote_servers() { # the daemon and nginx on the left
    printf '%s\n' 'auth: peer' 'tokens: [{token: admin-token-0123456789abcdef, scope: admin}]' \
        "tls_cert: $WORK/tls.pem" "tls_key: $WORK/tls.key" 'allowed_hosts: ["10.77.0.1"]' 'max_boxes_per_user: 0' \
    'end_boxes: true' > "$WORK/remote.yaml"
    "${LEFT[@]}" "$BUILD/cubbyd" --listen "unix:$WORK/socket,10.77.0.1:7443" --state "$WORK/state-remote" \
        --config "$WORK/remote.yaml" --log-level warn \
        > "$WORK/daemon.log" 2>&1 < /dev/null & REMOTE_DAEMON=$!
    sed -e "s/listen 127.*/listen 10.77.0.1:8443 ssl; ssl_certificate ${WORK//\//\\/}\/tls.pem; ssl_certificate_key "\
"${WORK//\//\\/}\/tls.key;/" \
        -e "s#nginx/pid#nginx/pid-remote#" "$WORK/nginx.conf" > "$WORK/nginx-remote.conf"
    "${LEFT[@]}" /usr/sbin/nginx -c "$WORK/nginx-remote.conf" -p "$WORK/nginx" < /dev/null > "$WORK/nginx/out" 2>&1 \
        & REMOTE_NGINX=$!
    "${RIGHT[@]}" "$BENCH" echo 0 0 - - < /dev/null & REMOTE_ECHO=$!
    local end=$((EPOCHSECONDS + 20))
    until curl -sf --unix-socket "$WORK/socket" -o /dev/null http://localhost/healthz; do
        [ "$EPOCHSECONDS" -lt "$end" ] || { tail -5 "$WORK/daemon.log" >&2; return 1; }
        read -r -t 0.05 <> <(:) || :
    done
}

remote_join() {
    local token end=$((EPOCHSECONDS + 20))
    token=$(curl -sS --unix-socket "$WORK/socket" -d '{"scope":"runner","runner":"bench","user":"default"}' \
        http://localhost/v1/tokens | jq -r .token)
    mkdir -p "$WORK/machine/work"
    CUBBY_TOKEN=$token "${RIGHT[@]}" "$BUILD/cubby" join --server wss://10.77.0.1:7443 --ca "$WORK/tls.pem" \
        --workspace "$WORK/machine/work" --state "$WORK/machine/state" \
        < /dev/null > "$WORK/join.log" 2>&1 & REMOTE_JOIN=$!
    BENCH_BOX=$(printf 'default:machine:bench' | sha256sum | cut -c1-16)
    until [ "$(curl -sS --unix-socket "$WORK/socket" "http://localhost/v1/boxes/$BENCH_BOX" | jq -r .state)" = ready \
        ]; do
        [ "$EPOCHSECONDS" -lt "$end" ] || { tail -5 "$WORK/join.log" "$WORK/daemon.log" >&2; return 1; }
        read -r -t 0.05 <> <(:) || :
    done
}

remote_end() {
    local pid
    for pid in ${REMOTE_JOIN-} ${REMOTE_DAEMON-} ${REMOTE_NGINX-} ${REMOTE_ECHO-}; do
        kill "$pid" 2> /dev/null # not INT, which a shell without job control has its children ignore
        wait "$pid" 2> /dev/null
    done
    kill "$CABLE_END" 2> /dev/null
    wait "$CABLE_END" 2> /dev/null
    REMOTE_JOIN='' REMOTE_DAEMON='' REMOTE_NGINX='' REMOTE_ECHO=''
    rm -rf "$WORK/state-remote" "$WORK/machine" "$WORK/www/put/large"
}

remote_parts() { # as part() in bench.sh, over each cable
    local kind
    remote_certificate
    head -c 209715200 /dev/zero | tr '\0' x > "$WORK/large"
    for kind in ${BENCH_CABLES:-veth 20}; do
        remote_cable "$kind"
        if remote_servers && remote_join; then
            export BENCH_SOCKET=$WORK/socket BENCH_SPACE=/proc/$CABLE_END/fd/101 BENCH_BOX \
                BENCH_DIRECTORY=$WORK/machine BENCH_DAEMON=$REMOTE_DAEMON \
                BENCH_CA=$WORK/tls.pem BENCH_LARGE=$WORK/large \
    BENCH_DELAY="$([ "$kind" = veth ] && echo 0 ms || echo "$kind ms each way")"
            PART=remote part remote "${LEFT[@]}"
            [ "$kind" != veth ] || PART=machines part machines "${LEFT[@]}"
            unset BENCH_SOCKET
        else failed=$((failed + 1)); fi
        remote_end
    done
}
