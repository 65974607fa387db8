#!/bin/bash
# A container engine of the tests' own: dockerd with its own data root and socket, no bridge, no iptables, and images
# that are
# made on the spot of what this machine has. Sourced after lib.sh and daemon.sh by test/run/run.sh (BACKEND=docker) and
# test/docker/run.sh; test/lib/driver.sh ends what its jobs started.
# As a command: test/lib/docker.sh start DIR | launch DIR [OPTION...] (without images) | end DIR | images SOCKET
# ENGINE_KIND=podman: podman's service instead.
# TEST_ENGINE=DIR: one that many share; whoever comes first starts it, whoever made DIR ends it. Without: one for this
# run.
# Images: IMAGE_DEBIAN (Debian, its user is agent, 1000; also under the name that is cubbyd's default), IMAGE_BUSYBOX
# (root), IMAGE_BARE (one program, /tool, and no shell).

IMAGE_DEBIAN=cubby-test/debian:1 IMAGE_BUSYBOX=cubby-test/busybox:1 IMAGE_BARE=cubby-test/bare:1
ENGINE_DIR='' ENGINE_SOCKET='' ENGINE_WHY=''
ENGINE_PACKAGES='base-files bash coreutils curl dash debianutils diffutils findutils grep gzip hostname jq libc-bin '\
'login mawk ncurses-base
 netbase passwd perl-base procps python3 sed tar unzip util-linux zip'

# ---- the engine ----

container() { # container [ID]: the name of a box's container
    local home
    home=$(< "$STATE/docker-home") && echo "cubby-${home:0:8}-${1:-$BOX}"
}

engine() { # engine METHOD PATH [CURL OPTION...]: the answer's text; fails unless it is 2xx
    local method=$1 path=$2
    shift 2
    curl -sS --fail-with-body --globoff --max-time 60 --unix-socket "$ENGINE_SOCKET" -X "$method" "$@" \
        "http://engine$path"
}
# inspect FILTER: what the engine says of the box's container
inspect() { engine GET "/containers/$(container)/json" | jq -r "$1"; }
containers() { # the names of all that this state directory has made, sorted
    engine GET "/containers/json?all=1&filters=$(encode "{\"label\":[\"cubby.home=$(< "$STATE/docker-home")\"]}")" |
        jq -r '.[].Names[0][1:]' | sort
}
directories() { ls -A "$STATE/boxes" 2> /dev/null | grep -E '^[0-9a-f]{8,16}$' | sort; } # of boxes
engine_answers() { curl -sf --max-time 5 --unix-socket "${1:-$ENGINE_SOCKET}" http://engine/_ping > /dev/null; }

# A dockerd at DIR: ENGINE_DIR, ENGINE_SOCKET. Does nothing where one answers. Fails with ENGINE_WHY where none can run.
engine_launch() { # engine_launch DIR [OPTION...]
    ENGINE_DIR=$1 ENGINE_SOCKET=$1/sock ENGINE_WHY=
    shift
    ! engine_answers || return 0
    [ "$(id -u)" = 0 ] || { ENGINE_WHY='an engine of its own needs root'; return 1; }
    [ "${ENGINE_KIND:-docker}" = docker ] || { podman_launch; return; }
    command -v dockerd > /dev/null || { ENGINE_WHY='no dockerd on this machine (tools/setup test)'; return 1; }
    mkdir -p "$ENGINE_DIR"
    # One that was killed may have left a containerd, which holds what the next one needs.
    for ENGINE_PID in $(pgrep -f "^containerd --config $ENGINE_DIR/"); do
        kill -KILL "$ENGINE_PID" && eventually 10 test ! -d "/proc/$ENGINE_PID"
    done
    chmod 711 "$ENGINE_DIR" # whom its group lets use it must get there
    rm -f "$ENGINE_DIR/pid" "$ENGINE_SOCKET" "$ENGINE_DIR"/exec/containerd/*.{pid,sock,ttrpc}
    # A session of its own: it outlives the job that came first. None of this shell's files is its.
    (
        for fd in /proc/self/fd/*; do
            fd=${fd##*/}
            [ "$fd" -le 2 ] || eval "exec $fd>&-"
        done
        exec setsid dockerd --iptables=false --bridge=none --data-root "$ENGINE_DIR/data" \
            --exec-root "$ENGINE_DIR/exec" --pidfile "$ENGINE_DIR/pid" \
            -H "unix://$ENGINE_SOCKET" "$@" < /dev/null >> "$ENGINE_DIR/log" 2>&1
    ) &
    ENGINE_PID=$!
    disown "$ENGINE_PID"
    eventually 60 engine_ready && engine_answers && return 0
    ENGINE_WHY="dockerd does not run here: $(grep -E 'level=(fatal|error)|^failed' "$ENGINE_DIR/log" | tail -1 |
        cut -c1-300)"
    return 1
}
# Podman raises limits that this machine may not have raised; it has no journal either.
podman_launch() {
    command -v podman > /dev/null || { ENGINE_WHY='no podman on this machine (tools/setup test)'; return 1; }
    mkdir -p "$ENGINE_DIR"
    printf '%s\n' '[containers]' 'default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]' 'log_driver = "k8s-file"' \
        '[engine]' 'cgroup_manager = "cgroupfs"' 'events_logger = "file"' \
        "$(! command -v runc > /dev/null || echo 'runtime = "runc"')" > "$ENGINE_DIR/containers.conf"
    rm -f "$ENGINE_SOCKET"
    (
        for fd in /proc/self/fd/*; do
            fd=${fd##*/}
            [ "$fd" -le 2 ] || eval "exec $fd>&-"
        done
        CONTAINERS_CONF=$ENGINE_DIR/containers.conf exec setsid podman --root "$ENGINE_DIR/data" \
            --runroot "$ENGINE_DIR/run" --tmpdir "$ENGINE_DIR/tmp" \
            system service --time 0 "unix://$ENGINE_SOCKET" < /dev/null >> "$ENGINE_DIR/log" 2>&1
    ) &
    ENGINE_PID=$!
    disown "$ENGINE_PID"
    echo "$ENGINE_PID" > "$ENGINE_DIR/pid"
    eventually 60 engine_ready && engine_answers && return 0
    ENGINE_WHY="podman's service does not run here: $(tail -1 "$ENGINE_DIR/log" | cut -c1-300)"
    return 1
}
engine_ready() { engine_answers || [ ! -d "/proc/$ENGINE_PID" ]; }

