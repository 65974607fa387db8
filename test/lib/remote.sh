# Machines that join, for tests: a cable between two network namespaces (test/lib/linkem.c), a daemon with TLS at its
# left
# end, machines at its right one. Sourced after lib.sh and daemon.sh, by test/remote/run.sh; machine_start also by
# test/run/run.sh for BACKEND=remote, without a cable.

SERVER=10.77.0.1 SERVER_PORT=7443
LEFT=() RIGHT=() STRANGER_IN=() # STRANGER_IN: what starts a runner that is not ours

# ---- the cable ----

cable_start() { # cable_start [--offload]: LEFT and RIGHT run a command at that end
    coproc CABLE { exec "$BUILD/test/linkem" "$@" 100 101; }
    local answer
    read -r -t 60 -u "${CABLE[0]}" answer && [ "$answer" = ready ] || return 1
    LEFT=(nsenter "--net=/proc/$CABLE_PID/fd/100") RIGHT=(nsenter "--net=/proc/$CABLE_PID/fd/101")
}
cable() { # cable cut | join | delay MS | loss PERCENT ...: counts when it returns
    local answer
    echo "$*" >&"${CABLE[1]}"
    read -r -t 60 -u "${CABLE[0]}" answer && [ "$answer" = ok ] || fail "the cable: $*" "$answer"
}
cable_good() { cable join && cable delay 0 && cable loss 0 && cable reorder 0 && cable rate 0; }
cable_end() {
    [ -n "${CABLE_PID-}" ] || return 0
    local pid=$CABLE_PID
    exec {CABLE[1]}>&-
    wait "$pid" 2> /dev/null
    LEFT=() RIGHT=()
}

# ---- the server ----

# An authority that only this test knows, $WORK/ca.pem, and what it signed for the server's names.
authority() { # authority [NAME of the file: ca] [subjectAltName of the server]
    local ca=$WORK/${1:-ca} names=${2:-IP:$SERVER,IP:127.0.0.1,DNS:localhost}
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=Test authority ${1:-ca}" \
        -keyout "$ca.key" -out "$ca.pem" 2> /dev/null
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=server' -keyout "$WORK/server.key" \
        -out "$WORK/server.csr" 2> /dev/null
    openssl x509 -req -in "$WORK/server.csr" -CA "$ca.pem" -CAkey "$ca.key" -CAcreateserial -days 2 \
        -out "$WORK/server.pem" \
        -extfile <(echo "subjectAltName=$names") 2> /dev/null
}

server_config() { # server_config [LINE...]: the daemon's configuration; root on its unix socket is its admin
    write_config
    printf '%s\n' 'auth: peer' 'tokens: [{token: admin-token-0123456789abcdef, scope: admin}]' \
        "tls_cert: $WORK/server.pem" "tls_key: $WORK/server.key" "allowed_hosts: [\"$SERVER\"]" 'pool_size: 0' "$@" \
    >> "$CONFIG"
}

server_start() { # server_start PROGRAM: at the left end
    state_new "$STATE"
    SECRET_OF_THE_DAEMON=secret ASAN_OPTIONS=exitcode=99 UBSAN_OPTIONS=print_stacktrace=1 \
        "${LEFT[@]}" "$1" --listen "unix:$SOCKET,$SERVER:$SERVER_PORT" --state "$STATE" --config "$CONFIG" \
    --backend jail \
        < /dev/null >> "$WORK/daemon.log" 2>&1 &
    DAEMON_PID=$!
    eventually 20 daemon_answers && [ -d "/proc/$DAEMON_PID" ]
}

# ---- machines ----

# The same as api where tokens are demanded (write_tokens of daemon.sh).
admin_api() {
    if grep -q '^auth: required' "$CONFIG"; then as admin "$@"; else api "$@"; fi
}

# A token for a machine: TOKEN, TOKEN_ID.
machine_token() { # machine_token NAME [USER]
    admin_api POST /v1/tokens "{\"scope\":\"runner\",\"runner\":\"$1\",\"user\":\"${2:-default}\"}"
    TOKEN=$(j .token) TOKEN_ID=$(j .id)
    [ "$STATUS" = 201 ] || { diag "no token: $STATUS $BODY"; return 1; }
}

