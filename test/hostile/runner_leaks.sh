# What the runner has and a command might inherit: descriptors, environment, the control socket, the path of its
# program.
# wall: close_range before exec, a clean environment, a socket made in the host's network namespace and a 0700 directory
for user in agent root; do
    U="\"user\":\"$user\""
    api POST "$B/exec" "{\"argv\":[\"/bin/ls\",\"/proc/self/fd\"],$U}"
    is "$user: a command has 0, 1, 2 (and the directory it lists)" "$(j .stdout)" $'0\n1\n2\n3'
    run 'for f in 0 1 2; do readlink /proc/self/fd/$f; done | sed "s/\[.*//"' "$U"
    is "$user: a null device and two pipes" "$OUT" $'/dev/null\npipe:\npipe:'
    run 'env | sort' "$U"
    unlike "$user: nothing of the daemon's environment" "$OUT" 'SECRET|CUBBY|ASAN|TMPDIR'
    run 'cat /proc/[0-9]*/environ 2> /dev/null | tr "\0" "\n"' "$U"
    unlike "$user: nor in any process's" "$OUT" 'SECRET'
    run 'awk "NR > 1 && \$8" /proc/net/unix; find / -xdev -type s 2> /dev/null; ls -A /run' "$U"
    is "$user: no socket to find" "$OUT" lock
    run 'cat /proc/self/maps /proc/self/mountinfo /proc/self/mountstats /proc/self/mounts /proc/self/cgroup; readlink '\
'/proc/self/exe /proc/self/root /proc/self/cwd; find /proc/self/map_files -printf "%l\n" 2> /dev/null' "$U"
    unlike "$user: no host path" "$OUT" "$WORK|$STATE|${BUILD#/}|cubby-runner|$BOX"
done
# files: of the host only what a template has
echo "host's own" > "$WORK/forbidden/secret"
for user in agent root; do
    U="\"user\":\"$user\""
    run 'cat /etc/shadow /etc/gshadow /etc/ssh/ssh_host_*_key /root/.* /home/*/.* 2> /dev/null | wc -c; ls -A /root '\
'/home /srv /mnt /media /opt /boot /lost+found 2> /dev/null | grep -v -e : -e "^$"' "$U"
    is "$user: no secrets, no homes" "$OUT" 0
    run "cat '$WORK/forbidden/secret' '$STATE/boxes'; ls -d '$WORK'" "$U"
    is "$user: no file of the host" "$OUT" ''
done
run 'echo x >> /etc/passwd; echo x > /usr/bin/true; touch /usr/bin/new /etc/new /new; ls /usr/bin/new /etc/new /new '\
'2> /dev/null | wc -l'
is 'agent cannot write to the system' "$OUT" 0
run 'touch /workspace/x /tmp/x /dev/shm/x /var/tmp/x && echo writable'
is 'and can to what is its own' "$OUT" writable

# positive control: the same search finds what is there
run 'python3 -c "
import socket
s = socket.socket(socket.AF_UNIX); s.bind(\"/tmp/found\"); s.listen()
print(open(\"/proc/net/unix\").read().count(\"/tmp/found\"))"'
is 'a socket of its own is seen' "$OUT" 1
