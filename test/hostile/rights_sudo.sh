# `sudo`: a box whose client did not allow it has none; in an E2B sandbox it leads to the box's root and no further,
# whatever is sent to the runner's socket.
# wall: the runner starts a command of root as it does for a client; the caller's own rights never change

sudo_attack='
import array, os, socket, struct, sys
def connect():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(10)
    s.connect("\0cubby-sudo")
    return s
def ask(data, fds=(0, 1, 2)):
    s = connect()
    try:
        s.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])
        return s.recv(1000).decode()[:60]
    except OSError as e:
        return "-" + os.strerror(e.errno or 0)
'
sudo_try() { # sudo_try PYTHON: in the current box, as agent
    upload /tmp/try.py <(printf '%s\n%s\n' "$sudo_attack" "$1")
    run '/usr/bin/python3 /tmp/try.py 2>&1'
}

sudo_try 'try: connect(); print("open")
except OSError as e: print(e.strerror)'
is 'in an ordinary box nobody listens' "$OUT" 'Connection refused'
upload /tmp/sudo "$BUILD/cubby-runner" '&mode=0755'
run '/tmp/sudo id 2>&1'
is 'and the program gives nothing' "$CODE $OUT" '1 sudo: commands of this box cannot become root'

# ---- a sandbox, with its first command by its own dialect: from then on sudo is there ----
attacked=$BOX
api POST /v2/sandboxes '{"templateID":"base","timeout":600}'
token=$(j .envdAccessToken) BOX=$(j .sandboxID)
start='{"process":{"cmd":"/bin/bash","args":["-l","-c","sudo id -u"]},"stdin":false}'
printf '\0\0\0\0%b%s' "$(printf '\\x%02x' ${#start})" "$start" > "$WORK/start"
curl -s --max-time 60 --unix-socket "$SOCKET" --data-binary @"$WORK/start" -H "E2b-Sandbox-Id: $BOX" \
    -H 'E2b-Sandbox-Port: 49983' -H "X-Access-Token: $token" -H 'Content-Type: application/connect+json' \
    http://localhost/process.Process/Start | tr -d '\0' > "$WORK/started"
like 'a command of a sandbox may become root' "$(< "$WORK/started")" '"stdout":"MAo="'
box_use "$BOX"

run 'sudo grep -E "^(Cap|NoNewPrivs|Seccomp:)" /proc/self/status | tr -d "\t" | tr "\n" " "'
is 'with the rights that root has for clients' "$OUT" \
    'CapInh:00000000000004fb CapPrm:00000000000004fb CapEff:00000000000004fb CapBnd:0000000000000000 '\
'CapAmb:0000000000000000 NoNewPrivs:1 Seccomp:2 '
run 'grep -E "^(CapEff|CapBnd|NoNewPrivs)" /proc/self/status | tr -d "\t" | tr "\n" " "'
is 'the caller has none' "$OUT" 'CapEff:0000000000000000 CapBnd:0000000000000000 NoNewPrivs:1 '
run 'sudo cat /proc/self/uid_map | tr -s " "'
unlike "root is the box's" "$OUT" '^ 0 0 '
run 'sudo kill -9 1; sudo kill -STOP 1; sudo sh -c "exec 3</proc/1/mem" 2>&1 | head -1; echo on'
like 'the runner is out of reach' "$OUT" 'on$'
run 'sudo mount -t tmpfs none /mnt 2>&1; sudo mknod /tmp/disk b 8 0 2>&1; sudo unshare -m true 2>&1; '\
'sudo chroot / true 2>&1; '\
'sudo sh -c "echo 1 > /proc/sys/kernel/panic" 2>&1; true'
unlike 'no mounts, devices, namespaces, kernel settings' "$OUT" '^$'
run 'findmnt -n /mnt; ls /tmp/disk 2>/dev/null; true'
is 'nothing of it happened' "$OUT" ''

# ---- what is sent to the socket ----
sudo_try '
ok = b"/\x001\0true\0A=b\0"
print(ask(ok))
print(ask(ok, ()))
print(ask(ok, (0, 1)))
print(ask(ok, (0,) * 40))
print(ask(b"x"))
print(ask(b"/\x001\0true"))
print(ask(b"/\x0099999999999999999999\0true\0"))
print(ask(b"/\x000\0true\0"))
print(ask(b"/\x00-1\0true\0"))
print(ask(b"/none\x001\0true\0"))
print(ask(b"/\x001\0\0"))
print(ask(b"/\x001\0true\0novariable\0"))
print(ask(b"/\x005000\0" + b"a\0" * 5000))
print(ask(b"/\x001\0true\0" + b"A=" + b"x" * 140000 + b"\0")[:2])'
is 'each is answered' "$OUT" 's 0
e the request has too many words, or not three streams
e the request has too many words, or not three streams
e the request has too many words, or not three streams
e not a request of sudo, or one with too many words
e not a request of sudo, or one with too many words
e not a request of sudo, or one with too many words
e not a request of sudo, or one with too many words
e not a request of sudo, or one with too many words
e no directory '"'/none'"' to run the command in
e argv[0] is empty
e variable '"'novariable'"' is not NAME=VALUE
e not a request of sudo, or one with too many words
e '
sudo_try '
held = []
for i in range(300):
    try: held.append(connect())
    except OSError: break
print(len(held) > 60)
for s in held: s.close()
print(ask(b"/\x001\0true\0"))'
is 'connections that say nothing keep nobody out for good' "$OUT" 'True
s 0'
sudo_try '
import signal, time
s = connect()
r, w = os.pipe()
rights = array.array("i", (0, w, 2))
s.sendmsg([b"/\x003\0sh\0-c\0echo $$; exec sleep 60\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
os.close(w)
pid = int(os.read(r, 100))
for n in (0, 9, 19, 64, 200): s.send(bytes([n]))
time.sleep(0.2)
print(os.path.exists(f"/proc/{pid}"))
s.close()
print(os.read(r, 1) == b"")'
is 'only ordinary signals pass; the command ends with its caller' "$OUT" 'True
True'
run 'sudo true && echo fine; sudo sh -c "ps -e -o comm= | grep -c sleep"'
is 'and all is as before' "$OUT" 'fine
0'
api DELETE "/sandboxes/$BOX"
is 'the sandbox goes' "$STATUS" 204
box_use "$attacked"
