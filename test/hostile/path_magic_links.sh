# /proc's magic links: to a program, a root, mapped files; and the runner's own program (CVE-2019-5736).
# wall: what a link leads to is the box's own; the runner runs from a read-only mount that no box has, or a sealed copy
# Holds open whatever program runs that is not of /usr, and tries to write to it until long after its process has ended.
WRITER='import errno, os, time
print("waiting", flush=True)
def attempt(fd, flags):
    try:
        got = os.open(f"/proc/self/fd/{fd}", flags)
        os.write(got, b"x")
        return "WRITTEN"
    except OSError as error:
        return errno.errorcode[error.errno]
while True:
    for pid in os.listdir("/proc"):
        try:
            if not pid.isdigit() or os.readlink(f"/proc/{pid}/exe").startswith("/usr/"):
                continue
            fd = os.open(f"/proc/{pid}/exe", os.O_RDONLY)
        except OSError:
            continue
        if os.pread(fd, 1 << 24, 0).find(b"cubby-runner") >= 0:
            answers = set()
            for turn in range(50):
                answers |= {attempt(fd, flags) for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND)}
                time.sleep(0.01)
            os.umask(0)
            with open("/workspace/caught.new", "w") as file:
                file.write(" ".join(sorted(answers)))
            os.rename("/workspace/caught.new", "/workspace/caught")
        os.close(fd)'
run 'printf "#!/proc/self/exe\n" > evil; chmod 755 evil'
for user in agent root; do
    U="\"user\":\"$user\""
    run 'for p in /proc/[0-9]*; do ls -A $p/root/ 2> /dev/null; done | sort -u | tr "\n" " "; ls -A / | sort | '\
'tr "\n" " "' "$U"
    is "$user: /proc/N/root is the box's root" "$(wc -w <<< "$OUT")" \
        "$(($(tr ' ' '\n' <<< "$OUT" | sort -u | grep -c .) * 2))"
    # the runner's program, run by its link and as an interpreter, as that attack does
    api POST "$B/exec" "{\"argv\":[\"/proc/self/exe\",\"--version\"],$U}"
    like "$user: the runner's program can be run as any other" "$(j .stdout)" '^cubby-runner '
    put writer.py "$WRITER"
    run 'rm -f caught' "$U"
    api POST "$B/processes" "{\"command\":\"exec python3 writer.py\",$U}"
    pid=$(j .pid)
    api GET "$B/processes/$pid/output?stream=stdout&wait_ms=30000"
    is "$user: somebody waits for it" "$BODY" waiting
    caught() { # an interpreter that is the runner's program, started by the runner
        api POST "$B/exec" "{\"argv\":[\"/workspace/evil\"],$U}"
        api POST "$B/exec" "{\"argv\":[\"/proc/self/exe\",\"--ops\"],$U}"
        api GET "$B/stat?path=caught" && [ "$STATUS" = 200 ]
    }
    ok "$user: it is caught while it runs, and held open" eventually 30 caught
    api POST "$B/processes/$pid/signal" '{"signal":"TERM"}'
    get caught
    like "$user: and not written, while it runs or after" "$BODY" '^(EACCES|EROFS|ETXTBSY| )+$'
done
# from the host, as its root: even he cannot write to it through there
pid=$(awk '{ print $1 }' "$STATE/boxes/$BOX/jail")
like 'the record names the runner' "$(tr '\0' ' ' < "/proc/$pid/cmdline")" '^cubby-runner'
like 'nobody can write to the program it runs' "$( { : >> "/proc/$pid/exe"; } 2>&1)" \
    'Read-only file system|Text file busy'
like 'which lies on a read-only mount of its own' "$(chmod 755 "/proc/$pid/exe" 2>&1)" 'Read-only file system'
ok 'and the file is as it was built' cmp "/proc/$pid/exe" \
    "$(dirname "$(readlink "/proc/$DAEMON_PID/exe")")/cubby-runner"
