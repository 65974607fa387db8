# The runner's control socket: looked for by descriptors, by /proc/net/unix, by its name; and its wire written to.
# wall: no command has the descriptor; the socket is of the host's network namespace and lies in a directory no box has
for user in agent root; do
    U="\"user\":\"$user\""
    run 'python3 - << "END"
import os, socket, glob
found = []
for path in glob.glob("/proc/[0-9]*/fd/*"):
    try:
        if os.readlink(path).startswith("socket:"): found.append(path)
    except OSError: pass
for name in ("sock", "/sock", "/run/sock", "/workspace/sock", "/../sock", "/proc/1/cwd/sock", "/proc/1/root/sock"):
    try:
        s = socket.socket(socket.AF_UNIX); s.connect(name); found.append(name)
    except OSError: pass
print(found)
print([line.split()[-1] for line in open("/proc/net/unix").read().splitlines()[1:] if '\
'line.split()[-1].startswith(("/", "@"))])
END' "$U"
    is "$user: not found" "$OUT" $'[]\n[]'
    run 'python3 -c "
import os
for fd in range(3, 256):
    try: os.write(fd, b\"\\0\\0\\0\\1\\0\"); print(fd)
    except OSError: pass"' "$U"
    is "$user: no descriptor beyond 2" "$OUT" ''
done
ok 'it is there, for us' test -S "$STATE/boxes/$BOX/sock"
