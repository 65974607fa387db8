# Switches and memory of the kernel through /proc and /sys: core_pattern, modprobe, sysrq, kcore, keys, kallsyms, dmesg.
# wall: /proc/sys read-only, the rest covered; no /sys; the host's root owns all of it
core=$(< /proc/sys/kernel/core_pattern)
for user in agent root; do
    U="\"user\":\"$user\""
    for file in sys/kernel/core_pattern sys/kernel/modprobe sys/kernel/hotplug sys/vm/drop_caches sys/kernel/sysrq \
        sysrq-trigger \
        sys/kernel/hostname sys/net/ipv4/ip_forward sys/kernel/shmmax sys/user/max_inotify_instances \
    sys/fs/binfmt_misc/register \
        sys/kernel/random/boot_id mtrr 1/oom_score_adj 1/sched 1/coredump_filter; do
        [ -e "/proc/$file" ] || continue
        run "echo x > /proc/$file && echo written" "$U"
        is "$user: $file is not written" "$OUT" ''
    done
    for file in kcore keys key-users timer_list sched_debug latency_stats kallsyms modules config.gz cmdline swaps \
        partitions diskstats \
        mdstat interrupts softirqs kmsg kpagecount kpageflags slabinfo vmallocinfo pagetypeinfo; do
        run "head -c 100 /proc/$file 2> /dev/null | wc -c" "$U"
        is "$user: /proc/$file tells nothing" "$OUT" 0
    done
    run 'ls -A /proc/fs /proc/bus /proc/irq /proc/driver /proc/dynamic_debug /proc/acpi /proc/scsi /proc/asound /sys '\
'2> /dev/null | grep -v -e : -e "^$"' "$U"
    is "$user: nor do its directories" "$OUT" ''
    run 'dmesg 2>&1; cat /dev/kmsg 2>&1; true' "$U"
    unlike "$user: no kernel messages" "$OUT" 'Linux version|^\[ *[0-9]+\.'
    run 'head -c 20 /proc/meminfo | wc -c; grep -c processor /proc/cpuinfo; cut -d" " -f1 /proc/uptime; ps -e 2> '\
'/dev/null | wc -l' "$U"
    like "$user: what programs need is there" "$OUT" $'^20\n[1-9]'
done
is 'core_pattern is as it was' "$(< /proc/sys/kernel/core_pattern)" "$core"
attack isolation core
is 'a crash leaves no core' "$OUT" 'limit 0 0 signal 11 core 0'
