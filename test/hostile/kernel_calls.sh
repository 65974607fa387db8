# The kernel's machinery: bpf, perf, keyrings, userfaultfd, io_uring, kexec, modules, ports, LDT ... ; and every number
# that is on no list.
# wall: seccomp allow list (a kill by it is logged by the kernel, a refusal is not: a box could flood the host's log)
. test/lib/calls.sh
calls kernel '
bpf EPERM
perf_event_open EPERM
add_key EPERM
request_key EPERM
keyctl EPERM
userfaultfd EPERM
io_uring_setup ENOSYS
io_setup ENOSYS
kexec_load EPERM
kexec_file_load EPERM
init_module EPERM
finit_module EPERM
delete_module EPERM
iopl EPERM
ioperm EPERM
modify_ldt EPERM
acct EPERM
reboot EPERM
clock_settime EPERM
sethostname EPERM
syslog EPERM
personality EPERM
personality_ask OK
name_to_handle_at EPERM
open_by_handle_at EPERM
syncfs ENOSYS
fanotify_init EPERM
kcmp EPERM
move_pages EPERM
migrate_pages EPERM
memfd_secret ENOSYS
lookup_dcookie EPERM
vhangup EPERM'

# Other architectures: the process ends with SIGSYS.
for way in x32 x32-ioctl i386 i386-lchown; do
    attack calls "kill $way"
    is "$way: killed" "$OUT" signal-31
done

# Nothing that the policy does not name is let through: all numbers from 0 to 600. But for uretprobe and uprobe (335,
# 336 on
# x86-64), which newer kernels hide from every filter; called by anybody but a probe they end in SIGILL or ENXIO.
if [ -x "$BUILD/seccomp-gen" ]; then
    "$BUILD/seccomp-gen" --table > "$WORK/table"
    awk '$1 != 335 && $1 != 336 && ($3 == "EPERM" || $3 == "ENOSYS") { print $1, $3 }' "$WORK/table" > "$WORK/want"
    between 'the policy refuses most numbers' "$(wc -l < "$WORK/want")" 250 600
    for user in agent root; do
        AS=$user attack calls "scan $(cut -d' ' -f1 "$WORK/want" | tr '\n' ' ')"
        is "$user: each of them is refused as the policy says" "$(diff <(printf '%s\n' "$OUT") "$WORK/want")" ''
    done
else fail 'the policy can be printed' "no $BUILD/seccomp-gen"; fi

# sync is answered, and not done: what somebody else has just written to a disk stays in memory.
run 'sync && echo fine'
is 'sync succeeds' "$OUT" fine
truncate -s 16M "$WORK/sync.img"
mkdir "$WORK/sync"
if mke2fs -q -t ext4 -O ^has_journal "$WORK/sync.img" && mount -o loop "$WORK/sync.img" "$WORK/sync" 2> /dev/null; then
    disk=/sys/class/block/$(basename "$(findmnt -no SOURCE "$WORK/sync")")/stat
    written() { awk '{ print $7 }' "$disk"; }
    unwritten() { # whether a file that was just written is still only in memory when COMMAND is over
        local before
        sync -f "$WORK/sync"
        head -c 1M /dev/urandom > "$WORK/sync/f"
        before=$(written)
        "$@"
        [ "$(written)" = "$before" ]
    }
    not_ok 'sync of the host writes files out' unwritten sync
    ok 'sync of a box does not' eventually 20 unwritten run sync # somebody else on this machine may call it meanwhile
    umount "$WORK/sync"
else skip 'sync of a box writes out nothing' 'no image can be mounted here'; fi
