#!/bin/bash
# A head and its workers: who may join as one, where boxes go, what a worker that is away, drains or comes back means
# for them, and what both ends find again after a kill.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
BACKEND=fleet
. test/lib/daemon.sh
. test/lib/fleet.sh
write_config
use_cubby
start_or_end "$BUILD/asan/cubbyd"
trap 'for pid in "${WORKER_PID[@]}"; do kill "$pid"; done 2> /dev/null; clean_up' EXIT

where() { # where THREAD [MEMBERS]: STATUS, BOX and WHERE, the worker of its box
    api POST /v1/boxes "{\"thread\":\"$1\"${2:+,$2}}"
    box_use "$(j .id)"
    WHERE=$(j .machine)
}
run() { # run COMMAND: OUT
    api POST "$B/exec" "{\"command\":\"$1\"}"
    OUT=$(j '.stdout + .stderr')
}
refused() { # refused NAME SENTENCE OPTION...: `cubby join` ends by itself
    local name=$1 sentence=$2
    shift 2
    OUT=$(timeout 20 "$CUBBY" join --server "unix:$SOCKET" --state "$WORK/refused" "$@" 2>&1 < /dev/null)
    CODE=$?
    isnt "$name" "$CODE" 0
    like "$name: says why" "${OUT%%usage:*}" "$sentence"
}

# ---- who may be one ----

api POST /v1/boxes '{"thread":"a"}'
is 'without a worker there is no box' "$STATUS $(j .error.code)" '503 BUSY'
like 'and the answer says what to start' "$(j .error.message)" 'cubby join --worker'
c token create --runner laptop
refused "a machine's token is not a worker's" "not a worker's token" --worker --token "$OUT"
c token create --worker w9
WORKER_TOKEN=$OUT
mkdir -p "$WORK/project"
refused "a worker's token is not a machine's" 'joins with .cubby join --worker' --token "$WORKER_TOKEN" \
    -w "$WORK/project"
refused 'a worker has no workspace' 'goes without --workspace' --worker --token "$WORKER_TOKEN" -w "$WORK/project"
refused 'a machine has no room to name' "are a worker's" --boxes 3 --token "$WORKER_TOKEN" -w "$WORK/project"
c token create --worker w9 --user ann
is "a worker's token has no user" "$CODE" 2
api GET /v1/boxes '' -H "Authorization: Bearer $WORKER_TOKEN"
is 'it opens nothing else' "$STATUS" 403

# ---- where boxes go ----

worker_start w1 --boxes 4
worker_start w2 --boxes 2
eventually 20 worker_online w1 && eventually 20 worker_online w2
placed=
for thread in a b c d e f; do
    where "$thread"
    placed+="$WHERE "
done
is 'boxes go where the larger part is free, up to what each takes' \
    "$(tr ' ' '\n' <<< "$placed" | sort | uniq -c | tr -s ' \n' ' ')" ' 1 4 w1 2 w2 '
api POST /v1/boxes '{"thread":"g"}'
is 'full is full' "$STATUS $(j .error.code)" '429 LIMIT'
api POST /v1/boxes '{"thread":"h","template":"nowhere"}'
is 'a template that no worker has' "$STATUS $(j .error.code)" '404 NOT_FOUND'
api POST /v1/boxes '{"thread":"h","limits":{"memory_mb":1000000}}'
is 'memory that no worker has' "$STATUS $(j .error.code)" '429 LIMIT'
where a
FIRST_BOX=$BOX FIRST_WHERE=$WHERE
run 'echo mine > keep'
api POST "$B/processes" '{"command":"sleep 300"}'
where a
is 'a box stays where it is' "$BOX $WHERE" "$FIRST_BOX $FIRST_WHERE"
for thread in b c d e f; do where "$thread" && api DELETE "$B"; done
api GET /v1/workers
is 'deleted boxes free their places' "$(j '[.workers[].boxes] | add')" 1
c workers
like 'cubby workers shows them' "$OUT" 'w1 +online .*w2 +online|w2 +online .*w1 +online'
api GET /metrics
like 'metrics count the room' "$BODY" 'cubby_fleet_capacity 6'
like 'and what is spare' "$BODY" 'cubby_fleet_spare 5'

