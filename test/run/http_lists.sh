# Lists of boxes by pages, fields and words; users and agents; what boxes use as a stream; files in order; one API.
# backends: jail

box_new '"user":"ann","thread":"alpha one","labels":{"team":"Blue"}'
ann=$BOX
box_new '"user":"ann","thread":"beta"'
box_new '"user":"bob","thread":"gamma"'
ids() { j '[.boxes[].id]|join(" ")'; }
api GET '/v1/boxes?fields=id,state'
is 'only what was asked for' "$STATUS $(j -c '[.boxes[]|keys]|unique')" '200 [["id","state"]]'
all=$(ids)
is 'in the order of ids' "$all" "$(tr ' ' '\n' <<< "$all" | sort | paste -sd' ')"
pages='' next=''
for _ in 1 2 3 4 5 6; do
    api GET "/v1/boxes?fields=id&limit=1${next:+&after=$next}"
    pages="$pages${pages:+ }$(ids)" next=$(j '.next // ""')
    [ -n "$next" ] || break
done
is 'page by page they are the same' "$pages" "$all"
api GET '/v1/boxes?q=ALPHA%20blue'
is 'all words, in whatever member, great or small' "$(ids)" "$ann"
api GET '/v1/boxes?q=alpha%20gamma'
is 'none has both' "$(j -c .)" '{"boxes":[],"next":null}'
for wrong in fields=id,secret fields=, limit=0 limit=x after=toolongtoolongtoolong; do
    api GET "/v1/boxes?$wrong"
    is_error "refused: $wrong" 400 INVALID
done
api GET /v1/users
is 'users' "$(j -c '[.users[]|select(.user == "ann" or .user == "bob")|[.user,.boxes]]')" '[["ann",2],["bob",1]]'
api GET /v1/agents
is 'no agents here' "$STATUS $(j -c .agents)" '200 []'

# ---- a stream ----
curl -sN --max-time 60 --unix-socket "$SOCKET" 'http://localhost/v1/boxes/usage?user=ann' > "$WORK/usage" & stream=$!
eventually 10 grep -q '^data: ' "$WORK/usage"
is 'first all of them' "$(sed -n 's/^data: //p' "$WORK/usage" | head -1 | jq '.boxes|length')" 2
box_use "$ann"
run 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'
changed() { sed -n 's/^data: //p' "$WORK/usage" | sed 1d | jq -r '.boxes[][0]' | grep -qx "$ann"; }
ok 'then who did something' eventually 15 changed
api DELETE "$B"
gone() { sed -n 's/^data: //p' "$WORK/usage" | jq -c '.boxes[]' | grep -qx "\[\"$ann\",null,null,null\]"; }
ok 'and who is gone' eventually 15 gone
kill "$stream"
wait "$stream" 2> /dev/null

# ---- files in order ----
box_new
run 'mkdir d && cd d && for i in 3 1 5 2 4; do : > "f$i"; done; mkdir f3x'
pages='' after=''
for _ in 1 2 3 4 5; do
    api GET "$B/list?path=d&sort=name&limit=2${after:+&after=$after}"
    pages="$pages $(j '[.entries[].name]|join(" ")')" after=$(j '.entries[-1].path')
    [ "$(j .truncated)" = true ] || break
done
is 'pages of a directory, by name' "$pages" ' f1 f2 f3 f3x f4 f5'
api GET "$B/list?path=d&after=x"
is_error 'after needs an order' 400 INVALID "'sort'"
api GET "$B/list?path=d&sort=name&limit=5000"
is_error 'a page has an end' 400 INVALID 1000

# ---- one API ----
api GET '/openapi.json?dialect=native'
is 'only native routes' "$(j '.paths|keys|map(select(startswith("/v1") or . == "/" or . == "/healthz" or
    . == "/metrics" or . == "/openapi.json")|not)|any')" false
api GET '/openapi.json?dialect=none'
is_error 'another one' 400 INVALID 'native'
api GET "/v1/events?box=$BOX,nothing"
is_error 'ids of boxes are ids' 400 INVALID 'box id'
