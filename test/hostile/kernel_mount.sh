# Mounting, unmounting, changing the root, the new mount API, remounting what is read-only, swap, quota.
# wall: the command's seccomp filter
. test/lib/calls.sh
calls mount '
mount EPERM
remount EPERM
umount2 EPERM
pivot_root EPERM
chroot EPERM
fsopen EPERM
fsconfig EPERM
fsmount EPERM
fspick EPERM
move_mount EPERM
open_tree EPERM
mount_setattr EPERM
statmount ENOSYS
listmount ENOSYS
open_tree_attr ENOSYS
swapon EPERM
quotactl EPERM
quotactl_fd EPERM'
run 'unshare -Urm true; mount -t tmpfs x /mnt; umount -l /proc/kallsyms; wc -c < /proc/kallsyms' '"user":"root"'
is 'what is covered stays covered' "$OUT" 0
