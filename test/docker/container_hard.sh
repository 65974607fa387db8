# What a container is, seen from inside and by the engine, and that no request makes it more.

inspect() { engine GET "/containers/$(container)/json" | jq -c "$1"; } # inspect FILTER: of the box's container
host_ns() { for ns in mnt pid net ipc uts cgroup; do readlink "/proc/self/ns/$ns"; done; }
seen_hard() { # seen_hard NAME: of the current box, by the engine
    is "$1: not privileged, no capability added beyond those" \
        "$(inspect '[.HostConfig.Privileged, ((.HostConfig.CapAdd // []) - '\
'["CHOWN","DAC_OVERRIDE","FOWNER","FSETID","KILL","SETGID","SETUID","SETPCAP","CAP_CHOWN","CAP_DAC_OVERRIDE",'\
'"CAP_FOWNER","CAP_FSETID","CAP_KILL","CAP_SETGID","CAP_SETUID","CAP_SETPCAP"]), .HostConfig.CapDrop]')" \
        '[false,[],["ALL"]]'
    is "$1: no new privileges, and the default filter" "$(inspect '.HostConfig.SecurityOpt')" '["no-new-privileges"]'
    is "$1: no namespace of the host" \
        "$(inspect '[.HostConfig|.NetworkMode,.PidMode,.IpcMode,.UTSMode,.UsernsMode,.CgroupnsMode]')" \
    '["none","","private","","","private"]'
    is "$1: no device, no port, no volume of others, no log, no restart" \
        "$(inspect '[.HostConfig|(.Devices // [])+(.DeviceRequests // []), (.PortBindings // {}), .PublishAllPorts, '\
'(.VolumesFrom // []), (.Links // []), (.ExtraHosts // []), .LogConfig.Type, .RestartPolicy.Name, (.Sysctls // {}), '\
'.AutoRemove]')" \
        '[[],{},false,[],[],[],"none","no",{},false]'
    is "$1: masked and read-only paths are the engine's" \
        "$(inspect '[(.HostConfig.MaskedPaths|index("/proc/kcore") != null), '\
'(.HostConfig.ReadonlyPaths|index("/proc/sys") != null)]')" '[true,true]'
    is "$1: of this machine it sees its own directories alone" \
        "$(inspect '[.Mounts[]|select(.Type == "bind")|.Source]' | jq -r '.[]' |
    grep -vE "^($STATE/boxes/$BOX/|$(realpath "$BUILD"))")" ''
    is "$1: no check of the image's own runs in it" "$(inspect '.Config.Healthcheck.Test // ["NONE"]')" '["NONE"]'
}

# ---- a user ----

seen_hard debian
run 'grep -E "^(Cap|NoNewPrivs|Seccomp:)" /proc/self/status | tr -d "\t" | tr "\n" " "'
is 'a user has nothing' "$OUT" \
    'CapInh:0000000000000000 CapPrm:0000000000000000 CapEff:0000000000000000 CapBnd:0000000000000000 '\
'CapAmb:0000000000000000 NoNewPrivs:1 Seccomp:2 '
run 'for ns in mnt pid net ipc uts cgroup; do readlink /proc/self/ns/$ns; done'
is 'six namespaces of its own' "$(comm -12 <(sort <<< "$OUT") <(host_ns | sort) | wc -l) $(wc -l <<< "$OUT")" '0 6'
run 'cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d " "'
is 'no network but its loopback' "$OUT" lo
for path in /proc/kcore /proc/keys /proc/timer_list; do
    run "head -c 10 $path | wc -c"
    is "$path is masked" "$OUT" 0
done
run 'ls /sys/firmware /proc/scsi 2> /dev/null | wc -l'
like 'so are directories' "$OUT" '^[0-2]$'
run 'for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/sys/kernel/hostname /sys/kernel/uevent_helper '\
'/sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/memory/memory.limit_in_bytes; do [ ! -e $f ] || { echo x > $f && '\
'echo "$f"; }; done 2> /dev/null'
is 'nothing of the kernel can be written' "$OUT" ''

