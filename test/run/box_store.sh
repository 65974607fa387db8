# Boxes in a btrfs of cubby's own: bounded, kept through restarts, shared by daemons, never read-only for want of space,
# gone
# with --cleanup. That the bounds hold against attacks is in test/hostile/disk_fill_store.sh.
# not remote: its boxes lie on the user's disk
# by default: jail local remote
# files: on disk

if [ "$BACKEND" != jail ] || [ "$(id -u)" != 0 ] || ! command -v mkfs.btrfs > /dev/null ||
    ! grep -q btrfs /proc/filesystems; then
    skip 'a store' 'not for this backend, no btrfs here, or no root'
    return
fi
first=$BOX
start_store() { # start_store LINES
    cp "$CONFIG" "$WORK/store.yaml"
    printf '%b' "$1" >> "$WORK/store.yaml"
    second_start "$WORK/store.yaml" "$program" || fail 'a daemon with a store' "$(tail -5 "$WORK/daemon.log")"
}
restart() { # restart SIGNAL
    kill "-$1" "$DAEMON_PID"
    wait "$DAEMON_PID" 2> /dev/null
    start_daemon "$program" || fail "$1: a new daemon" "$(tail -5 "$WORK/daemon.log")"
}
method() { api GET /v1/info && j '.backends[] | select(.name == "jail") | .disk_quota'; }
devices() { losetup --noheadings --list --output BACK-FILE | grep -cF "$STATE/store.img"; }
mounts() { grep -cF " $STATE/store " /proc/self/mountinfo; }
bounded() { # bounded NAME: 32 MiB hold
    run 'head -c 100000000 /dev/zero > over; stat -c %s over; rm over; echo fits > f; cat f'
    like "$1: the writer is told" "$ERR" 'Disk quota exceeded'
    between "$1: at the limit" "${OUT%%$'\n'*}" 28000000 $((32 << 20))
    is "$1: what fits is written" "${OUT##*$'\n'}" fits
}

# ---- by itself, where every box has a limit ----

start_store 'disk_mb: 32\nidle_timeout_ms: 1000\n'
is 'it is the way to hold disk_mb' "$(method) $(readlink "$STATE/boxes" "$STATE/layers" "$STATE/trash" | tr '\n' ' ')" \
    'btrfs store/boxes store/layers store/trash '
is 'one mount, one device' "$(mounts) $(devices)" '1 1'
is 'all of the image is taken from the disk' "$(($(stat -c '%b * 512 - %s' "$STATE/store.img") >= 0))" 1
unlike 'and stays so' "$(grep -F " $STATE/store " /proc/self/mountinfo)" '[ ,]discard'
box_new '"user":"ann","thread":"kept"'
bounded 'in a store'
count_now() { run 'sync' && api GET "$B" && [ "$(j .usage.disk_bytes)" -gt 0 ]; }
ok 'the usage is counted' eventually 10 count_now
stopped() { api GET "$B" && [ "$(j .state)" = warm ] && [ "$(j .usage.pids)" = null ]; }
ok 'its processes end when it idles' eventually 20 stopped
run 'cat f'
is 'its files are there again' "$OUT" fits
bounded 'after a stop'
for signal in TERM KILL; do
    restart "$signal"
    run 'cat f'
    is "$signal: the files are there" "$OUT" fits
    is "$signal: one mount, one device" "$(mounts) $(devices)" '1 1'
done

# ---- a snapshot of a running box ----

ours=$BOX
box_new '"user":"ann","thread":"live","idle_timeout_ms":0'
run 'echo one > f'
api POST "$B/processes" '{"command":"while :; do :; done"}'
pid=$(j .pid)
api POST "$B/snapshots" '{"name":"live"}'
if [ "$(printf '%s\n' 6.7 "$(uname -r)" | sort -V | head -1)" != 6.7 ]; then
    is 'a running box: its blocks are shared' "$STATUS $(j '[.method,.copied_bytes,.stopped]|tostring')" \
        '201 ["reflink",0,false]'
else is 'a running box: kept by a snapshot, without a pause' \
    "$STATUS $(j '[.method,.pause_ms,.copied_bytes,.stopped]|tostring')" '201 ["btrfs",0,0,false]'; fi
api GET "$B/processes/$pid"
is 'its processes run on' "$(j .state)" running
api POST "$B/processes/$pid/signal" '{"signal":"SIGKILL"}'
run 'echo fits > f'
kept=$BOX
api POST "$B/fork" '{"snapshot":"live"}'
box_use "$(j .id)"
run 'cat f; echo two > f; cat f'
is 'a fork has the files of that moment' "$OUT" $'one\ntwo'
bounded 'a fork'
api DELETE "$B"
box_use "$kept"
api DELETE "$B/snapshots/live"
is 'the snapshot is deleted' "$STATUS" 204
run 'cat f'
is 'its box has its own' "$OUT" fits
api DELETE "$B"
box_use "$ours"

# ---- two daemons ----

one=("$DAEMON_PID" "$SOCKET")
SOCKET=$WORK/third
start_daemon "$program" || fail 'a second daemon on the same store' "$(tail -5 "$WORK/daemon.log")"
run 'cat f'
is 'two daemons share it' "$OUT $(mounts) $(devices)" 'fits 1 1'
kill "${one[0]}" && wait "${one[0]}"
run 'echo more >> f; cat f'
is 'one ends, the other goes on' "$OUT" $'fits\nmore'
kill "$DAEMON_PID" && wait "$DAEMON_PID"
SOCKET=${one[1]}
start_daemon "$program" || fail 'both have ended: a new one' "$(tail -5 "$WORK/daemon.log")"
run 'cat f'
is 'both have ended, a new one finds it' "$OUT" $'fits\nmore'

