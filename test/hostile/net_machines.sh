# Network policies of boxes on machines that joined and on workers: the machine's own gate enforces them, the server has
# the barrier, the reports and what commands were refused. The server has no way to W at all; the machines have.
# backends: jail
# wall: as net_wall, on the machine that the box is on
. test/lib/world.sh
. test/lib/fleet.sh
world_start
printf 'nameserver 93.184.0.53\n' > "$WORK/resolv"
mkdir -p "$WORK/machine.d" "$WORK/machine-home"
cp "$CONFIG" "$WORK/net.yaml"
policy='{"allow":["pypi.test","*.hub.test","git.test:22","db.test:5432","time.test:123/udp"],"deny":["bad.hub.test"]}'
# Where the machines are: a network namespace with a way to W.
unshare -n -m sh -c 'mount --bind "$0" /etc/resolv.conf; touch "$0.bound"; exec sleep infinity' "$WORK/resolv" &
PLACE_PID=$!
placed() { [ -e "$WORK/resolv.bound" ]; }
eventually 10 placed
world_join "$PLACE_PID"
program=$BUILD/asan/cubby
[ -x "$program" ] || program=$BUILD/cubby
machine_in_world() { # machine_in_world NAME OPTIONS...: MACHINE_PID
    local name=$1
    shift
    ASAN_OPTIONS=detect_leaks=0:exitcode=99 nsenter -t "$PLACE_PID" -n -m "$program" join --server "unix:$SOCKET" "$@" \
        < /dev/null >> "$WORK/machine-$name.log" 2>&1 &
    MACHINE_PID=$!
}
second_start "$WORK/net.yaml" "$BUILD/cubbyd"
"$BUILD/cubby" token create --worker far --state "$STATE" > "$WORK/worker.token"
"$BUILD/cubby" token create --user default --runner own --state "$STATE" > "$WORK/own.token"
worker_here() {
    machine_in_world far --worker --token-file "$WORK/worker.token" --state "$WORK/machine.d" --pool-size 1
}

# What holds wherever the box is.
policy_holds() { # policy_holds WHERE
    run 'curl -s -o /dev/null -w %{http_code} http://pypi.test/'
    is "$1: an allowed name" "$OUT" 200
    run 'curl -sk -o /dev/null -w %{http_code} https://a.hub.test/'
    is "$1: with TLS, below a star" "$OUT" 200
    world_forget
    run 'curl -s http://evil.test/; echo $?'
    is "$1: another name is not resolved" "$OUT" 6
    is "$1: the answer of the command says why" "$(j '.network_denied[0].to')" evil.test
    run 'curl -s -m 5 http://bad.hub.test/; echo $?
        curl -sk -m 5 --resolve evil.test:443:93.184.0.10 https://evil.test/; echo $?
        curl -s -m 5 http://169.254.169.254/; echo $?; curl -s -m 5 http://9.9.9.1:22/; echo $?'
    OUT=${OUT/%56/7} # reset after the handshake, or before
    is "$1: a denied name, an address, metadata, the machine itself" "${OUT//$'\n'/ }" '6 35 7 7'
    is "$1: and nothing leaves" "$(world_dns)$(world_tcp)" ''
    audit() { api GET "/v1/audit?box=$BOX&verb=net_dns"; j '.events[].outcome' | grep -qx DENIED; }
    eventually 10 audit
    like "$1: the audit log has the attempt, with its command" "$(j '.events[].detail' | grep -m 1 '^evil.test ')" \
        '^evil.test A* by default *exec=[0-9]* curl -s http://evil.test/; echo'
    api POST "$B/processes" '{"command":"exec curl -sN http://pypi.test/slow > slow 2>&1; echo $? > ended"}'
    api PUT "$B/network" '{"allow":["a.hub.test"]}'
    is "$1: the policy changes while it runs" "$STATUS" 200
    run 'curl -s -m 5 http://pypi.test/; echo $?; curl -s -o /dev/null -w %{http_code} http://a.hub.test/'
    is "$1: and counts at once" "${OUT//$'\n'/ }" '6 200'
    api DELETE "$B/network"
    run 'curl -s -m 5 http://a.hub.test/; echo $?; curl -s -m 5 http://93.184.0.11/; echo $?'
    is "$1: none" "${OUT//$'\n'/ }" '6 7'
    api PUT "$B/network" "$policy"
    is "$1: and a policy again" "$STATUS" 200
    run 'curl -s -o /dev/null -w %{http_code} http://pypi.test/; curl -s http://evil.test/'
    is "$1: which is served" "$OUT" 200
    is "$1: and reported" "$(j '.network_denied[0].to')" evil.test
}

# ---- a worker ----

if worker_here && eventually 20 worker_online far && BACKEND=fleet box_new '"network":'"$policy"; then
    policy_holds worker
    api GET "$B"
    isnt 'worker: its traffic is counted' "$(j '.usage.network.bytes_in')" 0
    pkill -KILL -P "$MACHINE_PID" cubby-gate
    again() { run 'curl -s -m 5 -o /dev/null -w %{http_code} http://pypi.test/'; [ "$OUT" = 200 ]; }
    eventually 10 again
    is 'worker: served again after its gate was killed' "$OUT" 200
    # kill -9 of the server: the policy holds there, and the next server has the reports
    kill -KILL "$DAEMON_PID"
    wait "$DAEMON_PID" 2> /dev/null
    start_daemon "$BUILD/cubbyd"
    eventually 30 worker_online far
    box_use "$BOX"
    eventually 10 again
    is 'worker: as before after the server was killed' "$OUT" 200
    denied() { run 'curl -s http://evil.test/'; [ "$(j '.network_denied[0].to')" = evil.test ]; }
    eventually 10 denied
    is 'worker: with its reports' "$(j '.network_denied[0].to')" evil.test
    # kill -9 of `cubby join`: its gate ends, the box is refused; the next one serves it
    kill -KILL "$MACHINE_PID"
    wait "$MACHINE_PID" 2> /dev/null
    worker_here
    eventually 20 worker_online far
    box_use "$BOX"
    eventually 20 again
    is 'worker: as before after cubby join was killed' "$OUT" 200
    eventually 10 denied
    is 'worker: with its reports then, too' "$(j '.network_denied[0].to')" evil.test
    api DELETE "$B"
    kill -TERM "$MACHINE_PID"
    wait "$MACHINE_PID" 2> /dev/null
    is 'the worker ends well' "$?" 0
else
    fail 'a worker with a world around it' "$STATUS $BODY $(tail -3 "$WORK/machine-far.log")"
fi

# ---- a user's own machine ----

if machine_in_world own --token-file "$WORK/own.token" --workspace "$WORK/machine-home" --state "$WORK/machine.d" &&
    eventually 20 grep -q joined "$WORK/machine-own.log" &&
    BACKEND=remote box_new '"machine":"own","thread":"t","network":'"$policy"; then
    policy_holds machine
    api DELETE "$B"
    kill -TERM "$MACHINE_PID"
    wait "$MACHINE_PID" 2> /dev/null
    is 'the machine ends well' "$?" 0
else
    fail 'a machine with a world around it' "$STATUS $BODY $(tail -3 "$WORK/machine-own.log")"
fi
second_end
kill "$PLACE_PID"
wait "$PLACE_PID" 2> /dev/null
world_end