# Its containers, itself, its containerd, its mounts and its files.
engine_end() { # engine_end [DIR]
    local pid id ENGINE_SOCKET=${1:-$ENGINE_DIR}/sock dir=${1:-$ENGINE_DIR}
    [ -n "$dir" ] && [ -d "$dir" ] || return 0
    if engine_answers; then
        for id in $(engine GET '/containers/json?all=1' | jq -r '.[].Id'); do engine DELETE \
            "/containers/$id?force=1&v=1" > /dev/null 2>&1; done
    fi
    pid=$(cat "$dir/pid" 2> /dev/null)
    [ -z "$pid" ] || ! grep -qzE '^(dockerd|podman)$' "/proc/$pid/cmdline" 2> /dev/null || {
        kill -TERM "$pid"
        eventually 15 test ! -d "/proc/$pid" || kill -KILL "$pid"
        eventually 5 test ! -d "/proc/$pid"
    }
    engine_end_rest "$dir"
}
engine_end_rest() { # engine_end_rest DIR: of a dockerd that is no more
    local pid at id
    for pid in $(pgrep -f "^(containerd|/usr/bin/containerd-shim).* (--config|-address) $1/"); do
        id=$(tr '\0' ' ' 2> /dev/null < "/proc/$pid/cmdline" | sed -n 's/.* -id \([0-9a-f]*\) .*/\1/p')
        kill -KILL "$pid" 2> /dev/null
        [ -z "$id" ] || for at in /sys/fs/cgroup/{,*/}docker/"$id"; do
            [ ! -e "$at/cgroup.procs" ] || { xargs -r kill -KILL < "$at/cgroup.procs"; eventually 5 rmdir "$at"; } \
                2> /dev/null
        done
    done
    for at in $(awk -v dir="$1/" 'index($5, dir) == 1 { print $5 }' /proc/self/mountinfo | sort -r); do umount \
        -l "$at" 2> /dev/null; done
    rm -rf "$1"
}

