# Changing the public skills that many boxes have below their own, or seeing what another user has above them.
# wall: lower layers of the box's own overlay: read-only mounts, idmapped; a layer never changes once it is there
# box: "user":"mallory","agent":"app"
box_new '"user":"author","agent":"app"'
author=$BOX
tag_new
run "mkdir -p /skills/tool/lib /skills/private && cd /skills/tool && printf 'the tool\n' > SKILL.md && "\
"printf '#!/bin/sh\necho ran\n' > run.sh && chmod 755 run.sh &&
    head -c 65536 /dev/zero | tr '\\\\0' x > lib/data && echo 'secret $TAG' > /skills/private/SKILL.md && setfattr -n "\
"user.mark -v 1 SKILL.md 2> /dev/null; true"
api POST "$B/skills/tool/sync" '{"direction":"to_base"}'
is 'an author makes a skill public' "$STATUS" 204
run "echo 'above $TAG' > /skills/tool/own"

look() { # everything there is to know of the layers: names, kinds, ids, modes, links, times, attributes, bytes
    python3 - "$STATE/skills/layers" << 'END'
import hashlib, os, sys
for dir, dirs, files in sorted(os.walk(sys.argv[1])):
    for name in sorted(dirs + files) + ['.']:
        path = os.path.join(dir, name)
        s = os.lstat(path)
        body = hashlib.sha256(open(path, 'rb').read()).hexdigest() if name in files else ''
        print(path, oct(s.st_mode), s.st_uid, s.st_gid, s.st_nlink, s.st_size, s.st_mtime_ns, s.st_ctime_ns,
              [(x, os.getxattr(path, x)) for x in os.listxattr(path)], body)
END
}
was=$(look)
like 'it lies in a layer' "$was" '/tool/SKILL.md '

box_use "$ATTACKED"
run 'cat /skills/tool/SKILL.md; ls /skills /skills/tool'
is 'a box of another user has it, and nothing of what the author has above' "$OUT" \
    $'the tool\n/skills:\ntool\n\n/skills/tool:\nSKILL.md\nlib\nrun.sh'
file=/skills/tool/lib/data
attack isolation "dirty-pipe $file"
is 'bytes go into the pipe and not into the file' "$(head -4 <<< "$OUT")" \
    "$(printf '%s\n' 'splice OK' 'write OK' 'vmsplice OK' 'shared mapping EACCES')"
cat > "$WORK/attack.py" << 'END'
# Each way to change a file, on a file or a name of its own, so that the layer's is what it begins with.
import ctypes, fcntl, mmap, os, shutil, socket, sys
base = '/skills/tool/'
def way(name, act):
    try:
        act()
        print(name, 'OK')
    except OSError as e:
        print(name, os.strerror(e.errno) if e.errno else e)
