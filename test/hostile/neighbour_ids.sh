# Two boxes never share a host uid: not of one daemon, not of two with state directories of their own.
# wall: slots claimed machine-wide in /run/cubby/ids; 65,536 ids each; the user namespace belongs to the box's own uid
uids() { # of every process of the box, seen from the host
    local pid
    for pid in $(pgrep --ns "$(awk '{ print $1 }' "$STATE/boxes/$1/jail")" --nslist pid); do
        awk '/^(Uid|Gid):/ { print $2; print $3; print $4; print $5 }' "/proc/$pid/status"
    done | sort -un
}
occupied() { # occupied BOX: the number of its range
    local uid
    api POST "/v1/boxes/$1/processes" '{"command":"exec cat"}'
    api POST "/v1/boxes/$1/processes" '{"command":"exec cat","user":"root"}'
    for uid in $(uids "$1"); do echo $((uid / 65536)); done | sort -u
}
first=$(occupied "$ATTACKED") second=$(occupied "$NEIGHBOUR")
like 'a box lives in one range of ids' "$first" '^[0-9]+$'
between 'far above those of users' "$first" 4096 61440
isnt 'another box in another' "$second" "$first"
like 'which is one, too' "$second" '^[0-9]+$'
state=$STATE
if second_start "$CONFIG" "$BUILD/cubbyd"; then
    box_new
    third=$(occupied "$BOX")
    like "a second daemon's box" "$third" '^[0-9]+$'
    isnt 'shares neither' "$third" "$first"
    isnt 'range' "$third" "$second"
    claims=$(sed -n 's/ .*//p' /run/cubby/ids/* 2> /dev/null | sort | uniq -d | grep -c .)
    between 'no two claims of one process but a daemon holds for its pool' "$claims" 0 9
    delete_boxes
else fail 'a second daemon' "$(tail -5 "$WORK/daemon.log")"; fi
second_end
is 'the first is as before' "$(occupied "$ATTACKED")" "$first"
# files: what the box writes belongs to canonical ids on the disk and to nobody on the host
run 'touch mine; mkdir -p d; touch d/x' '"user":"agent"'
[ ! -d "$STATE/boxes/$ATTACKED/fs/upper" ] ||
    is 'on the disk ids are canonical' "$(stat -c '%u %g' "$STATE/boxes/$ATTACKED/fs/upper/workspace/mine")" '1000 1000'
