# An engine whose containers have a user namespace: whose files are is as everywhere else, on both sides.
# engine: none
# daemon: none

# Its ids are told to this dockerd alone.
mkdir "$WORK/bin"
printf 'nobody:200000:65536\nnogroup:200000:65536\n' > "$WORK/sub"
cat > "$WORK/bin/dockerd" << END
#!/bin/bash
[ "\$1" = private ] || exec unshare -m --propagation private "\$0" private "\$@"
shift
mount --bind "$WORK/sub" /etc/subuid && mount --bind "$WORK/sub" /etc/subgid || exit
exec -a dockerd "$(command -v dockerd)" "\$@"
END
chmod +x "$WORK/bin/dockerd"
whose() { stat -c '%u:%g' "$@" | sort -u | xargs; }
ENGINE_OWN=$(mktemp -d "${TMPDIR:-/tmp}/cubby-engine.XXXXXX")
chmod 755 "$ENGINE_OWN" # whoever the container's root is passes
if ! command -v dockerd > /dev/null || ! [ -e /etc/subuid ]; then
    skip 'user namespaces' 'no dockerd, or no /etc/subuid'
elif ! PATH=$WORK/bin:$PATH engine_launch "$ENGINE_OWN" --userns-remap=nobody:nogroup || ! image_busybox; then
    skip 'user namespaces' "${ENGINE_WHY:-no image could be made}"
else
    mkdir "$WORK/shared/dir"
    chown 23456:23457 "$WORK/shared/dir"
    export DOCKER_HOST=unix://$ENGINE_SOCKET
    start_daemon "$PROGRAM" || fail 'a daemon' "$(tail -5 "$WORK/daemon.log")"
    box_new "\"template\":\"$IMAGE_BUSYBOX\",\"agent\":\"app\",\"mounts\":[{\"source\":\"$WORK/shared/dir\","\
"\"target\":\"/mnt/dir\"}]"
    is 'a box' "$STATUS" 201
    run 'awk "{ print \$1, \$2 }" /proc/self/uid_map; id -u; cd /workspace && echo x > file; echo y > /mnt/dir/new; '\
'mkdir /skills/s && echo s > /skills/s/SKILL.md; stat -c %u:%g . file /mnt/dir /mnt/dir/new /skills /skills/s | sort -u'
    is 'root inside is nobody outside' "$CODE $OUT" $'0 0 200000\n0\n0:0'
    put up text
    is 'the workspace is his' "$(whose "$STATE/boxes/$BOX/workspace"{,/file,/up})" 200000:200000
    is 'a mounted directory its owner'"'"'s' "$(whose "$WORK/shared/dir/new")" 23456:23457
    is 'skills are as in any box' "$(whose "$STATE/boxes/$BOX/skills/skills"{,/s})" 1000:1000
    api POST "$B/skills/s/sync" '{"direction":"to_base"}'
    api POST /v1/boxes "{\"template\":\"$IMAGE_BUSYBOX\",\"agent\":\"app\",\"user\":\"bob\","\
"\"container\":{\"user\":\"77:88\"}}"
    box_use "$(j .id)"
    run 'echo z > file; echo more >> /skills/s/SKILL.md; cat /skills/s/SKILL.md; stat -c %u:%g . file /skills/s'
    is 'another user of the same' "$CODE $OUT $(whose "$STATE/boxes/$BOX/workspace/file")" \
        $'0 s\nmore\n77:88\n77:88\n77:88 200077:200088'
    delete_boxes
    stop_daemon
fi
engine_end "$ENGINE_OWN"
ENGINE_OWN=
