# Writing to what may only be read, by the page cache: Dirty Pipe, Dirty COW; and overlayfs's own names and whiteouts.
# wall: the kernel's; overlay copies up before it writes; overlay's attributes are refused or escaped
file=/usr/bin/env
was=$(sha256sum < $file)
for user in agent root; do
    AS=$user attack isolation "dirty-pipe $file"
    if [ "$user" = agent ]; then want=EACCES; else want=OK; fi
    is "$user: bytes go into the pipe and not into the file" "$OUT" "$(printf '%s\n' 'splice OK' 'write OK' 'vmsplice OK' 'shared mapping EACCES' "open for writing $want")"
    is "$user: the host's file is as it was" "$(sha256sum < $file)" "$was"
    run "sha256sum < $file" "\"user\":\"$user\""
    is "$user: and the box's" "$OUT" "$was"
done
is 'and on the disk' "$(dd if=$file iflag=direct bs=1M status=none 2> /dev/null | sha256sum)" "$was"

# overlay: attributes with its names are the box's own business and mean nothing to the layer below or to us
AS=root attack isolation 'overlay-names /etc/skel'
like 'names of overlayfs are refused' "$OUT" $'^trusted.overlay.opaque EPERM\ntrusted.overlay.redirect EPERM\ntrusted.overlay.metacopy EPERM\n'
if [ -d "$STATE/boxes/$BOX/fs/upper/etc/skel" ]; then
    names=$(python3 -c 'import os, sys; print("\n".join(os.listxattr(sys.argv[1])))' "$STATE/boxes/$BOX/fs/upper/etc/skel")
    like 'below, plain ones arrive' "$names" 'user.plain'
    unlike 'and those of overlayfs do not arrive under their names' "$names" 'user.overlay.(opaque|redirect|metacopy|whiteout)'
fi
run 'ls -A /etc/skel | wc -l; mv /etc/skel /etc/skel2; ls -A /etc/skel2 | wc -l; rm -r /etc/alternatives; mkdir /etc/alternatives; ls -A /etc/alternatives | wc -l; ln /etc/hosts /etc/h2; echo more >> /etc/h2; tail -1 /etc/hosts' '"user":"root"'
like 'directories that are moved or made again, links to files below' "$OUT" $'^([0-9]+)\n\\1?[0-9]*\n0\n'
run 'grep " / / " /proc/self/mountinfo'
like 'overlay attributes are user ones' "$OUT" 'userxattr'
unlike 'no redirects, no metacopy, no index' "$OUT" 'redirect_dir=(on|follow)|metacopy=on|index=on'
upper=$STATE/boxes/$BOX/fs/upper
if [ -d "$upper" ]; then
    is 'a whiteout of the kernel is the only device below, and its number is none' "$(find "$upper" \( -type b -o -type c \) -printf '%P %y %D\n' | grep -vc ' c ')" 0
    is 'nobody else may look into the box from outside' "$(stat -c %a "$STATE" "$STATE/boxes" | tr '\n' ' ')$(stat -c %a "$STATE/boxes/$BOX" | tail -c 4)" '700 700 700'
fi
