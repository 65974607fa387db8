# A machine without cgroups, with cgroups that cannot be written, or without one controller: nothing holds limits.
# wall: no daemon whose boxes would lack their default limits, unless asked for; a limit that is asked for is an error
. test/lib/lacking.sh

FIX='or accept it: cubbyd --allow-weaker limits'
lacking_refuses 'without cgroups' cgroup \
    "no memory limits here \(controller memory: not usable\)\. Either: mount -t cgroup2 none /sys/fs/cgroup; $FIX"
lacking_refuses 'with cgroups read-only' cgroup-write "no memory limits here.*docker run --privileged.*$FIX"
lacking_refuses 'a limit that the configuration names' cgroup 'take the limit out' 'allow_weaker: [limits]' \
    'memory_mb: 100'
lacking_doctor cgroup 'memory limits' false 'mount -t cgroup2'
lacking_doctor cgroup 'process limits' false 'mount -t cgroup2'
lacking_doctor cgroup 'cpu limits' false 'mount -t cgroup2'
lacking_doctor cgroup 'cgroup v2' false 'mount -t cgroup2'
lacking_doctor cgroup cgroup.kill false 'mount -t cgroup2'

for what in cgroup cgroup-write; do
    lacking_start "$what" 'allow_weaker: [limits]' || fail "$what: a daemon that may do without limits starts" "$LOG"
    like "$what: and says so in its log" "$LOG" \
        'this machine lacks: memory limits: .*this machine lacks: process limits: '
    is "$what: and in /v1/info" "$(jail_info '[.available, .weaker]')" '[true,["limits"]]'
    box_new '"limits":{"memory_mb":64}'
    is_error "$what: a memory limit is refused" 501 UNSUPPORTED "memory limit needs the cgroup controller 'memory'"
    box_new '"limits":{"pids":64}'
    is_error "$what: a limit of processes is refused" 501 UNSUPPORTED "pids limit needs the cgroup controller 'pids'"
    box_new '"limits":{"cpus":1}'
    is_error "$what: a limit of processors is refused" 501 UNSUPPORTED "cpu limit needs the cgroup controller 'cpu'"
    lacking_box "$what: a box without limits works"
    # Without a cgroup a keeper ends the command's tree.
    tag_new
    run "setsid sh -c '(sleep $TAG) & sleep $TAG' & echo left"
    is "$what: a command ends" "$OUT" left
    if eventually 5 tag_gone; then pass "$what: and what it left behind, too"; else fail \
        "$what: and what it left behind, too"; fi
    lacking_end
done

if [ -d /sys/fs/cgroup/memory ]; then
    lacking_refuses 'without the memory controller' memory "no memory limits here.*mount -t cgroup -o memory none.*$FIX"
    lacking_refuses 'without the pids controller' pids "no process limits here.*mount -t cgroup -o pids none.*$FIX"
    lacking_start pids 'allow_weaker: [limits]' || fail 'without pids, allowed' "$LOG"
    is 'without pids: only that is weaker' \
        "$(jail_info '[.weaker, (.can | contains(["limits.memory_mb"])), (.can | contains(["limits.pids"]))]')" \
        '[["limits"],true,false]'
    lacking_box 'without pids: a memory limit holds' '"limits":{"memory_mb":64}'
    run 'head -c 200m /dev/zero | tail' ''
    is 'without pids: a memory limit holds: killed' "$(j .oom_killed)" true
    box_new '"limits":{"pids":64}'
    is_error 'without pids: asked for, refused' 501 UNSUPPORTED "pids limit needs"
    lacking_end
    lacking_start cpu || fail 'without cpu, which no box has by default' "$LOG"
    box_new '"limits":{"cpus":1}'
    is_error 'without cpu: asked for, refused' 501 UNSUPPORTED "cpu limit needs the cgroup controller 'cpu'"
    lacking_end
    # The limits of v1 hold without v2; a keeper ends the trees of commands.
    lacking_start cgroup2 || fail 'without v2 the daemon starts' "$LOG"
    like 'without v2: said in its log' "$LOG" 'this machine lacks: cgroup v2: cgroup v2 is not mounted; '
    lacking_box 'without v2: a box with limits' '"limits":{"pids":40}'
    tag_new
    run "setsid sh -c '(sleep $TAG) & sleep $TAG' & echo left" '"timeout_ms":5000'
    is 'without v2: a command ends' "$OUT" left
    if eventually 5 tag_gone; then pass 'without v2: and its tree'; else fail 'without v2: and its tree'; fi
    run 'for i in $(seq 60); do sleep 5 & done; wait' '"timeout_ms":2000'
    like 'without v2: the limit of processes holds' "$ERR" 'fork'
    if [ -d /sys/fs/cgroup/freezer ]; then # there a killed process ends only when it is let go
        tag_new
        api POST "$B/processes" "{\"command\":\"sleep $TAG & while :; do :; done\"}"
        api POST "$B/pause"
        is 'without v2: paused by the freezer of v1' "$STATUS $(j .state)" '200 paused'
        number=$(cut -d ' ' -f 9 "$STATE/boxes/$BOX/jail")
        is 'without v2: the kernel says so' "$(< "/sys/fs/cgroup/freezer/cubby/$number/freezer.state")" FROZEN
        api POST "$B/resume"
        run 'echo on'
        is 'without v2: resumed' "$OUT" on
        api POST "$B/pause"
        now_ms
        start=$NOW
        api DELETE "$B"
        now_ms
        is 'without v2: deleted while it is paused' "$STATUS" 204
        between 'without v2: at once' $((NOW - start)) 0 20000
        if eventually 5 tag_gone; then pass 'without v2: with all it ran'; else fail 'without v2: with all it ran'; fi
        no_freezer() { [ ! -d "/sys/fs/cgroup/freezer/cubby/$number" ]; }
        if eventually 5 no_freezer; then pass 'without v2: no group is left'; else fail \
            'without v2: no group is left'; fi
    fi
    lacking_end
fi
