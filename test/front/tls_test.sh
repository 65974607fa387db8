#!/bin/bash
# TLS from the configuration: versions, the certificate's change while serving, what is refused, what is warned of.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
use_cubby
DAEMON=$BUILD/asan/cubbyd
[ -x "$DAEMON" ] || DAEMON=$BUILD/cubbyd

certificate() { # certificate NAME: cert.pem and key.pem as if by NAME's authority, itself
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$1" \
        -addext 'subjectAltName=IP:127.0.0.1,DNS:localhost' \
        -keyout "$WORK/$1.key" -out "$WORK/$1.pem" 2> /dev/null
    cp "$WORK/$1.pem" "$WORK/cert.pem"
    cp "$WORK/$1.key" "$WORK/key.pem"
}
shake() { # shake OPTION...: the handshake's outcome
    openssl s_client -connect "127.0.0.1:$PORT" "$@" < /dev/null 2>&1
}
subject() { shake | sed -n 's/^subject=//p'; }
secure() { curl -sS --max-time 60 --cacert "$1" "${@:2}" "https://127.0.0.1:$PORT/healthz" 2>&1; }
start() { # start LISTEN: PORT, LOG
    LOG=$WORK/tls.log
    : > "$LOG"
    ASAN_OPTIONS=exitcode=99 "$DAEMON" --listen "$1" --state "$STATE" --config "$CONFIG" < /dev/null > "$LOG" 2>&1 \
        & DAEMON_PID=$!
    eventually 20 grep -qE 'ready on|^cubbyd: ' "$LOG"
    PORT=$(sed -n 's/.*ready on [^ ]*:\([0-9]*\),.*/\1/p' "$LOG")
    [ -n "$PORT" ]
}
stop() {
    kill -TERM "$DAEMON_PID"
    wait "$DAEMON_PID"
    is 'it ends in order' $? 0
    unlike 'and the sanitizers are silent' "$(< "$LOG")" 'Sanitizer|runtime error:'
    DAEMON_PID=
}

certificate one
printf 'pool_size: 0\ntls_cert: %s/cert.pem\ntls_key: %s/key.pem\n' "$WORK" "$WORK" > "$CONFIG"
if ! start 127.0.0.1:0; then
    fail 'a daemon with TLS' "$(tail -3 "$LOG")"
    finish
    exit 1
fi
is 'it answers over TLS' "$(secure "$WORK/one.pem")" '{"status":"ok","disk":"ok","audit":"ok"}'
like 'its certificate is checked' "$(secure /etc/hostname)" '^curl: \((60|77)\)'
like 'plain HTTP is no TLS' "$(curl -sS --max-time 5 "http://127.0.0.1:$PORT/healthz" 2>&1)" '^curl: \((52|56|1)\)'
for version in tls1_2 tls1_3; do
    like "$version is spoken" "$(shake "-$version")" 'Verification error: self-signed|Verify return code: 18'
done
for version in ssl3 tls1 tls1_1; do
    unlike "$version is not" "$(shake "-$version" -cipher ALL:@SECLEVEL=0)" \
        'Verify return code: 18|Cipher is [A-Z].*[A-Z0-9]{6}'
done
like 'HTTP/1.1 is agreed on' "$(shake -alpn h2,http/1.1)" 'ALPN protocol: http/1.1'
CUBBY_URL=https://127.0.0.1:$PORT CUBBY_CA=$WORK/one.pem c ps
is 'the command line comes in' "$CODE" 0
CUBBY_URL=https://127.0.0.1:$PORT c ps
is 'and refuses who it does not know' "$CODE" 125

# another certificate while serving: who is there stays, who comes sees the new one
coproc OPEN { exec openssl s_client -quiet -connect "127.0.0.1:$PORT" 2> /dev/null; }
ask() {
    printf 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n' >&"${OPEN[1]}"
    ANSWER=
    read -r -t 60 ANSWER <&"${OPEN[0]}"
}
drain() { while read -r -t 0.2 _ <&"${OPEN[0]}"; do :; done; }
ask
like 'a connection is open' "$ANSWER" '^HTTP/1.1 200'
drain
certificate two
kill -HUP "$DAEMON_PID"
is_two() { [[ $(subject) = *two* ]]; }
ok 'SIGHUP: the new certificate is shown' eventually 10 is_two
is 'and good' "$(secure "$WORK/two.pem")" '{"status":"ok","disk":"ok","audit":"ok"}'
ask
like 'the open connection goes on' "$ANSWER" '^HTTP/1.1 200'
exec {OPEN[1]}>&-
# what does not fit is not taken
cp "$WORK/one.key" "$WORK/key.pem"
kill -HUP "$DAEMON_PID"
ok 'a key of another certificate is refused in the log' eventually 10 grep -q "does not fit\|key values mismatch" "$LOG"
is 'the old pair goes on' "$(secure "$WORK/two.pem")" '{"status":"ok","disk":"ok","audit":"ok"}'
cp "$WORK/two.key" "$WORK/key.pem"
chmod 644 "$WORK/key.pem"
kill -HUP "$DAEMON_PID"
ok 'so is a key that everybody can read' eventually 10 grep -q 'chmod 600' "$LOG"
is 'and the old pair goes on' "$(secure "$WORK/two.pem")" '{"status":"ok","disk":"ok","audit":"ok"}'
stop

start 127.0.0.1:0
like 'at the start such a key is the end' "$(< "$LOG")" "cubbyd: TLS key '$WORK/key.pem'.*chmod 600"
wait "$DAEMON_PID"
is 'with status 125' $? 125
chmod 640 "$WORK/key.pem"
DAEMON_PID=

# further than loopback
c token create --scope admin --state "$STATE"
printf 'pool_size: 0\n' > "$CONFIG"
start 0.0.0.0:0
like 'without TLS it warns' "$(< "$LOG")" 'UNENCRYPTED.*tls_cert'
is 'and demands tokens' "$(curl -s -o "$WORK/body" -w '%{http_code}' "http://127.0.0.1:$PORT/v1/boxes")" 401
stop
printf 'pool_size: 0\ntls_cert: %s/cert.pem\ntls_key: %s/key.pem\n' "$WORK" "$WORK" > "$CONFIG"
start 0.0.0.0:0
unlike 'with TLS it does not' "$(< "$LOG")" UNENCRYPTED
is 'a token is good over TLS' \
    "$(curl -s -o "$WORK/body" -w '%{http_code}' --cacert "$WORK/two.pem" -H "Authorization: Bearer $OUT" \
    "https://127.0.0.1:$PORT/v1/boxes")" 200
stop
finish
