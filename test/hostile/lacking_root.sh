# A daemon of an ordinary user: no ids of its own for each box, no root inside, no limits unless a group was delegated.
# wall: what is missing is refused, or said; the namespaces hold all the same
. test/lib/lacking.sh

USER_ID=54321 USER_DIR=$(mktemp -d /tmp/cubby-user.XXXXXX)
chown "$USER_ID:$USER_ID" "$USER_DIR"
LACKING_AS=(setpriv "--reuid=$USER_ID" "--regid=$USER_ID" --clear-groups --inh-caps=-all env "HOME=$USER_DIR" \
    "XDG_RUNTIME_DIR=$USER_DIR")

# As lacking_start; WHAT may be `nothing`.
ordinary_start() { # ordinary_start WHAT [LINE...]
    local words=("$LACK" "$1" --)
    [ "$1" != nothing ] || words=()
    shift
    printf '%s\n' "$@" > "$USER_DIR/config.yaml"
    chmod 644 "$USER_DIR/config.yaml"
    LACKING_FROM=$(stat -c %s "$WORK/daemon.log")
    FIRST=("$DAEMON_PID" "$SOCKET" "$STATE" "$CONFIG" "$BOX")
    SOCKET=$USER_DIR/socket STATE=$USER_DIR/state CONFIG=$USER_DIR/config.yaml
    start_daemon "${words[@]}" "${LACKING_AS[@]}" "$BUILD/cubbyd"
    LACKING=$?
    lacking_log
    return "$LACKING"
}
ordinary_refuses() { # ordinary_refuses NAME WHAT REGEX [LINE...]
    if ordinary_start "$2" "${@:4}"; then fail "$1: the daemon does not start" "$LOG"; fi
    second_end
    is "$1: the daemon does not start" $? 125
    like "$1: and says why" "$(tail -1 <<< "$LOG")" "$3"
}

if ! "${LACKING_AS[@]}" "$BUILD/cubby-runner" --version > /dev/null 2>&1; then
    skip 'a daemon of an ordinary user' "who cannot run $BUILD/cubby-runner"
else
    ordinary_refuses 'limits that nobody delegated' cgroup \
        'no memory limits here .*systemd-run --user --scope -p Delegate=yes cubbyd; or run cubbyd as root; or accept '\
