# What happens to boxes as an event stream: every type, in order, resumed, filtered, for whoever may see it.
# backends: jail

use_cubby
LISTENERS=()
listen() { # listen FILE [QUERY [CURL OPTION...]]: a stream into WORK/FILE, armed when this returns
    local file=$WORK/$1 query=${2-}
    shift $(($# > 1 ? 2 : 1))
    : > "$file"
    curl -sN --max-time 120 --unix-socket "$SOCKET" "$@" "http://localhost/v1/events$query" > "$file" &
    LISTENERS+=($!)
    eventually 10 grep -q '^id: ' "$file" || fail 'a stream begins' "$(< "$file")"
}
deaf() { # deaf: all streams end
    kill "${LISTENERS[@]}" 2> /dev/null
    wait "${LISTENERS[@]}" 2> /dev/null
    LISTENERS=()
}
field() { sed -n 's/^data: //p' "$WORK/$1" | jq -r "$2"; } # field FILE FILTER: of every event
types() { field "$1" "select(.box == \"$2\" or .type == \"lost\").type" | tr '\n' ' '; } # types FILE BOX
told() { [ "$(types "$1" "$2")" = "$3 " ]; }
tells() { # tells NAME FILE BOX TYPES: waits for exactly these
    if eventually 20 told "$2" "$3" "$4"; then pass "$1"; else fail "$1" "got:  $(types "$2" "$3")
want: $4"; fi
}

# ---- a life ----

listen all
box_new '"user":"ann","thread":"t\u00fc"'
ann=$BOX
tells 'a new box' all "$ann" 'created ready'
is 'all that is known of it' "$(field all 'select(.type == "created")|[.box,.user,.thread,.backend,.why]|@csv')" \
    "\"$ann\",\"ann\",\"tü\",\"$BACKEND\","
like 'and when' "$(field all 'select(.type == "created").time')" '^20[0-9-]*T[0-9:.]*Z$'
is 'the id of an event is that of its line' "$(field all .id | head -2)" \
    "$(sed -n 's/^id: //p' "$WORK/all" | sed -n 2,3p)"
is 'its name is its type' "$(sed -n 's/^event: //p' "$WORK/all" | head -2 | tr '\n' ' ')" 'created ready '
api POST "$B/release"
tells 'released' all "$ann" 'created ready warm'
box_new '"user":"ann","thread":"t\u00fc"'
before=$(types all "$ann")
api POST "$B/pause"
if [ "$STATUS" = 200 ] || [ "$STATUS" = 204 ]; then
    api POST "$B/resume"
    tells 'paused and resumed' all "$ann" "${before}paused resumed"
else skip 'paused and resumed' "POST /pause: $STATUS ${BODY:0:100}"; fi
before=$(types all "$ann")
kill -KILL "$(runner_of "$ann")"
tells 'killed' all "$ann" "${before}died"
like 'and why' "$(field all 'select(.type == "died").why')" 'its main process|killed|SIGKILL'
api POST "$B/fork" '{}'
fork=$(j .id)
tells 'a fork' all "$fork" created
api POST "/v1/boxes/$fork/exec" '{"command":"true"}'
tells 'its first use' all "$fork" 'created ready'
api DELETE "/v1/boxes/$fork"
before=$(types all "$ann")
api DELETE "$B"
tells 'deleted' all "$ann" "${before}deleted"

listen some '?type=evicted,deleted'
box_new '"user":"ann","thread":"idle","idle_timeout_ms":300'
idle=$BOX
tells 'evicted for idleness' some "$idle" evicted
like 'and why' "$(field some 'select(.type == "evicted").why')" 'idle'
run 'echo back'
is 'used again' "$OUT" back
last_is() { [[ " $(types all "$idle")" = *" $1 " ]]; }
ok 'it is ready' eventually 10 grep -q ready <<< "$(types all "$idle")"

# ---- filters, coming back ----

box_new '"user":"bob"'
bob=$BOX
listen bobs "?user=bob&after=0"
listen one "?box=$bob&after=0"
tells 'by user' bobs "$bob" 'created ready'
is "and nobody else's" "$(field bobs .user | sort -u)" bob
tells 'by box' one "$bob" 'created ready'
first=$(field one 'select(.type == "created").id')
listen resumed "?box=$bob&after=$first"
tells 'after an event' resumed "$bob" ready
listen header "?box=$bob" -H "Last-Event-ID: $first"
tells 'the same by Last-Event-ID' header "$bob" ready
box_use "$bob"
api DELETE "$B"
tells 'a resumed stream goes on' resumed "$bob" 'ready deleted'
for query in type=unknown type=died,x box=xyz after=x after=1-2 after=-1 "after=${first%-*}-x" other=1; do
    api GET "/v1/events?$query"
    is_error "?$query" 400 INVALID
done

# ---- one who does not read ----

coproc HOLD { "$TOOL" hold "$SOCKET" 50 'GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n' 2>&1; }
holder=$HOLD_PID
read -r -t 60 line <&"${HOLD[0]}"
is 'a client that stops reading' "$line" holding
now_ms
start=$NOW
box_new '"user":"ann","thread":"x"'
for _ in 1 2 3 4 5; do api POST "$B/release"; api POST /v1/boxes \
    "{\"backend\":\"$BACKEND\",\"user\":\"ann\",\"thread\":\"x\"}"; done
now_ms
is 'holds up nobody' "$STATUS" 200
between 'in milliseconds' $((NOW - start)) 0 $((30000 * ${TEST_SLOW:-1}))
eval "exec ${HOLD[1]}>&-"
wait "$holder"

# ---- the command line ----

"$CUBBY" events --box "$BOX" --json > "$WORK/cli" 2>&1 & cli=$!
"$CUBBY" events --after 0 --type created > "$WORK/table" 2>&1 & table=$!
rows() { [ "$(grep -c " created .* ann" "$WORK/table")" -ge 3 ]; }
ok 'cubby events shows what was' eventually 10 rows
unlike 'and only what was asked for' "$(< "$WORK/table")" 'ready|deleted'
# Nobody says when it has begun to listen: it may be between a release and the acquire after it.
follows() { api POST "$B/release"; api POST /v1/boxes "{\"backend\":\"$BACKEND\",\"user\":\"ann\",\"thread\":\"x\"}"; \
    jq -r .type "$WORK/cli" | grep -qx warm; }
ok 'cubby events --json follows' eventually 10 follows
unlike 'from then on: what was before is not repeated' "$(jq -r .type "$WORK/cli")" created
is 'of one box' "$(jq -r .box "$WORK/cli" | sort -u)" "$BOX"
kill "$cli" "$table"
wait "$cli" "$table" 2> /dev/null
c events --type nonsense
is 'a wrong type' "$CODE" 125
deaf

# ---- a daemon's end ----

listen last
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
wait "${LISTENERS[@]}" 2> /dev/null
LISTENERS=()
start_daemon "$program"
listen again '?after=0'
tells 'a box that outlived its daemon' again "$BOX" adopted
listen old '' -H "Last-Event-ID: $first"
like 'an id of the daemon before' "$(eventually 10 grep -q '^event: adopted' "$WORK/old"; types old "$BOX")" \
    '^lost adopted '
is 'nobody knows how many are lost' "$(field old 'select(.type == "lost").count')" null
deaf
listen end
kill -TERM "$DAEMON_PID"
wait "$DAEMON_PID"
is 'an open stream does not keep a daemon from ending' $? 0
wait "${LISTENERS[0]}"
is 'it ends whole' $? 0
LISTENERS=()
start_daemon "$program"

# ---- two daemons ----

first_pid=$DAEMON_PID first_socket=$SOCKET
SOCKET=$WORK/twin
start_daemon "$program"
twin_pid=$DAEMON_PID twin_socket=$SOCKET
DAEMON_PID=$first_pid SOCKET=$first_socket
listen mine "?box=$BOX"
SOCKET=$twin_socket
api DELETE "$B"
SOCKET=$first_socket
noticed() { api GET "$B"; told mine "$BOX" deleted; }
ok 'what another daemon deleted is told when it is noticed' eventually 20 noticed
is 'and by whom' "$(field mine 'select(.type == "deleted").why')" 'by another daemon'
kill -TERM "$twin_pid"
wait "$twin_pid"
deaf

# ---- whose ----

write_tokens "$WORK/tokens.yaml"
second_start "$WORK/tokens.yaml" "$program"
token() { echo "Authorization: Bearer $1-token-0123456789abcdef$([ "$1" = admin ] || echo 00)"; }
listen admins '' -H "$(token admin)"
listen anns '' -H "$(token ann)"
listen eyes '' -H "$(token eye)"
listen bobs '?user=ann' -H "$(token bob)"
as ann POST /v1/boxes "{\"backend\":\"$BACKEND\"}"
anns=$(j .id)
as bob POST /v1/boxes "{\"backend\":\"$BACKEND\"}"
bobs=$(j .id)
tells 'an admin sees all' admins "$bobs" 'created ready'
tells 'a user his own' anns "$anns" 'created ready'
tells 'also one who may only read' eyes "$anns" 'created ready'
is "and nobody else's" "$(field anns .user | sort -u)" ann
is 'whatever he asks for' "$(field bobs .user)" ''
STATUS=$(curl -s -o /dev/null -w '%{http_code}' --unix-socket "$SOCKET" http://localhost/v1/events)
is 'nobody sees nothing' "$STATUS" 401
for i in {1..15}; do
    curl -sN --max-time 60 --unix-socket "$SOCKET" -H "$(token bob)" http://localhost/v1/events > "$WORK/more$i" \
        & LISTENERS+=($!)
done
armed() { for i in {1..15}; do grep -q '^id: ' "$WORK/more$i" || return 1; done; }
eventually 20 armed
as bob GET /v1/events
is_error 'a seventeenth stream of one user' 429 LIMIT 'event streams'
as ann GET '/v1/boxes'
is 'others are not concerned' "$STATUS" 200
deaf
free() { STATUS=$(curl -s -o /dev/null -m 1 -w '%{http_code}' --unix-socket "$SOCKET" -H "$(token bob)" \
    http://localhost/v1/events); [ "$STATUS" = 200 ]; }
ok 'a stream that ended makes room' eventually 10 free
for id in "$anns" "$bobs"; do as admin DELETE "/v1/boxes/$id"; done
second_end
is 'the second daemon ends in order' $? 0