# `cubby join` under a name, with a fresh directory unless one is given: MACHINE_PID, MACHINE_DIR, what it says in
# $WORK/join-NAME.log. Does not wait. Its state lies in $WORK/machine-NAME.
machine_join() { # machine_join NAME DIR [OPTION...]; TOKEN as machine_token left it
    local name=$1
    MACHINE_DIR=$2
    shift 2
    mkdir -p "$MACHINE_DIR" "$WORK/machine-$name"
    [ ! -e "$WORK/ca.pem" ] || set -- --ca "$WORK/ca.pem" "$@"
    HOME=$WORK/machine-$name CUBBY_TOKEN=$TOKEN ASAN_OPTIONS=exitcode=99:detect_leaks=0 \
        "${RIGHT[@]}" "${CUBBY_JOIN:-$BUILD/cubby}" join --server "${MACHINE_SERVER:-wss://$SERVER:$SERVER_PORT}" \
    --workspace "$MACHINE_DIR" --state "$WORK/machine-$name" "$@" \
        < /dev/null >> "$WORK/join-$name.log" 2>&1 &
    MACHINE_PID=$!
    echo "$MACHINE_PID" >> "$WORK/machine-pids"
}

# The same with a token of its own, and its box, of the thread machine:NAME, as the current one.
machine_start() { # machine_start NAME [OPTION...]
    local name=$1
    shift
    machine_token "$name" && machine_join "$name" "$WORK/work-$name" "$@" || return 1
    machine_is "$name" ready || { diag "$name does not come: $(tail -3 "$WORK/join-$name.log") $STATUS $BODY"; return \
        1; }
    box_use "$(machine_box "$name")"
}

# A runner that is not ours (test/lib/seed_runner.py), in the text form; what it says is in $WORK/join-NAME.log.
machine_stranger() { # machine_stranger NAME PATH [OPTION...]; TOKEN as machine_token left it
    local name=$1 path=$2
    shift 2
    MACHINE_DIR=$WORK/work-$name
    mkdir -p "$MACHINE_DIR" "$WORK/machine-$name"
    "${RIGHT[@]}" env -u XDG_CACHE_HOME "HOME=$WORK/machine-$name" "TMPDIR=$WORK/machine-$name" "${STRANGER_IN[@]}" \
        python3 test/lib/seed_runner.py --server "wss://$SERVER:$SERVER_PORT$path" --token "$TOKEN" --user default \
    --workspace "$MACHINE_DIR" --ca "$WORK/ca.pem" "$@" \
        < /dev/null > "$WORK/join-$name.log" 2>&1 &
    MACHINE_PID=$!
    echo "$MACHINE_PID" >> "$WORK/machine-pids"
}
machine_box() { printf 'default:machine:%s' "$1" | sha256sum | cut -c1-16; } # machine_box NAME -> id
machine_state() { api GET "/v1/boxes/$(machine_box "$1")" && [ "$(j .state)" = "$2" ]; }
machine_is() { # machine_is NAME ready|offline [SECONDS]
    local seconds=${3:-60} end
    end=$((EPOCHSECONDS + (seconds < 60 ? 60 : seconds) * ${TEST_SLOW:-1}))
    until machine_state "$1" "$2"; do
        [ "$EPOCHSECONDS" -lt "$end" ] || return 1
        read -r -t 0.1 -u "$LIB_NEVER" || : # each look is a process
    done
}

machine_end() { # machine_end PID [SIGNAL]: its exit status
    kill "-${2:-INT}" "$1" 2> /dev/null
    wait "$1"
}
# Ctrl-C for all of them, those too that a subshell started: each ends in order, whatever the server does.
machines_end() {
    local pid status pids=()
    [ ! -e "$WORK/machine-pids" ] || mapfile -t pids < "$WORK/machine-pids"
    for pid in "${pids[@]}"; do kill -INT "$pid" 2> /dev/null; done
    for pid in "${pids[@]}"; do
        eventually 10 test ! -d "/proc/$pid" || { fail 'Ctrl-C ends what joined' "$(ps -o pid,args -p "$pid")"; kill \
            -KILL "$pid" 2> /dev/null; }
        wait "$pid" 2> "$WORK/ended"
        status=$?
        [[ $status -lt 126 || $status = 127 || $status = 130 || $status = 137 ]] ||
            fail 'what joined ends in order' "status $status"
    done
    rm -f "$WORK/machine-pids"
}

# What machines left: mounts and boxes of theirs.
machines_left() {
    grep -F "$WORK/machine-" /proc/self/mountinfo
    find "$WORK"/machine-* -regextype posix-extended -regex '.*/boxes/[0-9a-f]{16}' 2> /dev/null | head -5
}
no_machines_left() { [ -z "$(machines_left)" ]; }
machines_checked() {
    if eventually 10 no_machines_left; then pass 'nothing is left on the machines that joined'; else
        fail 'nothing is left on the machines that joined' "$(machines_left)"
    fi
}

# ---- the behaviour suite over machines ----

# For BACKEND=remote of test/run/run.sh: every box that is asked for without a thread gets a machine of its own that
# joins
# for it, and a thread; with a thread, the machine of that user and thread. Files of the suite say /workspace: there,
# and here, it is
# PROJECT, which every machine sees as a directory of its own.
declare -A SUITE_MACHINES=()
SUITE_JOINED=() SUITE_NAME='' SUITE_COUNT=0 PROJECT=$WORK/project

