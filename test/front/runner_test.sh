#!/bin/bash
# waits
# The door at which machines join: who is let in, in which forms, what each refusal says, and what ends a connection.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
use_cubby
printf 'auth: required\npool_size: 1\nremote_grace_s: 2\nmax_machines_per_user: 3\n' > "$CONFIG"
DAEMON=$BUILD/asan/cubbyd
[ -x "$DAEMON" ] || DAEMON=$BUILD/cubbyd
c token create --scope admin --state "$STATE"
export CUBBY_TOKEN=$OUT
start_or_end "$DAEMON"
with() { # with TOKEN METHOD PATH [BODY]
    api "$2" "$3" "${4-}" -H "Authorization: Bearer $1"
}
new() { # new OPTION...: TOKEN, ID of a new one
    c token create --json "$@"
    TOKEN=$(jq -r .token <<< "$OUT") ID=$(jq -r .id <<< "$OUT")
}
# The order of a visit: PATH TOKEN [TEXT [MORE MEMBERS]]; token '-': none, text '-': nothing is sent.
order() {
    json_string "$1"
    ORDER="{\"path\":$JSON_STRING"
    [ "$2" = - ] || ORDER+=",\"token\":\"$2\""
    json_string "${3--}"
    [ "${3--}" = - ] || ORDER+=",\"send\":$JSON_STRING"
    ORDER+="${4:+,$4}}"
}
coproc HAND { exec python3 test/lib/door.py "$SOCKET" 2>&1; }
# knock ORDER...: the last line it heard, SAID, and the first one, BODY
knock() {
    local line
    order "$@"
    printf '%s\n' "$ORDER" >&"${HAND[1]}"
    BODY=
    while read -r -t 60 line <&"${HAND[0]}"; do
        BODY=${BODY:-$line} SAID=$line
        [[ $line != closed* && $line != refused* ]] || break
    done
    printf '%s\n' "$BODY" > "$WORK/body"
}
# stay NAME ORDER...: the same in the background, into $WORK/NAME; PID
stay() {
    local name=$1
    shift
    order "$@"
    python3 test/lib/door.py "$SOCKET" <<< "$ORDER" > "$WORK/$name" 2>&1 &
    PID=$!
}
heard() { grep -q "$2" "$WORK/$1"; } # heard NAME TEXT
refused() { # refused NAME CLOSE CODE [REGEX]: the last knock, as message in both forms and as close code
    is "$1" "${SAID%% *} $(cut -d' ' -f2 <<< "$SAID") $(j .code) $(j .body.code) $(j .type)" "closed $2 $3 $3 error"
    [ $# -lt 4 ] || like "$1: the reason, twice" "$(j .message) | $SAID" "$4.*\| closed $2 .*$4"
}
link() { # link [MORE MEMBERS]: a good registration
    printf '{"type":"register","body":{"link":1,"workspace":"/home/u/p","shell":"/bin/'\
'sh","version":"9","isolation":"none","platform":"P"%s}}' "${1:+,$1}"
}
new --runner laptop --user ann
LAPTOP=$TOKEN LAPTOP_ID=$ID
new --runner tower --user ann
TOWER=$TOKEN
new --runner laptop --user bob
BOBS=$TOKEN
new --user ann
ANN=$TOKEN
new --user ann --scope read
EYE=$TOKEN

# somebody silent, meanwhile
stay silent /runner/ws -
silent_pid=$PID
now_ms; silent_ms=$NOW

# ---- who is not let in ----
knock /runner/ws - "$(link)"
refused 'no token' 4401 UNAUTHORIZED 'a token is needed'
knock /runner/ws cubby_wrong "$(link)"
refused 'a wrong token with the upgrade' 4401 UNAUTHORIZED 'not known here'
knock /runner/ws - "$(link '"auth_token":"cubby_wrong"')"
refused 'a wrong token in the message' 4401 UNAUTHORIZED 'not known here'
knock /ws/ann - '{"type":"register","user_id":"ann","auth_token":"cubby_wrong","workspace":"/w"}'
is 'of the text form: in its own word' "$(j .code) $(j .body.code) ${SAID%% this*}" \
    'AUTH_FAILED AUTH_FAILED closed 4401'
knock /ws/ann "$ANN" '{"type":"register","user_id":"ann","workspace":"/w"}'
is "a user's token" "$(j .code) ${SAID:0:33}" "FORBIDDEN closed 4403 this is not a runner'"
knock /runner/ws "$EYE" "$(link)"
refused "a reader's token" 4403 DENIED 'may only read'
new --runner old --user ann
c token revoke "$ID"
knock /runner/ws "$TOKEN" "$(link)"
refused 'a revoked token' 4401 UNAUTHORIZED 'not known here'
knock /runner/ws "$LAPTOP" "$(link '"name":"tower"')"
refused "another machine's name" 4403 DENIED "'laptop', not 'tower'"
knock /ws/bob "$LAPTOP" "$(link)"
refused "another user's path" 4403 DENIED "user 'bob', whom the path names"
knock /runner/ws "$LAPTOP" "$(link '"user_id":"bob"')"
refused 'another user in the message' 4403 DENIED "user 'bob', whom the message names"
api GET /v1/machines '' -H "Authorization: Bearer $CUBBY_TOKEN"
is 'nobody has joined' "$STATUS $(j '.machines | length')" '200 0'
c audit --user ann --verb runner --json
is 'the audit log has those whose token was known, with the reason' \
    "$(jq -rs '[.[] | select(.outcome == "DENIED" and (.detail | test("whom the message names|not .tower")))] | '\
'length' <<< "$OUT")" 2
c audit --verb runner --outcome UNAUTHORIZED --json
like 'and counts strangers' "$(jq -rs '[.[].count] | add' <<< "$OUT")" '^[1-9]'

# ---- what is no registration ----
while IFS='|' read -r code want text; do
    knock /runner/ws "$LAPTOP" "$text"
    refused "no registration: ${text:0:60}" 4400 "$code" "$want"
done << 'END2'
INVALID|one JSON object|nonsense
INVALID|one JSON object|[]
INVALID|one JSON object|{"type":"register","type":"register"}
INVALID|first message must be|{"type":"exec"}
INVALID|first message must be|{}
INVALID|'workspace', an absolute path, is missing|{"type":"register","body":{"link":1}}
INVALID|'workspace' must be an absolute path|{"type":"register","body":{"link":1,"workspace":"p"}}
INVALID|'workspace' must be an absolute path|{"type":"register","body":{"link":1,"workspace":"/a/../b"}}
INVALID|'workspace' must be an absolute path|{"type":"register","workspace":"p"}
INVALID|'workspace' must be an absolute path|{"type":"register","body":{"link":1,"workspace":"/"}}
INVALID|no control characters|{"type":"register","body":{"link":1,"workspace":"/a\nb"}}
INVALID|'workspace' must be a string|{"type":"register","body":{"link":1,"workspace":[]}}
INVALID|'session' must be empty or 32 hex|{"type":"register","body":{"link":1,"workspace":"/w","session":"../../x"}}
INVALID|'received' must be |{"type":"register","body":{"link":1,"workspace":"/w","received":-1}}
INVALID|'isolation' must be one of jail|{"type":"register","body":{"link":1,"workspace":"/w","isolation":"maybe"}}
INVALID|'can' must be words|{"type":"register","body":{"link":1,"workspace":"/w","can":"a;b"}}
INVALID|'can' must be words|{"type":"register","body":{"link":1,"workspace":"/w","can":[1]}}
INVALID|'link' must be an integer|{"type":"register","body":{"link":"1","workspace":"/w"}}
UNSUPPORTED|version 1 of the link, the machine 2|{"type":"register","body":{"link":2,"workspace":"/w"}}
END2
knock /runner/ws "$LAPTOP" "$(link)" '"binary":true'
refused 'a binary one' 4400 INVALID 'must be text'
knock /runner/ws "$LAPTOP" - '"bytes":70000'
like 'one that is too large' "$SAID" '^closed (1009|4400) '
knock /runner/ws "$LAPTOP" "$(link "\"name\":\"$(printf 'x%.0s' {1..300})\"")"
refused 'a word that is too long' 4400 INVALID "'name' is longer than 64 bytes"
with "$LAPTOP" GET /runner/ws
is_error 'no WebSocket' 400 INVALID 'needs a WebSocket'

