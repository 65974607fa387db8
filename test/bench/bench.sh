#!/bin/bash
# Measures the figures, each beside its peer in the same run, and prints one table. usage: bench.sh BUILD [PART]
# Parts: exec acquire pool create run cycle throughput get4k large audit search idle quota store bombs adopt delete
# burst ports mcp recall edits snapshot skills deerflow e2b clients fleet network remote docker; and peers, only when
# named; quick: the ten that matter most, in three minutes. Everything lives below BENCH_DIR (default: a fresh directory
# below /var/tmp), so that ours and the peers use the same file system.
# Exit status 0 when every part ran; a missed bar is marked NO in the table (NO*: README.md has its profile), and
# counted in the last line.
set -u
exec < /dev/null # nothing here may read from, or be stopped by, the terminal it was begun on
BUILD=$(realpath "$1") PART=${2-}
cd "$(dirname "$0")/../.." || exit 1
WORK=$(mktemp -d "${BENCH_DIR:-/var/tmp}/cubby-bench.XXXXXX")
BENCH=$BUILD/bench/bench
PARTS='exec acquire pool create run cycle throughput get4k large audit search idle quota store bombs adopt delete '\
'burst ports mcp recall edits snapshot skills deerflow e2b clients fleet network remote docker peers'
QUICK='exec create cycle get4k quota bombs delete ports snapshot throughput'
PART_SECONDS=300 # then a part has failed: every run ends
DAEMON_PID='' NGINX_PID='' PART_PID='' failed=0 missed=0
ulimit -n 65536 2> /dev/null || ulimit -n "$(ulimit -Hn)"

stop() {
    [ -z "$PART_PID" ] || { kill "$PART_PID" 2> /dev/null; wait "$PART_PID" 2> /dev/null; }
    [ -z "$DAEMON_PID" ] || { kill "$DAEMON_PID" 2> /dev/null; wait "$DAEMON_PID" 2> /dev/null; }
    [ -z "$NGINX_PID" ] || { kill "$NGINX_PID" 2> /dev/null; wait "$NGINX_PID" 2> /dev/null; }
    [ -z "${D_PID-}" ] || network_end
    [ ! -d "$WORK/engine" ] || BUILD=$BUILD test/lib/docker.sh end "$WORK/engine" > /dev/null 2>&1
    ! mountpoint -q "$WORK/podman/data/overlay" || umount "$WORK/podman/data/overlay"
    rm -rf "$WORK"
}
trap stop EXIT
trap 'exit 143' TERM INT

answers() { curl -sf --max-time 2 -o /dev/null "http://127.0.0.1:$1$2"; }
wait_for() { # wait_for PORT PATH
    local end=$((EPOCHSECONDS + 20))
    until answers "$1" "$2"; do
        [ "$EPOCHSECONDS" -lt "$end" ] || return 1
        read -r -t 0.05 <> <(:) || :
    done
}
free_port() {
    local port
    while :; do
        port=$((20000 + SRANDOM % 12000))
        (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null || { echo "$port" && return; }
    done
}

start_daemon() { # start_daemon [COMMAND PREFIX...]
    PORT=$(free_port)
    printf '%s\n' 'max_boxes_per_user: 0' 'end_boxes: true' 'e2b_domain: sbx.localhost' > "$WORK/config.yaml"
    # A daemon that hands out files of the host does not take just any key.
    [ -n "${ANY_KEY-}" ] || printf '%s\n' 'mount_sources:' "  - $WORK/tree" "deerflow_home: $WORK/deer-flow" \
        >> "$WORK/config.yaml"
    # Without a line a request, as nginx here.
    "$@" "$BUILD/cubbyd" --listen "127.0.0.1:$PORT" --state "$WORK/state${WITHOUT_AUDIT:+-without}${STORE:+-store}" \
        --config "$WORK/config.yaml" --log-level warn \
        ${WITHOUT_AUDIT:+--audit=false} ${STORE:+--store="$STORE"} > "$WORK/daemon.log" 2>&1 < /dev/null &
    DAEMON_PID=$!
    wait_for "$PORT" /healthz || { tail -20 "$WORK/daemon.log" >&2; echo 'bench: the daemon does not answer' >&2; exit \
        1; }
}
stop_daemon() {
    kill "$DAEMON_PID"
    wait "$DAEMON_PID"
    DAEMON_PID=
}

# One worker on one core, as the daemon gets for the rows that are compared with it.
start_nginx() {
    NGINX_PORT=$(free_port)
    mkdir -p "$WORK/www/put" "$WORK/nginx"
    head -c 4096 /dev/zero | tr '\0' x > "$WORK/www/small"
    chmod 755 "$WORK"
    cat > "$WORK/nginx.conf" << END
user root;
worker_processes 1;
daemon off;
pid $WORK/nginx/pid;
error_log $WORK/nginx/error.log;
events { worker_connections 1024; }
http {
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    client_max_body_size 0;
    client_body_temp_path $WORK/nginx/body;
    proxy_temp_path $WORK/nginx/p;
    fastcgi_temp_path $WORK/nginx/f;
    uwsgi_temp_path $WORK/nginx/u;
    scgi_temp_path $WORK/nginx/s;
    server {
        listen 127.0.0.1:$NGINX_PORT;
        root $WORK/www;
        location /put/ { dav_methods PUT; }
    }
}
END
    "${PIN[@]}" /usr/sbin/nginx -c "$WORK/nginx.conf" -p "$WORK/nginx" < /dev/null > "$WORK/nginx/out" 2>&1 &
    NGINX_PID=$!
    wait_for "$NGINX_PORT" /small || { cat "$WORK/nginx/out" "$WORK/nginx/error.log" >&2; exit 1; }
}

wanted() { # wanted NAME...: is one of these parts to be run?
    local name
    [ -n "$PART" ] || return 0
    for name; do [[ " $PART " = *" $name "* ]] && return 0; done
    return 1
}

part() { # part NAME [COMMAND PREFIX of the bench itself...]
    local name=$1 status
    shift
    wanted "$name" || return 0
    timeout -k 5 "$PART_SECONDS" "$@" "$BENCH" "$name" "$PORT" "$NGINX_PORT" "$BUILD/cubby" "$WORK/tree" & PART_PID=$!
    wait "$PART_PID" # not in the foreground: whoever ends this script ends the part at once
    status=$?
    PART_PID=
    case $status in
        0) ;;
        3) missed=$((missed + 1)) ;;
        *) failed=$((failed + 1)) && printf '| %-44s | failed\n' "$name" && tail -3 "$WORK/daemon.log" >&2 ;;
    esac
}

