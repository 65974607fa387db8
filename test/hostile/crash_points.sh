# kill -9 of the daemon just before its n-th change of files or processes, while it makes, starts, evicts or deletes a
# box.
# wall: at every step the disk says enough: what was promised is there, what was not can be made or removed
# config: replicas: 2
# config: log_level: warn
# config: box_rate_per_user: 0
# files: on disk

# CRASH_POINTS: how many of each, at random; "all" of them one after the other (make soak).
POINTS=${CRASH_POINTS:-2} SEED=${CRASH_SEED:-$((SRANDOM % 100000))}
RANDOM=$SEED
diag "seed $SEED: CRASH_SEED=$SEED repeats the choice of points"
ARM=$WORK/arm
daemon_end() { # whatever it was: the plain program after it
    kill -KILL "$DAEMON_PID" 2> /dev/null
    wait "$DAEMON_PID" 2> /dev/null
    rm -f "$ARM"
}
ask() { # ask METHOD PATH [BODY]: the status; its daemon may die meanwhile
    curl -s -o /dev/null -w '%{http_code}' --max-time 120 --unix-socket "$SOCKET" -X "$1" \
        -H 'Content-Type: application/json' ${3:+-d "$3"} "http://localhost$2"
}
pair() { printf '{"backend":"jail","user":"crash","thread":"%s"}' "$1"; }
id_of() { printf 'crash:%s' "$1" | sha256sum | cut -c1-16; }

# Before and at the moment: what each kind of step does. T: a thread of its own.
make_before() { :; }
make_now() { ask POST /v1/boxes "$(pair "$T")"; }
start_before() { # it is there, and its runner is not
    box_new "\"user\":\"crash\",\"thread\":\"$T\""
    run 'echo mine > f'
    kill -KILL "$(cut -d' ' -f1 "$STATE/boxes/$BOX/jail")"
    died() { api GET "$B" && [ "$(j .died)" != null ]; }
    eventually 10 died
}
start_now() { ask POST /v1/boxes "$(pair "$T")"; }
evict_before() { # released, and one more than may run is asked for
    box_new "\"user\":\"crash\",\"thread\":\"$T\""
    run 'echo mine > f'
    api POST "$B/release"
}
evict_now() { ask POST /v1/boxes "$(pair "$T-more")"; }
delete_before() {
    box_new "\"user\":\"crash\",\"thread\":\"$T\""
    run 'echo mine > f'
}
delete_now() { ask DELETE "/v1/boxes/$(id_of "$T")"; }

# One point of one kind. Sets HIT to what the daemon was killed before, or to "" when there is no n-th call.
crash_at() { # crash_at KIND N
    T=$1-$2 HIT=
    rm -f "$ARM" "$ARM.hit"
    daemon_end
    start_daemon "$BUILD/test/crash" "$ARM" -- "$BUILD/cubbyd" ||
        { fail "$T: a daemon" "$(tail -3 "$WORK/daemon.log")"; return; }
    "$1_before"
    echo "$2" > "$ARM"
    local status
    status=$("$1_now")
    rm -f "$ARM"
    [ ! -s "$ARM.hit" ] || HIT=$(< "$ARM.hit")
    daemon_end
    start_daemon "$BUILD/cubbyd" || { fail "$T: the next daemon starts" "$(tail -3 "$WORK/daemon.log")"; return; }
    after "$1" "$status"
}
problem() { problems+="$T, killed before ${HIT:-nothing}: $1"$'\n'; }
after() { # after KIND STATUS: the rules hold
    local id
    id=$(id_of "$T")
    box_use "$keep"
    run 'cat f'
    [ "$STATUS $OUT" = '200 kept' ] || problem "the other box: $STATUS $BODY"
    api GET "/v1/boxes/$id"
    local there=$STATUS
    case $1 in
        make) [ "$2" != 201 ] || [ "$there" = 200 ] || problem "it was promised, and is $there" ;;
        delete) [ "$2" != 204 ] || [ "$there" = 404 ] || problem "it was deleted, and is $there" ;;
        *) [ "$there" = 200 ] || problem "it was there, and is $there" ;;
    esac
    box_new "\"user\":\"crash\",\"thread\":\"$T\""
    [[ $STATUS = 20[01] ]] || problem "acquire: $STATUS $BODY"
    run 'cat f || echo none'
    if [ "$1" = make ] || [ "$there" = 404 ]; then [ "$OUT" = none ] || problem "a new box has files: $OUT"; else
        [ "$OUT" = mine ] || problem "its files: $STATUS $OUT"
    fi
    [ "$(ls -d "$STATE/boxes/$id"* | wc -l)" = 1 ] || problem "directories: $(ls -d "$STATE/boxes/$id"*)"
    api DELETE "$B"
    [ "$STATUS" = 204 ] || problem "delete: $STATUS $BODY"
    [ "$1" != evict ] || api DELETE "/v1/boxes/$(id_of "$T-more")"
}

box_new '"user":"crash","thread":"keep"'
keep=$BOX
run 'echo kept > f'
for kind in make start evict delete; do
    problems='' hits=0 most=24 n=0
    while :; do
        if [ "$POINTS" = all ]; then n=$((n + 1)); else n=$((1 + RANDOM % most)); fi
        crash_at "$kind" "$n"
        if [ -n "$HIT" ]; then hits=$((hits + 1)) &&
            diag "$kind $n: killed before $HIT"; else most=$((n > 1 ? n - 1 : 1)); fi
        [ -n "$HIT" ] || [ "$POINTS" != all ] || break
        [ "$POINTS" = all ] || [ "$hits" -lt "$POINTS" ] && [ "$most" -gt 1 ] || break
    done
    is "$kind: killed at $hits points, the rules hold" "$problems" ''
    between "$kind: there were points" "$hits" 1 1000
done
box_use "$keep"
