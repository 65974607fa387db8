# All processors kept busy, by more programs than there are processors.
# wall: the cpu controller: a quota where asked for, an equal share always; PID 1 goes before the commands of its box
# box: "limits":{"cpus":0.5}

# hogs BOX COUNT: programs that spin, in the background
hogs() {
    box_use "$1"
    api POST "$B/processes" "{\"command\":\"for i in \$(seq $2); do (while :; do :; done) & done; wait\"}"
}
cpu_ms() { api GET "/v1/boxes/$1" && CPU=$(j .usage.cpu_ms); }
# spent BOX: milliseconds of processor time in one second of the clock
spent() {
    cpu_ms "$1"
    local from=$CPU start
    now_ms
    start=$NOW
    read -r -t 1 -u "$LIB_NEVER"
    cpu_ms "$1"
    now_ms
    SPENT=$(((CPU - from) * 1000 / (NOW - start)))
}

run 'cut -d" " -f19 /proc/1/stat /proc/self/stat'
is 'PID 1 goes before its commands, which are as any program' "$OUT" $'-20\n0'
# Kernels before 6.12 have no turns of a length of one's own.
run 'turn() { sed -n "s/^se.slice *: *//p" "/proc/$1/sched"; }; turn 1; turn $$; (turn "$BASHPID"); :'
mapfile -t turns <<< "$OUT"
if [ "${turns[0]}" = 100000 ]; then
    is 'a command has short turns, as PID 1 has' "${turns[1]}" 100000
    unlike 'what it starts does not' "${turns[2]}" '^100000$'
else
    skip 'turns of commands' 'this kernel has none'
fi
for user in agent root; do
    run 'nice -n -5 true 2>&1; chrt -f 1 true 2>&1; renice -n 19 -p 1 2>&1; cut -d" " -f19 /proc/1/stat' \
        "\"user\":\"$user\""
    like "$user cannot change that" "$OUT" $'Permission denied.*not permitted.*(denied|not permitted).*\n-20$'
done
hogs "$ATTACKED" 8
spent "$ATTACKED"
between 'a quota of half a processor holds' "$SPENT" 100 600
box_new
free=$BOX
hogs "$free" 40
box_new
fair=$BOX
hogs "$fair" 2
# In the same second: what else this machine does then, it does to both. Without a share each, the two would get a
# twentieth.
cpu_ms "$free"
many=$CPU
cpu_ms "$fair"
few=$CPU
read -r -t 2 -u "$LIB_NEVER"
cpu_ms "$free"
many=$((CPU - many))
cpu_ms "$fair"
few=$((CPU - few))
diag "forty hogs $many ms, two hogs $few ms"
between 'two hogs get as much as forty in another box' $((few * 100 / (many + 1))) 40 400

# in the box with forty hogs
box_use "$free"
now_ms
start=$NOW
run 'while :; do :; done' '"timeout_ms":1000'
now_ms
is 'a time-out fires' "$(j .timed_out) $(j .signal)" 'true SIGTERM'
between 'on time, in the busy box itself' $((NOW - start)) 1000 $((1000 + 10000 * ${TEST_SLOW:-1}))
now_ms
start=$NOW
for _ in 1 2 3 4 5; do api GET "$B/processes"; done
now_ms
between 'its PID 1 answers at once' $((NOW - start)) 0 20000
neighbour_check 'meanwhile'
api DELETE "/v1/boxes/$free"
api DELETE "/v1/boxes/$fair"
box_use "$ATTACKED"
DELETE_MS=10000