[ "$PART" != quick ] || { PART=$QUICK && export BENCH_QUICK=1; }
for name in $PART; do
    [[ " $PARTS " = *" $name "* ]] || { echo "bench: no part '$name'; there are: quick $PARTS" >&2; exit 2; }
done
[ "$(nproc)" -gt 1 ] && PIN=(taskset -c 1) CLIENT=(taskset -c 0) || PIN=() CLIENT=()
mkdir -p "$WORK/tree" "$WORK/deer-flow"
start_nginx
printf '| %-44s | %12s | %-38s | %5s | %-11s | %-7s | %-3s |\n' figure ours 'peer or floor, same run' ratio spread \
    bar met
printf '|%s|\n' '----------------------------------------------|--------------|'\
'----------------------------------------|-------|-------------|---------|-----'
start_daemon
for name in exec acquire pool create run cycle throughput search; do part "$name"; done
if wanted get4k large; then
    stop_daemon
    start_daemon "${PIN[@]}" # servers on core 1, clients on core 0, one after the other
    part get4k
    part large "${CLIENT[@]}"
    stop_daemon
    start_daemon
fi
if wanted audit; then
    with=("$PORT" "$DAEMON_PID" "$NGINX_PORT")
    WITHOUT_AUDIT=1 start_daemon # a second one, in nginx's place
    NGINX_PORT=$PORT PORT=${with[0]}
    part audit
    stop_daemon
    DAEMON_PID=${with[1]} NGINX_PORT=${with[2]}
fi
part idle
part quota
if wanted quota store && [ -z "${BENCH_QUICK-}" ]; then
    stop_daemon
    STORE=btrfs start_daemon
    PART='' part store
    stop_daemon
    start_daemon
fi
part bombs
part adopt
part delete
part burst
part mcp
part recall
part edits
part snapshot
part skills
part deerflow
[ "$PART" != e2b ] || tools/setup npm
if [ -d test/clients/node_modules/e2b ] && [ -z "$PART" ] || [ "$PART" = e2b ]; then
    stop_daemon
    ANY_KEY=1 start_daemon
    BENCH=test/bench/bench_e2b.mjs part e2b
    stop_daemon
    start_daemon
fi
part ports
BENCH=test/bench/bench_clients.py part clients
BENCH=test/bench/bench_fleet.py part fleet
stop_daemon
if wanted network; then
    . test/bench/network.sh
    network_part
fi
if wanted remote; then
    . test/bench/remote.sh
    remote_parts
fi
if wanted docker; then
    . test/bench/docker.sh
    docker_part
fi
if [ "$PART" = peers ]; then
    tools/setup peers
    start_daemon
    engine=
    BUILD=$BUILD test/lib/docker.sh launch "$WORK/engine" --add-runtime crun=/usr/bin/crun \
        --add-runtime runsc=/usr/bin/runsc > "$WORK/engine.log" 2>&1 && engine=unix://$WORK/engine/sock
    DOCKER_HOST=$engine BENCH_PORT=$PORT python3 test/bench/peers.py "$BUILD" "$WORK" docs || failed=$((failed + 1))
    stop_daemon
fi
[ "$missed" = 0 ] || echo 'NO*: test/bench/README.md says where its time goes'
printf '%d parts with a missed bar, %d failed, %d seconds\n' "$missed" "$failed" "$SECONDS"
[ "$failed" = 0 ]
