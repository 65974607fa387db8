# config: remote_grace_s: 2
# waits
# Boxes on a machine: its own, and one of each thread, with their own processes in the same directory; shown, paused,
# limited,
# deleted as everywhere, the machine online or not.
run 'echo from the machine > shared'
OWN=$BOX
api POST /v1/boxes '{"machine":"laptop","thread":"chat","limits":{"memory_mb":64}}'
is 'a thread has a box of its own on a machine' "$STATUS $(j .backend) $(j .machine) $(j .limits.memory_mb)" \
    '201 remote laptop 64'
CHAT=$(j .id)
is 'its workspace is the directory on the machine' "$(j .workspace)" "$MACHINE_DIR"
box_use "$CHAT"
run 'cat shared'
is 'which both boxes share' "$OUT" 'from the machine'
api POST "$B/processes" '{"command":"sleep 888"}'
box_use "$OWN"
run 'pgrep -c -x sleep'
is 'processes are their own' "$OUT" 0
run 'tail -c 200m /dev/zero | tail -n 1 | wc -c'
is 'a box without limits has none' "$CODE" 0
box_use "$CHAT"
run 'tail -c 200m /dev/zero | tail -n 1 | wc -c; exit ${PIPESTATUS[1]}'
isnt 'limits that were asked for hold on the machine' "$CODE" 0
api POST /v1/boxes '{"thread":"chat"}'
is 'the thread alone finds it again, and no other place' "$STATUS $(j .id)" "200 $CHAT"
api POST /v1/boxes '{"thread":"chat","machine":"desk"}'
is_error 'and it does not move' 409 EXISTS laptop
api POST /v1/boxes '{"machine":"laptop","thread":"m","mounts":[{"source":"/etc","target":"/x"}]}'
is_error 'directories of the server are not to be had there' 501 UNSUPPORTED mounts
api POST "$B/snapshots" '{}'
is_error 'nor snapshots' 501 UNSUPPORTED ''

c ps
like 'cubby ps shows the machine, the way there and back, and the version' "$OUT" "MACHINE +LATENCY +VERSION"
like 'of each box' "$OUT" "$CHAT .* chat +remote +ready .* laptop +[0-9.]+ ms +[0-9.]+"
api GET /v1/boxes?state=ready
is 'they are ready' "$(j '.boxes|length')" 2

api POST "$B/pause"
is 'a box on a machine can be paused' "$STATUS $(j .state)" '200 paused'
run true
is_error 'then it is reached by nobody' 409 PAUSED paused
api POST "$B/resume"
run 'pgrep -c -x sleep'
is 'and goes on' "$CODE $OUT" '0 1'

cable cut
ok 'without a cable it is offline' machine_is laptop offline 60
api GET /v1/boxes?state=offline
is 'and so are all of its boxes' "$(j '[.boxes[]|.id]|sort == (["'"$OWN"'","'"$CHAT"'"]|sort)')" true
c ps
like 'cubby ps says so' "$OUT" "$CHAT .* offline"
api POST "$B/pause"
is_error 'it cannot be paused' 503 BUSY laptop
now_ms
before=$NOW
api DELETE "/v1/boxes/$CHAT"
now_ms
is 'it can be deleted' "$STATUS" 204
between 'at once' $((NOW - before)) 0 15000
api GET "/v1/boxes/$CHAT"
is 'and is gone' "$STATUS" 404
ok 'though its processes do not know' pgrep -f '^sleep 888$'
cable join
ok 'it comes back' machine_is laptop ready 70
gone() { ! pgrep -f '^sleep 888$' > /dev/null; }
ok 'and is told of the deletion' eventually 10 gone
paid() { [ -z "$(ls "$STATE/owed")" ]; }
ok 'nothing is owed any more' eventually 10 paid
box_use "$OWN"
run 'cat shared'
is 'files of the user are where they were' "$OUT" 'from the machine'
api POST /v1/boxes '{"machine":"laptop","thread":"chat"}'
is 'the thread can have a new box there' "$STATUS" 201
