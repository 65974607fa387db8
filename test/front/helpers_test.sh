#!/bin/bash
# The programs that benches and tests run beside the product: whose peer is gone ends or sleeps, and a bench ends
# whatever it was
# begun from. Needs root and /dev/net/tun.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
BUILD=${BUILD:-build} WORK=$(mktemp -d) || exit 125
trap 'rm -rf "$WORK"' EXIT
ulimit -c 0

sleeps() { # sleeps PID: whenever it is looked at; a loop runs, or waits for a processor
    local i
    for ((i = 0; i < 20; i++)); do
        grep -q '^State:.S' "/proc/$1/status" || return 1
        read -r -t 0.01 <> <(:)
    done
    return 0
}
if [ "$(id -u)" != 0 ] || [ ! -c /dev/net/tun ]; then
    skip 'a cable between two namespaces' 'needs root and /dev/net/tun'
else
    . test/bench/remote.sh
    remote_cable veth # which takes the devices away that the program made
    ok 'a cable whose devices were removed uses no processor' eventually 5 sleeps "$CABLE_END"
    sleep 1000 & REMOTE_ECHO=$! helper=$! # a shell without job control has it ignore SIGINT
    ok 'a helper' eventually 10 grep -q '^SigIgn:.*[2367abef]$' "/proc/$helper/status"
    { read -r -t 15 <> <(:); echo > "$WORK/late"; kill -KILL "$helper"; } 2> /dev/null & guard=$!
    remote_end
    kill "$guard" 2> /dev/null
    wait "$guard" 2> /dev/null
    ok 'the end of a bench ends its helpers, though they ignore SIGINT' test ! -e "$WORK/late"
    coproc CABLE { exec "$BUILD/test/linkem" 100 101; }
    read -r -u "${CABLE[0]}" _
    cable=$CABLE_PID
    eval "exec ${CABLE[1]}>&-"
    gone() { [ ! -d "/proc/$cable" ] || grep -q '^State:.Z' "/proc/$cable/status"; }
    ok 'a cable ends with its input' eventually 10 gone
fi
finish
