# Who has to go for whom: replicas, memory, quotas of users; what a box tells of its end; any thread's name; many boxes.
# backends: jail

acquire() { # acquire USER THREAD [MORE]: ID
    box_new "\"user\":\"$1\",\"thread\":\"$2\"${3:+,$3}"
    ID=$BOX
}
runs() { api GET "/v1/boxes/$1" && [ "$(j .running)" = true ]; }
ended() { ! runs "$1"; }
cat "$CONFIG" - > "$WORK/few.yaml" << END
replicas: 3
max_boxes_per_user: 4
user_memory_mb: 500
user_disk_mb: 300
users:
  free:
    max_boxes_per_user: 0
    user_memory_mb: 0
    user_disk_mb: 0
  tiny:
    user_memory_mb: 100
  many:
    max_boxes_per_user: 0
    user_memory_mb: 0
    user_disk_mb: 0
END
second_start "$WORK/few.yaml" "$program" || { fail 'a daemon with replicas' "$(tail -5 "$WORK/daemon.log")"; return; }

# replicas
acquire free a
a=$ID
run 'echo kept > f'
acquire free b
b=$ID
acquire free c
c=$ID
api POST "/v1/boxes/$a/release"
is 'a released box is warm and runs' "$(j .state) $(j .running)" 'warm true'
box_use "$b"
run true
api POST "/v1/boxes/$b/release"
acquire free d
d=$ID
is 'one more than replicas: the released one used longest ago is evicted' \
    "$(runs "$a" || echo "$(j .state) $(j .died)")" 'warm null'
ok 'the other one runs on' runs "$b"
acquire free e
ok 'and goes next' ended "$b"
e=$ID
acquire free f
f=$ID
is 'where all are in use, more than replicas run' \
    "$(for id in "$c" "$d" "$e" "$f"; do runs "$id" && echo yes; done | wc -l)" 4
api POST "/v1/boxes/$c/release"
ok 'until one is released' eventually 10 ended "$c"
box_use "$a"
run 'cat f'
is 'what was evicted goes on with its files' "$STATUS $OUT" '200 kept'
api GET "/v1/audit?verb=box_evicted&box=$b"
is 'and the log says why' "$(j '.events[0].detail')" replicas
for id in "$a" "$b" "$c" "$d" "$e" "$f"; do api DELETE "/v1/boxes/$id"; done
if [ "$BACKEND" != local ]; then
    acquire free a
    a=$ID
    run 'echo kept > f'
    for i in 1 2 3 4; do api POST "/v1/boxes/$a/fork" "{\"thread\":\"f$i\"}"; forks[i]=$(j .id); done
    acquire free a
    acquire free b
    b=$ID
    api POST "/v1/boxes/$b/release"
    ok 'forks that do not run evict nobody' runs "$b"
    for i in 1 2; do
        box_use "${forks[i]}"
        run 'cat f'
        is "fork $i is started by its use" "$STATUS $OUT" '200 kept'
    done
    ok 'which counts: what was released is evicted' ended "$b"
    for id in "$a" "$b" "${forks[@]}"; do api DELETE "/v1/boxes/$id"; done
fi

# quotas of users
if [ "$BACKEND" = local ]; then
    acquire poor a
    is_error 'a box that cannot be limited cannot be counted' 429 LIMIT user_
