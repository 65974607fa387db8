# Writing to what may only be read, by the page cache: Dirty Pipe, Dirty COW; and overlayfs's own names and whiteouts.
# wall: the kernel's; overlay copies up before it writes; overlay's attributes are refused or escaped
file=/usr/bin/env
was=$(sha256sum < $file)
for user in agent root; do
    AS=$user attack isolation "dirty-pipe $file"
    if [ "$user" = agent ]; then want=EACCES; else want=OK; fi
    is "$user: bytes go into the pipe and not into the file" "$OUT" \
        "$(printf '%s\n' 'splice OK' 'write OK' 'vmsplice OK' 'shared mapping EACCES' "open for writing $want")"
    is "$user: the host's file is as it was" "$(sha256sum < $file)" "$was"
    run "sha256sum < $file" "\"user\":\"$user\""
    is "$user: and the box's" "$OUT" "$was"
done
is 'and on the disk' "$(dd if=$file iflag=direct bs=1M status=none 2> /dev/null | sha256sum)" "$was"

# overlay: attributes with its names are the box's own business and mean nothing to the layer below or to us
AS=root attack isolation 'overlay-names /etc/skel'
like 'names of overlayfs are refused' "$OUT" \
    $'^trusted.overlay.opaque EPERM\ntrusted.overlay.redirect EPERM\ntrusted.overlay.metacopy EPERM\n'
upper=$STATE/boxes/$BOX/fs/upper
names=$(python3 -c 'import os, sys; print("\n".join(os.listxattr(sys.argv[1])))' "$upper/etc/skel")
like 'below, plain ones arrive' "$names" 'user.plain'
unlike 'and those of overlayfs do not arrive under their names' "$names" \
    'user.overlay.(opaque|redirect|metacopy|whiteout)'
run 'ls -A /etc/skel | wc -l; mv /etc/skel /etc/skel2; ls -A /etc/skel2 | wc -l; rm -r /etc/alternatives; mkdir '\
'/etc/alternatives; ls -A /etc/alternatives | wc -l; ln /etc/hosts /etc/h2; echo more >> /etc/h2; tail -1 /etc/hosts' \
    '"user":"root"'
like 'directories that are moved or made again, links to files below' "$OUT" $'^([0-9]+)\n\\1?[0-9]*\n0\n'
run 'grep " / / " /proc/self/mountinfo'
like 'overlay attributes are user ones' "$OUT" 'userxattr'
unlike 'no redirects, no metacopy, no index' "$OUT" 'redirect_dir=(on|follow)|metacopy=on|index=on'
run 'rm /etc/hostname /etc/passwd-; ls /etc/hostname 2>&1' '"user":"root"'
like 'a file of the template is removed' "$OUT" 'No such file'
# TYPE MAJOR:MINOR of every device in the layer: a whiteout is the one kind, and its number is that of no device
devices() { python3 -c '
import os, stat, sys
for base, dirs, files in os.walk(sys.argv[1]):
    for name in dirs + files:
        s = os.lstat(os.path.join(base, name))
        if stat.S_ISCHR(s.st_mode) or stat.S_ISBLK(s.st_mode):
            print(stat.filemode(s.st_mode)[0], f"{os.major(s.st_rdev)}:{os.minor(s.st_rdev)}")' "$1" | sort -u; }
is 'whiteouts of the kernel are the only devices below, and their number is none' "$(devices "$upper")" 'c 0:0'
is 'nobody else may look into the box from outside' \
    "$(stat -c %a "$STATE" "$STATE/boxes" | tr '\n' ' ')$(stat -c %a "$STATE/boxes/$BOX" | tail -c 4)" '700 700 700'
