# Disk quota: files keep it through stops and restarts, every method that the machine has holds it, and where none works
# a
# box that asks for it is not made. What a box does against it is in test/hostile/disk_*.sh.
# not remote: the files are the user's own, on his disk: no quota of ours
# by default: jail local remote
# files: on disk

if [ "$BACKEND" = local ]; then
    api POST /v1/boxes '{"backend":"local","limits":{"disk_mb":16}}'
    is_error 'local holds no quota and says so' 501 UNSUPPORTED
    return
fi
if [ "$BACKEND" = docker ]; then
    api POST /v1/boxes '{"backend":"docker","limits":{"disk_mb":16}}'
    is_error 'a storage driver that holds no quota: said, and no box without it' 501 UNSUPPORTED \
        'disk_mb.*overlay2|overlay2.*disk_mb|disk'
    return
fi
first=$BOX
method() { api GET /v1/info && j '.backends[] | select(.name == "jail") | .disk_quota'; }
disk() { api GET "$B" && j .usage.disk_bytes; }
# counted NAME: a live box's files are; it may just have been stopped.
count_now() { run 'echo counted > counted' && COUNTED=$(disk) && [ "$COUNTED" != null ]; }
counted() {
    COUNTED=
    eventually 10 count_now
    between "$1: the usage is counted" "$COUNTED" 1 4000000
}
overfill() { run 'head -c 100000000 /dev/zero > over; stat -c %s over; rm over'; }
bounded() { # bounded NAME: 32 MiB hold
    overfill
    like "$1: the writer is told" "$ERR" 'No space left on device|Disk quota exceeded'
    between "$1: at the limit" "$OUT" 28000000 $((32 << 20))
    run 'echo fits > f && cat f'
    is "$1: what fits is written" "$OUT" fits
}

is 'without a quota nothing is counted' "$(disk)" null
if [ "$(method)" = null ]; then
    skip 'a disk quota' "$(j \
        '.backends[] | select(.name == "jail") | .missing[] | select(.what == "disk limits") | .detail')"
    return
fi

# ---- kept ----

box_new '"user":"ann","thread":"small","idle_timeout_ms":1000,"limits":{"disk_mb":32}'
bounded "$(method)"
counted "$(method)"
api GET "$B"
is 'and the limit is told' "$(j .limits.disk_mb)" 32
stopped() { api GET "$B" && [ "$(j .state)" = warm ]; }
if eventually 10 stopped; then pass 'its processes end when it idles'; else fail 'its processes end when it idles' \
    "$BODY"; fi
run 'cat f'
is 'its files are there again' "$OUT" fits
bounded 'after a stop'
for signal in TERM KILL; do
    kill "-$signal" "$DAEMON_PID"
    wait "$DAEMON_PID" 2> /dev/null
    start_daemon "$program" || fail "$signal: a new daemon" "$(tail -5 "$WORK/daemon.log")"
    run 'cat f'
    is "$signal: the files are there" "$OUT" fits
    bounded "$signal: a new daemon"
    counted "$signal"
done
image=$STATE/boxes/$BOX/fs
if [ -f "$image" ]; then # what the machine leaves when its power fails: an image that nobody closed
    run 'echo synced > s; sync s'
    cp --sparse=always "$image" "$WORK/torn"
    eventually 10 stopped || fail 'it idles again' "$BODY"
    cp --sparse=always "$WORK/torn" "$image"
    run 'cat s f'
    is 'a disk that was not closed is checked and used' "$OUT" $'synced\nfits'
    bounded 'after a check'
    eventually 10 stopped || fail 'it idles again' "$BODY"
    head -c 65536 /dev/zero | dd of="$image" conv=notrunc status=none
    run true
    is_error 'one that is destroyed is refused' 500 IO 'damaged'
fi
api DELETE "$B"
is 'and deleted' "$STATUS" 204

# ---- prepared ----

