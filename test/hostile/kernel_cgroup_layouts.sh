# cgroup v2 as machines have it: a service, a container, a user's delegated group, and a user without one.
# wall: limits hold wherever the daemon was put, or it does not start
. test/lib/lacking.sh

TOP=/sys/fs/cgroup/cubby-layout.slice USER_ID=54321

group_new() { # group_new PATH [OWNER]: a group below TOP with every controller, given to OWNER as systemd delegates
    local path=$TOP part
    mkdir -p "$TOP"
    echo '+cpu +memory +pids' > "$TOP/cgroup.subtree_control"
    for part in ${1//\// }; do
        path=$path/$part
        mkdir -p "$path"
        [ "$path" = "$TOP/$1" ] || echo '+cpu +memory +pids' > "$path/cgroup.subtree_control"
    done
    [ -z "${2-}" ] || chown "$2:$2" "$path" "$path"/cgroup.{procs,threads,subtree_control}
    GROUP=$path
}
groups_gone() {
    local dir
    while read -r dir; do rmdir "$dir"; done < <(find "$TOP" -depth -type d)
    [ ! -d "$TOP" ]
}

in_group() { printf '%s\n' bash -c 'echo $$ > "$0/cgroup.procs" && exec "$@"' "$GROUP"; }

# Limits of every kind, on the daemon that runs now.
limits_hold() { # limits_hold NAME
    lacking_box "$1: a box with limits" '"limits":{"memory_mb":64,"pids":40,"cpus":0.5}'
    [[ $STATUS = 20[01] ]] || return
    run 'head -c 200m /dev/zero | tail > /dev/null; echo $?' '"timeout_ms":60000'
    is "$1: memory" "$(j .oom_killed)" true
    run 'exec sh -c "for i in $(seq -s " " 60); do sleep 60 & done"' '"timeout_ms":50000'
    like "$1: processes" "$ERR" 'Cannot fork'
    tag_new
    run "setsid sh -c '(sleep $TAG) & sleep $TAG' & echo left"
    if eventually 5 tag_gone; then pass "$1: a command's tree ends with it"; else fail \
        "$1: a command's tree ends with it"; fi
    is "$1: nothing is weaker" "$(jail_info .weaker)" '[]'
}

layout() { # layout NAME WORDS...: a daemon, started by these words
    local name=$1
    shift
    printf 'pool_size: 1\n' > "$WORK/layout.yaml"
    LACKING_FROM=$(stat -c %s "$WORK/daemon.log")
    if second_start "$WORK/layout.yaml" "$@" "$BUILD/cubbyd"; then
        limits_hold "$name"
        lacking_end
    else
        lacking_log
        fail "$name: the daemon starts" "$LOG"
        second_end
    fi
}

if [ "$(stat -f -c %T /sys/fs/cgroup)" != cgroup2fs ]; then
    skip 'layouts of cgroup v2' 'the controllers of this machine are on v1; make test-vm runs it'
else
    group_new system.slice/cubbyd.service
    mapfile -t words < <(in_group)
    layout 'a service' "${words[@]}"
    # As in a container: the namespace's root is no root, and holds the daemon itself.
    group_new docker/container
    mapfile -t words < <(in_group)
    layout 'a container' "${words[@]}" unshare --cgroup --mount \
        bash -c 'umount -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec "$@"' container

    USER_DIR=$(mktemp -d /tmp/cubby-user.XXXXXX)
    chown "$USER_ID:$USER_ID" "$USER_DIR"
    own() { # as in layout, by an ordinary user in GROUP; true when it answers
        printf 'pool_size: 1\n' > "$USER_DIR/config.yaml"
        LACKING_FROM=$(stat -c %s "$WORK/daemon.log")
        FIRST=("$DAEMON_PID" "$SOCKET" "$STATE" "$CONFIG" "$BOX")
        SOCKET=$USER_DIR/socket STATE=$USER_DIR/state CONFIG=$USER_DIR/config.yaml
        mapfile -t words < <(in_group)
        start_daemon "${words[@]}" setpriv "--reuid=$USER_ID" "--regid=$USER_ID" --clear-groups --inh-caps=-all \
            "$BUILD/cubbyd"
    }
    group_new "user.slice/user@$USER_ID.service/app.slice/run.scope" "$USER_ID"
    if own; then
        limits_hold 'a delegated group'
        lacking_end
    else
        lacking_log
        fail 'a delegated group: the daemon starts' "$LOG"
        second_end
    fi
    group_new user.slice/session.scope
    if own; then fail 'no delegation: the daemon does not start'; else pass \
        'no delegation: the daemon does not start'; fi
    lacking_log
    second_end
    like 'no delegation: the fix' "$(tail -1 <<< "$LOG")" \
        'no memory limits here.*systemd-run --user --scope -p Delegate=yes'
    rm -rf "$USER_DIR"
    if eventually 10 groups_gone; then pass 'no group is left'; else fail 'no group is left' "$(find "$TOP" -type d)"; \
        fi
fi