# ---- stopped, and mounted again ----

api DELETE "$B"
no_subvolumes() { [ "$(btrfs subvolume list "$STATE/store" | grep -vc '/\.slot-')" = 0 ]; }
ok 'deleted: no subvolume is left' eventually 20 no_subvolumes
box_new '"user":"ann","thread":"again","idle_timeout_ms":0'
run 'echo there > f'
echo 'end_boxes: true' >> "$CONFIG"
restart TERM
kill "$DAEMON_PID" && wait "$DAEMON_PID"
released() { [ "$(mounts) $(devices)" = '0 0' ]; } # the kernel lets go of a loop device after the unmount
eventually 10 released
is 'end_boxes: stopped, nothing is mounted' "$(mounts) $(devices)" '0 0'
start_daemon "$program" || fail 'mounted again' "$(tail -5 "$WORK/daemon.log")"
run 'cat f'
is 'mounted again, the files are there' "$OUT" there
kill "$DAEMON_PID" && wait "$DAEMON_PID"
sed -i 's/^end_boxes.*//; $a store: directory' "$CONFIG"
"$program" --listen "unix:$SOCKET" --state "$STATE" --config "$CONFIG" > "$WORK/out" 2>&1 < /dev/null
is 'not as a directory: refused' "$?" 125
like 'and why' "$(< "$WORK/out")" 'are in its store; set store: btrfs, or remove them'
sed -i '/^store:/d' "$CONFIG"

# ---- gone ----

"$program" --state "$STATE" --cleanup > "$WORK/out" 2>&1
is '--cleanup' "$? $(grep -c 'removed the store' "$WORK/out")" '0 1'
is 'nothing of it is left' "$(mounts) $(devices) $(ls "$STATE" | grep -cE '^(store|boxes|layers|trash)')" '0 0 0'

# ---- a small one that is promised more than it has ----

sed -i '/^idle_timeout/d; $a store: btrfs\nstore_mb: 512' "$CONFIG"
start_daemon "$program" || fail 'a small store' "$(tail -5 "$WORK/daemon.log")"
box_new '"limits":{"disk_mb":1000}'
greedy=$BOX
box_new '"limits":{"disk_mb":1000}'
other=$BOX
run 'echo before > f; sync'
box_use "$greedy"
run 'head -c 500000000 /dev/zero > full; sync; stat -c %s full' '"timeout_ms":60000'
like 'a full store: the writer is told' "$ERR" 'Disk quota exceeded'
between 'a full store: with what there is' "$OUT" 100000000 $((512 << 20))
box_use "$other"
run 'cat f; head -c 1000000 /dev/zero > g'
is 'a full store: others read' "$OUT" before
run 'rm -f g; echo alive'
is 'a full store: and run commands' "$OUT" alive
box_use "$greedy"
run 'rm full && sync && echo removed'
is 'space is given back' "$OUT" removed
box_use "$other"
freed() { run 'echo after > f && cat f' && [ "$OUT" = after ]; }
if eventually 20 freed; then pass 'then others write'; else fail 'then others write' "$STATUS $BODY $ERR"; fi
# One user's snapshots take no more than half of it, whatever its limits say: others still write.
for i in 1 2 3; do
    box_new '"user":"mallory"'
    for ((kept = 0; kept < 9; kept++)); do
        run "rm -f f*; head -c 28M /dev/urandom > f$kept"
        api POST "$B/snapshots" "{\"name\":\"s$kept\"}"
        [ "$STATUS" = 201 ] || break
    done
    [ "$i" != 1 ] || is_error 'a box that keeps all it writes is refused in time' 429 LIMIT '4 times its disk_mb'
done
is_error 'and so are all together' 507 FULL 'more than half of the store'
box_use "$other"
run 'head -c 20M /dev/urandom > g && echo written; rm g'
is 'another user can still write' "$OUT" written
like 'it never turned read-only' "$(grep -F " $STATE/store " /proc/self/mountinfo)" ' rw'
box_new '"limits":{"disk_mb":32}' && run 'echo new'
is 'and new boxes are made' "$OUT" new
delete_boxes
kill "$DAEMON_PID" && wait "$DAEMON_PID"
"$program" --state "$STATE" --cleanup > "$WORK/out" 2>&1 || fail 'it is cleaned' "$(< "$WORK/out")"

# ---- one that grows ----

sed -i '/^store_mb/d' "$CONFIG"
start_daemon "$program" || fail 'one that grows' "$(tail -5 "$WORK/daemon.log")"
before=$(stat -c %s "$STATE/store.img")
box_new '"limits":{"disk_mb":2000}'
grown() { run 'fallocate -l 700M a && rm -f a b && fallocate -l 700M a && fallocate -l 700M b && echo $?' &&
    [ "$OUT" = 0 ]; }
ok 'more is written than it had' eventually 20 grown
between 'it has grown' "$(stat -c %s "$STATE/store.img")" $((before + 1)) $((before * 4))
is 'all of it is taken from the disk' "$(($(stat -c '%b * 512 - %s' "$STATE/store.img") >= 0))" 1
delete_boxes
kill "$DAEMON_PID" && wait "$DAEMON_PID"
"$program" --state "$STATE" --cleanup > "$WORK/out" 2>&1 || fail 'it is cleaned' "$(< "$WORK/out")"
is 'no mount, no device' "$(mounts) $(devices)" '0 0'
rm -rf "$STATE"
DAEMON_PID=${FIRST[0]} SOCKET=${FIRST[1]} STATE=${FIRST[2]} CONFIG=${FIRST[3]}
box_use "$first"
