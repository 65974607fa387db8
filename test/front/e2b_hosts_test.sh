#!/bin/bash
# Hosts of E2B sandboxes over TLS: `cubby tls`, its certificate in a daemon, servers by PORT-ID.DOMAIN with npm's e2b.
# backends: jail
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
. test/lib/e2b.sh
use_cubby

# ---- cubby tls ----
c tls "$WORK/tls"
is 'an authority and a certificate' "$CODE $ERR" '0 '
like 'the lines for the daemon' "$OUT" "
tls_cert: $WORK/tls/cert.pem
tls_key: $WORK/tls/key.pem
"
like 'and for clients' "$OUT" "NODE_EXTRA_CA_CERTS=$WORK/tls/ca.pem"
is 'keys are private, certificates are not' "$(stat -c %a "$WORK"/tls/{ca.key,key.pem,ca.pem,cert.pem} | tr '\n' ' ')" \
    '600 600 644 644 '
is 'the certificate is of the authority' \
    "$(openssl verify -verify_hostname 8000-0123456789abcdef.sbx.localhost -CAfile "$WORK/tls/ca.pem" \
        "$WORK/tls/cert.pem" 2>&1)" "$WORK/tls/cert.pem: OK"
cp "$WORK/tls/ca.pem" "$WORK/before"
cp "$WORK/tls/cert.pem" "$WORK/older"
c tls --days 2 "$WORK/tls"
is 'again' "$CODE" 0
cmp -s "$WORK/before" "$WORK/tls/ca.pem"
is 'the authority stays' $? 0
cmp -s "$WORK/older" "$WORK/tls/cert.pem"
is 'the certificate is a new one' $? 1
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=x -CA "$WORK/tls/ca.pem" \
    -CAkey "$WORK/tls/ca.key" -addext subjectAltName=DNS:example.com -keyout "$WORK/x.key" -out "$WORK/x.pem" \
    2> /dev/null
like 'a stolen authority signs no other names' \
    "$(openssl verify -CAfile "$WORK/tls/ca.pem" "$WORK/x.pem" 2>&1)" 'permitted subtree violation'
for domain in localhost .a.b 'a b.c' A.b a..b 'x.y/z'; do
    c tls --domain "$domain" "$WORK/none"
    is "not a domain: '$domain'" "$CODE" 2
done
[ ! -e "$WORK/none" ]
is 'and nothing is made' $? 0
c tls --days 0 "$WORK/none"
is 'no days' "$CODE" 2
c tls
is 'no directory' "$CODE" 2
c tls /dev/null/x
like 'a directory that cannot be' "$CODE $ERR" "^125 cubby: cannot create the directory '/dev/null/x'"
PATH=/nowhere c tls "$WORK/other"
like 'without openssl' "$CODE $ERR" '^125 cubby: the program openssl is not installed'

# ---- hosts ----
e2b_clients_or_skip
export NODE_EXTRA_CA_CERTS=$WORK/tls/ca.pem E2B_SCHEME=https
PORT=$((20000 + RANDOM % 10000))
E2B_ADDRESS=127.0.0.1:$PORT
e2b_start "e2b_domain: sbx.localhost:$PORT" 'e2b_network: none' "tls_cert: $WORK/tls/cert.pem" \
    "tls_key: $WORK/tls/key.pem"
program 'e2b 2.51' "$NODE" test/clients/e2b_hosts.mjs e2b
program 'e2b 2.45' "$NODE" test/clients/e2b_hosts.mjs e2b-2.45
stop_daemon
finish
