# A kernel without one of the first walls, or a container that keeps it back.
# wall: no daemon and no jail at all; what is missing and how to get it is said
. test/lib/lacking.sh

lacking_row() { # lacking_row WHAT CHECK FOUND FIX
    lacking_refuses "without $1" "$1" "jails do not work here: $2: .*$3.*; $4"
    lacking_doctor "$1" "$2" true "$4"
    lacking_refuses "without $1, whatever is allowed" "$1" "jails do not work here: $2: " \
        'allow_weaker: [landlock, limits]'
}
lacking_row userns 'user namespaces' 'Operation not permitted' '.*docker run --privileged'
lacking_row overlay overlayfs 'No such device' 'modprobe overlay'
lacking_row seccomp seccomp 'not available' 'boot a kernel with CONFIG_SECCOMP_FILTER'
lacking_row idmap 'idmapped mounts' 'Invalid argument' 'put the state directory on ext4'
lacking_row proc 'own /proc' 'Operation not permitted' '.*systempaths=unconfined'
lacking_row sys_admin capabilities 'root without SYS_ADMIN' '.*docker run --privileged'
lacking_row net_admin capabilities 'root without NET_ADMIN' '.*docker run --privileged'
for call in openat2:openat2 pidfd:pidfd_open close_range:close_range clone3:clone3 mount_setattr:mount_setattr; do
    lacking_row "${call%:*}" 'system calls' "missing: ${call#*:}" '.*seccomp=unconfined'
done

# `cubby run` only looks before it tries: its box must say the same.
for what in userns:'user namespaces' overlay:'no overlayfs; modprobe overlay' idmap:'cannot be idmapped' \
    proc:'must not be masked'; do
    "$LACK" "${what%%:*}" -- "$BUILD/cubby" run -- true > "$WORK/out" 2>&1
    is "cubby run without ${what%%:*} refuses" $? 125
    like "cubby run without ${what%%:*}: says why" "$(< "$WORK/out")" "${what#*:}"
    is "cubby run without ${what%%:*}: in one line" "$(wc -l < "$WORK/out")" 1
done
ok 'without mknod boxes have their devices all the same' "$LACK" mknod -- "$BUILD/cubby" run -- sh \
    -c 'echo > /dev/null && [ -c /dev/urandom ]'

# A daemon whose default is another backend starts; the jail that somebody asks for is refused with the same words.
BACKEND=local lacking_start overlay 'allow_local: true' || fail 'a daemon for backend local' "$LOG"
is 'jails are not available' "$(jail_info .available)" false
lacking_end
