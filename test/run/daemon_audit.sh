# The audit log: every request and what happens by itself leave a row, which outlives the box and the daemon.
# backends: jail

rows() { api GET "/v1/audit?$([[ ${1-} = *limit=* ]] || echo limit=1000)${1:+&}${1-}"; } # rows [PARAMETERS]
# The row of an answer is put when the answer is out: a moment later. has FILTER [PARAMETERS]: some row fits
has() { rows "${2-}" && [ "$(j "[.events[]|select($1)]|length")" -ge 1 ]; }
row() { # row NAME FILTER WHAT WANT [PARAMETERS]: of the newest row that fits
    eventually 5 has "$2" "${5-}"
    is "$1" "$(j "[.events[]|select($2)][-1]|$3|tostring")" "$4"
}

# ---- requests ----

box_new '"user":"ann","thread":"audited","labels":{"l":"x"}'
ann=$BOX
row 'making a box' '.verb=="box_acquire"' '[.box,.user,.actor,.scope,.token,.status,.outcome,.exit_code]' \
    "[\"$ann\",\"ann\",null,\"admin\",null,201,\"ok\",null]" "box=$ann"
row 'with its thread' '.verb=="box_acquire"' .detail "audited backend=$BACKEND" "box=$ann"
row 'and who asked' '.verb=="box_acquire"' .peer "uid:$(id -u)" "box=$ann"
run 'echo out; exit 3'
id=$(header x-request-id)
row 'a command' ".request_id==\"$id\"" '[.verb,.detail,.status,.outcome,.exit_code,.signal,.timed_out,.oom_killed]' \
    '["exec","echo out; exit 3",200,"ok",3,null,false,false]' "box=$ann"
