# cgroups from inside: release_agent, notify_on_release, cgroup.procs, devices.allow (CVE-2022-0492).
# wall: no cgroup file system in the box, a cgroup namespace, no mount
for user in agent root; do
    U="\"user\":\"$user\""
    run 'grep -c cgroup /proc/self/mountinfo; find / -xdev \( -name "cgroup.procs" -o -name release_agent -o '\
'-name "devices.allow" -o -name notify_on_release \) 2> /dev/null; ls -A /sys' "$U"
    is "$user: nothing of it is there" "$OUT" 0
    run 'mkdir -p /tmp/cg; for t in cgroup cgroup2; do mount -t $t -o rw none /tmp/cg 2>&1; done; ls -A /tmp/cg; cut '\
'-d: -f3 /proc/self/cgroup | sort -u' "$U"
    like "$user: nor can it be mounted; its own place is all that is told" "$OUT" \
        '^(mount: /tmp/cg: (must be superuser|permission denied|.*not permitted).*){2}'
    unlike "$user: no path of the host's" "$OUT" 'cubby|/\.\.'
    run 'cat /proc/1/cgroup; cat /proc/self/cgroup' "$U"
    unlike "$user: nor of PID 1" "$OUT" 'cubby|/\.\.|[0-9a-f]{16}'
done
