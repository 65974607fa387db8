# Which machine it is, and where things lie on it: host name, boot id, command line, paths in mountinfo, cgroup paths.
# wall: uts and cgroup namespaces, a boot id of its own, covered files of /proc; left and documented: kernel version,
# processors, memory, uptime, load
for user in agent root; do
    U="\"user\":\"$user\""
    run 'hostname; cat /etc/hostname /proc/sys/kernel/hostname; uname -n; cat /etc/machine-id '\
'/var/lib/dbus/machine-id 2> /dev/null' "$U"
    is "$user: the name is cubby, the machine has no id" "$OUT" $'cubby\ncubby\ncubby\ncubby'
    run 'cat /proc/sys/kernel/random/boot_id' "$U"
    like "$user: there is a boot id" "$OUT" '^[0-9a-f-]{36}$'
    isnt "$user: not the machine's" "$OUT" "$(< /proc/sys/kernel/random/boot_id)"
    boot=$OUT
    run 'cat /proc/self/mountinfo /proc/self/mounts /proc/self/mountstats /proc/self/cgroup /proc/cmdline /proc/swaps '\
'/proc/partitions /proc/diskstats; cat /proc/self/task/*/mountinfo' "$U"
    unlike "$user: no path of the host" "$OUT" "$WORK|$STATE|/var/lib/cubby|$BOX|vd[a-z]|sd[a-z]|nvme|UUID"
    isnt "$user: though there are mounts to see" "$(grep -c overlay <<< "$OUT")" 0
    run 'ls /proc/tty/driver /proc/dynamic_debug 2>&1 | grep -v -i -e "denied" -e "no such" -e ":$"; cat '\
'/proc/1/stack /proc/1/wchan /proc/self/stack 2> /dev/null | tr -d 0' "$U"
    is "$user: no kernel stacks, no drivers" "$OUT" ''
done
box_use "$NEIGHBOUR"
run 'cat /proc/sys/kernel/random/boot_id'
isnt 'two boxes are not told to be on one machine by it' "$OUT" "$boot"
box_use "$ATTACKED"
# left, and said so in SECURITY.md
run 'uname -r; grep -c ^processor /proc/cpuinfo; grep -q MemTotal /proc/meminfo && cut -d" " -f1 /proc/uptime'
like 'kernel, processors, memory and uptime are told' "$OUT" "^$(uname -r)"
