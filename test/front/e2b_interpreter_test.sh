#!/bin/bash
# The code interpreter of E2B with npm's @e2b/code-interpreter (test/clients/interpreter.mjs): contexts, output while
# code runs, errors, time-outs, forms of values, charts. What boxes of this machine do not have is skipped.
# by default: jail
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
if ! node -e 0 2> /dev/null || [ ! -d test/clients/node_modules/@e2b/code-interpreter ]; then
    skip "npm's @e2b/code-interpreter" 'test/clients/node_modules is not there: tools/setup npm installs it with npm'
    finish
    exit
fi
DAEMON=$BUILD/asan/cubbyd
[ -x "$DAEMON" ] || DAEMON=$BUILD/cubbyd
SECRET=$(printf '%064d' 7)
cat > "$CONFIG" << END
allow_local: true
auth: required
tokens:
  - {token: cubby_$SECRET, user: ann, scope: user}
END
ASAN_OPTIONS=exitcode=99 "$DAEMON" --listen "127.0.0.1:0,unix:$SOCKET" --state "$STATE" --config "$CONFIG" \
    --backend "$BACKEND" --pool-size 1 < /dev/null >> "$WORK/daemon.log" 2>&1 &
DAEMON_PID=$!
if ! eventually 20 daemon_answers || [ ! -d "/proc/$DAEMON_PID" ]; then
    fail 'a daemon' "$(tail -5 "$WORK/daemon.log")"
    finish
    exit 1
fi
URL=http://$(sed -n 's/.* ready on \(127[0-9.:]*\).*/\1/p' "$WORK/daemon.log")
export E2B_API_URL=$URL E2B_SANDBOX_URL=$URL E2B_API_KEY=e2b_$SECRET
has=()
for module in matplotlib pandas PIL; do
    if /usr/bin/python3 -c "import $module" 2> /dev/null; then
        has+=("$module")
    else
        skip "results of $module" "the Python of this machine has no module $module: tools/setup test installs it"
    fi
done
if [ -x /usr/bin/node ]; then
    has+=(node)
else
    skip 'JavaScript' 'the boxes of this machine have no node'
fi
[ "$BACKEND" != jail ] || has+=(root)
program 'the client' node test/clients/interpreter.mjs "${has[@]}"
finish