def held():  # a descriptor of the layer's file, from before the copy, stays what it was
    f = os.open(base + 'lib/data', os.O_RDONLY)
    m = mmap.mmap(f, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    m[0:4] = b'evil'
    os.open('/proc/self/fd/%d' % f, os.O_RDWR)
    os.ftruncate(f, 0)
def mapped():
    f = os.open(base + 'lib/data', os.O_RDWR)
    mmap.mmap(f, 65536)[0:4] = b'evil'
def link_out():
    os.link(base + 'SKILL.md', '/workspace/linked')
def link_in():
    os.link(base + 'SKILL.md', base + 'linked')
    open(base + 'linked', 'w').write('evil')
def renamed():
    os.rename(base + 'lib', base + 'moved')
def flags():
    fcntl.ioctl(os.open(base + 'run.sh', os.O_RDONLY), 0x40086602, b'\x10\0\0\0\0\0\0\0')
def mount(*a):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(*a) < 0:
        raise OSError(ctypes.get_errno(), 'mount')
def umount(path):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(path, 2) < 0:
        raise OSError(ctypes.get_errno(), 'umount')
way('held', held)
way('link out', link_out)
way('remount', lambda: mount(b'x', b'/skills', b'x', 32, b'lowerdir='))
way('bind', lambda: mount(b'/skills', b'/mnt', None, 4096, None))
way('umount', lambda: umount(b'/skills'))
way('attribute', lambda: os.setxattr(base + 'SKILL.md', 'user.mark', b'evil'))
way('opaque', lambda: os.setxattr('/skills/tool', 'trusted.overlay.opaque', b'y'))
way('flags', flags)
way('link in', link_in)
way('mode', lambda: os.chmod(base + 'run.sh', 0o6777))
way('owner', lambda: os.chown(base + 'run.sh', os.getuid(), os.getgid()))
way('time', lambda: os.utime(base + 'SKILL.md', (1, 1)))
way('mapped', mapped)
way('truncate', lambda: os.truncate(base + 'lib/data', 1))
way('rename', renamed)
way('replace', lambda: (open('/skills/x', 'w').write('evil'), os.rename('/skills/x', base + 'run.sh')))
way('remove', lambda: shutil.rmtree('/skills/tool'))
way('again', lambda: (os.mkdir('/skills/tool'), open(base + 'SKILL.md', 'w').write('mine')))
END
upload /tmp/attack.py "$WORK/attack.py"
run 'python3 /tmp/attack.py'
is 'every way to change it changes the box, or nothing' "$OUT" 'held Invalid argument
link out Invalid cross-device link
remount Operation not permitted
bind Operation not permitted
umount Operation not permitted
attribute OK
opaque Operation not permitted
flags Operation not permitted
link in OK
mode OK
owner OK
time OK
mapped OK
truncate OK
rename Invalid cross-device link
replace OK
remove OK
again OK'
run 'cat /skills/tool/SKILL.md; ls -A /skills/tool'
is 'the box has its own' "$OUT" $'mineSKILL.md'
is 'the layers are what they were, to the last attribute and time' "$(look)" "$was"
run 'rm -rf /skills/tool; python3 /tmp/attack.py' '"user":"root"'
unlike 'nor can its root' "$OUT" '^(remount|bind|umount|opaque) OK'
is 'change them' "$(look)" "$was"

run "grep -rls '[${TAG:0:1}]${TAG:1}' /skills /workspace /proc/[0-9]*/mountinfo /proc/[0-9]*/environ /tmp 2> "\
"/dev/null; cat /proc/self/mountinfo" '"user":"root"'
unlike 'nothing that the author keeps to himself is to be found, and no name of the host' "$OUT" \
    "^/(skills|workspace|proc|tmp)/|$STATE|skills/layers"
# its root cannot get the mounts out of the way of what comes next
run 'cd /; mv /skills /s; mv -T /workspace/skills /workspace/s; rmdir /skills /workspace/skills; rm -rf /skills/* '\
'/skills/.[!.]*; ls -d /skills /workspace/skills' '"user":"root"'
is 'where skills are shown stays where it is' "$OUT" $'/skills\n/workspace/skills'
box_use "$author"
run 'mkdir -p /skills/next && echo next > /skills/next/SKILL.md'
api POST "$B/skills/next/sync" '{"direction":"to_base"}'
run 'cat /skills/next/SKILL.md /skills/tool/own; sh /skills/tool/run.sh'
is 'the author has his own, as ever' "$OUT" "$(printf 'next\nabove %s\nran' "$TAG")"
box_use "$ATTACKED"
run 'cat /skills/next/SKILL.md /workspace/skills/next/SKILL.md; grep -o " /[^ ]*skills " /proc/self/mountinfo' \
    '"user":"root"'
is 'and the next layer is there, in place of the old ones' "$OUT" $'next\nnext\n /skills \n /workspace/skills '
is 'and the layers that were there are what they were' "$(look | grep -F "$(cut -d' ' -f1 <<< "$was" | head -1)")" \
    "$(grep -F "$(cut -d' ' -f1 <<< "$was" | head -1)" <<< "$was")"
