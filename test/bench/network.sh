# The bench of boxes with a network policy: a namespace D with the daemon, its gate and the peers, and a namespace W for
# the world, joined by veth. Sourced by bench.sh for its part `network`, which has WORK, BUILD, BENCH. In W: nginx (80,
# 443, 8080), an echo (7007, 443), a resolver. In D, as peers: nginx with its stream module and as a proxy that ends
# TLS, and dnsmasq; each is one process, as the gate and a seal are.

network_world() { # W_PID, D_PID
    unshare -n sleep 1000000 & W_PID=$!
    unshare -n sleep 1000000 & D_PID=$!
    W=(nsenter -t "$W_PID" -n) D=(nsenter -t "$D_PID" -n)
    local end=$((EPOCHSECONDS + 10)) own
    own=$(readlink /proc/self/ns/net)
    until [ "$(readlink "/proc/$W_PID/ns/net")" != "$own" ] && [ "$(readlink "/proc/$D_PID/ns/net")" != "$own" ]; do
        [ "$EPOCHSECONDS" -lt "$end" ] || return 1
    done
    "${W[@]}" sh -c 'ip link set lo up; for a in 10 13 53; do ip addr add 93.184.0.$a/32 dev lo; done' &&
        "${D[@]}" ip link add wan type veth peer name lan netns "$W_PID" &&
        "${D[@]}" sh -c 'ip link set lo up; ip addr add 9.9.9.1/24 dev wan; ip link set wan up
            sysctl -qw net.ipv4.ip_forward=1' &&
        "${W[@]}" sh -c 'ip addr add 9.9.9.2/24 dev lan; ip link set lan up' &&
        "${D[@]}" ip route add default via 9.9.9.2
}

network_nginx_head() { # network_nginx_head NAME
    printf '%s\n' 'load_module /usr/lib/nginx/modules/ngx_stream_module.so;' 'user root;' 'worker_processes 1;' \
        'daemon off;' "pid $WORK/nginx/$1.pid;" "error_log $WORK/nginx/$1.log;" \
        'events { worker_connections 16384; }'
}

network_nginx() {
    local places
    places="client_body_temp_path $WORK/nginx/b; proxy_temp_path $WORK/nginx/p; fastcgi_temp_path $WORK/nginx/f;
        uwsgi_temp_path $WORK/nginx/u; scgi_temp_path $WORK/nginx/s; access_log off; keepalive_requests 1000000000;"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=bench \
        -addext 'subjectAltName=DNS:web.test,DNS:api.test' -keyout "$WORK/tls.key" -out "$WORK/tls.pem" 2> /dev/null
    head -c 1024 /dev/zero | tr '\0' x > "$WORK/www/1k"
    truncate -s 256M "$WORK/www/large"
    { network_nginx_head world
        echo "http { $places sendfile on; ssl_certificate $WORK/tls.pem; ssl_certificate_key $WORK/tls.key;
            server { listen 93.184.0.10:80; listen 93.184.0.10:8080; listen 93.184.0.10:443 ssl; root $WORK/www; } }"
    } > "$WORK/nginx-world.conf"
    { network_nginx_head peer
        echo "stream {
            server { listen 127.0.0.1:7101; proxy_pass 93.184.0.13:7007; }
            server { listen 127.0.0.1:7102; ssl_preread on; proxy_pass 93.184.0.13:443; }
            server { listen 127.0.0.1:7103; proxy_pass 93.184.0.10:8080; } }
        http { $places ssl_certificate $WORK/tls.pem; ssl_certificate_key $WORK/tls.key; ssl_session_tickets off;
            upstream web { server 93.184.0.10:443; keepalive 64; keepalive_requests 1000000000; }
            upstream fresh { server 93.184.0.10:443; }
            proxy_http_version 1.1; proxy_ssl_server_name on; proxy_ssl_name api.test; proxy_ssl_verify on;
            proxy_ssl_trusted_certificate $WORK/tls.pem; proxy_ssl_session_reuse off; proxy_max_temp_file_size 0;
            server { listen 127.0.0.1:7104 ssl; location / { proxy_set_header Connection ''; proxy_pass https://web; } }
            server { listen 127.0.0.1:7105 ssl; location / { proxy_pass https://fresh; } } }"
    } > "$WORK/nginx-peer.conf"
    "${W[@]}" /usr/sbin/nginx -c "$WORK/nginx-world.conf" -p "$WORK/nginx" > "$WORK/nginx/out" 2>&1 & NETWORK_PIDS+=($!)
    "${D[@]}" /usr/sbin/nginx -c "$WORK/nginx-peer.conf" -p "$WORK/nginx" > "$WORK/nginx/out" 2>&1 & NETWORK_PIDS+=($!)
}

network_servers() {
    local end=$((EPOCHSECONDS + 20)) names="--host-record=web.test,93.184.0.10 --host-record=api.test,93.184.0.10"
    names="$names --host-record=echo.test,93.184.0.13 --local-ttl=300 --no-hosts --no-resolv --keep-in-foreground"
    # shellcheck disable=SC2086
    "${W[@]}" dnsmasq $names --conf-file=/dev/null --listen-address=93.184.0.53 --bind-interfaces --pid-file &
    NETWORK_PIDS+=($!)
    "${D[@]}" dnsmasq --no-hosts --no-resolv --keep-in-foreground --conf-file=/dev/null --listen-address=127.0.0.1 \
        --port=7106 --bind-interfaces --pid-file --server=93.184.0.53 & NETWORK_PIDS+=($!)
    "${W[@]}" "$BENCH" answer 7007 443 - - & NETWORK_PIDS+=($!)
    network_nginx
    cp "$BENCH" "$WORK/tree/bench"
    printf '%s\n' 'max_boxes_per_user: 0' 'end_boxes: true' 'networks: [none, open, policy]' \
        'gate_resolvers: ["93.184.0.53"]' "gate_ca_file: $WORK/tls.pem" 'mount_sources:' "  - $WORK/tree" \
        > "$WORK/network.yaml"
    PORT=$(free_port)
    "${D[@]}" "$BUILD/cubbyd" --listen "127.0.0.1:$PORT" --state "$WORK/state-network" --config "$WORK/network.yaml" \
        --log-level warn > "$WORK/daemon.log" 2>&1 < /dev/null & NETWORK_DAEMON=$!
    until "${D[@]}" curl -sf -o /dev/null "http://127.0.0.1:$PORT/healthz" &&
        "${D[@]}" curl -sfk -o /dev/null https://127.0.0.1:7104/1k &&
        "${D[@]}" curl -sf -o /dev/null http://127.0.0.1:7103/1k; do
        [ "$EPOCHSECONDS" -lt "$end" ] || { tail -5 "$WORK/daemon.log" "$WORK/nginx/"*.log >&2; return 1; }
        read -r -t 0.05 <> <(:) || :
    done
}

network_end() {
    local pid
    for pid in ${NETWORK_DAEMON-} "${NETWORK_PIDS[@]}" ${W_PID-} ${D_PID-}; do
        kill "$pid" 2> /dev/null
        wait "$pid" 2> /dev/null
    done
    NETWORK_PIDS=() NETWORK_DAEMON='' W_PID='' D_PID=''
}

network_part() {
    NETWORK_PIDS=() NETWORK_DAEMON=''
    if network_world && network_servers; then
        PART=network part network "${D[@]}"
    else
        failed=$((failed + 1))
    fi
    network_end
}
