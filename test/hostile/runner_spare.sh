# A process of the box that waits for the child which the runner makes ahead for the next command, and does to it
# whatever a process can do to another.
# wall: the child has the runner's ids until it starts, and is not there while a command of root is
# backends: jail

# At each "go": looks for the child once, tries everything, reports.
cat > "$WORK/lurk.py" << 'END'
import ctypes, os, resource, signal, time
libc = ctypes.CDLL(None, use_errno=True)
def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
def attempt(touched, what, call):
    try:
        call()
        touched.append(what)
    except OSError:
        pass
while True:
    while not os.path.exists("go"):
        time.sleep(0.005)
    seen, touched = [], []
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]:
        status = read(f"/proc/{pid}/status")
        if not status.startswith("Name:\tcubby-runner\n") or "\nUid:\t0\t" not in status:
            continue
        seen.append(pid)
        attempt(touched, "memory", lambda: open(f"/proc/{pid}/mem", "rb").read(1))
        attempt(touched, "descriptors", lambda: os.listdir(f"/proc/{pid}/fd"))
        attempt(touched, "environment", lambda: open(f"/proc/{pid}/environ").read())
        attempt(touched, "limit", lambda: resource.prlimit(pid, resource.RLIMIT_NPROC, (1, 1)))
        attempt(touched, "rank", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
        attempt(touched, "processors", lambda: os.sched_setaffinity(pid, [0]))
        attempt(touched, "stop", lambda: os.kill(pid, signal.SIGSTOP))
        attempt(touched, "kill", lambda: os.kill(pid, signal.SIGKILL))
        if libc.ptrace(16, pid, 0, 0) == 0:
            touched.append("trace")
    os.unlink("go")
    with open("result.new", "w") as out:
        out.write(f"seen {len(seen)} touched {touched}")
    os.rename("result.new", "result")
END

commands() { # commands COUNT: how many of them did what they should
    local i good=0
    for ((i = 0; i < $1; i++)); do
        run 'echo fine; ulimit -u; nice'
        [ "$STATUS $OUT" != "$want" ] || good=$((good + 1))
    done
    echo "$good"
}
ended() { get result && [ "$STATUS" = 200 ]; }
struck() { # a child is there for a second after these commands
    commands 3 > /dev/null
    put go now
    eventually 20 ended || return 1
    printf %s "$BODY" > "$WORK/result"
    api DELETE "$B/files?path=result"
    [[ $(cat "$WORK/result") != 'seen 0 '* ]]
}

upload lurk.py "$WORK/lurk.py"
run 'echo fine; ulimit -u; nice'
want="$STATUS $OUT"
like 'a command as it should be' "$want" $'^200 fine\n'
api POST "$B/processes" '{"argv":["python3","/workspace/lurk.py"]}'
lurker=$(j .pid)
ok 'a process of the agent sees such a child' eventually 20 struck
is 'and can do nothing to it' "$(cat "$WORK/result")" 'seen 1 touched []'
is 'the next commands run as they should' "$(commands 20)" 20
api POST "$B/processes/$lurker/signal" '{"signal":"KILL"}'

commands 3 > /dev/null # one is there when root begins
api POST "$B/processes" '{"argv":["python3","/workspace/lurk.py"],"user":"root"}'
lurker=$(j .pid)
for i in 1 2 3; do struck; done
is 'a process of root sees none' "$(cat "$WORK/result")" 'seen 0 touched []'
is 'the next commands run as they should, too' "$(commands 20)" 20
api POST "$B/processes/$lurker/signal" '{"signal":"KILL"}'

# What a waiting child holds must not keep anything open.
commands 3 > /dev/null
run 'cat; echo end' '"stdin":"words "'
is 'input ends for a command that reads it' "$OUT" 'words end'
alone() { api GET "$B" && [ "$(j .usage.pids)" = 1 ]; }
ok 'a box that is left alone has one process' eventually 10 alone
