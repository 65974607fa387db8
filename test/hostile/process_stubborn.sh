# Commands that do not want to end: SIGTERM trapped, all signals ignored, stuck in the kernel.
# wall: SIGTERM, a grace of two seconds, then cgroup.kill; waiting for the dead is bounded

tag_new
now_ms
start=$NOW
run "trap 'echo not yet' TERM; echo armed; while :; do sleep 0.1; done" '"timeout_ms":500'
now_ms
is 'SIGTERM trapped: killed after the grace, with its output' "$(j -c '[.timed_out,.signal,.stuck]') $OUT" \
    '[true,"SIGKILL",false] armed'$'\nnot yet'
between 'in time' $((NOW - start)) 2500 20000
# a parent that waits for its vfork child is in state D, which SIGTERM does not end
attack_put vfork
api POST "$B/processes" '{"command":"/tmp/attack_vfork 1000"}'
asleep() { run 'grep -l "^State:.D" /proc/[0-9]*/status' && [ -n "$OUT" ]; }
ok 'a process in state D' eventually 5 asleep
run 'echo fine'
is 'does not keep the next command' "$OUT" fine
run '/tmp/attack_vfork 1000' '"timeout_ms":300'
is 'and is ended as any' "$(j -c '[.timed_out,.stuck]')" '[true,false]'

# one that not even SIGKILL ends: frozen from outside, by the freezer of cgroup v1
freezer=/sys/fs/cgroup/freezer
if [ -w "$freezer/cgroup.procs" ] && mkdir "$freezer/cubby-test-$$"; then
    frozen=$freezer/cubby-test-$$
    tag_new
    json_string "echo before; exec sleep $TAG"
    curl -s --max-time 60 --unix-socket "$SOCKET" -d "{\"command\":$JSON_STRING,\"timeout_ms\":1500}" \
        "http://localhost$B/exec" > "$WORK/stuck" &
    client=$!
    ok 'a command runs' eventually 10 tag_alive
    grep -slzx "$TAG" /proc/[0-9]*/cmdline | cut -d/ -f3 | head -1 > "$frozen/cgroup.procs"
    echo FROZEN > "$frozen/freezer.state"
    run 'echo fine'
    is 'the next command does not wait for it' "$OUT" fine
    wait "$client"
    is 'it is answered all the same, and reported' "$(jq -c '[.timed_out,.stuck,.stdout]' < "$WORK/stuck")" \
        '[true,true,"before\n"]'
    ok 'though it is still there' tag_alive
    run 'echo fine'
    is 'the box goes on' "$OUT" fine
    neighbour_check 'meanwhile'
    echo THAWED > "$frozen/freezer.state"
    ok 'thawed, it is gone' eventually 5 tag_gone
    eventually 5 rmdir "$frozen"
else skip 'a process that not even SIGKILL ends' 'no freezer of cgroup v1 here'; fi