# Disks of the size that was asked for last wait on a shelf, prepared while nothing else is to be done.
on_shelf() { find "$STATE/blank" -name "ready-*-$1-*" -printf '%i\n' | sort; }
stocked() { [ "$(on_shelf 24 | wc -l)" -ge 4 ]; }
if [ "$(method)" = loop ] && [ "${POOL_SIZE:-1}" != 0 ]; then
    box_new '"limits":{"disk_mb":24}'
    if eventually 20 stocked; then pass 'disks are prepared in idle time'; else fail 'disks are prepared in idle time' \
        "$(ls "$STATE/blank")"; fi
    before=$(on_shelf 24)
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do box_new '"limits":{"disk_mb":24}'; done
    taken=$(stat -c %i "$STATE"/boxes/*/fs | sort)
    is 'each box has a disk of its own' "$(uniq -d <<< "$taken")" ''
    unlike 'boxes got disks that were prepared' "$(comm -12 <(echo "$before") <(echo "$taken"))" '^$'
    is 'and such a disk is on the shelf no more' "$(comm -12 <(on_shelf 24) <(echo "$taken"))" ''
    run 'head -c 100000000 /dev/zero > over; stat -c %s over; rm over; ls'
    between 'its limit holds' "${OUT%%$'\n'*}" 20000000 $((24 << 20))
    is 'and it was empty' "${OUT#*$'\n'}" "$OUT"
    delete_boxes
fi

# ---- refused ----

second() { # second CONFIG PROGRAM...: a second daemon with a box of 32 MiB
    cp "$CONFIG" "$WORK/second.yaml"
    printf '%b' "$1" >> "$WORK/second.yaml"
    shift
    second_start "$WORK/second.yaml" "$@" || fail 'a second daemon' "$(tail -5 "$WORK/daemon.log")"
}
if [ "$(id -u)" = 0 ] && [ "$(method)" = loop ]; then
    second '' unshare -m bash -c 'mount --bind /dev/null "$(PATH=/usr/sbin:/sbin command -v mke2fs)"; exec "$@"' bash \
        "$program"
    api POST /v1/boxes '{"limits":{"disk_mb":32}}'
    is_error 'no method works: no box' 501 UNSUPPORTED \
        'project: .*btrfs: .*loop: mke2fs is missing; apt-get install e2fsprogs'
    is 'the machine is told to lack it' \
        "$(method) $(j '.backends[0].missing[] | select(.what == "disk limits") | .fix')" \
        'null apt-get install e2fsprogs, or disk_quota: tmpfs'
    api POST /v1/boxes '{}'
    is 'without a quota there is one' "$STATUS" 201
    delete_boxes
    second_end
    second 'disk_quota: project\n' "$program"
    api POST /v1/boxes '{"limits":{"disk_mb":32}}'
    is_error 'the method asked for does not work: no box' 501 UNSUPPORTED "'project' .disk_quota.*prjquota"
    second_end
    second 'disk_mb: 32\n' "$program"
    box_new && bounded 'by default'
    delete_boxes
    second_end

    # A disk of 200 MB, of which three boxes of 64 MiB take all.
    truncate -s 200M "$WORK/disk"
    mkdir "$WORK/state-second"
    mke2fs -q -F -t ext4 -m 0 "$WORK/disk" && mount -o loop "$WORK/disk" "$WORK/state-second"
    second 'disk_reserve: true\npool_size: 0\n' "$program"
    made=0
    while [ "$made" -lt 4 ] && box_new '"limits":{"disk_mb":64}'; do
        made=$((made + 1))
    done
    is_error 'reserved: no box for which there is no space' 507 FULL 'no space'
    between 'reserved: but those for which there is' "$made" 2 3
    api GET /v1/boxes
    for id in $(j '.boxes[].id'); do
        box_use "$id"
        run 'head -c 60000000 /dev/zero > large && sync && rm large && head -c 60000000 /dev/zero > large && echo '\
'written'
        is 'reserved: each can write all of its own' "$OUT" written
    done
    delete_boxes
    second_end 2> /dev/null
    eventually 10 umount "$WORK/state-second" || fail 'reserved: the disk is let go' "$(losetup -a)"
    rm -rf "$WORK/disk" "$WORK/state-second"
fi

# ---- kept layers ----

refill() { run "rm -f f*; head -c 12M /dev/urandom > f$1"; }
snapshot() { api POST "$B/snapshots" "{\"name\":\"$1\"}"; }
layers() { ls "$STATE/layers" | wc -l; }
second 'disk_mb: 16\nuser_disk_mb: 96\n' "$program"
box_new '"user":"ann","limits":{"disk_mb":96}'
run 'head -c 1M /dev/urandom > f'
runner=$(runner_of "$BOX")
snapshot one
is_error 'a user whose boxes may take all: no snapshot beside them' 429 LIMIT \
    "user 'ann' has 96 MiB of disk in boxes, and kept layers would take [12], .*user_disk_mb.*; delete snapshots"
is 'nothing of it is left, and nothing was ended' "$(layers) $(runner_of "$BOX")" "0 $runner"
api DELETE "$B"
box_new '"user":"ann"'
ours=$BOX kept=0
while [ "$kept" -lt 9 ] && refill "$kept" && snapshot "s$kept" && [ "$STATUS" = 201 ]; do kept=$((kept + 1)); done
is_error 'a box that fills itself anew and keeps it: refused in time' 429 LIMIT \
    "box $BOX would take [67].* above the limit of 64 \\(4 times its disk_mb\\); delete snapshots"
between 'after as many as fit' "$kept" 4 5
is 'nothing of the last one is left' "$(layers)" "$kept"
run 'ls'
is 'the box goes on' "$OUT" "f$kept"
api POST "$B/rollback" '{"snapshot":"s0"}'
run 'ls'
is 'what was kept is whole' "$OUT" f0
refill again
api POST "$B/fork" '{"snapshot":"s0"}'
is 'a fork shares layers: they count once' "$STATUS" 201
box_use "$(j .id)"
run 'head -c 12M /dev/urandom > own'
snapshot own
is_error "all of a user's boxes together" 429 LIMIT "kept layers would take .*user_disk_mb"
api POST /v1/boxes '{"user":"ann"}'
is_error 'nor one more box beside them' 429 LIMIT "boxes and kept layers; 16 more are above the limit of 96"
api DELETE "$B"
box_new '"user":"bob"'
refill 0
snapshot one
is "another user's are kept" "$STATUS" 201
api DELETE "$B"
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
start_daemon "$program" || fail 'kept layers: a new daemon' "$(tail -5 "$WORK/daemon.log")"
box_use "$ours"
snapshot more
is_error 'a new daemon counts them too' 429 LIMIT 'times its disk_mb'
for ((i = 0; i < kept; i++)); do api DELETE "$B/snapshots/s$i"; done
again() { snapshot again && [ "$STATUS" = 201 ]; }
ok 'snapshots are deleted: their room is back' eventually 30 again
run 'ls'
is 'and the files are as they were' "$OUT" fagain
delete_boxes
second_end

# ---- a full disk ----

full_disk() {
    fill() { # to the last block
        cat /dev/zero > "$STATE/filler" 2> /dev/null
        for size in 65536 4096 1024; do
            while head -c "$size" /dev/zero >> "$STATE/rest" 2> /dev/null; do :; done
        done
    }
    health() { api GET /healthz && [ "$(j '[.status,.disk,.audit]|join(" ")')" = "$1" ]; }
    truncate -s 96M "$WORK/disk"
    mkdir "$WORK/state-second"
    mke2fs -q -F -t ext4 -m 0 "$WORK/disk" && mount -o loop "$WORK/disk" "$WORK/state-second"
    second 'store: directory\npool_size: 0\n' "$program"
    ok 'a disk with room' health 'ok ok ok'
    box_new '"user":"ann"'
    run 'head -c 2M /dev/urandom > f; : > g'
    runner=$(runner_of "$BOX")
    fill
    snapshot one
    is_error 'a full disk: a snapshot is refused before anything ends' 507 FULL \
        'the disk of the state directory is full; delete boxes or snapshots'
    is 'a full disk: the box is as it was' "$(runner_of "$BOX") $(layers)" "$runner 0"
    put /workspace/large "$(printf %0200000d 1)"
    is_error 'a full disk: an upload' 507 FULL 'No space left'
    api POST /v1/boxes '{"user":"ann"}'
    is_error 'a full disk: a new box' 507 FULL
    ok 'a full disk: said' eventually 10 health 'ok full failing'
    rm -f "$STATE/filler" "$STATE/rest"
    audited() { health 'ok ok ok' && api GET '/v1/audit?limit=1000' &&
        [ "$(j '[.events[] | select(.outcome == "FULL")] | length')" = 3 ]; }
    ok 'a full disk: what the audit log could not take it has when there is room' eventually 20 audited
    fill
    kill -KILL "$DAEMON_PID"
    wait "$DAEMON_PID" 2> /dev/null
    start_daemon "$program" || fail 'a full disk: the next daemon starts' "$(tail -5 "$WORK/daemon.log")"
    run 'rm f; ls'
    is 'a full disk: its boxes can be used to remove files' "$OUT" g
    fill
    api DELETE "$B"
    is 'a full disk: and be deleted' "$STATUS" 204
    kill -TERM "$DAEMON_PID"
    wait "$DAEMON_PID" 2> /dev/null
    rm -f "$STATE/reserve" "$STATE"/*-shm # used up
    fill
    timeout 30 "$program" --listen "unix:$SOCKET" --state "$STATE" --config "$CONFIG" > "$WORK/out" 2>&1 < /dev/null
    is 'no block at all: it does not start' "$?" 125
    like 'and says why' "$(tail -1 "$WORK/out")" "no space left on the disk of $STATE; free some and start again"
    rm -f "$STATE/filler" "$STATE/rest"
    start_daemon "$program" || fail 'with room it starts' "$(tail -5 "$WORK/daemon.log")"
    ok 'with room all is well' health 'ok ok ok'
    api GET /v1/audit/verify
    is 'and the audit log whole' "$STATUS $(j .intact)" '200 true'
    delete_boxes
    second_end 2> /dev/null
    eventually 10 umount "$WORK/state-second" || fail 'a full disk: it is let go' "$(losetup -a)"
    rm -rf "$WORK/disk" "$WORK/state-second"
}
if [ "$(id -u)" = 0 ]; then full_disk; else skip 'a full disk' 'a disk of its own needs root'; fi

# ---- tmpfs ----

memory_quota() {
    second 'disk_quota: tmpfs\n' "$program"
    if box_new '"user":"ann","thread":"memory","idle_timeout_ms":1000,"limits":{"disk_mb":32}'; then
        bounded tmpfs
        counted tmpfs
        run 'for i in {1..5000}; do : > n$i || exit; done 2> /dev/null' '"timeout_ms":20000'
        is 'tmpfs: names are bounded' "$STATUS $CODE" '200 1'
        eventually 10 stopped || fail 'tmpfs: it idles' "$BODY"
        run 'ls; echo new > g && cat g'
        is 'tmpfs: files end with the processes' "$OUT" new
    else fail 'tmpfs: a box' "$STATUS $BODY"; fi
    delete_boxes
    second_end
    CUBBY=$BUILD/cubby
    c run --disk 16 -- sh -c 'head -c 30000000 /dev/zero > f; stat -c %s f'
    is 'cubby run: the quota holds' "$CODE" 0
    between 'cubby run: at the limit' "$OUT" 15000000 $((16 << 20))
    like 'cubby run: the writer is told' "$ERR" 'No space left'

    if [ "$(id -u)" = 0 ]; then
        mkdir -m 755 "$WORK/user" && cp "$BUILD/cubby" "$BUILD/cubby-runner" "$WORK/user/"
        chmod 755 "$WORK"
        OUT=$(cd / && setpriv --reuid 65534 --regid 65534 --clear-groups -- sh -c 'exec "$@"' sh env -i HOME=/ \
            PATH="$PATH" \
            "$WORK/user/cubby" run --disk 16 -- sh -c 'head -c 30000000 /dev/zero > f; stat -c %s f' 2> "$WORK/err" \
    < /dev/null)
        between 'an ordinary user: at the limit' "$OUT" 15000000 $((16 << 20))
        like 'an ordinary user: the writer is told' "$(< "$WORK/err")" 'No space left'
        rm -r "$WORK/user"
    fi
}
if [ "$(printf '%s\n' 6.6 "$(uname -r)" | sort -V | head -1)" = 6.6 ]; then memory_quota; else
    second 'disk_quota: tmpfs\n' "$program"
    api POST /v1/boxes '{"limits":{"disk_mb":32}}'
    is_error 'tmpfs: refused where the kernel is too old' 501 UNSUPPORTED 'at least 6.6'
    second_end
fi

# ---- btrfs ----

if [ "$(id -u)" != 0 ] || ! command -v mkfs.btrfs > /dev/null || ! grep -q btrfs /proc/filesystems; then
    skip 'btrfs' 'no btrfs here, or no root'
else
    truncate -s 1G "$WORK/btrfs"
    mkdir "$WORK/state-second"
    mkfs.btrfs -q "$WORK/btrfs" > /dev/null && mount -o loop "$WORK/btrfs" "$WORK/state-second"
    second 'disk_quota: btrfs\n' "$program"
    api POST /v1/boxes '{"limits":{"disk_mb":32}}'
    is_error 'btrfs: quotas that are off are not turned on' 501 UNSUPPORTED 'btrfs quota enable'
    btrfs quota enable "$STATE"
    is 'btrfs: turned on, they are found' "$(method)" btrfs
    if box_new '"user":"ann","thread":"subvolume","idle_timeout_ms":1000,"limits":{"disk_mb":32}'; then
        bounded btrfs
        synced() { btrfs filesystem sync "$STATE" && between_disk; }
        between_disk() { local bytes; run : && bytes=$(disk) && [ "$bytes" -gt 0 ] && [ "$bytes" -lt 8000000 ]; }
        if eventually 20 synced; then pass 'btrfs: the usage is counted'; else fail 'btrfs: the usage is counted' \
            "$(disk)"; fi
        eventually 10 stopped || fail 'btrfs: it idles' "$BODY"
        run 'cat f'
        is 'btrfs: files stay' "$OUT" fits
        bounded 'btrfs, after a stop'
        api DELETE "$B"
        is 'btrfs: deleted' "$STATUS" 204
    else fail 'btrfs: a box' "$STATUS $BODY"; fi
    no_subvolumes() { [ "$(btrfs subvolume list "$STATE" | grep -vc '/\.slot-')" = 0 ]; }
    if eventually 20 no_subvolumes; then pass 'btrfs: no subvolume is left'; else
        fail 'btrfs: no subvolume is left' "$(btrfs subvolume list "$STATE")"
    fi
    second_end 2> /dev/null # the mount point cannot go yet
    unmounted() { umount "$WORK/state-second"; }
    eventually 10 unmounted || fail 'btrfs: it is let go' "$(grep state-second /proc/mounts)"
    rm -rf "$WORK/btrfs" "$WORK/state-second"
fi
box_use "$first"
