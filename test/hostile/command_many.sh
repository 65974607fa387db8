# Thousands of short commands: two thousand one after the other, through eight connections.
# wall: descriptors, leaves and memory are given back with each command; ended processes are reaped
# daemon: plain

# The box's PID 1 on the host: the runner that sees this box's mark.
run 'echo here > /workspace/.mark; echo made'
for RUNNER in $(pgrep -P "$DAEMON_PID" -f '^cubby-runner'); do
    [ "$(cat "/proc/$RUNNER/root/workspace/.mark" 2> /dev/null)" != here ] || break
done
fds() { find "/proc/$1/fd" -mindepth 1 | wc -l; }
rss() { awk '/^VmRSS/ { print $2 }' "/proc/$1/status"; }
leaves() { find "/sys/fs/cgroup/unified/cubby/$GROUP" "/sys/fs/cgroup/cubby/$GROUP" -mindepth 1 -type d 2> /dev/null |
    wc -l; }
GROUP=$(sed -n 's|^0::.*/cubby/\([0-9]*\).*|\1|p' "/proc/$RUNNER/cgroup")
commands() { # commands COUNT: by eight clients at a time
    local i
    for ((i = 0; i < 8; i++)); do
        for ((n = 0; n < $1 / 8; n++)); do
            printf 'unix-socket = "%s"\nurl = "http://localhost%s/exec"\ndata = "{\\"command\\":\\"echo $$; (sleep '\
'0.001 &)\\"}"\noutput = /dev/null\nwrite-out = "%%{http_code}\\n"\nnext\n' "$SOCKET" "$B"
        done | sed '$d' > "$WORK/many.$i"
        curl -sS -K "$WORK/many.$i" > "$WORK/codes.$i" 2>&1 &
        CLIENTS[i]=$!
    done
    wait "${CLIENTS[@]}"
    cat "$WORK"/codes.*
}

commands 400 > /dev/null # whatever is kept for later is there now
daemon_before=$(daemon_fds) runner_before=$(fds "$RUNNER") memory_before=$(rss "$RUNNER") \
    before=$(daemon_memory_kb VmRSS)
is 'two thousand commands are answered' "$(commands 2000 | sort | uniq -c | tr -s ' ')" ' 2000 200'
between 'the daemon has no more descriptors' $(($(daemon_fds) - daemon_before)) -100 8
between 'the runner has no more' $(($(fds "$RUNNER") - runner_before)) -100 8
between 'the runner no more memory (KiB)' $(($(rss "$RUNNER") - memory_before)) -10000 200
between 'the daemon no more (KiB)' $(($(daemon_memory_kb VmRSS) - before)) -100000 3000
between 'no more leaves than are kept' "$(leaves)" 0 24
none_left() { [ "$(ps -o pid= --ppid "$RUNNER" | wc -l)" = 0 ]; }
ok 'no process is left, dead or alive' eventually 5 none_left
api GET "$B"
between 'the box has one process' "$(j .usage.pids)" 1 1
