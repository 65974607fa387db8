# The README's two lines make one machine the other's box: a token here, `cubby join` there. Commands and files are the
# machine's,
# at its own path; the server's host is never touched; the token shows nowhere.
c token create --runner desk
is 'the first line: a token' "$CODE" 0
TOKEN=$OUT
mkdir -p "$WORK/work-desk" "$WORK/machine-desk"
echo 'from the machine' > "$WORK/work-desk/here.txt"
HOME=$WORK/machine-desk "${RIGHT[@]}" "$CUBBY_JOIN" join --server "wss://$SERVER:$SERVER_PORT" --token "$TOKEN" \
    --ca "$WORK/ca.pem" \
    --workspace "$WORK/work-desk" --state "$WORK/machine-desk" < /dev/null > "$WORK/join-desk.log" 2>&1 &
DESK_PID=$!
echo "$DESK_PID" >> "$WORK/machine-pids"
ok 'the second line: it is there' machine_is desk ready
unlike 'its token does not show in the list of processes' "$(tr '\0' ' ' < "/proc/$DESK_PID/cmdline")" "$TOKEN"
unlike 'nor in what it says' "$(< "$WORK/join-desk.log")" "$TOKEN"
unlike 'nor in the log of the server' "$(< "$WORK/daemon.log")" "$TOKEN"
not_ok 'nor in the files of the server (they are hashed)' grep -rqF "$TOKEN" "$STATE"
DESK=$(machine_box desk)

c ps
like 'cubby ps shows it' "$OUT" "$DESK.*desk"
c ps --json
is 'with its name, online' \
    "$(jq -r --arg id "$DESK" \
    '(if type == "array" then . else .boxes end)[]|select(.id == $id)|[.backend,.machine,.remote.online,.state]|@csv' \
    <<< "$OUT")" '"remote","desk",true,"ready"'
box_use "$DESK"
api GET "$B"
is 'its workspace is the path on the machine' "$(j .workspace)" "$WORK/work-desk"
like 'its version is told' "$(j .remote.version)" '^[0-9]+\.'
is 'and its isolation' "$(j .remote.isolation)" jail
c exec "$DESK" -c 'pwd; cat here.txt; echo made > made.txt'
is 'a command runs in the workspace' "$OUT" "$WORK/work-desk"$'\nfrom the machine'
is 'and writes the files of the machine' "$(cat "$WORK/work-desk/made.txt")" made
c exec "$DESK" -c 'ls -d /workspace "$1" 2>&1; cat "$2"' - "$WORK/work-laptop" "$WORK/ca.key"
unlike 'nothing else of the machine is there' "$OUT" "work-laptop$|BEGIN"
put sub/new.txt hello '&parents=1'
is 'an upload' "$STATUS $(cat "$WORK/work-desk/sub/new.txt")" '201 hello'
get here.txt
is 'a download' "$STATUS $BODY" '200 from the machine'
tool read_file "{\"path\":\"$WORK/work-desk/here.txt\"}"
like 'a tool' "$IS_ERROR $TEXT" '^false .*from the machine'
api GET "$B/stat?path=here.txt"
is 'paths that are shown are the machine'"'s" "$(j .path)" "$WORK/work-desk/here.txt"
api GET "$B/../$BOX/stat?path=/etc/shadow"
not_ok 'the server has no copy of anything' grep -rq 'from the machine' "$STATE"

# by its name, and by a thread of its own
api POST /v1/boxes '{"machine":"desk"}'
is 'POST with its name finds the same box' "$STATUS $(j .id)" "200 $DESK"
api POST /v1/boxes '{"machine":"desk","thread":"t"}'
is 'a thread may choose it' "$STATUS $(j .backend) $(j .machine)" '201 remote desk'
OTHER=$(j .id)
isnt 'with a box of its own' "$OTHER" "$DESK"
api POST /v1/boxes '{"thread":"t"}'
is 'which it finds again without saying where' "$STATUS $(j .id)" "200 $OTHER"
box_use "$OTHER"
run 'cat made.txt; pgrep -c . || true'
like 'the files are the same' "$OUT" '^made'
api POST /v1/boxes '{"machine":"laptop","thread":"t"}'
isnt 'and is not moved to another machine' "$STATUS" 200
api POST /v1/boxes '{"machine":"nobody"}'
is_error 'a machine that never came is an error' 503 BUSY nobody
api POST /v1/boxes '{"backend":"remote"}'
is 'remote without a name is the active one' "$STATUS $(j .machine)" '201 laptop'
api DELETE "/v1/boxes/$(j .id)"

# Ctrl-C
box_use "$DESK"
tag_new
api POST "$B/processes" "{\"command\":\"sleep $TAG\"}"
ok 'something runs on it' eventually 5 tag_alive
machine_end "$DESK_PID" INT
is 'Ctrl-C ends the session in order' $? 0
ok 'and everything it ran' tag_gone
ok 'the server knows at once' machine_is desk offline 2
run true
is_error 'a machine that is offline is an error, never another place' 503 BUSY desk
api GET /v1/boxes?state=offline
is 'it is listed as such' "$(j '.boxes|map(select(.machine == "desk"))|length')" 2