# ---- a worker that is away ----

other=w1
[ "$FIRST_WHERE" = w2 ] || other=w2
worker_stop "$FIRST_WHERE" KILL
eventually 20 worker_online "$FIRST_WHERE" offline
box_use "$FIRST_BOX"
api POST "$B/exec" '{"command":"true"}'
is 'its boxes are offline' "$STATUS $(j .error.code)" '503 BUSY'
like 'and say on which worker' "$(j .error.message)" "'$FIRST_WHERE' is offline since"
where z
is 'a new box goes to another worker' "$WHERE" "$other"
api DELETE "$B"
worker_start "$FIRST_WHERE" --boxes 4
eventually 20 worker_online "$FIRST_WHERE"
box_use "$FIRST_BOX"
run 'cat keep; pgrep -c sleep'
is 'back again, its boxes have their files and processes' "$OUT" $'mine\n1'

# ---- a head that was killed ----

kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
start_or_end "$BUILD/asan/cubbyd"
eventually 20 worker_online w1 && eventually 20 worker_online w2
where a
is 'a head that starts again knows where boxes are' "$BOX $WHERE" "$FIRST_BOX $FIRST_WHERE"
run 'cat keep; pgrep -c sleep'
is 'and they ran on' "$OUT" $'mine\n1'
api GET /v1/workers
is 'and it counts them' "$(j '[.workers[].boxes] | add')" 1

# ---- draining ----

c drain nobody
is 'an unknown worker' "$CODE" 125
c drain "$FIRST_WHERE"
is 'cubby drain' "$CODE $OUT" "0 $FIRST_WHERE"
for i in 1 2; do
    where "drained $i"
    is 'a draining worker gets no new box' "$WHERE" "$other"
    api DELETE "$B"
done
box_use "$FIRST_BOX"
run 'cat keep'
is 'its boxes can be used' "$OUT" mine
kill -TERM "$DAEMON_PID"
wait "$DAEMON_PID"
start_or_end "$BUILD/asan/cubbyd"
eventually 20 worker_online "$FIRST_WHERE" draining
pass 'it drains also after a restart of the head'
c drain --off "$FIRST_WHERE"
eventually 20 worker_online "$FIRST_WHERE"
pass 'and is open again'

# ---- files that are kept ----

box_use "$FIRST_BOX"
run 'echo two > keep'
api POST "$B/snapshots" '{"name":"s"}'
is 'a snapshot on a worker' "$STATUS" 201
run 'echo three > keep'
api POST "$B/fork" '{"thread":"forked"}'
is 'a fork is on the worker that has the layers' "$(j .machine)" "$FIRST_WHERE"
box_use "$(j .id)"
run 'cat keep'
is 'with the files' "$OUT" three
api DELETE "$B"
box_use "$FIRST_BOX"
api POST "$B/rollback" '{"snapshot":"s"}'
run 'cat keep'
is 'rollback' "$OUT" two
api DELETE "$B"

# ---- memory ----

worker_start w3 --memory 100000000
eventually 20 worker_online w3
less='.workers[] | select(.name == "w3") | .memory_free_mb < .memory_mb'
reported() { api GET /v1/workers && [ "$(j "$less")" = true ]; }
ok 'a worker reports the memory that is free' eventually 20 reported
placed=
for i in 1 2 3; do
    where "memory $i"
    placed+="$WHERE "
    api DELETE "$B"
done
unlike 'one without free memory gets no box' "$placed" w3

WORKERS=(w1 w2 w3)
workers_end
pass 'nothing is left on workers'
unlike "no worker's sanitizer spoke" "$(cat "$WORK"/worker-*.log)" 'Sanitizer|runtime error:|Assertion'
stop_daemon
finish