'it: cubbyd --allow-weaker limits'
    for what in userns:'user namespaces' overlay:overlayfs seccomp:seccomp landlock:Landlock proc:'own /proc'; do
        ordinary_refuses "without ${what%%:*}" "${what%%:*}" "jails do not work here: ${what#*:}: " \
            'allow_weaker: [limits]'
    done
    ordinary_start cgroup 'allow_weaker: [limits]' || fail 'it starts where that is allowed' "$LOG"
    like 'it says what it lacks: ids and root' "$LOG" \
        "this machine lacks: privileges: ordinary user: one id a box, no user 'root' inside"
    like 'it says what it lacks: limits' "$LOG" \
        'this machine lacks: memory limits: .*this machine lacks: process limits: '
    is 'and so does /v1/info' \
        "$(jail_info '[.weaker, ([.missing[].what] | contains(["privileges", "memory limits", "process limits", "open '\
'network"]))]')" \
        '[["limits"],true]'
    lacking_box 'a box'
    run "id -u; ls / | wc -l; cat /proc/1/environ; ls /home $USER_DIR; kill -0 $DAEMON_PID"
    like 'with one id, and nothing of the host' "$OUT" $'^1000\n'
    like 'the host is not seen' "$ERR" "$USER_DIR.*No such file.*(No such process|not permitted)"
    # The boxes have his uid, and the runner's file may be his: none is started from the file itself.
    runner=$(cut -d' ' -f1 "$STATE/boxes/$BOX/jail")
    like 'its runner is a copy in memory' "$(readlink "/proc/$runner/exe")" '^/memfd:cubby-runner'
    is 'the same as the file' "$(sha256sum < "/proc/$runner/exe")" "$(sha256sum < "$BUILD/cubby-runner")"
    is 'sealed for good: nobody writes, grows or shrinks it' \
        "$(python3 -c 'import fcntl, sys; print(fcntl.fcntl(open(sys.argv[1], "rb"), fcntl.F_GET_SEALS))' \
    "/proc/$runner/exe" 2>&1)" 15
    run 'for p in self 1 $$; do { printf x >> /proc/$p/exe; } 2> /dev/null; echo $?; done'
    unlike 'and no command of a box writes to it' "$OUT" '(^|\n)0(\n|$)'
    run 'true' '"user":"root"'
    is_error 'root is refused' 501 UNSUPPORTED 'needs cubby to run as root'
    for limit in '"memory_mb":64' '"pids":64' '"cpus":1'; do
        box_new "\"limits\":{$limit}"
        is_error "a limit is refused: $limit" 501 UNSUPPORTED 'needs the cgroup controller'
    done
    box_new '"user":"ann","agent":"app"'
    run 'mkdir /skills/one && echo 1 > /skills/one/SKILL.md'
    api POST "$B/skills/one/sync" '{"direction":"to_base"}'
    box_new '"user":"bob","agent":"app"'
    run 'cat /skills/one/SKILL.md; echo 2 > /workspace/skills/one/SKILL.md; cat /skills/one/SKILL.md'
    is "an agent's skills are mounted, the user's own above" "$OUT" $'1\n2'
    is 'and not changed' "$(cat "$STATE"/skills/layers/*/one/SKILL.md)" 1
    box_new '"network":"open"'
    is_error 'a network is refused' 501 UNSUPPORTED 'needs cubby to run as root'
    # Files of a box without processes are kept: moved, or copied where its memory must not end. Nothing freezes the
    # others.
    box_new
    run 'echo one > f'
    api POST "$B/snapshots" '{"name":"s"}'
    is 'a snapshot of an idle box' "$STATUS $(j .method)" '201 layer'
    run 'rm f; echo two > g'
    api POST "$B/rollback" '{"snapshot":"s"}'
    run 'cat f; ls'
    is 'and back to it' "$OUT" $'one\nf'
    api POST "$B/snapshots" '{"name":"same"}'
    is 'of one that wrote nothing since: the same layers' "$STATUS $(j .layers)" '201 1'
    api POST "$B/fork" '{}'
    is 'a fork' "$STATUS" 201
    kept=$BOX
    box_use "$(j .id)"
    run 'cat f; echo own > f; cat f'
    is 'has its files, and changes its own' "$OUT" $'one\nown'
    box_use "$kept"
    run 'cat f; echo memory > /dev/shm/m; echo three > f'
    is 'the other keeps them' "$OUT" one
    api POST "$B/snapshots" '{"name":"memory"}'
    is 'what lies in its memory stays: copied' "$STATUS $(j '[.method, .stopped] | tostring')" '201 ["copy",false]'
    run 'cat /dev/shm/m f'
    is 'and nothing was ended' "$OUT" $'memory\nthree'
    api POST "$B/processes" '{"command":"sleep 1000"}'
    pid=$(j .pid)
    api POST "$B/snapshots" '{"name":"busy"}'
    is_error 'a busy one is refused, and how to go on' 501 UNSUPPORTED \
        'while processes run in it: this daemon cannot freeze them .*cubby session rm .*Delegate=yes'
    api POST "$B/processes/$pid/signal" '{"signal":"SIGKILL"}'
    snapshot_now() { api POST "$B/snapshots" '{"name":"busy"}' && [ "$STATUS" = 201 ]; }
    ok 'when it is not, it is kept' eventually 20 snapshot_now
    lacking_end
    is 'cubby run works' "$("${LACKING_AS[@]}" "$BUILD/cubby" run -- id -u 2>&1)" 1000
    "${LACKING_AS[@]}" "$BUILD/cubby" run -m 64 -- true > "$WORK/out" 2>&1
    is 'cubby run refuses a limit' $? 125
fi
chmod -R u+rwX "$USER_DIR" 2> /dev/null
rm -rf "$USER_DIR"