# ---- root of an image ----

box_new "\"template\":\"$IMAGE_BUSYBOX\""
seen_hard busybox
run 'sed -n "s/^Cap\(Bnd\|Eff\|Prm\):[[:space:]]*//p" /proc/self/status; grep -E "^(NoNewPrivs|Seccomp):" '\
'/proc/self/status | tr -d "\t"'
more=$(head -3 <<< "$OUT" | while read -r mask; do echo $((16#$mask & ~16#1fb)); done | xargs)
is 'root has of chown dac_override fowner fsetid kill setgid setuid setpcap, and no more' "$more" '0 0 0'
is 'and cannot get more' "$(tail -2 <<< "$OUT")" $'NoNewPrivs:1\nSeccomp:2'
run 'mount -t tmpfs x /mnt 2>/dev/null || mount -t tmpfs x /tmp; echo $?; mknod /tmp/d b 7 0; echo $?; chroot / true; '\
'echo $?; unshare -Ur true; echo $?; hostname x; echo $?; ping -c 1 127.0.0.1 > /dev/null; echo $?'
is 'mount, mknod, chroot, namespaces, a name, raw sockets: refused' \
    "$(grep -c '^0$' <<< "$OUT") $(grep -cE '^[0-9]+$' <<< "$OUT")" '0 6'
run 'for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/sys/vm/drop_caches '\
'/sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/cgroup.procs '\
'/sys/fs/cgroup/devices/devices.allow /.cubby/runner /.cubby/run; do [ ! -e $f ] || { [ ! -d $f ] || f=$f/x; echo a > '\
'$f; } 2> /dev/null && [ -e $f ] && echo "$f"; done; mount -o remount,rw /.cubby/runner; rm -f /.cubby/runner '\
'/.cubby/run/sock; true'
is 'nor is anything of the kernel or of the runner written by root' "$OUT" ''
run 'find / -xdev -type s 2> /dev/null | grep -v "^/.cubby/"; ls /var/run/docker.sock /run/docker.sock 2> /dev/null; '\
'env | grep -E "DOCKER|CUBBY|SECRET"'
is 'no socket of the engine, nothing of the daemon' "$OUT" ''
run 'for s in 9 19 15 2 11; do kill -$s 1; done; cat /proc/1/mem /proc/1/environ /proc/1/maps 2> /dev/null | wc -c; '\
'ls -l /proc/1/fd /proc/1/ns 2> /dev/null | grep -c -e "-> ."; readlink /proc/1/exe; readlink /proc/1/root; echo alive'
is 'the runner is out of reach of its root' "$OUT" $'0\n0\nalive'

# ---- an image that wants more ----

mkdir -p "$WORK/image/bin" "$WORK/image/data"
cp "$(command -v busybox)" "$WORK/image/bin/sh"
tar -C "$WORK/image" --owner 0 --group 0 -cf - . | image_import cubby-test/wants:1 'USER 1234:1234' 'VOLUME /data' \
    'HEALTHCHECK --interval=1s CMD touch /data/checked' 'ENTRYPOINT ["/bin/sh","-c","touch /data/entered; exit 7"]' \
    'EXPOSE 80' 'LABEL io.podman.annotations.privileged=TRUE' 'ENV LD_PRELOAD=/data/x.so' 'WORKDIR /no/such' ||
    fail 'an image'
box_new '"template":"cubby-test/wants:1"'
seen_hard 'an image that wants more'
api POST "$B/exec" '{"argv":["/bin/sh","-c","echo /data/*; while read a b c; do [ $a != Uid: ] || echo $b; done < '\
'/proc/self/status"]}'
is 'its user counts, its entry point and its checks do not' "$(j .stdout)" $'/data/*\n1234'
volumes() { engine GET /volumes | jq -r '.Volumes[]?.Name' | sort; }
volume=$(inspect '[.Mounts[]|select(.Type == "volume")|.Name][0]' | tr -d '"')
api DELETE "$B"
is 'its volume goes with it' "$(volumes | grep -cx "$volume")" 0
engine DELETE /images/cubby-test/wants:1 > /dev/null

# ---- requests ----

# Where the configuration allows the directory that the engine's socket lies in, it is still not to be had.
sed "s#^mount_sources:#&\n  - $ENGINE_DIR#" "$CONFIG" > "$WORK/wide.yaml"
second_start "$WORK/wide.yaml" "$PROGRAM" || fail 'a second daemon' "$(tail -3 "$WORK/daemon.log")"
for source in "$ENGINE_SOCKET" "$ENGINE_DIR"; do
    api POST /v1/boxes "{\"backend\":\"docker\",\"mounts\":[{\"source\":\"$source\",\"target\":\"/mnt/engine\"}]}"
    like "the engine is not mounted: ${source#"$ENGINE_DIR"}" "$STATUS $(j .error.code)" '^4[0-9]+ (DENIED|INVALID)$'
    [ "$STATUS" != 201 ] || api DELETE "/v1/boxes/$(j .id)"
done
second_end

count() { engine GET "/containers/json?all=1&filters=$(encode \
    "{\"label\":[\"cubby.home=$(< "$STATE/docker-home")\"]}")" | jq length; }
before=$(count)
for more in '"privileged":true' '"container":{"privileged":true}' '"container":{"cap_add":["SYS_ADMIN"]}' \
    '"container":{"HostConfig":{"Privileged":true}}' '"container":{"devices":["/dev/sda"]}' \
    '"container":{"security_opt":["seccomp=unconfined"]}' '"container":{"pid":"host"}' '"network":"host"' \
    '"network":"container:x"' '"container":{"user":"0\",\"Privileged\":true,\"x\":\""}' '"container":{"user":"-1"}' \
    '"container":{"user":"root --privileged"}' '"container":{"user":"a\nb"}' '"container":{"runtime":"../../runc"}' \
    '"container":{"runtime":"io.containerd.runc.v1"}' '"container":{"platform":"linux/amd64\"}"}' \
    '"container":{"pull":"please"}' \
    '"container":"x"' '"container":{"user":7}' '"template":"--privileged"' '"template":"x?fromSrc=-"' \
    '"template":"../../etc"' '"template":"a b"' '"template":"cubby-test/debian:1\u0000x"' '"env":{"A=B":"c"}' \
    '"env":{"A\nB":"c"}' \
    '"mounts":[{"source":"/","target":"/host"}]' '"mounts":[{"source":"/var/run/docker.sock","target":"/s"}]' \
    "\"mounts\":[{\"source\":\"$WORK/shared\",\"target\":\"/.cubby/runner\"}]" \
    "\"mounts\":[{\"source\":\"$WORK/shared\",\"target\":\"/proc\"}]" \
    "\"mounts\":[{\"source\":\"$WORK/shared\",\"target\":\"/sys/fs/cgroup\"}]" \
    "\"mounts\":[{\"source\":\"$WORK/shared\",\"target\":\"/\"}]" \
    "\"mounts\":[{\"source\":\"$WORK/shared\",\"target\":\"/dev\"}]"; do
    api POST /v1/boxes "{\"backend\":\"docker\",$more}"
    like "refused: ${more:0:60}" "$STATUS $BODY" '^4.*"code":"(INVALID|DENIED|NOT_FOUND|UNSUPPORTED|EXISTS)"'
done
is 'and nothing was made for any of them' "$(count)" "$before"
box_new '"env":{"LD_PRELOAD":"/workspace/x.so","HOSTNAME":"$(id)","PATH2":"a b \" '\
'c"},"labels":{"com.docker.x":"--privileged","cubby.home":"x","cubby.box":"y"}'
is 'what only looks like an option is taken as it is' \
    "$STATUS $(inspect '[.HostConfig.Privileged,.HostConfig.CapDrop,.Config.Labels["cubby.box"]]')" \
    "201 [false,[\"ALL\"],\"$BOX\"]"
run 'echo "$LD_PRELOAD $HOSTNAME $PATH2"'
is 'to the letter' "$OUT" '/workspace/x.so $(id) a b " c'
api DELETE "$B"
