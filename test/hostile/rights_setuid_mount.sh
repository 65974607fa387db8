# A writable mount: set-user-ID files left there would be the directory owner's on the host.
# wall: in such boxes a seccomp filter refuses the bits, from the runner on; the mount maps one owner and nobody else
attack_put isolation
source=$WORK/shared/sub
chown 4242:4242 "$source"
want=$(printf '%s\n' 'chmod EPERM 0' 'chmod-gid EPERM 0' 'fchmod EPERM 0' 'fchmodat EPERM 0' 'fchmodat2 EPERM 0' \
    'open EPERM 0' 'openat EPERM 0' \
    'tmpfile EPERM 0' 'openat2 ENOSYS 0' 'creat EPERM 0' 'mknod EPERM 0' 'mknodat EPERM 0' 'mkdir OK 0' \
    'high-bits EPERM 0' 'plain OK 0' 'garbage-mode OK 0')
box_new "\"mounts\":[{\"source\":\"$source\",\"target\":\"/mnt/shared\"}]"
is 'a box with a writable mount' "$STATUS" 201
mounted=$BOX
for user in agent root; do
    AS=$user attack isolation 'set-id /mnt/shared'
    is "$user: the bits are refused" "$OUT" "$want"
    want=${want/mkdir OK/mkdir EEXIST} # root meets agent's: it can make nothing there itself, its own id is not mapped
    is "$user: none is on the host" "$(find "$source" -perm /6000)" ''
done
run 'cp /bin/true /mnt/shared/t; chmod 755 /mnt/shared/t; stat -c %a /mnt/shared/t; chmod u+s /mnt/shared/t; echo $?; '\
'install -m 4755 /bin/true /mnt/shared/i; echo $?; ls -l /mnt/shared/t | cut -c1-10'
is 'other bits are fine' "$(head -1 <<< "$OUT") $(tail -1 <<< "$OUT")" '755 -rwxr-xr-x'
upload /mnt/shared/up "$TOOL" '&mode=4755'
like 'nor by a file call' "$STATUS $(stat -c %a "$source/up" 2> /dev/null)" '^(20[01] 755|40[03] .*)$'
touch "$WORK/suid"; chmod 6755 "$WORK/suid"
tar -C "$WORK" -cf "$WORK/suid.tar" suid
api PUT "$B/archive?path=/mnt/shared" '' --data-binary "@$WORK/suid.tar" -H 'Content-Type: application/x-tar'
is 'an archive is taken, without the bits' "$STATUS $(stat -c %a "$source/suid")" '200 755'
# a file of the owner's that has the bit already: changed, it loses it
install -o 4242 -g 4242 -m 6755 /bin/true "$source/had"
run 'echo x >> /mnt/shared/had'
put /mnt/shared/had 'replaced'
is 'the host has none of them' "$(find "$source" -perm /6000)" ''
is 'all of it belongs to the owner' "$(find "$source" -mindepth 1 ! -uid 4242)" ''
run 'mknod /mnt/shared/null c 1 3; mknod /mnt/shared/disk b 8 0; ls /mnt/shared | grep -c -e null -e disk' \
    '"user":"root"'
is 'and no device' "$OUT" 0

# what shows of it: the directory's own path, no more
run 'grep " /mnt/shared " /proc/self/mountinfo'
like "mountinfo shows the source's path below its file system's root" "$OUT" "/shared/sub /mnt/shared rw,nosuid,nodev"

# without a writable mount the bits can be set: packages need them, and they mean nothing here
box_use "$ATTACKED"
rm -rf "${source:?}"/*
attack isolation 'set-id /tmp'
like 'a box without one keeps them' "$OUT" $'^chmod OK 4000\nchmod-gid OK 2000\n'
box_new "\"mounts\":[{\"source\":\"$source\",\"target\":\"/mnt/shared\",\"read_only\":true}]"
attack isolation 'set-id /tmp'
like 'and one with a read-only mount' "$OUT" $'^chmod OK 4000\n'
run 'touch /mnt/shared/x 2>&1; chmod 777 /mnt/shared 2>&1' '"user":"root"'
like 'which is read-only' "$OUT" 'Read-only file system'
box_use "$mounted"
api DELETE "$B"
