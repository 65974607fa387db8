# Every signal to PID 1, and every call that changes another process's limits, rank or processors, from agent and from
# the box's
# root: it neither ends nor stops nor falls behind.
# wall: the kernel delivers to the first process of a pid namespace only what it has asked for, and all are blocked
# there; seccomp refuses the calls that name PID 1 or a user
. test/lib/calls.sh
standing() { # what PID 1 has: state, rank, limits, processors
    run 'cut -d" " -f3,19 /proc/1/stat | tr SRD S; cat /proc/1/limits; grep Cpus_allowed: /proc/1/status; ionice -p 1'
}
standing
before=$OUT
like 'PID 1 shows its rank and its limits' "$before" $'^S -20\n.*Max open files.*Cpus_allowed'
for user in agent root; do
    run 'sleep 1000 & for s in $(seq 1 64); do kill -$s 1 2> /dev/null; done; kill -9 -1 2> /dev/null; wait $!; '\
'echo "sleep $?"' "\"user\":\"$user\""
    is "$user: signals to all end what is the user's own" "$OUT" 'sleep 137'
    run 'for s in 9 19 20 15 2 11 6 17; do kill -$s 1; done; grep -E "^State" /proc/1/status; echo alive' \
        "\"user\":\"$user\""
    like "$user: PID 1 lives on" "$OUT" $'^State:\t[SRD] .*\nalive$'
    run 'python3 -c "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.syscall(434, 1, 0)
print(\"pidfd\", fd >= 0, libc.syscall(424, fd, 9, None, 0))"; echo alive' "\"user\":\"$user\""
    like "$user: nor by a pidfd" "$OUT" $'^pidfd True (0|-1)\nalive$'
    run 'prlimit --pid 1 --nofile=4:4; renice -n 19 -p 1; taskset -p 1 1 > /dev/null; ionice -c 3 -p 1; chrt -i -p 0 '\
'1; echo end' "\"user\":\"$user\""
    is "$user: the usual tools change nothing of PID 1" "$OUT ${CODE}" 'end 0'
done
calls first '
join_group_1 EPERM
limit_of_1 EPERM
limit_of_1_high EPERM
limit_of_own OK
nice_1 EPERM
nice_group_1 EPERM
nice_user EPERM
nice_own OK
affinity_of_1 EPERM
affinity_of_own OK
scheduler_of_1 EPERM
parameter_of_1 EPERM
attribute_of_1 EPERM
io_of_1 EPERM
io_of_group_1 EPERM
io_of_user EPERM
io_of_own OK
autogroup EACCES
timerslack EPERM'
standing
is 'PID 1 is as it was' "$OUT" "$before"
api GET "$B"
is 'the box is as it was' "$(j .state)" ready
