# cubbyd --cleanup: everything of a state directory goes, without serving.
# not remote: what lies on machines is theirs; without a daemon nobody could ask them

cleanup() { # cleanup [STATE]: OUT, ERR, CODE
    OUT=$("$program" --cleanup --state "${1:-$STATE}" 2> "$WORK/err" < /dev/null)
    CODE=$?
    ERR=$(< "$WORK/err")
}
cleanup
is 'refused while a daemon serves' "$CODE" 125
like 'and it says so' "$ERR" 'a daemon serves this state directory'
run true
is 'and nothing is touched' "$STATUS" 200
cleanup "$WORK/none"
is 'a directory that is not there is not made' "$CODE $(ls -d "$WORK/none" 2> /dev/null)" '125 '
like 'and named' "$ERR" "$WORK/none"

first=$BOX
tag_new
api POST "$B/processes" "{\"command\":\"sleep $TAG\"}"
box_new '"user":"ann","thread":"x"'
run 'mkdir -p a/b; echo x > a/b/c'
damaged=$BOX
box_new
lost=$BOX
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
echo '{"id":' > "$STATE/boxes/$damaged/box.json"
rm "$STATE/boxes/$lost/box.json"
mkdir -p "$STATE/boxes/stray/deep" "$STATE/trash/old"
: > "$STATE/trash/old/file"
touch "$STATE/audit.db"
cleanup
is 'after the daemon was killed it cleans up' "$CODE" 0
for id in "$first" "$damaged" "$lost"; do
    like "box $id is removed, and told" "$OUT" "removed box $id"
done
like 'and it says that all is clean' "$OUT" "$STATE is clean; (1 item|[0-9]+ items) removed"
ok 'processes are gone' eventually 5 tag_gone
is 'files are gone' "$(ls -A "$STATE/boxes" "$STATE/trash" | grep -v : | xargs)" ''
is 'the audit log is there' "$(ls "$STATE/audit.db")" "$STATE/audit.db"
if no_host_leftovers; then pass 'nothing is left on the machine'; else fail 'nothing is left on the machine' \
    "$(host_leftovers)"; fi
cleanup
# but for what others leave on the machine meanwhile: slots, cgroups, interfaces
is 'a second time there is nothing to do' \
    "$CODE $(grep -cE "^removed (box|directory|files|template|the store)|^removed slot .* of $STATE" <<< "$OUT")" '0 0'

# And with a descriptor that its parent forgot to close: it goes to no runner.
exec {inherited}< "$CONFIG"
start_daemon "$program"
exec {inherited}<&-
is 'a daemon starts on what is left' "$(kill -0 "$DAEMON_PID" && echo runs)" runs
api GET /v1/boxes
is 'and has no boxes' "$(j '.boxes|length')" 0
box_new
run 'echo fine'
is 'and makes new ones' "$OUT" fine
holders() { ls -l /proc/[0-9]*/fd 2> /dev/null | awk -v file="$CONFIG" \
    '/^\/proc/ { at = $1 } $NF == file { print at }'; }
is 'none but the daemon holds what it inherited' "$(holders)" "/proc/$DAEMON_PID/fd:"
