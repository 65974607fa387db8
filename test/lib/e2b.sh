# A daemon for E2B's own clients (test/clients, which tools/setup npm installs): it listens on TCP as well, and has a
# token that is their API key. Sourced after lib.sh and daemon.sh by test/front/e2b_*_test.sh.

E2B_SECRET=$(printf 'c0ffee%02x' {1..8})
export E2B_API_KEY=e2b_$E2B_SECRET
NODE=$(command -v node)

# Ends the test, as skipped, where the clients are not installed.
e2b_clients_or_skip() {
    [ -n "$NODE" ] && [ -d test/clients/node_modules/e2b ] && return
    skip "E2B's own clients" 'test/clients/node_modules is not there: tools/setup npm installs it with npm'
    finish
    exit
}

e2b_start() { # e2b_start [LINE OF THE CONFIGURATION...]: URL, and what the clients read from the environment
    DAEMON=$BUILD/asan/cubbyd
    [ -x "$DAEMON" ] || DAEMON=$BUILD/cubbyd
    write_config
    printf '%s\n' 'tokens:' "  - {token: cubby_$E2B_SECRET, user: ann, scope: user}" "$@" >> "$CONFIG"
    state_new "$STATE"
    e2b_run || { fail 'a daemon' "$(tail -5 "$WORK/daemon.log")" && finish; exit 1; }
}

e2b_run() { # the daemon, on the state that is there; the port stays the same
    ASAN_OPTIONS=exitcode=99 UBSAN_OPTIONS=print_stacktrace=1 "$DAEMON" \
        --listen "${E2B_ADDRESS:-127.0.0.1:0},unix:$SOCKET" --state "$STATE" --config "$CONFIG" --backend "$BACKEND" \
        --pool-size 1 < /dev/null >> "$WORK/daemon.log" 2>&1 &
    DAEMON_PID=$!
    eventually 20 daemon_answers && [ -d "/proc/$DAEMON_PID" ] || return
    E2B_ADDRESS=$(sed -n 's/.* ready on \(127[0-9.:]*\).*/\1/p' "$WORK/daemon.log" | tail -1)
    URL=${E2B_SCHEME:-http}://$E2B_ADDRESS
    export E2B_API_URL=$URL E2B_SANDBOX_URL=$URL
}