# The engine that TEST_ENGINE names, or one of this run's own. ENGINE_OWN: which is to be ended.
engine_start() {
    ENGINE_OWN=
    [ -n "${TEST_ENGINE-}" ] || { TEST_ENGINE=$(mktemp -d "${TMPDIR:-/tmp}/cubby-engine.XXXXXX") &&
        ENGINE_OWN=$TEST_ENGINE; }
    mkdir -p "$TEST_ENGINE"
    ENGINE_DIR=$TEST_ENGINE ENGINE_SOCKET=$TEST_ENGINE/sock
    local lock status
    exec {lock}> "$TEST_ENGINE/lock"
    flock "$lock"
    if [ -e "$TEST_ENGINE/why" ]; then ENGINE_WHY=$(< "$TEST_ENGINE/why") status=1; else
        { engine_launch "$TEST_ENGINE" && { [ -e "$TEST_ENGINE/images" ] || images_make; } &&
            : > "$TEST_ENGINE/images"; } {lock}>&-
        status=$?
        [ "$status" = 0 ] || echo "${ENGINE_WHY:=no images could be made}" > "$TEST_ENGINE/why"
    fi
    exec {lock}>&-
    export DOCKER_HOST=unix://$ENGINE_SOCKET
    return "$status"
}

# ---- images ----

image_import() { # image_import NAME:TAG [CHANGE...] < TAR: a change is a line of a Dockerfile
    local query="fromSrc=-&repo=$(encode "$1")"
    shift
    for change in "$@"; do query+="&changes=$(encode "$change")"; done
    engine POST "/images/create?$query" -T - -H 'Content-Type: application/x-tar' | grep -q '"status":"sha256:'
}

