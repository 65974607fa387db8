#!/bin/bash
# Packages and the service manager: readiness, watchdog, passed sockets; a Debian package in a fresh root, from its
# installation to the first box; images under docker. Files are the same for the same sources.
# files: on disk
# daemon: plain
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
. test/lib/docker.sh
DAEMON=$BUILD/asan/cubbyd
[ -x "$DAEMON" ] || DAEMON=$BUILD/cubbyd
printf 'pool_size: 0\n' > "$CONFIG"

# ---- the service manager ----

manage() { # manage LISTEN OPTION...: a daemon below a manager; MANAGER, its standard input
    rm -rf "$WORK/manager"
    mkdir "$WORK/manager"
    coproc MANAGER { exec python3 test/lib/manager.py "$WORK/manager" 600000 "$1" "$DAEMON" --state "$STATE" \
        --config "$CONFIG" "${@:2}" 2>> "$WORK/daemon.log"; }
    MANAGER_ID=$MANAGER_PID
}
reported() { grep -q "$1" "$WORK/manager/reports" 2> /dev/null; }
managed_stop() { kill -TERM "$(< "$WORK/manager/pid")"; }
managed_end() { # the status of the daemon
    local input=${MANAGER[1]}
    eval "exec $input>&-"
    wait "$MANAGER_ID"
}

