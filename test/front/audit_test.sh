#!/bin/bash
# `cubby audit`: the table, its filters, --follow, --json, --verify, and what a wrong command line says.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
write_config
use_cubby

c audit
is 'no daemon: status 125' "$CODE" 125
not_ok 'cubby does not load SQLite' sh -c "ldd '$BUILD/cubby' | grep sqlite"
ok 'cubbyd does' sh -c "ldd '$BUILD/cubbyd' | grep sqlite"
start_or_end "$BUILD/cubbyd"
shown() { # shown REGEX ARGUMENTS...: the table has a line like that (a row comes a moment after its answer)
    local regex=$1
    shift
    c audit "$@"
    grep -qE -- "$regex" <<< "$OUT"
}
c create --user ann --thread t1
box=$OUT
c exec "$box" -c 'exit 4'
c cat "$box:none"
ok 'a row of a command, with how it ended' eventually 5 shown \
    "^20[0-9-]+ [0-9:]+ +ann +admin +exec +$box +exit 4 +[0-9.]+ ms +exit 4\$"
ok 'one of an error' eventually 5 shown "file_get +$box +NOT_FOUND +[0-9.]+ ms +none\$"
ok 'and of the daemon itself' eventually 5 shown '- +- +daemon_started +- +ok +- +cubbyd '
c audit
like 'under heads' "$OUT" '^WHEN \(UTC\) +USER +BY +VERB +BOX +OUTCOME +TOOK +DETAIL'
c audit --box "$box" --outcome failed
is 'filters' "$CODE $(grep -c . <<< "$OUT")" '0 2'
c audit --user nobody
is 'nothing is no error' "$CODE $(grep -c . <<< "$OUT")" '0 1'
c audit -n 1 --box "$box"
is 'the newest only' "$(grep -c . <<< "$OUT")" 2
c audit --since 1h --verb exec --json
is '--json: an object a row' "$CODE $(jq -sr 'map(.verb)|unique|tostring' <<< "$OUT")" '0 ["exec"]'
is 'with times a person can read' "$(jq -r .duration_ms <<< "$OUT" | grep -cE '^[0-9]+(\.[0-9]{1,3})?$')" \
    "$(grep -c . <<< "$OUT")"
c audit --since 2999-01-01
is 'nothing is from the future' "$(grep -c . <<< "$OUT")" 1
c audit --until 2001-01-01T00:00:00Z
is 'nor from before' "$(grep -c . <<< "$OUT")" 1
for i in {1..60}; do echo "$i"; done | xargs -P 4 -I{} "$CUBBY" exec "$box" -- true {}
sixty() { c audit --since 1h --verb exec --box "$box" && [ "$(grep -c 'argv=true' <<< "$OUT")" = 60 ]; }
ok '--since shows all' eventually 10 sixty
c audit
is 'without it, the newest 50' "$(grep -c . <<< "$OUT")" 51

# following
mkfifo "$WORK/follow"
"$CUBBY" audit -f -n 1 --verb exec --box "$box" > "$WORK/follow" 2>&1 &
follower=$!
exec {rows}< "$WORK/follow"
read -r -t 60 line <&"$rows"
like '--follow: heads' "$line" '^WHEN'
read -r -t 60 line <&"$rows"
like '--follow: the newest row' "$line" 'exec'
c exec "$box" -c 'echo followed'
read -r -t 60 line <&"$rows"
like '--follow: what happens next' "$line" "exec +$box +ok .*echo followed"
c exec "$box" -c 'echo again'
read -r -t 60 line <&"$rows"
like '--follow: and next' "$line" 'echo again'
kill "$follower"
wait "$follower" 2> /dev/null
exec {rows}<&-

# wrong words
for words in '--since yesterday' '--lines 5000' '--lines 0' '--lines 5 --since 1h' '--follow --until 1h' '--nonsense' \
    'word'; do
    c audit $words
    is "refused: $words" "$CODE $(grep -c '^usage: cubby audit' <<< "$ERR")" '2 1'
done
c audit --outcome NONSENSE-THAT-IS-TOO-LONG
is 'what the daemon refuses' "$CODE" 125

# the chain
c audit --verify
like '--verify' "$CODE $OUT" '^0 intact: [0-9]+ rows, the last is [0-9]+ with hash [0-9a-f]{64}$'
c rm "$box"
ok 'rows outlive their box' eventually 5 shown "box_destroy +$box +ok" --box "$box"
if command -v sqlite3 > /dev/null; then
    not_ok 'a row cannot be changed' sqlite3 "$STATE/audit.db" "UPDATE audit SET user = 'x' WHERE id = 2"
    sqlite3 "$STATE/audit.db" "DROP TRIGGER audit_update; UPDATE audit SET user = 'x' WHERE id = 2" > /dev/null
    c audit --verify
    is 'not without a trace' "$CODE $OUT" '1 NOT INTACT: row 2 does not follow from the one before it'
    c audit --verify --json
    is 'as JSON' "$CODE $(jq -r .broken_at <<< "$OUT")" '1 2'
else skip 'a changed row is found' 'no sqlite3(1) here'; fi
stop_daemon
finish
