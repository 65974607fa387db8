#!/bin/bash
# cubby-seal alone: TLS both ways, placeholders in requests, values in answers, hosts that lie (cases A45 to A53).
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
SEAL=$BUILD/asan/cubby-seal
[ -x "$SEAL" ] || SEAL=$BUILD/cubby-seal
program 'cubby-seal with a daemon, a gate, a box and a host' python3 test/lib/seal_drive.py "$SEAL"
finish