# ---- joining ----
events_pid=
curl -sSN --unix-socket "$SOCKET" -H "Authorization: Bearer $ANN" 'http://localhost/v1/events?type=joined,left' \
    > "$WORK/events" 2>&1 & events_pid=$!
eventually 10 grep -q '^id: ' "$WORK/events"
stay laptop /runner/ws "$LAPTOP" "$(link '"name":"laptop","can":["pause","usage"]')"
laptop_pid=$PID
ok 'a machine joins' eventually 10 heard laptop register_ok
head -1 "$WORK/laptop" > "$WORK/body"
is 'it gets its name and user' "$(j '.body | "\(.status) \(.user) \(.name) \(.resumed) \(.received) \(.grace_ms)"')" \
    'ok ann laptop false 0 2000'
SESSION=$(j .body.session)
like 'and its session' "$SESSION" '^[0-9a-f]{32}$'
online() { # online TOKEN NAME: that machine is online
    with "$1" GET /v1/machines
    [ "$(j ".machines[] | select(.name == \"$2\") | .online")" = true ]
}
offline() { with "$1" GET /v1/machines; [ "$(j ".machines[] | select(.name == \"$2\") | .online")" = false ]; }
ok 'and is listed' eventually 5 online "$ANN" laptop
is 'with what it says of itself' "$(j '.machines[] |
    "\(.user) \(.workspace) \(.shell) \(.version) \(.isolation) \(.platform) \(.form) \(.connections)"')" \
    'ann /home/u/p /bin/sh 9 none P link 1'
with "$BOBS" GET /v1/machines
is_error "a runner's token sees nothing" 403 DENIED
new --user bob
with "$TOKEN" GET /v1/machines
is "and another user's no machine" "$STATUS $(j '.machines | length')" '200 0'
with "$TOKEN" GET '/v1/machines?user=ann'
is_error 'nor by asking' 403 DENIED
with "$TOKEN" DELETE /v1/machines/laptop
is_error 'nor does he send it away' 404 NOT_FOUND
with "$EYE" DELETE /v1/machines/laptop
is_error 'nor one who only looks' 403 DENIED
joined() { grep -q '^event: joined' "$WORK/events"; }
ok 'it is an event' eventually 5 joined
like 'that names it' "$(grep -A1 '^event: joined' "$WORK/events" | tail -1)" \
    '"user":"ann".*"backend":"remote","machine":"laptop","why":null'
c audit --verb machine_joined --json
is 'and a row of the audit log' "$(jq -r '"\(.user) \(.detail)"' <<< "$OUT")" 'ann machine=laptop'

# ---- a second one ----
knock /runner/ws "$LAPTOP" "$(link)"
refused 'a second machine of this name while the first answers' 4409 EXISTS "another machine is connected as 'laptop'"
knock /runner/ws "$LAPTOP" "$(link '"session":"00000000000000000000000000000000","received":5')"
refused 'nor with a session that is not that one' 4409 EXISTS 'another machine'
stay bobs /runner/ws "$BOBS" "$(link "\"session\":\"$SESSION\"")"
bobs_pid=$PID
ok "another user's machine may have the name" eventually 10 heard bobs register_ok
head -1 "$WORK/bobs" > "$WORK/body"
is "but not the session" "$(j .body.resumed) $([ "$(j .body.session)" != "$SESSION" ] && echo other)" 'false other'
ok 'and the first one stays' online "$ANN" laptop
eventually 5 heard laptop '^record 3' # it is asked for its box
stay again /runner/ws "$LAPTOP" "$(link \
    "\"session\":\"$SESSION\",\"received\":$(grep -c '^record [1-5]' "$WORK/laptop")")"
again_pid=$PID
ok 'who knows the session takes its place' eventually 10 heard again register_ok
head -1 "$WORK/again" > "$WORK/body"
is 'and goes on with it' "$(j .body.resumed) $(j .body.session)" "true $SESSION"
ok 'the old connection is closed' eventually 5 test ! -e "/proc/$laptop_pid"
like 'with the reason' "$(tail -1 "$WORK/laptop")" '^closed 1000 .*connected again'
ok 'its end changes nothing' eventually 5 online "$ANN" laptop
kill "$again_pid" 2> /dev/null
ok 'a machine that is gone is offline' eventually 5 offline "$ANN" laptop
left() { grep -q '^event: left' "$WORK/events"; }
ok 'which is an event' eventually 5 left
stay text /ws/ann - "{\"type\":\"register\",\"user_id\":\"ann\",\"auth_token\":\"$TOWER\",\"workspace\":\"/home/u/q/\"}"
text_pid=$PID
ok 'the flat text form' eventually 10 heard text register_ok
is 'is answered flat' "$(head -1 "$WORK/text" | jq \
    -r '"\(.type) \(.status) \(.name) \(.body)"')" 'register_ok ok tower null'
ok 'tower is online' eventually 5 online "$ANN" tower
is 'its workspace as it should be written' "$(j \
    '.machines[] | select(.name == "tower") | "\(.workspace) \(.shell) \(.form)"')" '/home/u/q /bin/sh text'
not_ok 'no log has a token' grep -qE 'cubby_[0-9a-f]{64}' "$WORK/daemon.log"
not_ok 'nor the audit log' sh -c "cat '$STATE'/audit.db* | grep -aqF '${TOWER#cubby_}'"

# ---- somebody silent ----
ok 'who says nothing is let go' eventually 15 test ! -e "/proc/$silent_pid"
now_ms
between 'after ten seconds' $((NOW - silent_ms)) 9900 60000
like 'with the reason' "$(tail -1 "$WORK/silent")" '^closed 4408 no register message arrived within 10 s'

# ---- limits ----
for name in third fourth; do
    new --runner $name --user ann
    stay $name /runner/ws "$TOKEN" "$(link)"
done
ok 'a third machine, while the first is forgotten or kept' eventually 10 heard third register_ok
new --runner fifth --user ann
stay fifth /runner/ws "$TOKEN" "$(link)"
some_refused() { heard fourth 4429 || heard fifth 4429; }
ok 'beyond max_machines_per_user: 4429' eventually 10 some_refused
stay crowd /runner/ws - - '"crowd":70'
crowd_pid=$PID
left() { [ "$(grep -c "^closed 1013 too many machines" \
    "$WORK/$1")" -ge "$2" ]; } # left NAME COUNT: so many were sent away
ok 'few strangers at once may be silent: more have to go' eventually 20 left crowd 6
new --runner sixth --user carl
stay sixth /runner/ws "$TOKEN" "$(link)"
ok 'they keep out no machine that has a token' eventually 10 heard sixth register_ok
is 'for which none of them has to go' "$(grep -c ^closed "$WORK/crowd")" 6
new --runner seventh --user carl
stay seventh /ws - "{\"type\":\"register\",\"auth_token\":\"$TOKEN\",\"workspace\":\"/home/u/q\"}"
ok 'nor one whose token is in the message' eventually 5 heard seventh register_ok
kill "$crowd_pid" 2> /dev/null
# of several addresses, the one that most come from
c token create --runner eighth --user carl --state "$WORK/state-far"
TOKEN=$OUT
"$DAEMON" --listen 127.0.0.1:0 --state "$WORK/state-far" --config "$CONFIG" < /dev/null > "$WORK/far.log" 2>&1 &
far_pid=$!
ok 'a daemon on the network' eventually 20 grep -q 'ready on' "$WORK/far.log"
far() { # far NAME ORDER...: stay, at that daemon
    local SOCKET
    SOCKET=$(sed -n 's/.*ready on [^ ]*\/*\(127[0-9.]*:[0-9]*\),.*/\1/p' "$WORK/far.log")
    stay "$@"
}
far lone /ws - - '"crowd":1,"from":"127.0.0.2"'
lone_pid=$PID
ok 'a stranger' eventually 10 heard lone '^crowd of 1'
far crowd /ws - - '"crowd":80,"from":"127.0.0.3"'
crowd_pid=$PID
ok 'and many of another address: those have to go' eventually 20 left crowd 17
is 'and not the lone one, though it came before them' "$(grep -c ^closed "$WORK/lone")" 0
far eighth /ws - "{\"type\":\"register\",\"auth_token\":\"$TOKEN\",\"workspace\":\"/home/u/q\"}" '"from":"127.0.0.3"'
ok 'a machine behind their address is let in' eventually 5 heard eighth register_ok
kill "$crowd_pid" "$lone_pid" "$PID"
kill "$far_pid"
wait "$far_pid"
is 'that daemon ends in order' $? 0

# ---- being sent away ----
with "$ANN" DELETE /v1/machines/tower
is 'a user sends his machine away' "$STATUS" 204
ok 'it goes' eventually 5 test ! -e "/proc/$text_pid"
is 'and hears why, and not to come back' "$(tail -1 "$WORK/text")" 'closed 4403 it was sent away by its user'
with "$ANN" DELETE /v1/machines/tower
is_error 'it is no longer there' 404 NOT_FOUND
new --runner laptop --user eve
stay eves /runner/ws "$TOKEN" "$(link)"
eves_pid=$PID eves_id=$ID
ok 'a machine joins' eventually 10 heard eves register_ok
now_ms; start=$NOW
c token revoke "$eves_id"
ok 'its token is revoked: it goes' eventually 5 test ! -e "/proc/$eves_pid"
now_ms
between 'at once' $((NOW - start)) 0 15000
is 'and gets the reason' "$(tail -2 "$WORK/eves" | head -1 | jq -r .code) $(tail -1 "$WORK/eves")" \
    'UNAUTHORIZED closed 4401 its token was revoked or has expired'
brief_decided() { heard brief register_ok || [ ! -e "/proc/$brief_pid" ]; }
for lives_ms in 1500 6000 24000; do # a slow machine may join too late for the first
    with "$CUBBY_TOKEN" POST /v1/tokens "{\"runner\":\"brief\",\"user\":\"eve\",\"expires_in_ms\":$lives_ms}"
    stay brief /runner/ws "$(j .token)" "$(link)"
    brief_pid=$PID
    eventually 10 brief_decided
    ! heard brief register_ok || break
done
ok 'one whose token expires goes' eventually 10 test ! -e "/proc/$brief_pid"
is 'in the same way' "$(tail -1 "$WORK/brief")" 'closed 4401 its token was revoked or has expired'
c audit --verb machine_left --user eve --json
is 'the audit log knows both' "$(jq \
    -rs '[.[] | select(.detail | test("machine=(laptop|brief): its token was revoked or has expired"))] | length' \
    <<< "$OUT")" 2

# ---- the end ----
stay last /runner/ws "$LAPTOP" "$(link)"
last_pid=$PID
ok 'a machine is there' eventually 10 heard last register_ok
kill "$events_pid" 2> /dev/null
now_ms; start=$NOW
kill -TERM "$DAEMON_PID"
wait "$DAEMON_PID"
is 'a daemon with machines stops in order' $? 0
now_ms
between 'and does not wait for them' $((NOW - start)) 0 9500
ok 'they hear of it' eventually 5 test ! -e "/proc/$last_pid"
is 'as something that passes' "$(tail -1 "$WORK/last")" 'closed 1001 the server is stopping'
if grep -q -E 'Sanitizer|runtime error:|Assertion' "$WORK/daemon.log"; then
    fail 'the sanitizers are silent' "$(grep -m1 -A25 -E 'Sanitizer|runtime error:|Assertion' "$WORK/daemon.log")"
else pass 'the sanitizers are silent'; fi
DAEMON_PID=
exec {HAND[1]}>&-
wait
finish
