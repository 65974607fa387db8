# Templates: what a box changes stays in its own upper layer; and an imported root that lies (links where directories
# are
# expected, a FIFO or a disk as /etc/passwd, set-user-ID programs, device nodes) leads nowhere.
# wall: overlay over a read-only idmapped lower layer; mount points reached by no link; openat2 below the template's
# root

CUBBY=$BUILD/cubby
export CUBBY_URL=unix:$SOCKET
t() { c template --state "$STATE" "$@"; }
tree_hash() { find "$1" -printf '%P %y %m %U %G %s %l\n' -type f -exec sha256sum {} + 2> /dev/null | sort | sha256sum; }

# the lower layer is byte-identical after a box has written, renamed, removed, chmodded and linked in it
template=("$STATE"/templates/.host-*)
before=$(tree_hash "${template[0]}")
host=$(sha256sum < /usr/bin/env; stat -c '%a %U %h %Y' /usr/bin/env)
run 'echo x >> /etc/profile; rm -r /etc/ssl; mkdir /etc/ssl; mv /etc/services /etc/moved; chmod 777 /etc/hosts; ln '\
'/etc/hosts /etc/hosts2
echo x >> /etc/hosts2; echo x >> /usr/bin/env; chmod 4777 /usr/bin/env; ln /usr/bin/env /usr/bin/env2; setfattr -n '\
'user.x -v y /usr/bin/env 2> /dev/null
tail -1 /etc/profile; ls -A /etc/ssl | wc -l; tail -1 /etc/hosts2; tail -c2 /usr/bin/env2; stat -c %a /usr/bin/env' \
    '"user":"root"'
is 'the box sees its own changes' "$OUT" $'x\n0\nx\nx\n4777'
is 'the template is byte-identical' "$(tree_hash "${template[0]}")" "$before"
is "and the host's /usr" "$(sha256sum < /usr/bin/env; stat -c '%a %U %h %Y' /usr/bin/env)" "$host"
box_use "$NEIGHBOUR"
run 'cat /etc/profile | grep -cx x; ls /etc/services /etc/ssl/openssl.cnf; stat -c %a /usr/bin/env; ls /usr/bin/env2'
like 'another box sees none of them' "$OUT" $'^0\n/etc/services\n(/etc/ssl/openssl.cnf\n)?755$'
box_use "$ATTACKED"

# a template that lies
base() { # base NAME: a tree with a program in it
    rm -rf "$WORK/t/$1"
    mkdir -p "$WORK/t/$1/bin"
    cp "$TOOL" "$WORK/t/$1/bin/tool"
    T=$WORK/t/$1
}
refused() { # refused NAME REGEX: from the files, and uploaded to the daemon
    local way
    for way in t 'c template'; do
        $way import "$1" "$T"
        if [ "$CODE" != 0 ]; then like "$1: refused at import ($way)" "$ERR" "$2"; else
            c create --template "$1"
            like "$1: refused at creation ($way)" "$CODE $ERR" "^125 .*$2"
            t rm "$1"
        fi
    done
}
mkdir -p "$WORK/outside"
printf 'root:x:0:0::/:/bin/sh\n' > "$WORK/outside/passwd"
printf 'root:x:0:\n' > "$WORK/outside/group"
outside() { (cd "$WORK/outside" && find . -printf '%P %m %U\n' | sort; cat passwd group); }
was=$(outside)
base etc-link; ln -s "$WORK/outside" "$T/etc"
refused etc-link '/?etc'
base passwd-link; mkdir "$T/etc"; ln -s "$WORK/outside/passwd" "$T/etc/passwd"
refused passwd-link 'etc/passwd'
base passwd-fifo; mkdir "$T/etc"; mkfifo "$T/etc/passwd"
refused passwd-fifo 'etc/passwd'
dd if=/dev/zero of="$WORK/disk" bs=1k count=128 status=none
if loop=$(losetup -f --show "$WORK/disk" 2> /dev/null); then
    base passwd-disk; mkdir "$T/etc"; mknod "$T/etc/passwd" b "$((0x$(stat -c %t "$loop")))" \
        "$((0x$(stat -c %T "$loop")))"
    refused passwd-disk 'etc/passwd'
    losetup -d "$loop"
    is 'passwd-disk: nothing was written to the disk' "$(tr -d '\0' < "$WORK/disk" | wc -c)" 0
else skip 'passwd-disk' 'no loop device here'; fi
for name in dev proc run var tmp workspace; do
    base "$name-link"; ln -s "$WORK/outside" "$T/$name"
    refused "$name-link" "/?$name"
done
is 'none of it touched what the links name' "$(outside)" "$was"

# links inside the root are fine; set-user-ID programs and device nodes gain nothing
base inner; mkdir -p "$T/data" "$T/dev"; ln -s data "$T/workspace"; ln -s ../bin "$T/dev/null"
cp "$BUILD/test/attack_isolation" "$T/bin/isolation"; chmod 6755 "$T/bin/isolation"
mknod "$T/bin/disk" b 8 0; mknod "$T/bin/mem" c 1 1; chmod 666 "$T/bin/disk" "$T/bin/mem"
t import inner "$T"
is 'a link that stays inside is imported' "$CODE $ERR" '0 '
c create --template inner
box=$OUT
like 'and used' "$CODE $box" '^0 [0-9a-f]{16}$'
c exec "$box" -- /bin/isolation ids
is 'a set-user-ID program of the template gains nothing' "$OUT" '1000 1000 1000 1000'
c exec "$box" -- /bin/isolation open /bin/disk /bin/mem /dev/null
is 'its device nodes do not open, and /dev is ours' "$OUT" $'/bin/disk EACCES\n/bin/mem EACCES\n/dev/null OK 1:3'
c rm "$box"

# an archive that leaves its directory: nothing outside is made or changed, whoever unpacks it
python3 - "$WORK" << 'END'
import io, sys, tarfile
work = sys.argv[1]
def member(tar, name, kind=tarfile.REGTYPE, link='', data=b'planted'):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(data) if kind == tarfile.REGTYPE else 0
    tar.addfile(info, io.BytesIO(data) if kind == tarfile.REGTYPE else None)
with tarfile.open(f'{work}/leaves.tar', 'w') as tar:
    member(tar, '../../../../../../../../../../..' + f'{work}/outside/dots')
    member(tar, f'{work}/outside/absolute')
    member(tar, 'way', tarfile.SYMTYPE, f'{work}/outside')
    member(tar, 'way/through', data=b'planted')
    member(tar, 'hard', tarfile.LNKTYPE, f'{work}/outside/passwd')
    member(tar, 'hard', data=b'overwritten')
END
c template import leaves "$WORK/leaves.tar"
is 'an archive that leaves its directory plants nothing outside' "$(outside)" "$was"
t rm leaves
