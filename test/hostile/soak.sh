# Thousands of commands, and hundreds of boxes made and deleted (make soak: many more): nothing grows.
# wall: leaves, slots and threads are reused and counted; what ends is given back before the next begins
# daemon: plain
# config: log_level: warn
# config: max_boxes_per_user: 0
# config: box_rate_per_user: 0

EXECS=${SOAK_EXECS:-5000} BOXES=${SOAK_BOXES:-500}
LOAD=$BUILD/test/load

# What there is of each kind: the daemon's descriptors, threads, memory (KiB), children and zombies; the box's runner's
# descriptors and memory; cgroups, claims, mounts, loop devices, directories of boxes.
children() { ps -o stat= --ppid "$DAEMON_PID"; }
rss() { awk '/^VmRSS/ { print $2 }' "/proc/$1/status"; }
measure() {
    local runner
    runner=$(cut -d' ' -f1 "$STATE/boxes/$ATTACKED/jail")
    NAMES=(descriptors threads memory zombies runner_descriptors runner_memory runner_children leaves claims mounts \
        loops directories trash)
    VALUES=("$(daemon_fds)" "$(ls "/proc/$DAEMON_PID/task" | wc -l)" "$(rss "$DAEMON_PID")"
        "$(children | grep -c '^Z')" "$(ls "/proc/$runner/fd" | wc -l)" "$(rss "$runner")" "$(pgrep -cP "$runner")"
        "$(find /sys/fs/cgroup/{,*/}cubby/"$(cut -d' ' -f3 "$STATE/boxes/$ATTACKED/jail")" -mindepth 1 -type d \
            2> /dev/null | wc -l)"
        "$(grep -lsF " $STATE" /run/cubby/ids/[0-9]* | wc -l)" "$(grep -cF "$WORK" /proc/self/mountinfo)"
        "$(losetup --noheadings --list --output BACK-FILE 2> /dev/null | grep -cF "$WORK")"
        "$(find "$STATE/boxes" -mindepth 1 -maxdepth 1 | wc -l)" \
            "$(find "$STATE/trash" -mindepth 1 -maxdepth 1 | wc -l)")
}
# What is allowed beside the value before: a full pool is nine claims and directories, a memory allocator keeps
# something.
ALLOWED=(8 6 6000 0 4 1500 0 4 10 0 0 10 0)
as_before() {
    local i
    measure
    GROWN=
    for i in "${!NAMES[@]}"; do
        [ "${VALUES[i]}" -le $((BEFORE[i] + ALLOWED[i])) ] || GROWN+="${NAMES[i]}: ${BEFORE[i]} -> ${VALUES[i]}; "
    done
    [ -z "$GROWN" ]
}
slots() { find "$STATE/boxes" -maxdepth 1 -name '.slot-*' | wc -l; }
settled() { [ -z "$(ls -A "$STATE/trash")" ] && [ "$(slots)" -ge 8 ]; } # the pool is full again
soak() { # soak WHAT ARGUMENTS...
    local begin
    now_ms
    begin=$NOW
    OUT=$("$LOAD" "$SOCKET" "${@:2}" 2>&1)
    now_ms
    diag "$1: $((NOW - begin)) ms"
}
# A warm-up first: pools fill, arenas grow to what they need.
soak 'warm-up' exec "$ATTACKED" 500 2
soak 'warm-up' cycle 50 2
eventually 240 settled
measure
BEFORE=("${VALUES[@]}")
soak "$EXECS commands" exec "$ATTACKED" "$EXECS" 2
is "$EXECS commands are run" "$OUT" "done $EXECS"
if eventually 240 as_before; then pass 'nothing has grown'; else fail 'nothing has grown' "$GROWN"; fi
soak "$BOXES boxes" cycle "$BOXES" 2
is "$BOXES boxes are made, used and deleted" "$OUT" "done $BOXES"
if eventually 240 as_before; then pass 'nothing has grown again'; else fail 'nothing has grown again' \
    "$GROWN$(ps -o pid,stat,pgid,sid,etimes,args --ppid "$DAEMON_PID")
$(tail -20 "$WORK/daemon.log")"; fi
for i in "${!NAMES[@]}"; do diag "${NAMES[i]}: ${BEFORE[i]} before, ${VALUES[i]} after"; done
