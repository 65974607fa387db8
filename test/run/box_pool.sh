# Jails made before anybody asks for one: each is bound to one owner once, ends with him, and nothing of one owner is in
# another's. Those that ended while they waited are never handed out; a killed daemon leaves none.
# not remote: its boxes are none of this host's jails
# by default: jail local remote

if [ "$BACKEND" != jail ]; then skip 'jails made ahead' "boxes of $BACKEND are none of this host's jails"; return; fi
if [ "$(id -u)" != 0 ]; then skip 'jails made ahead' 'only root has a pool'; return; fi
POOL=8 # pool_size
pool() { cut -d' ' -f1 "$STATE"/boxes/.slot-*/jail 2> /dev/null | sort; }
live_pool() { local pid; for pid in $(pool); do kill -0 "$pid" 2> /dev/null && echo "$pid"; done; }
pool_full() { [ "$(live_pool | wc -l)" = "$POOL" ] && [ "$(pool | wc -l)" = "$POOL" ]; }
refilled() { if eventually 20 pool_full; then pass "$1"; else fail "$1" "$(pool | xargs)"; fi; }
pooled() { grep -qx "$1" <<< "$BEFORE"; } # it waited in the pool when BEFORE was taken
gone() { ! kill -0 "$1" 2> /dev/null; }
# ended, waited for or not
dead() { local pid; for pid; do [[ $(sed 's/.*) //' "/proc/$pid/stat" 2> /dev/null) != [RSDTt]* ]] || return 1; done; }
first=$BOX

refilled 'the pool is filled'
BEFORE=$(pool)
box_new '"user":"ann","env":{"OWNER":"ann","HOME":"/tmp"},"labels":{"of":"ann"},"limits":{"open_files":123,"pids":40}'
ann=$BOX anns=$(runner_of "$BOX")
ok 'a box comes out of the pool' pooled "$anns"
run 'echo $OWNER $HOME; ulimit -n; echo secret > kept; echo secret > /tmp/kept; mkdir -p /dev/shm/kept'
is 'and has what its owner asked for' "$OUT" $'ann /tmp\n123'
tag_new
api POST "$B/processes" "{\"command\":\"sleep $TAG\"}"
run 'for i in $(seq 60); do sleep 5 & done 2>&1; kill $(jobs -p)'
like 'also its limit of processes' "$OUT$ERR" 'Resource temporarily unavailable|fork'
refilled 'the pool is filled again'
is 'with others than that one' "$(pool | grep -cx "$anns")" 0

BEFORE=$(pool)
box_new '"user":"bob"'
bobs=$(runner_of "$BOX")
ok "bob's comes out of the pool, too" pooled "$bobs"
run 'env | sort | cut -d= -f1 | xargs; ulimit -n; ls -A . /tmp /dev/shm; ps -e -o args= | grep -c "sleep [0-9]"; '\
'hostname'
is "and knows nothing of ann" "$OUT" \
    "$(printf '%s\n' 'HOME LANG PATH PWD SHLVL _' 4096 .: '' /dev/shm: '' /tmp: 0 cubby)"
api GET "$B"
is 'nor have its labels come along' "$(j .user) $(j .labels.of)" 'bob null'
box_use "$ann"
run 'cat kept'
is "ann's files are where they were" "$OUT" secret
api DELETE "$B"
ok 'her runner ends with her box' eventually 5 gone "$anns"
refilled 'nothing of it comes back'
is 'neither its process' "$(pool | grep -cx "$anns")" 0

# What a blank jail cannot become is made as before.
box_new '"limits":{"memory_mb":100}'
run 'df -B1 --output=size /dev/shm | tail -1 | xargs'
is 'another memory bounds what outlives processes' "$OUT" $((50 << 20))
box_new "\"mounts\":[{\"source\":\"$WORK/shared\",\"target\":\"/mnt/shared\",\"read_only\":true}]"
run 'ls /mnt/shared'
is 'mounts are there' "$OUT" sub
box_new '"shell":"/bin/sh","env":{"A":"b"}'
run 'echo $0 $A'
is 'a shell of its own' "$OUT" 'sh b'
box_new '"user":"carl"'
refilled 'after all of them the pool is full'

# Jails for boxes that nobody asks for any more do not keep the places of those that are.
BEFORE=$(pool)
for ((i = 0; i < 2 * POOL; i++)); do
    box_new '"user":"eve","limits":{"memory_mb":96}'
    api DELETE "$B"
done
refilled 'the pool is filled for the boxes of today'
is 'with none for those of yesterday' "$(pool | grep -cxF "$BEFORE")" 0
BEFORE=$(pool)
box_new '"user":"eve","limits":{"memory_mb":96}'
ok 'and they come out of it' pooled "$(runner_of "$BOX")"
api DELETE "$B"
for ((i = 0; i < 2 * POOL; i++)); do
    box_new '"user":"eve"'
    api DELETE "$B"
done
refilled 'it is as before'

# Killed while they wait.
BEFORE=$(pool)
kill -KILL $BEFORE
eventually 10 dead $BEFORE
box_new '"user":"dora"'
is 'with a dead pool a box is made' "$STATUS" 201
is 'none of the dead ones' "$(grep -cx "$(runner_of "$BOX")" <<< "$BEFORE")" 0
run 'echo fine'
is 'and it runs' "$OUT" fine
refilled 'the pool recovers'
is 'without the dead' "$(pool | grep -cxF "$BEFORE")" 0
BEFORE=$(pool)
kill -KILL "$(head -1 <<< "$BEFORE")"
eventually 10 dead "$(head -1 <<< "$BEFORE")"
for i in 1 2 3; do
    box_new && run 'echo fine'
    is "one of them dead: box $i" "$OUT" fine
done
refilled 'and the pool is full of living ones'

# A daemon killed with a full pool.
BEFORE=$(pool)
number=$(basename -a "$STATE"/boxes/.slot-* | head -1)
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
all_gone() { local pid; for pid in $BEFORE; do gone "$pid" || return 1; done; }
ok 'blank jails end with a killed daemon' eventually 10 all_gone
start_daemon "$program"
box_use "$first"
run 'echo fine'
is 'boxes live on' "$OUT" fine
slots_gone() { [ "$(comm -12 <(pool) <(echo "$BEFORE") | wc -l)" = 0 ] && [ ! -e "$STATE/boxes/$number" ]; }
ok 'what it left of them is cleaned by the next' eventually 10 slots_gone
refilled 'which has a pool of its own'
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
"$program" --cleanup --state "$STATE" > "$WORK/cleaned" 2>&1 < /dev/null
is 'or by --cleanup' $? 0
if no_host_leftovers; then pass 'which leaves nothing on the machine'; else fail 'which leaves nothing on the machine' \
    "$(host_leftovers)"; fi
start_daemon "$program"
