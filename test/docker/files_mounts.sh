# What of this machine is seen in a container, and whose it is on both sides: the workspace, mounted directories and
# files.
# box: "user":"ann","thread":"files"

whose() { stat -c '%u:%g' "$@" | sort -u | xargs; } # on the host
runner() { awk '{ print $2 }' "$STATE/boxes/$BOX/docker"; }
mounts() { # mounts SOURCE TARGET [RO]...: the member of a request
    local list=
    while [ $# -gt 0 ]; do
        list+=",{\"source\":\"$1\",\"target\":\"$2\"${3:+,\"read_only\":true}}"
        shift "$(($# < 3 ? $# : 3))"
    done
    echo "\"mounts\":[${list#,}]"
}

# ---- the workspace ----

run 'echo in > file; mkdir -p d/e; stat -c %u:%g . file d d/e | sort -u'
is 'the workspace is the user'"'"'s, inside' "$CODE $OUT" '0 1000:1000'
put up/loaded text '&parents=1'
is 'and on the host, whatever wrote it' "$(whose "$STATE/boxes/$BOX/workspace"{,/file,/d/e,/up,/up/loaded})" 1000:1000
is 'where others of this machine do not get at it' \
    "$(stat -c %a "$STATE/boxes/$BOX" "$STATE/boxes/$BOX/workspace" | xargs)" '700 755'
first=$BOX

# ---- a mounted directory: its owner is the box's user ----

mounted=$WORK/shared/owned
mkdir -p "$mounted/sub"
echo host > "$mounted/host"
echo hidden > "$mounted/hidden" && chmod 0600 "$mounted/hidden"
chown -R 23456:23457 "$mounted"
echo other > "$mounted/other" && chown 34567:34567 "$mounted/other"
echo alone > "$WORK/shared/alone" && chown 23456:23457 "$WORK/shared/alone"
ln -s owned "$WORK/shared/link"
used() { # used WHO UID:GID: the current box has it at /mnt/owned
    run 'umask 022; cd /mnt/owned && stat -c %u:%g . host hidden | sort -u; cat hidden; echo in > in && mkdir d && '\
'echo more >> host'
    is "$1: the directory is his, and what is in it" "$CODE $OUT" "0 $2"$'\nhidden'
    put /mnt/owned/api api
    is "$1: on the host all of it is the owner's" "$STATUS $(whose "$mounted"/{in,d,host,api,hidden})" '201 23456:23457'
    run 'echo x >> /mnt/owned/other || cat /mnt/owned/other; stat -c %u /mnt/owned/other'
    is "$1: somebody else's file is nobody's, and read as its mode says" "$OUT" $'other\n65534'
    run 'cd /mnt/owned && rm -r in d api && echo host > host && chown 12 hidden'
    isnt "$1: and is given to nobody" "$CODE" 0
}
box_new "\"user\":\"ann\",\"thread\":\"mounted\",$(mounts "$mounted" /mnt/owned "" "$mounted" /mnt/look 1 \
    "$WORK/shared/alone" /etc/alone '' "$mounted/sub" /workspace/deep/sub)"
is 'a box with mounts' "$STATUS" 201
used 'the user of the image' 1000:1000
run 'cat /mnt/look/host; echo x > /mnt/look/new'
isnt 'read-only is read-only' "$CODE" 0
is 'and read' "$OUT" host
run 'cat /etc/alone; echo more >> /etc/alone; stat -c %u:%g /etc/alone'
is 'one file' "$CODE $OUT $(xargs < "$WORK/shared/alone") $(whose "$WORK/shared/alone")" \
    $'0 alone\n1000:1000 alone more 23456:23457'
run 'cd deep && touch beside sub/in; stat -c %u:%g . beside sub/in | sort -u'
is 'one below the workspace' "$CODE $OUT $(whose "$mounted/sub/in")" '0 1000:1000 23456:23457'
run 'grep -c " /mnt/owned .*nosuid,nodev" /proc/self/mountinfo; cp /bin/true deep/sub/s && chmod 4755 deep/sub/s; '\
'stat -c %a deep/sub/s'
is 'nothing there gives rights, and nothing that would on the host is left there' \
    "$OUT $(find "$mounted" -perm /6000)" $'1\n755 '

attack isolation 'set-id /mnt/owned/sub'
is 'in any way' "$OUT" \
    "$(printf '%s\n' 'chmod EPERM 0' 'chmod-gid EPERM 0' 'fchmod EPERM 0' 'fchmodat EPERM 0' 'fchmodat2 EPERM 0' \
    'open EPERM 0' 'openat EPERM 0' \
    'tmpfile EPERM 0' 'openat2 ENOSYS 0' 'creat EPERM 0' 'mknod EPERM 0' 'mknodat EPERM 0' 'mkdir OK 0' \
    'high-bits EPERM 0' 'plain OK 0' 'garbage-mode OK 0')"
upload /mnt/owned/sub/up "$TOOL" '&mode=4755'
is 'nor by a file call' "$(find "$mounted" -perm /6000)" ''
rm -rf "$mounted"/sub/[!i]*

# ---- the container goes and comes, and they with it ----

container=$(engine GET "/containers/$(container)/json" | jq -r .Id)
kill -KILL "$(runner)"
dead() { api GET "$B" && [ "$(j .state)" != ready ]; }
ok 'its runner is killed' eventually 20 dead
dead_box=$BOX
box_new "\"user\":\"ann\",\"thread\":\"mounted\""
is "it starts again, the same container" "$BOX $(engine GET "/containers/$(container)/json" | jq -r .Id)" \
    "$dead_box $container"
run 'cat /mnt/look/host deep/beside; echo again > /mnt/owned/again; ls deep/sub'
is 'with its mounts' "$CODE $OUT $(whose "$mounted/again")" $'0 host\nin 23456:23457'
api DELETE "$B"
is 'it is deleted' "$STATUS" 204
is 'and what was mounted is not' "$(cat "$mounted/hidden" "$mounted/again" | xargs)" 'hidden again'

# ---- whoever the user is ----

box_new "\"template\":\"$IMAGE_BUSYBOX\",$(mounts "$mounted" /mnt/owned)"
used 'root' 0:0
is "root's workspace" "$(whose "$STATE/boxes/$BOX/workspace")" 0:0
api DELETE "$B"
box_new "\"container\":{\"user\":\"4321:8765\",\"read_only\":true},$(mounts "$mounted" /mnt/owned '' "$mounted" \
    /new/place 1)"
used 'one that the image does not know, where nothing else can be written' 4321:8765
run 'echo x > /file; echo y > file; cat /new/place/host; stat -c %u:%g . file'
is 'but the workspace' "$CODE $OUT $(whose "$STATE/boxes/$BOX/workspace"{,/file})" \
    $'0 host\n4321:8765\n4321:8765 4321:8765'
api DELETE "$B"

# ---- a workspace of somebody's ----

box_new "$(mounts "$mounted" /workspace)"
run 'pwd; cat host; echo w > w; stat -c %u:%g w'
is 'a directory may be the workspace' "$CODE $OUT $(whose "$mounted/w")" $'0 /workspace\nhost\n1000:1000 23456:23457'
api DELETE "$B"

# ---- what is refused ----

refused() { # refused WHAT STATUS CODE TEXT MOUNT...
    api POST /v1/boxes "{$(mounts "${@:5}")}"
    is_error "$1" "$2" "$3" "$4"
}
refused 'through a link' 403 DENIED link "$WORK/shared/link" /mnt/x
refused 'where the runner is' 400 INVALID .cubby "$mounted" /.cubby/x
api POST /v1/boxes "{\"container\":{\"init\":\"image\"},$(mounts "$mounted" /mnt/x)}"
is_error 'to write to it, where the image has the first word' 501 UNSUPPORTED 'read-only'
mkdir "$WORK/shared/sockets" && mount --bind "$ENGINE_DIR" "$WORK/shared/sockets"
refused "the engine's socket, whichever way it is found" 403 DENIED socket "$WORK/shared/sockets" /mnt/x
refused 'itself' 403 DENIED socket "$WORK/shared/sockets/sock" /mnt/x
umount "$WORK/shared/sockets"
is 'nothing of those is left' \
    "$(engine GET '/containers/json?all=1' | jq -r '.[].Names[]' | grep -c "$(container | cut -c1-15)")" 1
box_use "$first"