manage - --listen "unix:$SOCKET"
ok 'it reports that it is ready' eventually 20 reported '^READY=1$'
ok 'when it answers' daemon_answers
ok 'it reports that it is alive' eventually 20 reported '^WATCHDOG=1$'
ok 'and how many boxes it has' eventually 20 reported '^STATUS=0 boxes$'
box=$(curl -s --unix-socket "$SOCKET" http://d/v1/boxes -d '{}' | sed -n 's/.*"id":"\([0-9a-f]*\)".*/\1/p')
answer=$(curl -s --unix-socket "$SOCKET" "http://d/v1/boxes/$box/exec" -d '{"command":"env"}')
unlike 'boxes see nothing of the manager' "$answer" 'NOTIFY_SOCKET|WATCHDOG|LISTEN_'
managed_stop
ok 'it reports that it stops' eventually 20 reported '^STOPPING=1$'
managed_end
is 'and ends in order' $? 0

passed=$WORK/passed.sock
manage "$passed" --listen "unix:$passed"
ok 'with a passed socket it is ready' eventually 20 reported '^READY=1$'
is 'and answers on it' "$(curl -s --unix-socket "$passed" http://d/healthz | cut -c1-14)" '{"status":"ok"'
managed_stop
eventually 20 test ! -d "/proc/$(< "$WORK/manager/pid")" ||
    eventually 20 grep -q Z "/proc/$(< "$WORK/manager/pid")/stat"
curl -s --max-time 30 --unix-socket "$passed" http://d/healthz > "$WORK/late" & late=$!
ok 'while it is away the socket stays' test -S "$passed"
echo >&"${MANAGER[1]}"
wait "$late"
is 'who came meanwhile is answered by the next one' "$?:$(cut -c1-14 "$WORK/late")" '0:{"status":"ok"'
managed_stop
managed_end
is 'which ends in order' $? 0

rm -f "$passed"
: > "$WORK/daemon.log"
manage "$passed" --listen "unix:$SOCKET"
eventually 20 grep -q '^cubbyd: ' "$WORK/daemon.log"
managed_end
like 'a socket at an address that listen does not name is refused' "$?:$(grep '^cubbyd: ' "$WORK/daemon.log")" \
    '^125:cubbyd: 1 of the 1 sockets .* not at an address of listen'

# ---- the Debian package ----

deb_root() { # a fresh root with the package's dependencies, from the image's
    mkdir "$WORK/root"
    tar -xf "$BUILD/package/root.tar" -C "$WORK/root" --exclude='./dev/*'
    cp "$DEB" "$WORK/root/cubby.deb"
}
inside() { # inside COMMAND: with a root of its own, not in a chroot, where boxes cannot be made
    unshare --mount --uts --propagation private sh -c '
        cd "$1" && mount --rbind . . && cd "$1" && mkdir -p proc sys dev tmp run old
        mount --rbind /proc proc && mount --rbind /sys sys && mount --rbind /dev dev && mount -t tmpfs run run
        mount -t tmpfs tmp tmp && pivot_root . old && cd / && umount -l old && exec sh -c "$2"' \
        sh "$WORK/root" "$1" 2>&1
}
packages() {
    local first
    DEB=$(tools/package deb "$BUILD" 0.1.0) || { fail 'a package' "$DEB"; return; }
    first=$(sha256sum < "$DEB")
    tools/package deb "$BUILD" 0.1.0 > /dev/null
    is 'a second one of the same sources is the same' "$(sha256sum < "$DEB")" "$first"
    if command -v lintian > /dev/null; then
        is 'lintian finds no error and no warning' "$(lintian --allow-root --fail-on error,warning "$DEB" 2>&1)" ''
    else
        skip 'lintian finds no error and no warning' 'no lintian on this machine'
    fi
    tools/package image "$BUILD" 0.1.0 > "$WORK/image" 2>&1 ||
        { skip 'the package in a fresh root' "no root could be made: $(tail -1 "$WORK/image")"; return; }
    deb_root
    like 'it installs where its dependencies are' "$(inside 'dpkg -i /cubby.deb')" 'Setting up cubby'
    like 'and gives a first box without another step' "$(inside 'cubby run -- id -un')" '^agent$'
    like 'its daemon starts' "$(inside '
        cubbyd --state /var/lib/cubby --listen 127.0.0.1:0 --pool-size 0 > /tmp/log 2>&1 &
        for i in $(seq 300); do grep -q "ready on" /tmp/log && break; read -t 0.1 _ < /dev/zero; done; cat /tmp/log
        kill $!; wait')" 'ready on 127.0.0.1'
    echo 'listen: 127.0.0.1:7171' > "$WORK/root/etc/cubby/cubby.yaml"
    like 'a changed configuration stays when it is installed again' \
        "$(inside 'dpkg --force-confold -i /cubby.deb > /dev/null 2>&1; cat /etc/cubby/cubby.yaml')" 7171
    like 'removing it keeps the boxes of the daemon' "$(inside 'dpkg -r cubby > /dev/null 2>&1; ls /var/lib/cubby')" \
        'boxes|templates|tokens'
    is 'purging it does not' \
        "$(inside 'dpkg -P cubby > /dev/null 2>&1; ls -d /var/lib/cubby /etc/cubby 2> /dev/null')" ''
}
if [ "$(id -u)" = 0 ] && command -v mmdebstrap > /dev/null; then
    packages
else
    skip 'packages' 'they need root and mmdebstrap (tools/setup test)'
fi

# ---- images ----

run_image() { # run_image NAME OPTION...: a container of the daemon
    docker -H "unix://$ENGINE_SOCKET" run -d --name "$1" --network none --cap-add SYS_ADMIN --cap-add NET_ADMIN \
        --cap-add SYS_PTRACE --security-opt seccomp=unconfined --security-opt apparmor=unconfined \
        --security-opt systempaths=unconfined --cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup:rw "${@:2}" \
        cubby:latest --pool-size 1 2>&1
}
image_logs() { docker -H "unix://$ENGINE_SOCKET" logs "$1" 2>&1; }
image_ready() { image_logs "$1" | grep -qE 'ready on|^cubbyd: '; }
image_case() {
    local token
    like 'docker loads the images' "$(docker -H "unix://$ENGINE_SOCKET" load -i "$BUILD/cubby-image-0.1.0-$(
        dpkg --print-architecture).tar" 2>&1 | tr '\n' ' ')" 'cubby:0.1.0.*cubby-worker:0.1.0.*cubby-runner:0.1.0'
    echo image-token-0123456789abcdef > "$WORK/token"
    chmod 644 "$WORK/token"
    run_image one -v cubby-one:/var/lib/cubby -v "$WORK/token:/token:ro" -e CUBBY_ADMIN_TOKEN_FILE=/token > "$WORK/err"
    eventually 60 image_ready one
    like 'the daemon of the image is ready' "$(image_logs one) $(< "$WORK/err")" 'ready on 0.0.0.0:7070'
    token=$(< "$WORK/token")
    like 'a box in it runs commands' "$(docker -H "unix://$ENGINE_SOCKET" exec -e CUBBY_TOKEN="$token" one sh -c \
        'cubby exec "$(cubby create --thread t)" -- id -un' 2>&1)" '^agent$'
    like 'without the token nothing is allowed' "$(docker -H "unix://$ENGINE_SOCKET" exec one cubby ps 2>&1)" token
    like 'cubby doctor in it says what is missing and how to get it' \
        "$(docker -H "unix://$ENGINE_SOCKET" exec -e CUBBY_TOKEN="$token" one cubby doctor 2>&1)" 'To fix:|all there'
    docker -H "unix://$ENGINE_SOCKET" exec -e CUBBY_TOKEN="$token" one sh -c 'cubby rm --all --yes || cubby rm --all' \
        > /dev/null 2>&1
    docker -H "unix://$ENGINE_SOCKET" rm -f -v one > /dev/null 2>&1
    docker -H "unix://$ENGINE_SOCKET" volume rm cubby-one > /dev/null 2>&1
}
if [ ! -e "$BUILD/cubby-image-0.1.0-$(dpkg --print-architecture 2> /dev/null).tar" ]; then
    skip 'images under docker' 'no image could be made'
elif engine_launch "${TEST_ENGINE:-$WORK/engine}"; then
    image_case
    [ -n "${TEST_ENGINE-}" ] || engine_end
else
    skip 'images under docker' "$ENGINE_WHY"
fi
finish
