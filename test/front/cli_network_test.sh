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
c rm "$box"
stop_daemon
finish
