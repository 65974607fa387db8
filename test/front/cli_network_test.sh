#!/bin/bash
# `cubby network` and `cubby secret`: what a box may reach, shown and changed while it runs, questions answered; and a
# token that it uses and cannot print. Nothing is sent anywhere: every name that is asked for is refused.
# backends: jail
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
write_config
start_or_end "$BUILD/cubbyd"
use_cubby

printf 'ghp_0123456789abcdefghijklmnopqrstuvwx12' > "$WORK/token"
INPUT=$WORK/token c secret create github --host api.github.test --env GITHUB_TOKEN
is 'a secret' "$CODE $OUT$ERR" '0 '
c secret list
like 'is listed without its value' "$(tail -n +2 <<< "$OUT")" '^github +- +api\.github\.test +stored'
c create --allow pypi.test --allow api.github.test --secret github
is 'a box that may reach two hosts' "$CODE" 0
box=$OUT
c exec "$box" -- sh -c 'echo $GITHUB_TOKEN'
like 'has a placeholder of the same shape' "$OUT" '^ghp_cubbyX[A-Za-z0-9_-]{30}$'
c exec --json "$box" -- curl -sS http://evil.test/
is 'and no other host; the answer says so' \
    "$(jq -c '.network_denied[0]|[.to,.why]' <<< "$OUT")" '["evil.test","default"]'
c network show "$box"
is 'show' "$(head -3 <<< "$OUT")" $'policy, generation 0, mode enforce\nallow pypi.test\nallow api.github.test'
c network allow "$box" db.test:5432 '*.hub.test'
is 'allow' "$CODE $(grep -c '^allow' <<< "$OUT")" '0 4'
c network deny "$box" bad.hub.test
c network test "$box" https://a.hub.test/
is 'test of what is allowed' "$CODE $OUT" '0 https://a.hub.test/: allowed by *.hub.test'
c network test "$box" bad.hub.test
is 'of what is denied' "$CODE $OUT" '1 bad.hub.test: refused by deny:bad.hub.test'
c network rm "$box" bad.hub.test db.test:5432
is 'rm of either kind' "$CODE $(grep -cE 'bad|db' <<< "$OUT")" '0 0'
c network rm "$box" never.test
is 'of what is not there' "$CODE $ERR" "125 cubby: network: allow has no entry 'never.test'"
c network log "$box"
like 'log has the attempt' "$OUT" '^20[^ ]+Z net_dns +DENIED evil\.test A by default'
like 'and the changes' "$OUT" 'net_policy +ok +generation 3'
c network set "$box" none
is 'set none' "$CODE $OUT" '0 network none'
c network set "$box" '{"allow":["a b"]}'
is 'set of what is no policy' "$CODE" 125
echo '{"mode":"ask","ask_timeout_ms":60000,"allow":[]}' > "$WORK/policy"
c network set "$box" "$WORK/policy"
is 'set of a file' "$CODE $(head -1 <<< "$OUT")" '0 policy, generation 5, mode ask'
"$CUBBY" exec "$box" -- curl -sS -o /dev/null -w '%{http_code}' http://ask.test/ > "$WORK/asked" 2>&1 &
asked=$!
question() { c network log "$box"; [[ $OUT =~ ask\.test:80.*question=([0-9]+) ]] && QUESTION=${BASH_REMATCH[1]}; }
ok 'a question' eventually 20 question
question
c network answer "$box" "$QUESTION" deny
is 'an answer' "$CODE $ERR" '0 '
wait "$asked"
is 'ends what waited for it' "$(< "$WORK/asked")" 403
c network learn "$box"
is 'learn' "$CODE $(jq -c .allow <<< "$OUT")" '0 ["ask.test"]'
c network show
is 'without a box' "$CODE" 2
c network ca
is 'ca is a certificate' "$CODE $(openssl x509 -noout -ext basicConstraints <<< "$OUT" | tail -1)" \
    '0     CA:TRUE, pathlen:0'
c network ca --json
is 'ca as JSON' "$(jq -r .certificate <<< "$OUT" | openssl x509 -noout -subject | cut -c1-18)" 'subject=CN = cubby'
c rm "$box"

c run --allow api.github.test --secret github=TOKEN -- sh -c 'echo $TOKEN; exit 3'
like 'run with a secret' "$CODE $OUT" '^3 ghp_cubbyX[A-Za-z0-9_-]{30}$'
c run --allow api.github.test --secret nothing -- true
like 'run with a secret that does not exist' "$CODE $ERR" "^125 .*'nothing'"
c run --allow evil.test --allow-weaker landlock -- true
is 'run with a policy and what only a box without a daemon has' "$CODE" 2
INPUT=$WORK/token c run --allow api.github.test -- wc -c
is 'run with a policy passes standard input on' "$CODE $OUT" '0 40'
"$CUBBY" run --allow api.github.test -- sleep 600 &
running=$!
boxes() { api GET /v1/boxes; [ "$(j '.boxes|length')" = "$1" ]; }
ok 'a box of a run' eventually 20 boxes 1
kill -TERM "$running"
wait "$running"
is 'ends with a signal' $? 143
ok 'and leaves nothing' boxes 0
CUBBY_URL=http://127.0.0.1:1 c run --secret github -- true
like 'without a daemon it says what it needs' "$CODE $ERR" '125 .*need the daemon'
c doctor --json
is 'doctor: where the key of secrets is' \
    "$(jq -c '.checks[]|select(.name=="key of secrets")|[.ok,.detail]' <<< "$OUT")" \
    '[true,"STATE/secrets.key: a copy of STATE has key and secrets"]'
chmod 644 "$STATE/secrets.key"
c doctor --json
is 'doctor: that others can read it' "$(jq -c '.checks[]|select(.name=="key of secrets")|[.ok,.detail]' <<< "$OUT")" \
    '[false,"STATE/secrets.key can be read by others (mode 644)"]'
chmod 600 "$STATE/secrets.key"
stop_daemon
finish
