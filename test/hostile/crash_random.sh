# kill -9 of the daemon and of runners at random moments while boxes work: nothing is lost, nothing is left.
# wall: records and files are renamed into place; the disk and the locks, not a daemon's memory, say what a box is
# config: idle_timeout_ms: 0
# config: log_level: warn
# config: max_boxes_per_user: 0
# config: box_rate_per_user: 0

SEED=${FAULT_SEED:-$((SRANDOM % 100000))} BOXES=${FAULT_BOXES:-50} ROUNDS=${FAULT_ROUNDS:-8}
RANDOM=$SEED
diag "seed $SEED: FAULT_SEED=$SEED repeats the order of faults"
# the moment of a fault is random: nothing to wait for
pause_ms() { read -r -t "0.$(printf %03d "$1")" -u "$LIB_NEVER" || :; }
dead() { local stat; read -r stat < "/proc/$1/stat" || return 0; [[ $stat = *') '[ZX]' '* ]]; }
pid1_of() { cut -d' ' -f1 "$STATE/boxes/$1/jail" 2> /dev/null; }

boxes=() pids=() killed=()
for ((i = 0; i < BOXES; i++)); do
    box_new "\"user\":\"fault\",\"thread\":\"t$i\"" || { fail "box $i" "$STATUS $BODY"; break; }
    boxes+=("$BOX")
    api POST "$B/processes" \
        '{"command":"i=0; while :; do i=$((i+1)); echo $i > n.new && mv n.new n; echo $i; sleep 0.1; done"}'
    pids+=("$(j .pid)")
    killed+=('')
done
is "$BOXES boxes work" "${#boxes[@]}" "$BOXES"

# Clients that write, and note what was promised: FILE of BOX holds at least VALUE.
writer() { # writer NAME
    local n=0 id
    while [ -e "$WORK/writing" ]; do
        n=$((n + 1)) id=${boxes[SRANDOM % BOXES]}
        case $(curl -s --max-time 60 --unix-socket "$SOCKET" -o /dev/null -w '%{http_code}' -X PUT \
            --data-binary "begin:$n:end" \
            -H 'Content-Type: application/octet-stream' "http://localhost/v1/boxes/$id/files?path=$1") in
            20[01]) echo "$id $1 $n" >> "$WORK/ledger" ;;
            *) pause_ms 20 ;;
        esac
        curl -s --max-time 60 --unix-socket "$SOCKET" -o /dev/null -X POST -H 'Content-Type: application/json' \
            -d '{"command":"cat n; head -c 5000 /dev/urandom > junk","timeout_ms":5000}' \
    "http://localhost/v1/boxes/$id/exec"
    done
}
: > "$WORK/writing" > "$WORK/ledger"
writers=()
for name in w1 w2 w3; do
    writer "$name" 2> /dev/null &
    writers+=($!)
done
deaths=0 slowest=0
for ((round = 0; round < ROUNDS; round++)); do
    pause_ms $((50 + RANDOM % 400))
    victim=$((RANDOM % BOXES)) what=$((RANDOM % 3))
    if [ "$what" != 0 ]; then
        runner=$(pid1_of "${boxes[victim]}")
        kill -KILL "$runner" 2> /dev/null && killed[victim]=1
        eventually 10 dead "$runner" # until then whoever has the pair is given what is about to die
    fi
    if [ "$what" != 1 ]; then
        kill -KILL "$DAEMON_PID"
        wait "$DAEMON_PID" 2> /dev/null
        deaths=$((deaths + 1))
        now_ms
        before=$NOW
        start_daemon "${CUBBYD:-$program}" || { fail "round $round: a new daemon starts" \
            "$(tail -5 "$WORK/daemon.log")"; break; }
        now_ms
        [ $((NOW - before)) -le "$slowest" ] || slowest=$((NOW - before))
    fi
    if [ "$what" != 0 ]; then # whoever has the pair goes on with the files
        box_new "\"user\":\"fault\",\"thread\":\"t$victim\""
        [[ $STATUS = 200 && $BOX = "${boxes[victim]}" ]] ||
            fail "round $round: box $victim starts again" "$STATUS $BODY"
    fi
done
rm -f "$WORK/writing"
wait "${writers[@]}"
diag "$ROUNDS rounds: $deaths daemons killed, $(printf '%s' "${killed[@]}" |
    wc -c) boxes lost their runner, $(wc -l < "$WORK/ledger") writes promised, slowest restart $slowest ms"
missing=0 stopped=0
for ((i = 0; i < BOXES; i++)); do
    box_use "${boxes[i]}"
    api GET "$B"
    [ "$STATUS" = 200 ] || { missing=$((missing + 1)); diag "box $i: $STATUS $BODY"; continue; }
    [ -z "${killed[i]}" ] || continue
    api GET "$B/processes/${pids[i]}"
    [ "$(j .state)" = running ] || { stopped=$((stopped + 1)); diag "box $i: $STATUS $BODY"; }
done
is 'every box is there' "$missing" 0
is 'and what ran in those whose runner lived runs on' "$stopped" 0
lost=0 torn=0 unread=0
while read -r id name value; do
    box_use "$id"
    get "$name"
    [ "$STATUS" = 200 ] || { unread=$((unread + 1)); diag "$id/$name: $STATUS '${BODY:0:200}'"; continue; }
    [[ $BODY =~ ^begin:([0-9]+):end$ ]] || { torn=$((torn + 1)); diag "$id/$name: $STATUS '${BODY:0:60}'"; continue; }
    [ "${BASH_REMATCH[1]}" -ge "$value" ] || { lost=$((lost + 1)); diag "$id/$name: $BODY, promised $value"; }
done < <(sort -k1,2 -k3,3n "$WORK/ledger" | awk '{ last[$1 " " $2] = $3 } END { for (i in last) print i, last[i] }')
isnt 'writes were promised' "$(wc -l < "$WORK/ledger")" 0
is 'no promised write is lost' "$lost" 0
is 'no file is torn' "$torn" 0
is 'and each can be read' "$unread" 0
working() { local before; get n; before=$BODY; get n; [[ $BODY =~ ^[0-9]+$ && $BODY -gt $before ]]; }
for ((i = 0; i < BOXES; i++)); do [ -n "${killed[i]}" ] || { box_use "${boxes[i]}"; break; }; done
ok 'the work goes on' eventually 10 working
box_use "$ATTACKED"
