# A daemon for tests: on a state directory and a socket of its own, ended and looked after. Sourced after lib.sh by
# test/run/run.sh and test/front/*_test.sh, which set BACKEND and BUILD.

BACKEND=${BACKEND:-jail} BUILD=$(realpath "${BUILD:-build}")
TOOL=$BUILD/test/tool
WORK=$(mktemp -d "${TMPDIR:-/tmp}/cubby-test.XXXXXX")
SOCKET=$WORK/socket STATE=$WORK/state CONFIG=$WORK/config.yaml

write_config() {
    mkdir -p "$WORK/shared/sub" "$WORK/forbidden"
    cat > "$WORK/config.yaml" << END
allow_local: true
mount_sources:
  - $WORK/shared
END
    [ "$BACKEND" != docker ] || echo 'docker_pull: never' >> "$WORK/config.yaml"
}

# A configuration that demands tokens: of an admin, of the users ann and bob, and one of ann's that may only read, eye.
write_tokens() { # write_tokens FILE
    cat > "$1" << END
allow_local: true
auth: required
tokens:
  - {token: admin-token-0123456789abcdef, scope: admin}
  - {token: ann-token-0123456789abcdef00, user: ann, scope: user}
  - {token: bob-token-0123456789abcdef00, user: bob, scope: user}
  - {token: eye-token-0123456789abcdef00, user: ann, scope: read}
END
}
as() { # as TOKEN METHOD PATH [BODY]: a request with one of them
    local token=$1
    shift
    api "$1" "$2" "${3-}" -H "Authorization: Bearer $token-token-0123456789abcdef$([ "$token" = admin ] || echo 00)"
}

# The sanitizers' build of the command line where there is one, against this daemon.
use_cubby() {
    CUBBY=$BUILD/asan/cubby
    [ -x "$CUBBY" ] || CUBBY=$BUILD/cubby
    export ASAN_OPTIONS=detect_leaks=0 CUBBY_URL=unix:$SOCKET XDG_CONFIG_HOME=$WORK/xdg-config
    unset CUBBY_CONTEXT
}

# The command line under test, CUBBY. INPUT: a file as its standard input.
c() { # c ARGUMENTS...: OUT, ERR, CODE
    OUT=$("$CUBBY" "$@" 2> "$WORK/err" < "${INPUT:-/dev/null}")
    CODE=$?
    ERR=$(< "$WORK/err")
}

# How many jails it keeps ready: making a dozen for each test file would be most of what the tests do. Files about the
# pool have
# what everybody has; where boxes are no jails, there is none.
pool_for() { # pool_for FILE
    POOL_SIZE=1
    [ "$BACKEND" = jail ] || POOL_SIZE=0
    ! grep -q pool "$1" || POOL_SIZE=
}

