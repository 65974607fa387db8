# Every signal to PID 1, from agent and from the box's root: it neither ends nor stops.
# wall: the kernel delivers to the first process of a pid namespace only what it has asked for; all are blocked there
for user in agent root; do
    run 'for s in $(seq 1 64); do kill -$s 1 2> /dev/null; done; kill -9 -1 2> /dev/null; echo not reached' "\"user\":\"$user\""
    isnt "$user: whoever signals all reaches himself" "$OUT" ''
    run 'for s in 9 19 20 15 2 11 6 17; do kill -$s 1; done; grep -E "^State" /proc/1/status; echo alive' "\"user\":\"$user\""
    like "$user: PID 1 lives on" "$OUT" $'^State:\t[SRD] .*\nalive$'
    run 'python3 -c "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.syscall(434, 1, 0)
print(\"pidfd\", fd >= 0, libc.syscall(424, fd, 9, None, 0))"; echo alive' "\"user\":\"$user\""
    like "$user: nor by a pidfd" "$OUT" 'alive$'
done
api GET "$B"
is 'the box is as it was' "$(j .state)" ready
