# Results too long for a model: kept with head, tail and facts in their place, recalled by range, lines or pattern, the
# owner's
# only, told when their file has changed, gone by age, size and with their box.
# backends: jail

kept() { # kept TEXT: ID of the kept result, and TEXT with it masked
    [[ $1 =~ \[offload:(ol_[0-9a-f]{16})\] ]] && ID=${BASH_REMATCH[1]} || ID=none
    MASKED=${1//$ID/ID}
}
recall() { tool recall "{\"id\":\"$ID\"${1:+,$1}}" "${@:2}"; } # recall [MORE JSON MEMBERS] [THREAD] [CURL OPTION...]
rows_sql() { # rows_sql SQL: in tools.db
    python3 -c 'import sqlite3,sys
db = sqlite3.connect(sys.argv[1] + "/tools.db", timeout=10)
print(*[row[0] for row in db.execute(sys.argv[2])], sep="\n")
db.commit()' "$STATE" "$1"
}
files() { ls "$STATE/offload" | sort | tr '\n' ' '; }
refresh() { # refresh THREAD -> STALE: its ids
    api POST "/v1/threads/$1/offload/refresh"
    STALE=$(j '.stale|join(" ")')
}

run pwd
W=${OUT%$'\n'}
HINT='To see more: recall with id "ID" and offset and limit (characters), start_line and end_line, or pattern.'

# ---- what stands in its place ----

tool bash '{"command":"seq 1 6000; exit 3"}'
kept "$TEXT"
text=$(seq 1 6000)$'\n\nExit Code: 3'
is 'a long result: what it is, its first 2000 characters and its last 1000' "$IS_ERROR $MASKED" \
    "false [offload:ID] bash(command=seq 1 6000; exit 3)
${#text} characters, 6002 lines, ${#text} bytes, ~$((${#text} / 4)) tokens
Exit code: 3
$HINT
--- Head: characters 0-2000 ---
${text:0:2000}
--- $((${#text} - 3000)) characters omitted ---
--- Tail: characters $((${#text} - 1000))-${#text} ---
${text: -1000}"
like 'its id is random' "$ID" '^ol_[0-9a-f]{16}$'
tool ls "{\"path\":\"$W\"}"
is 'a short one does not' "${TEXT:0:9}" '(empty)'
tool bash '{"command":"head -c 20000 /dev/zero | tr \"\\0\" x"}'
is 'nor does one of 20000 characters' "${#TEXT} ${TEXT:0:3}" '20000 xxx'
tool bash '{"command":"head -c 20001 /dev/zero | tr \"\\0\" x"}'
kept "$TEXT"
is 'one of 20001 has' "$MASKED" "[offload:ID] bash(command=head -c 20001 /dev/zero | tr \"\\0\" x)
20001 characters, 1 lines, 20001 bytes, ~5000 tokens
Exit code: 0
$HINT
--- Head: characters 0-2000 ---
$(printf 'x%.0s' {1..2000})
--- 17001 characters omitted ---
--- Tail: characters 19001-20001 ---
$(printf 'x%.0s' {1..1000})"

{
    echo 'class Zebra(Base):'
    for i in {1..1500}; do printf '    async def method_%04d(self):\n        return "%d é"\n' "$i" "$i"; done
} > "$WORK/zoo.py"
upload zoo.py "$WORK/zoo.py"
tool read_file '{"path":"zoo.py"}'
kept "$TEXT"
zoo=$ID
is 'a file: its name, lines and what it defines' "${MASKED%%--- Head*}" "[offload:ID] read_file(path=zoo.py)
$(wc -m < "$WORK/zoo.py") characters, 3001 lines, $(wc \
    -c < "$WORK/zoo.py") bytes, ~$(($(wc -m < "$WORK/zoo.py") / 4)) tokens
File: $W/zoo.py, 3001 lines
Key definitions: Zebra, $(printf 'method_%04d, ' {1..8})method_0009
$HINT
"
tool read_file '{"path":"zoo.py","start_line":1,"end_line":3000}'
like 'a range of lines is only cut' "$IS_ERROR ${TEXT: -120}" \
    'false .*\[truncated: showing first [0-9]+ of [0-9]+ chars'

run 'mkdir many; cd many; seq -f "a-rather-long-name-of-a-file-%04.0f" 1 500 | xargs touch'
tool ls '{"path":"many"}'
kept "$TEXT"
like 'a directory: how many' "$MASKED" \
    $'^\\[offload:ID\\] ls\\(path=many\\)\n[0-9]+ characters, 500 lines, [0-9]+ bytes, ~[0-9]+ tokens\nEntries: 500\n'

# ---- recall ----

ID=$zoo
whole=$(< "$WORK/zoo.py")
total=$(wc -m < "$WORK/zoo.py")
recall
is 'the first 8000 characters' "$IS_ERROR $TEXT" "false [$ID] characters 0-8000 of $total; next: offset=8000
${whole:0:8000}"
recall '"offset":8000,"limit":16000'
is 'and on, by characters, not bytes' "$TEXT" \
    "[$ID] characters 8000-24000 of $total; next: offset=24000; previous: offset=0
${whole:8000:16000}"
recall "\"offset\":$((total - 10))"
is 'the end' "$TEXT" "[$ID] characters $((total - 10))-$total of $total; previous: offset=$((total - 8010))
${whole:$((total - 10))}
"
recall "\"offset\":$total"
tool_fails 'behind the end' "Error: offset $total is past the end: $ID has $total characters"
recall '"start_line":3,"end_line":4'
tool_is 'lines' "[$ID] lines 3-4 of 3001; next: start_line=5
$(sed -n 3,4p "$WORK/zoo.py")
"
recall '"start_line":3000'
tool_is 'lines to the end' "[$ID] lines 3000-3001 of 3001
$(sed -n 3000,3001p "$WORK/zoo.py")
"
recall '"start_line":2,"limit":10'
tool_is 'no more characters than asked for' "[$ID] lines 2-2 of 3001, cut at 10 characters; next: offset=29
    async "
recall '"start_line":3002'
tool_fails 'a line behind the end' "Error: line 3002 is past the end: $ID has 3001 lines"
recall '"start_line":5,"end_line":4'
tool_fails 'lines the wrong way round' 'Error: end_line 4 is before start_line 5'
recall '"pattern":"method_00(09|77)"'
tool_is 'lines that match' "[$ID] 2 matching lines in lines 1-3001 of 3001
18:     async def method_0009(self):
154:     async def method_0077(self):
"
recall '"pattern":"METHOD_0002","ignore_case":true,"context":1'
tool_is 'with their neighbours' "[$ID] 1 matching lines in lines 1-3001 of 3001
3-         return \"1 é\"
4:     async def method_0002(self):
5-         return \"2 é\"
"
recall '"pattern":"def","max_results":2,"start_line":10'
tool_is 'so many, and where to go on' "[$ID] 2 matching lines in lines 10-13 of 3001; next: start_line=14
10:     async def method_0005(self):
12:     async def method_0006(self):
"
recall '"pattern":"(self):","literal":true,"max_results":1'
like 'a plain text' "$TEXT" $'\n2:     async def method_0001\\(self\\):\n$'
recall '"pattern":"nowhere"'
tool_is 'none' "[$ID] 0 matching lines in lines 1-3001 of 3001
"
recall '"pattern":"("'
like 'a bad pattern' "$IS_ERROR $TEXT" '^true Error: the pattern is invalid at byte 1: missing closing parenthesis'
for bad in '"limit":16001' '"limit":0' '"offset":-1' '"offset":1,"start_line":1' '"context":1' '"pattern":""' '"x":1'; \
    do
    recall "$bad"
    like "refused: $bad" "$IS_ERROR $TEXT" '^true Error: '
done
now_ms
start=$NOW
tool bash '{"command":"head -c 30000 /dev/zero | tr \"\\0\" a"}'
kept "$TEXT"
recall '"pattern":"(a+)+[^a]"'
now_ms
like 'a pattern that would run for ever is given up' "$IS_ERROR $TEXT" \
    '^false .*; the pattern was too expensive for 1 lines'
between 'soon' $((NOW - start)) 0 60000

# ---- secrets ----

tool bash '{"command":"for i in $(seq 1 4000); do echo $KEY; done","_meta":{"secrets":{"KEY":"hush-hush-hush"}}}'
kept "$TEXT"
recall '"pattern":"redacted","max_results":1'
like 'what is kept has no secrets' "$TEXT" $'\n1: \\[redacted\\]\n$'
not_ok 'nowhere on disk' grep -rqF hush-hush-hush "$STATE/offload" "$STATE/tools.db" "$STATE/tools.db-wal"

# ---- who may see it ----

unknown() { # unknown NAME: the last call answered as for an id that never was
    local got=${TEXT//$ID/ID}
    is "$1" "$IS_ERROR $got" \
        "true Error: no kept result 'ID' here: it belongs to another box, has expired, or never existed; run the tool "\
"again"
}
for bad in ol_0123456789abcdef ol_ ../offload/$zoo "$zoo " OL_0123456789ABCDEF; do
    ID=$bad
    recall
    unknown "no such id: $bad"
done
ID=$zoo
recall '' another
unknown 'another thread'
api GET '/v1/boxes?user=default'
is 'who only asks gets no box' "$(j '[.boxes[]|select(.thread=="another")]|length')" 0
box_new '"thread":"parent"'
parent=$BOX
tool bash '{"command":"seq 1 9000"}' parent
kept "$TEXT"
recall '"limit":2' child -H 'Cubby-Parent: parent'
tool_is "a sub-agent sees its parent's" "[$ID] characters 0-2 of 43893; next: offset=2
1
"
recall '"limit":2' child -H 'Cubby-Parent: another'
unknown 'not that of others'

write_tokens "$WORK/offload.yaml"
printf 'tool_offload_max_mb: 1\n' >> "$WORK/offload.yaml"
big() { # big USER KB: keeps a result; ID
    as "$1" POST "/v1/threads/t/tools/bash" "{\"command\":\"head -c $(($2 * 1024)) /dev/zero | tr '\\\\0' x\"}"
    kept "$(j .text)"
}
asks() { # asks USER
    as "$1" POST "/v1/threads/t/tools/recall" "{\"id\":\"$ID\",\"limit\":1}"
    TEXT=$(j .text) IS_ERROR=$(j .is_error)
}
if second_start "$WORK/offload.yaml" "$program" --backend "$BACKEND"; then
    big ann 400
    first=$ID
    asks ann
    is "ann's result" "$IS_ERROR ${TEXT%%;*}" "false [$ID] characters 0-1 of 409600"
    asks bob
    unknown 'bob gets the answer of none'
    as eye POST /v1/threads/t/tools/recall "{\"id\":\"$ID\"}"
    is_error 'who may only look runs no tools' 403 DENIED
    big ann 400
    second=$ID
    big bob 400
    bobs=$ID
    big ann 400
    third=$ID
    ID=$first
    asks ann
    unknown 'too much: the oldest is forgotten'
    for ID in "$second" "$third"; do
        asks ann
        is 'the newer ones stay' "$IS_ERROR" false
    done
    ID=$bobs
    asks bob
    is "and another user's" "$IS_ERROR" false
    is 'so do their files' "$(files)" "$(printf '%s\n' "$second" "$third" "$bobs" | sort | tr '\n' ' ')"
    big ann 1100
    like 'one that can never fit is cut instead' "$ID $(j .text | tail -c 100)" '^none x+'
    as ann DELETE '/v1/boxes?user=ann'
    ok "a deleted box's results go" eventually 10 eval '[ "$(files)" = "$bobs " ]'
    is 'with their rows' "$(rows_sql 'SELECT id FROM offload')" "$bobs"
    as admin DELETE '/v1/boxes?user=bob'
    second_end
    is 'it ends in order' $? 0
else
    fail 'a daemon with tokens' "$(tail -5 "$WORK/daemon.log")"
    second_end
fi

# ---- files that change ----

box_new '"thread":"files"'
files=$BOX
for name in same touched rewritten changed removed moved replaced dir; do
    upload "$name" "$WORK/zoo.py"
    tool read_file "{\"path\":\"$name\"}" files
    kept "$TEXT"
    declare "id_$name=$ID"
done
refresh files
is 'nothing has changed' "$STATUS [$STALE]" '200 []'
run 'sleep 0.01; touch touched; cp rewritten x && cp x rewritten; echo >> changed; rm removed; mv moved elsewhere; '\
'echo other > o; mv o replaced; rm dir; mkdir dir'
refresh files
is 'what has changed is told' "$(tr ' ' '\n' <<< "$STALE" | sort | tr '\n' ' ')" \
    "$(printf '%s\n' "$id_changed" "$id_removed" "$id_moved" "$id_replaced" "$id_dir" | sort | tr '\n' ' ')"
is 'with what happened' "$(j '[.results[]|(.path|split("/")|last)+" "+.change]|sort|join(", ")')" \
    'changed modified, dir modified, moved removed, removed removed, replaced modified'
refresh files
is 'once' "$STALE" ''
ID=$id_changed
recall '"limit":5' files
is 'recall says so' "$TEXT" "[$ID] STALE: $W/changed has changed since; read it again for its current content
[$ID] characters 0-5 of $total; next: offset=5
class"
ID=$id_same
recall '"limit":5' files
unlike 'of others it does not' "$TEXT" STALE
upload fresh "$WORK/zoo.py"
tool read_file '{"path":"fresh"}' files
kept "$TEXT"
recall '"limit":5' files
unlike 'a file that is as it was' "$TEXT" STALE
run 'echo >> fresh'
recall '"pattern":"class","max_results":1' files
like 'recall says by itself that a file has changed' "$TEXT" "^\\[$ID\\] STALE: $W/fresh has changed since"
run 'rm fresh'
recall '"limit":5' files
like 'or is gone' "$TEXT" "^\\[$ID\\] STALE: "
refresh files
is 'and who asks what has changed is still told' "$STALE" "$ID"
api POST "/v1/boxes/$BOX/release"
run 'rm same'
api POST "/v1/boxes/$BOX/release"
refresh files
is 'a released box is looked at as well' "$STALE" "$id_same"
ran() { api GET "/v1/boxes/$BOX"; [ "$(j .running)" = "$1" ]; }
box_new '"thread":"idle","idle_timeout_ms":1'
upload idle "$WORK/zoo.py"
tool read_file '{"path":"idle"}' idle
kept "$TEXT"
run 'rm idle'
api POST "/v1/boxes/$BOX/release"
if eventually 10 ran false; then
    refresh idle
    is 'one whose processes have ended is started for it' "$STATUS $STALE" "200 $ID"
    refresh idle
    is 'once' "$STATUS $STALE" '200 '
else fail 'an idle box ends' "$BODY"; fi
box_use "$files"
refresh nobody
is 'where nothing is kept' "$STATUS [$STALE]" '200 []'
api GET '/v1/boxes?user=default'
is 'no box is made' "$(j '[.boxes[]|select(.thread=="nobody")]|length')" 0
tool read_file '{"path":"touched"}' sub -H 'Cubby-Parent: files'
kept "$TEXT"
run 'echo more >> touched'
refresh files
is 'a thread is told of its own' "$STALE" "$id_touched"
api POST /v1/threads/sub/offload/refresh '' -H 'Cubby-Parent: files'
is 'a sub-agent of its own' "$(j '.stale|join(" ")')" "$ID"
upload again "$WORK/zoo.py"
tool read_file '{"path":"again"}' '' -H 'Cubby-Thread: via-box'
kept "$TEXT"
run 'rm again'
api POST "$B/offload/refresh" '' -H 'Cubby-Thread: via-box'
is 'by the box too' "$STATUS $(j '.stale|join(" ")')" "200 $ID"

# ---- restarts, two daemons, age ----

upload last "$WORK/zoo.py"
tool read_file '{"path":"last"}' files
kept "$TEXT"
last=$ID
for signal in TERM KILL; do
    kill "-$signal" "$DAEMON_PID"
    wait "$DAEMON_PID" 2> /dev/null
    : > "$STATE/offload/ol_00000000000000aa" # as if it had been killed between file and row
    start_daemon "$program" || fail "$signal: a new daemon starts" "$(tail -5 "$WORK/daemon.log")"
    recall '"limit":5' files
    is "$signal: results are still there" "$TEXT" "[$ID] characters 0-5 of $total; next: offset=5
class"
    ok "$signal: and what was half is gone" eventually 10 test ! -e "$STATE/offload/ol_00000000000000aa"
done
is 'every file has its row' "$(files)" "$(rows_sql 'SELECT id FROM offload ORDER BY id' | tr '\n' ' ')"
first_pid=$DAEMON_PID first_socket=$SOCKET
SOCKET=$WORK/twin
start_daemon "$program"
recall '"limit":5' files
like 'a second daemon has them too' "$TEXT" class
run 'echo more >> last'
refresh files
is 'and tells what has changed' "$STALE" "$last"
twin=$DAEMON_PID
SOCKET=$first_socket DAEMON_PID=$first_pid
refresh files
is 'which the first then does not' "$STALE" ''
kill -TERM "$twin"
wait "$twin" 2> /dev/null
rows_sql "UPDATE offload SET made_ms = made_ms - 8 * 86400000 WHERE id = '$last'" > /dev/null
recall '' files
unknown 'after a week one is forgotten'
kill -TERM "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
start_daemon "$program"
ok 'with its file' eventually 10 test ! -e "$STATE/offload/$last"
box_use "$parent"
delete_boxes
ok 'and with their boxes all go' eventually 10 eval '[ -z "$(files)" ]'
is 'what else tools remembered too' \
    "$(rows_sql 'SELECT box FROM cwd UNION SELECT box FROM seen UNION SELECT box FROM offload')" ''

box_new '"thread":"reborn"'
api DELETE "$B"
tool bash '{"command":"mkdir d; seq 1 9000"}' reborn
kept "$TEXT"
tool cd '{"path":"d"}' reborn
box_new '"thread":"after"'
run 'mkdir d'
tool cd '{"path":"d"}' after
had=$(rows_sql "SELECT count(*) FROM cwd WHERE box = '$BOX'")
after=$BOX
api DELETE "$B"
cwd_gone() { [ -z "$(rows_sql "SELECT 1 FROM cwd WHERE box = '$after'")" ]; }
is 'a working directory' "$had" 1
ok 'of a deleted box nothing is remembered' eventually 10 cwd_gone # nor of those deleted before it
like 'one that comes again under its id' "$(rows_sql "SELECT path FROM cwd WHERE thread = 'reborn'")" '/d$'
recall '"limit":2' reborn
like 'keeps what is its own' "$IS_ERROR $TEXT" '^false .*characters 0-2'
delete_boxes

# ---- a file that is none of ours ----

mkdir -p "$WORK/damaged"
head -c 8192 /dev/urandom > "$WORK/damaged/tools.db"
chmod 600 "$WORK/damaged/tools.db"
OUT=$("$program" --listen "unix:$WORK/damaged/socket" --state "$WORK/damaged" --backend "$BACKEND" --allow-local 2>&1 \
    < /dev/null)
is 'a damaged tools.db stops the start' "$?" 125
like 'with the way out' "$OUT" "$WORK/damaged/tools.db: .*damaged.*move it away"