# A new state directory begins with the skeleton of `host` that the driver made once for all: a thousand files less to
# make and
# to remove for each daemon. Where there is none, the daemon makes its own.
state_new() { # state_new DIR
    [[ -n ${TEST_SKELETON-} && $1 == "$WORK"/* && ! -e $1 ]] || return 0
    mkdir -p -m 700 "$1" && cp -al "$TEST_SKELETON" "$1/templates" 2> /dev/null || rm -rf "$1"
}

start_daemon() { # start_daemon PROGRAM, or words that end in it
    state_new "$STATE"
    SECRET_OF_THE_DAEMON=secret ASAN_OPTIONS=exitcode=99 UBSAN_OPTIONS=print_stacktrace=1 \
        "$@" --listen "unix:$SOCKET" --state "$STATE" --config "$CONFIG" --backend "${BACKEND/remote/jail}" \
    ${POOL_SIZE:+--pool-size "$POOL_SIZE"} \
        < /dev/null >> "$WORK/daemon.log" 2>&1 &
    DAEMON_PID=$!
    eventually 20 daemon_answers && [ -d "/proc/$DAEMON_PID" ]
}
start_or_end() { # the same, for a test that is nothing without it
    start_daemon "$@" && return
    fail 'a daemon' "$(tail -5 "$WORK/daemon.log")"
    finish
    exit 1
}

# A second daemon beside the first, with a state of its own, until second_end.
second_start() { # second_start CONFIG PROGRAM...
    local config=$1
    shift
    FIRST=("$DAEMON_PID" "$SOCKET" "$STATE" "$CONFIG" "$BOX")
    SOCKET=$WORK/second STATE=$WORK/state-second CONFIG=$config
    start_daemon "$@"
}
second_end() { # its exit status
    local status
    kill -TERM "$DAEMON_PID" 2> /dev/null
    wait "$DAEMON_PID"
    status=$?
    rm -rf "$STATE"
    DAEMON_PID=${FIRST[0]} SOCKET=${FIRST[1]} STATE=${FIRST[2]} CONFIG=${FIRST[3]}
    box_use "${FIRST[4]}"
    return "$status"
}

daemon_answers() {
    [ -d "/proc/$DAEMON_PID" ] || return 0 # dead: no use waiting
    [ "$("$BUILD/test/ask" "$SOCKET" GET /healthz /dev/null /dev/null 5 2> /dev/null)" = 200 ]
}

delete_boxes() {
    local id
    api GET /v1/boxes
    for id in $(j '.boxes[].id'); do
        api DELETE "/v1/boxes/$id"
        [ "$STATUS" = 204 ] || diag "delete of $id: $STATUS $BODY"
    done
}

# The runner of a box, as this machine counts processes.
runner_of() { # runner_of ID: nothing when none runs
    cat "$STATE/boxes/$1/jail" "$STATE/boxes/$1/local" "$WORK"/machine-*/*/boxes/"$1"/jail 2> /dev/null |
        awk '$1 > 1 { print $1; exit }'
    awk '$2 > 1 { print $2 }' "$STATE/boxes/$1/docker" 2> /dev/null
}

# What this daemon's boxes have on the machine beside the daemon itself.
leftovers() {
    local pid name
    grep -F "$WORK" /proc/self/mountinfo | grep -vF " $STATE/store " # the daemon's, while it lives
    local -a runners=()
    for pid in /proc/[0-9]*; do # hundreds: no process for each
        name=
        { IFS= read -r -d '' name < "$pid/cmdline"; } 2> /dev/null
        [[ $name != cubby-runner* ]] || runners+=("$pid/fd" "$pid/cwd")
    done
    [ "${#runners[@]}" = 0 ] || find "${runners[@]}" -maxdepth 1 -lname "*$WORK*" -printf 'process %h\n' 2> /dev/null \
        | sort -u
    # those are the pool's and the daemon's
    grep -hF "$WORK" /sys/block/loop*/loop/backing_file 2> /dev/null | grep -vF -e /boxes/.slot- -e "$STATE/store.img"
    # Not below what was found, nor in what is being removed: a tree may be deep, and each name there is a path to be
    # matched.
    find "$STATE" -mindepth 1 -regextype posix-extended \( -path "$STATE/skills" -o -path "$STATE/owed" \
        -o -path "$STATE/trash" -o -path "$STATE/templates/.host-*" \) -prune \
        -o -regex '.*/[0-9a-f]{16}[^/]*' -print -prune 2> /dev/null | head -5
    # agents' skills outlive boxes; what was on its way does not
    find "$STATE"/skills/staging -mindepth 1 2> /dev/null | head -5
}
no_leftovers() { [ -z "$(leftovers)" ]; }

# What is left of a daemon on STATE when it has ended and its boxes were deleted: nothing may be. Claims name the state
# directory they were made for; cgroups and interfaces of boxes have a claim for as long as they are there.
host_leftovers() {
    local at number
    leftovers
    grep -F " $STATE/store " /proc/self/mountinfo
    grep -lsF " $STATE" /run/cubby/ids/[0-9]* | sed 's/^/claim /'
    for at in /sys/fs/cgroup/{cubby,*/cubby}/[0-9]* /sys/class/net/cubby-[0-9]*; do
        number=${at##*[-/]}
        [ ! -e "$at" ] || [ -e "/run/cubby/ids/$number" ] || [ ! -e "$at" ] || echo "without a claim: $at"
    done
    losetup --noheadings --list --output NAME,BACK-FILE 2> /dev/null | grep -F "$WORK"
    find "$STATE/boxes" "$STATE/trash" -mindepth 1 2> /dev/null | head -5
    [ "$BACKEND" != docker ] || engine_leftovers
}
no_host_leftovers() { [ -z "$(host_leftovers)" ]; }

stop_daemon() {
    delete_boxes
    # Files may be removed in the background, bounded; everything else goes at once.
    if eventually 10 no_leftovers; then pass 'deleted boxes leave nothing behind'; else
        fail 'deleted boxes leave nothing behind' "$(leftovers)"
    fi
    local runners
    runners=$(pgrep -P "$DAEMON_PID" -f '^cubby-runner')
    kill -TERM "$DAEMON_PID" 2> /dev/null
    wait "$DAEMON_PID"
    is 'the daemon ends in order' $? 0
    if eventually 10 all_ended $runners; then pass 'and no runner outlives it'; else
        fail 'and no runner outlives it' "$(ps -o pid,etimes,args -p "$(echo $runners | tr ' ' ,)")"
    fi
    if eventually 10 no_host_leftovers; then pass 'nothing of it is left on the machine'; else
        fail 'nothing of it is left on the machine' "$(host_leftovers)"
    fi
    if grep -q -E 'Sanitizer|runtime error:|Assertion' "$WORK/daemon.log"; then
        fail 'the sanitizers are silent' "$(grep -m1 -A25 -E 'Sanitizer|runtime error:|Assertion' "$WORK/daemon.log")"
    else pass 'the sanitizers are silent'; fi
    DAEMON_PID=
    : > "$WORK/daemon.log"
}

all_ended() { # all_ended PID...: none of these is a runner any more
    local pid
    for pid in "$@"; do
        ! grep -qaz '^cubby-runner$' "/proc/$pid/cmdline" 2> /dev/null || return 1
    done
}

clean_up() {
    trap - EXIT TERM INT
    # Boxes outlive a daemon that died: another one finds and ends them.
    [ -z "${DAEMON_DIED-}" ] || start_daemon "$BUILD/cubbyd" > /dev/null 2>&1
    [ -z "$DAEMON_PID" ] || {
        delete_boxes > /dev/null 2>&1
        kill -TERM "$DAEMON_PID" 2> /dev/null && eventually 5 test ! -d "/proc/$DAEMON_PID"
        kill -KILL "$DAEMON_PID" 2> /dev/null
    }
    umount "$WORK/shared/small" 2> /dev/null
    [ -z "${ENGINE_OWN-}" ] || engine_end "$ENGINE_OWN"
    if [ -n "${KEEP-}" ]; then diag "kept $WORK"; else rm -rf "$WORK"; fi
}
trap clean_up EXIT
trap 'exit 143' TERM INT