else
    acquire poor a '"limits":{"memory_mb":300}'
    is_error 'without a limit of disk it cannot be counted' 429 LIMIT user_disk_mb
    acquire poor a '"limits":{"memory_mb":300,"disk_mb":400}'
    is_error 'more disk than the user may have' 429 LIMIT user_disk_mb
    acquire poor a '"limits":{"disk_mb":10}'
    is_error 'more memory, by default' 429 LIMIT user_memory_mb
    acquire poor a '"limits":{"memory_mb":300,"disk_mb":10}'
    if [ "$STATUS" = 201 ]; then
        acquire poor b '"limits":{"memory_mb":300,"disk_mb":10}'
        is_error 'memory of both' 429 LIMIT 'user_memory_mb'
        acquire poor b '"limits":{"memory_mb":100,"disk_mb":10}'
        is 'less of it is fine' "$STATUS" 201
        acquire poor c '"limits":{"memory_mb":-1}'
        is_error 'a negative limit' 400 INVALID memory_mb
        acquire poor c '"limits":{"memory_mb":1e300}'
        is_error 'an absurd one' 400 INVALID memory_mb
        id() { printf 'poor:%s' "$1" | sha256sum | cut -c1-16; }
        api POST "/v1/boxes/$(id a)/fork" '{"thread":"c"}'
        is 'memory is counted of what runs: a fork has none yet' "$STATUS $(j .running)" '201 false'
        api POST "/v1/boxes/$(id a)/exec" '{"command":"true"}' # it was ended for the fork
        api POST "/v1/boxes/$(id c)/exec" '{"command":"true"}'
        is_error 'and is refused its start beside the others' 429 LIMIT user_memory_mb
        is 'nothing came of that' "$(runs "$(id c)" || j '[.state,.died]|tostring')" '["warm",null]'
        api POST "/v1/boxes/$(id a)/fork" '{"thread":"d"}'
        api POST "/v1/boxes/$(id a)/fork" '{"thread":"e"}'
        is_error 'forks are counted as boxes' 429 LIMIT max_boxes_per_user
        api POST "/v1/boxes/$(id a)/fork" '{"user":"tiny"}'
        is_error 'one that could never run is not made' 429 LIMIT user_memory_mb
        api DELETE "/v1/boxes/$(id a)"
        api POST "/v1/boxes/$(id c)/exec" '{"command":"true"}'
        is 'with memory given back it starts' "$STATUS" 200
    else skip 'memory and disk of several boxes' "$(j .error.message)"; fi
    api DELETE '/v1/boxes?user=poor'
fi
second_end

# an end that the box tells
acquire ann mortal
is 'a box that runs says so' "$(j .running) $(j .died)" 'true null'
kill -KILL "$(runner_of "$ID")"
told() { api GET "/v1/boxes/$ID" && [ "$(j .running)" = false ] && [[ $(j .died) = 'its main process '* ]]; }
ok 'one whose runner died tells why, without being asked to do anything' eventually 10 told
acquire ann mortal
is 'acquired again it runs' "$STATUS $(j .running) $(j .died)" '200 true null'

# names of threads
long=$(head -c 10240 /dev/zero | tr '\0' x)
for name in 'a/../../b' '//' '日本語 ✓' "$long" ' ' ''; do
    acquire ann "$name"
    is "thread '${name:0:12}': its box" "$STATUS $ID" "201 $(printf 'ann:%s' "$name" | sha256sum | cut -c1-16)"
    acquire ann "$name"
    is 'found again by the same name' "$STATUS" 200
done
acquire ann 'a\u0000b'
is_error 'a NUL is none' 400 INVALID thread
acquire ann "$(head -c 17000 /dev/zero | tr '\0' x)"
is_error 'more than 16 KiB are none' 400 INVALID thread
api DELETE '/v1/boxes?user=ann'

# many, and a restart under them
MANY=${PROVIDER_BOXES:-200}
for ((i = 0; i < MANY; i++)); do
    printf '{"backend":"%s","user":"many","thread":"t%d"}\n' "$BACKEND" "$i"
done > "$WORK/many"
ask_many() { # 8 at a time; the answers' statuses
    xargs -P 8 -I{} curl -s -o /dev/null -w '%{http_code}\n' --max-time 60 --unix-socket "$SOCKET" -X POST \
        -H 'Content-Type: application/json' -d {} http://localhost/v1/boxes < <(sed 's/"/\\"/g' "$WORK/many") | sort |
    uniq -c | tr -s ' '
}
is "$MANY threads have boxes" "$(ask_many)" " $MANY 201"
box_use "$(printf 'many:t3' | sha256sum | cut -c1-16)"
run 'echo three > f'
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
start_daemon "$program" || { fail 'the next daemon starts' "$(tail -5 "$WORK/daemon.log")"; return; }
is 'the daemon is killed under them: each is found again' "$(ask_many)" " $MANY 200"
api GET '/v1/boxes?user=many'
is 'there are as many' "$(j '.boxes|length') $(j '[.boxes[]|select(.running)]|length')" "$MANY $MANY"
run 'cat f'
is 'with their files' "$OUT" three
api DELETE '/v1/boxes?user=many'
is 'and all go at once' "$STATUS $(j .ended)" "200 $MANY"
