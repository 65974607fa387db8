# New namespaces by clone, clone3 and unshare, entering others by setns.
# wall: seccomp: flags of clone are looked into, clone3 is absent, unshare and setns are refused
. test/lib/calls.sh
calls namespace '
clone OK
clone_user EPERM
clone_user_high EPERM
clone_net EPERM
clone3 ENOSYS
unshare_user EPERM
unshare_mount EPERM
unshare_time EPERM
setns EPERM
setns_pid1 EPERM'
