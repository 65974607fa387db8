# Device nodes: made, found, opened. The box has six harmless ones, which are its own and not the host's.
# wall: seccomp on mknod, nodev on every mount but /dev, a tmpfs with nodes of its own; second: Landlock
. test/lib/calls.sh
calls device '
mknod_fifo OK
mknod_disk EPERM
mknod_mem EPERM
mknod_whiteout EPERM
mknodat_disk EPERM
open_kvm ENOENT
open_mem ENOENT
open_fuse ENOENT
open_loop ENOENT'
for user in agent root; do
    run 'find / -xdev \( -type b -o -type c \) 2> /dev/null; find /dev -type b; find /dev -type c | sort' \
        "\"user\":\"$user\""
    is "$user: the devices there are" "$OUT" "$(printf '/dev/%s\n' full null pts/ptmx random tty urandom zero)"
done
run 'stat -c %d /dev/null'
isnt "they are not the host's" "$OUT" "$(stat -c %d /dev/null)"
device=$OUT
box_use "$NEIGHBOUR"
run 'stat -c %d /dev/null'
isnt "nor the neighbour's" "$OUT" "$device"
box_use "$ATTACKED"
run 'awk "\$5 != \"/dev\" && \$6 !~ /nodev/" /proc/self/mountinfo | grep -v " /dev/pts "; awk "\$6 !~ /nosuid/" '\
'/proc/self/mountinfo'
is 'nodev everywhere else, nosuid everywhere' "$OUT" ''
