# The daemon has no descriptors left, no threads, no room in its state directory: it says so, and recovers.
# wall: a reserve descriptor for refusals, 503 where a thread cannot be had, errors instead of aborts

CLIENT=$BUILD/test/attack_client
answers() { API_SECONDS=10 api GET /healthz && [ "$STATUS" = 200 ]; }
runs() { API_SECONDS=10 run 'echo fine' && [ "$OUT" = fine ]; }
statuses() { sort "$WORK"/many*/result | uniq -c | tr -s ' \n' ' '; }
many() { # many COUNT METHOD PATH BODY: at once; their statuses in statuses
    local i pids=
    rm -rf "$WORK"/many*
    for ((i = 0; i < $1; i++)); do
        (WORK=$WORK/many$i && mkdir -p "$WORK" && API_SECONDS=60 api "${@:2}" &&
            echo "${STATUS%% *}" > "$WORK/result") & pids+=" $!"
    done
    wait $pids
}

echo 'pool_size: 0' > "$WORK/small.yaml"
# without CAP_SYS_RESOURCE, by which it would take more
if second_start "$WORK/small.yaml" setpriv --bounding-set=-sys_resource bash -c 'ulimit -n 120; exec "$0" "$@"' \
    "$program"; then
    is 'a daemon with 120 descriptors' "$(grep 'open files' "/proc/$DAEMON_PID/limits" | tr -s ' ' | cut -d' ' -f4)" 120
    box_new
    runs
    coproc HOLD { "$CLIENT" heads "$SOCKET" 300 2>&1; }
    holder=$! in=${HOLD[1]}
    read -r -t 30 line <&"${HOLD[0]}"
    like 'clients take them all' "$line" '^holding'
    API_SECONDS=10 api GET /healthz
    like 'a newcomer is answered, refused or closed, never left waiting' "$STATUS" '^(200|503|curl-(52|56|55|7) .*)$'
    eval "exec $in>&-"
    wait "$holder"
    ok 'it recovers when they go' eventually 20 answers
    ok 'its boxes too' eventually 10 runs
    made=() worst=
    for i in {1..60}; do
        api POST /v1/boxes '{"backend":"jail"}'
        [ "$STATUS" = 201 ] || { worst="$STATUS $(j .error.code)" && break; }
        made+=("$(j .id)")
    done
    diag "${#made[@]} boxes, then $worst: $(j .error.message)"
    like 'boxes use them up: an error that says so' "$worst" '^(503 BUSY|429 LIMIT|500 (IO|INTERNAL))$'
    for id in "${made[@]}"; do api DELETE "/v1/boxes/$id"; done
    ok 'and it recovers from that' eventually 20 runs
    many 60 POST "$B/exec" '{"command":"sleep 0.2"}'
    diag "sixty:$(statuses)"
    # Without a descriptor for an answer the connection is closed, as above.
    like 'sixty commands at once: each is answered or closed' "$(statuses)" '^( [0-9]+ (200|503|429|curl-(52|56)))+ $'
    is 'all of them' "$(cat "$WORK"/many*/result | wc -l)" 60
    ok 'and it recovers again' eventually 20 runs
    api DELETE "$B"
    second_end
    is 'it ends in order' $? 0
else
    fail 'a daemon with few descriptors' "$(tail -5 "$WORK/daemon.log")"
    second_end
fi

# threads
echo 'max_threads: 6' > "$WORK/small.yaml"
if second_start "$WORK/small.yaml" "$program"; then
    box_new
    many 40 POST "$B/exec" '{"command":"sleep 0.5"}'
    diag "forty:$(statuses)"
    like 'forty commands with six threads: some wait, some are refused, each is answered' "$(statuses)" \
        '^( [0-9]+ (200|503))+ $'
    is 'all of them' "$(cat "$WORK"/many*/result | wc -l)" 40
    ok 'and it recovers' eventually 20 runs
    api DELETE "$B"
    second_end
    is 'it ends in order' $? 0
else
    fail 'a daemon with few threads' "$(tail -5 "$WORK/daemon.log")"
    second_end
fi
if [[ $program != */asan/* ]]; then
    # Address space for some more threads: a stack that cannot be mapped is a thread that cannot be had.
    echo 'pool_size: 0' > "$WORK/small.yaml"
    if second_start "$WORK/small.yaml" env MALLOC_ARENA_MAX=1 bash -c 'ulimit -v 44000; exec "$0" "$@"' "$program"; then
        box_new
        many 120 POST "$B/exec" '{"command":"sleep 2"}'
        diag "address space:$(statuses)"
        like 'as many commands as find no room' "$(statuses)" '^( [0-9]+ (200|503|429))+ $'
        ok 'and it recovers' eventually 20 runs
        api DELETE "$B"
        second_end
        is 'it ends in order' $? 0
    else
        fail 'a daemon with little address space' "$(tail -5 "$WORK/daemon.log")"
        second_end
    fi
fi

# the disk of the state directory
mkdir -p "$WORK/state-second"
truncate -s 16M "$WORK/small.img"
if mke2fs -q -t ext4 -m 0 -O ^has_journal "$WORK/small.img" &&
    mount -o loop "$WORK/small.img" "$WORK/state-second" 2> /dev/null; then
    if second_start "$WORK/small.yaml" "$program"; then
        box_new
        fill() { head -c 100M /dev/zero >> "$WORK/state-second/filler" 2> /dev/null || sync -f "$WORK/state-second"; }
        # What is prepared already has its space, and ends of others free some again.
        no_box() { fill; api POST /v1/boxes '{"backend":"jail"}'; [ "$STATUS" != 201 ]; }
        eventually 60 no_box
        diag "full: $BODY"
        like 'no room for a box: an error' "$STATUS $(j .error.code)" '^(5|429|413)'
        isnt 'that says why' "$(j .error.message)" null
        runs
        is 'a box that is there goes on' "$OUT" fine
        # What the box that was not made had taken is given back when there is time for it.
        no_write() {
            fill
            put x 'some text'
            [[ $STATUS = 20? ]] || return 0
            api DELETE "$B/files?path=x"
            return 1
        }
        eventually 60 no_write
        like 'a write is an error, not half a file' "$STATUS" '^(5|413|429)'
        get x
        is 'nothing of it is there' "$STATUS" 404
        rm "$WORK/state-second/filler"
        put x 'some text'
        is 'and goes when there is room again' "$STATUS" 201
        make() { api POST /v1/boxes '{"backend":"jail"}' && [ "$STATUS" = 201 ]; }
        eventually 10 make
        is 'so do boxes' "$STATUS" 201
        delete_boxes
        second_end 2> /dev/null # the directory itself is a mount point
        is 'it ends in order' $? 0
    else
        fail 'a daemon with a small disk' "$(tail -5 "$WORK/daemon.log")"
        second_end 2> /dev/null
    fi
    umount "$WORK/state-second"
else skip 'a full state directory' 'no image can be mounted here'; fi
box_use "$ATTACKED"