# The packages and all that they need, of those that are installed here.
package_closure() { # package_closure NAME...
    dpkg-query -W -f '${db:Status-Status}\t${Package}\t${Provides}\t${Pre-Depends}, ${Depends}\n' |
        awk -F '\t' -v want="$*" '
        function names(text, list,    i, n) { n = split(text, list, / *[,|] */); for (i = 1; i <= n; i++) sub(/[ '\
':(].*/, "", list[i]); return n }
        $1 == "installed" { needs[$2] = $4; gives[$2] = $2; n = names($3, list); for (i = 1; i <= n; i++) if '\
'(!(list[i] in gives)) gives[list[i]] = $2 }
        END {
            count = split(want, queue, / +/)
            for (at = 1; at <= count; at++) {
                if (!(queue[at] in gives) || done[gives[queue[at]]]++) continue
                print gives[queue[at]]
                n = names(needs[gives[queue[at]]], list)
                for (i = 1; i <= n; i++) queue[++count] = list[i]
            }
        }'
}
# Files of packages, as tar wants them: without documents, below /usr where they really are, and Python's compiled ones.
package_files() { # package_files PACKAGE...
    local package
    for package in "$@"; do cat "/var/lib/dpkg/info/$package.list" "/var/lib/dpkg/info/$package":*.list 2> /dev/null; \
        done |
        sed -E -e '\#^/usr/share/(doc|man|info|locale|lintian|bug|pixmaps|applications)/#d' \
        -e 's#^/(bin|sbin|lib|lib32|lib64|libx32)(/|$)#/usr/\1\2#' -e '\#^/\.?$#d' -e 's#^/##'
    (cd / && find usr/lib/python3.[0-9]* -maxdepth 2 -name '*.pyc' 2> /dev/null; find usr/lib/python3.[0-9]* \
        -maxdepth 2 -type d -name __pycache__; ls -d bin sbin lib lib32 lib64 libx32 etc/alternatives/awk usr/bin/awk \
    etc/ld.so.cache 2> /dev/null)
}

image_debian() {
    local root=$ENGINE_DIR/debian
    mkdir -p "$root"/{etc,root,home/agent,tmp,mnt,opt,srv,var/tmp}
    chmod 1777 "$root/tmp" "$root/var/tmp"
    chmod 700 "$root/root"
    chown 1000:1000 "$root/home/agent"
    printf '%s\n' 'root:x:0:0:root:/root:/bin/bash' 'nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin' \
        'agent:x:1000:1000::/home/agent:/bin/bash' > "$root/etc/passwd"
    printf '%s\n' 'root:x:0:' 'tty:x:5:' 'nogroup:x:65534:' 'agent:x:1000:' > "$root/etc/group"
    package_files $(package_closure $ENGINE_PACKAGES) | sort -u |
        (cd / && while IFS= read -r file; do [ ! -e "$file" ] && [ ! -L "$file" ] || printf '%s\n' "$file"; done) |
        grep -vxE 'etc|root|tmp|home|mnt|opt|srv|var/tmp|etc/(passwd|group)' > "$root.list"
    tar -cf - --no-recursion -C / -T "$root.list" -C "$root" etc etc/passwd etc/group root home home/agent tmp mnt opt \
        srv var/tmp |
        image_import "$IMAGE_DEBIAN" 'ENV PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin' 'ENV IMAGE=debian' \
        'USER agent' 'WORKDIR /home/agent' 'CMD ["bash"]' &&
        engine POST "/images/$IMAGE_DEBIAN/tag?repo=debian&tag=stable-slim"
}

image_busybox() {
    local root=$ENGINE_DIR/busybox name
    mkdir -p "$root"/{bin,etc,root,tmp}
    chmod 1777 "$root/tmp"
    cp "$(command -v busybox)" "$root/bin/busybox"
    for name in $("$root/bin/busybox" --list); do [ "$name" = busybox ] || ln -s busybox "$root/bin/$name"; done
    echo 'root:x:0:0:root:/root:/bin/sh' > "$root/etc/passwd"
    echo 'root:x:0:' > "$root/etc/group"
    tar -C "$root" --owner 0 --group 0 -cf - . | image_import "$IMAGE_BUSYBOX" 'ENV PATH=/bin' 'CMD ["sh"]'
}

image_bare() {
    mkdir -p "$ENGINE_DIR/bare"
    cp "$BUILD/test/tool" "$ENGINE_DIR/bare/tool"
    tar -C "$ENGINE_DIR/bare" --owner 0 --group 0 -cf - tool |
        image_import "$IMAGE_BARE" 'USER 65532:65532' 'ENTRYPOINT ["/tool"]'
}

images_make() {
    command -v busybox > /dev/null || { ENGINE_WHY='no busybox to make an image of (tools/setup test)'; return 1; }
    image_busybox && image_bare && image_debian || { ENGINE_WHY='no images could be made'; return 1; }
    rm -rf "$ENGINE_DIR"/{debian,busybox,bare} "$ENGINE_DIR/debian.list"
}

# ---- what is left ----

# Containers, volumes and images of the daemon on STATE.
engine_leftovers() {
    local home
    home=$(cat "$STATE/docker-home" 2> /dev/null) || return 0
    engine GET "/containers/json?all=1&filters=$(encode "{\"label\":[\"cubby.home=$home\"]}")" |
        jq -r '.[]|"container \(.Names[0]) \(.State)"'
    engine GET /images/json | jq -r '.[].RepoTags[]?' | grep -F "cubby-${home:0:8}" | sed 's/^/image /'
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    cd "$(dirname "$0")/../.." || exit 125
    BUILD=${BUILD:-build}
    . test/lib/lib.sh
    case ${1-} in
    start) TEST_ENGINE=$2 engine_start || { echo "$ENGINE_WHY" >&2; exit 1; } ;;
    launch) shift && engine_launch "$@" || { echo "$ENGINE_WHY" >&2; exit 1; } ;;
    end) engine_end "$2" ;;
    images) ENGINE_DIR=$(mktemp -d) ENGINE_SOCKET=$2 && images_make || exit 1; rm -rf "$ENGINE_DIR" ;;
    *) echo 'usage: test/lib/docker.sh start DIR | launch DIR [OPTION...] | end DIR | images SOCKET' >&2; exit 2 ;;
    esac
fi