between 'its answer was counted' "$(j "[.events[]|select(.request_id==\"$id\")][0].bytes_out")" 100 2000
between 'its request too' "$(j "[.events[]|select(.request_id==\"$id\")][0].bytes_in")" 50 2000
like 'it has a time' "$(j "[.events[]|select(.request_id==\"$id\")][0].at")" '^20[0-9-]+T[0-9:.]+Z$'
run 'kill -9 $$'
row 'a killed one' '.signal!=null' '[.outcome,.exit_code,.signal]' '["ok",null,"SIGKILL"]' "box=$ann"
run 'sleep 30' '"timeout_ms":100'
row 'one out of time' '.timed_out==true' .outcome ok "box=$ann"
api POST "$B/exec" '{"argv":["echo","a b","c"],"user":"agent","cwd":"/workspace"}'
row 'arguments' '.detail//""|startswith("argv")' .detail 'argv=echo a b c cwd=/workspace user=agent' "box=$ann"
api POST "$B/exec" '{"command":"true"}' -H 'Accept: text/event-stream'
row 'a stream' '.detail=="true"' '[.verb,.exit_code]' '["exec",0]' "box=$ann"
put some/file x '&parents=1'
row 'a file written' '.verb=="file_put"' '[.detail,.status]' '["some/file",201]' "box=$ann"
get none
row 'one that is not there' '.verb=="file_get"' '[.detail,.status,.outcome]' '["none",404,"NOT_FOUND"]' "box=$ann"
api POST "$B/move" '{"from":"some/file","to":"some/other"}'
row 'a move' '.verb=="file_move"' .detail 'some/file to=some/other' "box=$ann"
api POST "$B/grep" '{"pattern":"needle-in-it","path":"some"}'
row 'a search, without what was looked for' '.verb=="file_grep"' .detail some "box=$ann"
api POST "$B/exec" '{"command":"true","nonsense":1}'
row 'a request that was refused' '.verb=="exec" and .status==400' '[.outcome,.detail]' '["INVALID",null]' "box=$ann"
api POST "$B/processes" '{"command":"sleep 1000"}'
pid=$(j .pid)
row 'a background command' '.verb=="process_start"' .detail 'sleep 1000' "box=$ann"
api POST "$B/processes/$pid/signal" '{"signal":"TERM"}'
row 'a signal' '.verb=="process_signal"' .detail "pid=$pid TERM" "box=$ann"
api POST "$B/exec" "{\"command\":\"printf '%s' $(printf 'é%.0s' {1..700})\"}"
row 'a long command is cut between characters' '.detail//""|startswith("printf")' \
    '[.encoding,(.detail|endswith("…"))]' \
    '["utf-8",true]' "box=$ann"
between 'at 1 KiB' "$(j "[.events[]|select(.detail//\"\"|startswith(\"printf\"))][-1].detail|utf8bytelength")" 1000 1024
api GET "$B/files?path=%ff%1b%5d0%3b"
row 'any bytes are kept' '.encoding=="base64"' '.detail|@base64d|explode|.[1:]' '[27,93,48,59]' "box=$ann"
api GET "$B/pty?command=echo%20on%20a%20terminal" '' --http1.1 -H 'Connection: Upgrade' -H 'Upgrade: websocket' \
    -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==' --max-time 20
row 'a terminal' '.verb=="pty"' '[.detail,.status,.exit_code]' '["echo on a terminal",101,0]' "box=$ann"
api GET /v1/info
api GET /metrics
like 'the metrics count rows' "$BODY" 'cubby_audit_rows_total [0-9]'
like 'and what was lost' "$BODY" 'cubby_audit_lost_total 0'
rows
is 'what is about the daemon has no row' \
    "$(j '[.events[]|select(.verb=="info" or .verb=="audit" or .verb=="metrics")]|length')" 0
run 'true'
api DELETE "$B"
row 'deleting it' '.verb=="box_destroy"' '[.user,.status,.outcome]' '["ann",204,"ok"]' "box=$ann"
rows "box=$ann"
between 'its rows stay' "$(j '.events|length')" 15 45
box_new '"user":"cleo"'
cleo=$BOX
api DELETE '/v1/boxes?user=cleo'
row 'one of many deleted has its own row' '.verb=="box_destroy"' '[.user,.outcome]' '["cleo","ok"]' "box=$cleo"
row 'beside that of the request' '.verb=="box_destroy_all"' '[.detail,.status]' '["cleo",200]'

# ---- asking ----

rows user=ann
all=$(j '.events|length')
rows "user=ann&limit=5"
is 'a page' "$STATUS $(j '[(.events|length),.truncated]|tostring')" '200 [5,true]'
next=$(j .next) seen=5
while [ "$(j .truncated)" = true ]; do
    rows "user=ann&limit=7&after=$next"
    next=$(j .next) seen=$((seen + $(j '.events|length')))
done
is 'page after page gives all' "$seen" "$all"
rows 'verb=exec&user=ann'
is 'by verb' "$(j '[.events[].verb]|unique|tostring')" '["exec"]'
rows 'outcome=failed&user=ann'
is 'what failed' "$(j '[.events[].outcome]|unique|tostring')" '["INVALID","NOT_FOUND"]'
rows 'outcome=NOT_FOUND&user=ann'
is 'by code' "$(j '[.events[].outcome]|unique|tostring')" '["NOT_FOUND"]'
rows 'since=2999-01-01T00:00:00Z'
is 'from a time on' "$(j '.events|length')" 0
rows 'until=2001-01-01T00:00:00%2B02:00'
is 'up to a time' "$(j '.events|length')" 0
rows 'tail=1&user=ann&limit=2'
is 'the newest' "$(j '[.events[].verb]|tostring')" '["exec","box_destroy"]'
for bad in since=yesterday limit=0 limit=1001 box=0123456789abcdef0 after=-1 what=1; do
    api GET "/v1/audit?$bad"
    is_error "refused: $bad" 400 INVALID "${bad%%=*}"
done
box_new
rows 'tail=1&limit=1'
next=$(j .next)
curl -sS --max-time 120 --unix-socket "$SOCKET" -o "$WORK/waited" \
    "http://localhost/v1/audit?after=$next&wait_ms=15000&verb=exec" &
waiter=$!
run 'echo waited for'
wait "$waiter"
is 'who waits gets the row' "$(jq -r '.events[0].detail' "$WORK/waited")" 'echo waited for'
now_ms
start=$NOW
rows "after=$(jq -r .next "$WORK/waited")&wait_ms=300"
now_ms
is 'or none' "$STATUS $(j '.events|length')" '200 0'
between 'after its time' $((NOW - start)) 300 14000
api GET /v1/audit/verify
is 'the chain is whole' "$STATUS $(j '[.intact,.broken_at,.damage]|tostring')" '200 [true,null,null]'

# ---- what happens by itself ----

box_new '"user":"dan","thread":"dies"'
dan=$BOX
tag_new
api POST "$B/processes" "{\"command\":\"exec sleep $TAG\"}"
eventually 5 tag_alive
runner=$(grep -slzx "[${TAG:0:1}]${TAG:1}" /proc/[0-9]*/cmdline | head -1 | cut -d/ -f3)
# the nearest above it; without cgroups a keeper of the same name stands between
until [[ -z $runner || $runner = 1 || $(tr '\0' ' ' < "/proc/$runner/cmdline") = cubby-runner* &&
    ($BACKEND = jail || $(awk '/^PPid/ { print $2 }' "/proc/$runner/status") = "$DAEMON_PID") ]]; do
    runner=$(awk '/^PPid/ { print $2 }' "/proc/$runner/status")
done
[ "$BACKEND" != docker ] || runner=$(runner_of "$dan") # a shim of its engine stands above it
[ "${runner:-1}" = 1 ] || kill -KILL "$runner"
row 'a runner that died' '.verb=="box_died"' '[.user,.scope,.status]' '["dan",null,null]' "box=$dan"
box_new '"user":"eve","thread":"idle","idle_timeout_ms":1'
row 'a box evicted for idleness' '.verb=="box_evicted"' '[.user,(.detail|test("idle"))]' '["eve",true]' "box=$BOX"
box_new '"user":"fay","thread":"stay"'
fay=$BOX
run 'echo before the kill'
eventually 5 has '.detail=="echo before the kill"' "box=$fay"
curl -sS --max-time 60 --unix-socket "$SOCKET" -o "$WORK/waited" -d '{"command":"sleep 1000 # long"}' \
    "http://localhost$B/exec" 2> /dev/null &
waiter=$!
row 'one that lasts has a row before it ends' '.detail//""|endswith("# long")' \
    '[.verb,.user,.status,.outcome,.exit_code]' \
    '["exec","fay",null,"running",null]' "box=$fay"
rows "box=$fay&outcome=failed"
is 'which is no failure' "$(j '.events|length')" 0
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" "$waiter" 2> /dev/null
if ! start_daemon "$program"; then
    fail 'a new daemon starts' "$(tail -5 "$WORK/daemon.log")"
    return
fi
row 'rows survive kill -9' '.detail=="echo before the kill"' .verb exec "box=$fay"
row 'also of what ran then' '.outcome=="running"' .verb exec "box=$fay"
row 'the new daemon has one' '.verb=="daemon_started"' .user null
[ "$BACKEND" = local ] ||
    row 'so has every box it found' '.verb=="box_adopted"' .user fay "box=$fay"
api GET /v1/audit/verify
is 'the chain goes on' "$(j .intact)" true

# ---- who sees what ----

write_tokens "$WORK/audit.yaml"
first=$BOX
if second_start "$WORK/audit.yaml" "$program"; then
    as ann POST /v1/boxes "{\"backend\":\"$BACKEND\"}"
    anns=$(j .id)
    as ann POST "/v1/boxes/$anns/exec" '{"command":"echo mine ann-token-0123456789abcdef00"}'
    as admin POST "/v1/boxes/$anns/exec" '{"command":"echo by the admin"}'
    as bob POST "/v1/boxes/$anns/exec" '{"command":"echo not mine"}'
    as bob POST /v1/boxes "{\"backend\":\"$BACKEND\"}"
    as eye POST "/v1/boxes/$anns/exec" '{"command":"echo only looking"}'
    api POST "/v1/boxes/$anns/exec" '{"command":"echo nobody"}'
    all_seen() { as admin GET '/v1/audit?limit=1000' && [ "$(j '[.events[]|select(.verb=="exec")]|length')" -ge 5 ]; }
    eventually 5 all_seen
    is 'an admin sees all' \
        "$(j '[.events[]|select(.verb=="box_acquire" or '\
'.verb=="exec")|[.verb,.user,.actor,.scope,.outcome]|tostring]|sort|join(" ")')" \
        "[\"box_acquire\",\"ann\",\"ann\",\"user\",\"ok\"] [\"box_acquire\",\"bob\",\"bob\",\"user\",\"ok\"] "\
"[\"exec\",\"ann\",\"ann\",\"read\",\"DENIED\"] [\"exec\",\"ann\",\"ann\",\"user\",\"ok\"] "\
"[\"exec\",\"ann\",null,\"admin\",\"ok\"] [\"exec\",\"bob\",\"bob\",\"user\",\"NOT_FOUND\"] "\
"[\"exec\",null,null,null,\"UNAUTHORIZED\"]"
    is 'a token is named, never told' "$(j '[.events[]|select(.actor=="bob")][0].token')" \
        "$(printf %s bob-token-0123456789abcdef00 | sha256sum | cut -c1-12)"
    as ann GET '/v1/audit?limit=1000'
    is 'a user sees own rows' "$(j '[.events[].user]|unique|tostring')" '["ann"]'
    is 'who wrote a token does not see it again' "$(j '[.events[]|select(.verb=="exec")][0].detail')" \
        'echo mine [token]'
    is "neither the admin's token nor address" "$(j '[.events[]|select(.scope=="admin")][0]|[.token,.peer]|tostring')" \
        '[null,null]'
    is 'nor what others did by a hash of it' "$(j '[.events[].hash]|unique|tostring')" '[null]'
    isnt 'but own ones' "$(j '[.events[]|select(.scope=="user")][0].token')" null
    as eye GET "/v1/audit?box=$anns"
    is 'a token that reads may ask' "$STATUS" 200
    between 'and sees' "$(j '.events|length')" 3 10
    as bob GET "/v1/audit?box=$anns"
    is "of somebody else's box only own failures" "$(j '[.events[]|[.user,.outcome]]|unique|tostring')" \
        '[["bob","NOT_FOUND"]]'
    as bob GET '/v1/audit?user=ann'
    theirs=$STATUS$(j 'del(.next)|tostring')
    as bob GET '/v1/audit?user=nobody-at-all'
    is "somebody else's rows are as none" "$theirs" "$STATUS$(j 'del(.next)|tostring')"
    is 'and there are none' "$theirs" '200{"events":[],"truncated":false}'
    as bob GET /v1/audit/verify
    is_error 'the check is for admins' 403 DENIED
    api GET /v1/audit
    is_error 'nobody sees nothing' 401 UNAUTHORIZED
    as admin DELETE '/v1/boxes?user=ann'
    as admin DELETE '/v1/boxes?user=bob'
fi
second_end

# ---- off, brief, damaged ----

printf 'allow_local: true\naudit: false\n' > "$WORK/audit.yaml"
if second_start "$WORK/audit.yaml" "$program"; then
    api GET /v1/audit
    is_error 'audit: false' 501 UNSUPPORTED audit
    ok 'then there is no file' test ! -e "$STATE/audit.db"
fi
second_end
printf 'allow_local: true\naudit_detail: false\n' > "$WORK/audit.yaml"
if second_start "$WORK/audit.yaml" "$program"; then
    box_new && run 'echo quiet'
    row 'audit_detail: false' '.verb=="exec"' '[.detail,.exit_code]' '[null,0]'
    api DELETE "$B"
fi
second_end
mkdir -p "$WORK/damaged"
head -c 8192 /dev/urandom > "$WORK/damaged/audit.db"
OUT=$("$program" --listen "unix:$WORK/damaged/socket" --state "$WORK/damaged" --backend "$BACKEND" --allow-local 2>&1 \
    < /dev/null)
is 'a damaged log stops the start' "$?" 125
like 'with the file and the way out' "$OUT" "$WORK/damaged/audit.db.*move it away.*audit: false"
ok 'and is left as it is' test "$(stat -c %s "$WORK/damaged/audit.db")" = 8192
box_use "$first"