suite_start() {
    CUBBY_JOIN=$BUILD/asan/cubby
    [ -x "$CUBBY_JOIN" ] || CUBBY_JOIN=$BUILD/cubby
    eval "api_plain$(declare -f api | tail -n +2 | sed '1s/^/() /')"
    eval "start_daemon_plain$(declare -f start_daemon | tail -n +2 | sed '1s/^/() /')"
    start_daemon() { start_daemon_plain "$@" && suite_again; }
    api() {
        local ACQUIRE=${3-}
        if [[ $1 = POST && $2 = /v1/boxes && $ACQUIRE = *'"backend":"remote"'* && $ACQUIRE != *'"machine"'* ]]; then
            suite_body "$ACQUIRE" "$*" || return 1
        fi
        api_plain "$1" "$2" "$ACQUIRE" "${@:4}"
    }
}

# suite_body BODY [WORDS of the call, maybe with a token]: ACQUIRE, the same for a machine that joined for it
suite_body() {
    suite_machine "$1" "${2-}" || return 1
    ACQUIRE=$1
    [[ $ACQUIRE = *'"thread"'* || $ACQUIRE = *'"agent"'* ]] ||
        ACQUIRE="{\"thread\":\"suite $SUITE_COUNT\",${ACQUIRE#\{}"
    ACQUIRE="{\"machine\":\"$SUITE_NAME\",${ACQUIRE#\{}"
}

suite_machine() { # suite_machine BODY of an acquire: SUITE_NAME, joined
    local user=default key=
    [[ $2 =~ Bearer\ (ann|bob)-token ]] && user=${BASH_REMATCH[1]} # as() of daemon.sh
    [[ $1 =~ \"user\":\"([^\"]*)\" ]] && user=${BASH_REMATCH[1]}
    [[ $1 =~ \"thread\":(\"([^\"\\]|\\.)*\") ]] && key="$user ${BASH_REMATCH[1]}"
    SUITE_NAME=${key:+${SUITE_MACHINES[$key]-}}
    [ -z "$SUITE_NAME" ] || return 0
    echo >> "$WORK/suite-count" # also for subshells
    SUITE_COUNT=$(wc -l < "$WORK/suite-count")
    SUITE_NAME=m$SUITE_COUNT
    machine_token "$SUITE_NAME" "$user" || return 1
    mkdir -p "$PROJECT" "$WORK/work-$SUITE_NAME"
    RIGHT=(unshare --mount --propagation private sh -c 'mount --bind "$0" "$1" && shift && exec "$@"' \
        "$WORK/work-$SUITE_NAME" "$PROJECT")
    MACHINE_SERVER=unix:$SOCKET machine_join "$SUITE_NAME" "$PROJECT"
    RIGHT=()
    eventually 20 grep -q 'joined' "$WORK/join-$SUITE_NAME.log" && eventually 20 suite_joined "$user" ||
        { diag "$SUITE_NAME does not come: $(tail -3 "$WORK/join-$SUITE_NAME.log")"; return 1; }
    SUITE_JOINED+=("$STATE $SUITE_NAME $user")
    [ -z "$key" ] || SUITE_MACHINES[$key]=$SUITE_NAME
}
suite_again() { # a new daemon on the old state: machines come again by themselves
    local machine user
    for machine in "${SUITE_JOINED[@]}"; do
        read -r SUITE_NAME user <<< "${machine#* }"
        [ "${machine%% *}" != "$STATE" ] || eventually 30 suite_joined "$user" ||
            diag "$SUITE_NAME does not come again: $(tail -3 "$WORK/join-$SUITE_NAME.log")"
    done
}
suite_joined() { # suite_joined USER: its own box is there
    admin_api GET "/v1/boxes/$(printf '%s:machine:%s' "$1" "$SUITE_NAME" | sha256sum | cut -c1-16)" &&
        [ "$(j .state)" = ready ]
}

suite_file() { # suite_file FILE -> SUITE_FILE, the same with this workspace's path
    SUITE_FILE=$WORK/${1##*/}
    sed "s#/workspace\b#$PROJECT#g" "$1" > "$SUITE_FILE"
}

suite_end() {
    machines_end
    machines_checked
    unlike 'nothing went wrong in the commands that joined' "$(cat "$WORK"/join-*.log)" \
        'Sanitizer|runtime error:|Assertion'
    SUITE_MACHINES=() SUITE_JOINED=()
    [ -n "${KEEP-}" ] || rm -rf "$WORK"/work-* "$WORK"/machine-* "$WORK"/join-*
}
