# One tenant makes and deletes boxes as fast as it can, and keeps as many as it can get.
# wall: boxes per user, boxes a minute per user, requests at once per user; 429 with Retry-After
# config: max_boxes_per_user: 5
# config: max_boxes: 20
# config: box_rate_per_user: 40
# config: max_requests_per_user: 6
# config: tokens: [{token: mallory-token-0123456789ab, user: mallory, scope: user}, {token: ann-token-0123456789abcdef, user: ann, scope: user}]

mallory() { api "$1" "$2" "${3-}" -H 'Authorization: Bearer mallory-token-0123456789ab'; }
ann() { api "$1" "$2" "${3-}" -H 'Authorization: Bearer ann-token-0123456789abcdef'; }
make='{"backend":"jail"}'

# as many as he can get
for i in {1..7}; do
    mallory POST /v1/boxes "$make"
    [ "$STATUS" = 201 ] || break
done
is 'five boxes, no more' "$i" 6
is_error 'the sixth' 429 LIMIT 'max_boxes_per_user'
is 'says when to come back' "$(header retry-after)" 1
mallory GET /v1/boxes
is 'he has what he has' "$(j '.boxes|length')" 5
MALLORYS=$(j -r '.boxes[].id')
for box in $MALLORYS; do mallory POST "/v1/boxes/$box/release"; done
mallory POST /v1/boxes "$make"
is_error 'released ones count too' 429 LIMIT
mallory DELETE "/v1/boxes/${MALLORYS%%$'\n'*}"
mallory POST /v1/boxes "$make"
is 'a deleted one makes room' "$STATUS" 201
ann POST /v1/boxes "$make"
is 'another tenant has his own share' "$STATUS" 201
ANNS=$(j .id)

# requests at once: he takes all he may have, and no thread more
mallory GET /v1/boxes
MALLORYS=$(j -r '.boxes[].id')
box=${MALLORYS%%$'\n'*}
sleepers=
tag_new
for i in {1..6}; do
    (
        WORK=$WORK/sleep$i
        mkdir -p "$WORK"
        STATUS=429 # whoever looks whether he is busy yet takes a place for a moment
        until [ "$STATUS" != 429 ]; do mallory POST "/v1/boxes/$box/exec" \
            "{\"command\":\"sleep $TAG\",\"timeout_ms\":60000}"; done
    ) & sleepers+=" $!"
done
busy() { mallory GET /v1/boxes && [ "$STATUS" = 429 ]; }
ok 'a seventh request at once is refused' eventually 20 busy
mallory GET /v1/boxes
is_error 'as a limit' 429 LIMIT max_requests_per_user
ann POST "/v1/boxes/$ANNS/exec" '{"command":"echo mine"}'
is 'another tenant is served' "$(j .stdout)" mine
neighbour_check 'while he is at his limit'
api DELETE "/v1/boxes/$box"
wait $sleepers
idle() { mallory GET /v1/boxes && [ "$STATUS" = 200 ]; }
ok 'he is let in again when they are over' eventually 10 idle

# the storm
storm() { # storm NUMBER: make and delete until told often enough; statuses to a file
    local i id
    WORK=$WORK/storm$1
    mkdir -p "$WORK"
    for i in {1..25}; do
        mallory POST /v1/boxes "$make"
        echo "$STATUS" >> "$WORK/result"
        id=$(j .id)
        [ "$STATUS" != 201 ] || mallory DELETE "/v1/boxes/$id"
    done
}
storms=
for i in 1 2 3 4; do storm "$i" & storms+=" $!"; done
worst=0
while pgrep -P $$ > /dev/null && kill -0 $storms 2> /dev/null; do
    now_ms
    before=$NOW
    ann POST "/v1/boxes/$ANNS/exec" '{"command":"true"}'
    now_ms
    [ "$STATUS" = 200 ] || break
    worst=$((NOW - before > worst ? NOW - before : worst))
done
wait $storms
is 'another tenant is served all the while' "$STATUS" 200
between 'and soon, in ms' "$worst" 0 15000
made=$(cat "$WORK"/storm?/result | grep -c 201) refused=$(cat "$WORK"/storm?/result | grep -c 429)
between 'of a hundred some were made' "$made" 1 50
is 'the others were 429, nothing else' $((made + refused)) 100
# What the rate gave back since is soon used up: it is 40 a minute, and each turn takes some milliseconds.
for turn in {1..60}; do
    mallory POST /v1/boxes "$make"
    [ "$STATUS" = 201 ] || break
    mallory DELETE "/v1/boxes/$(j .id)"
done
is_error 'the rate outlasts the storm' 429 LIMIT box_rate_per_user
between 'and lets few pass' "$turn" 1 41
ann POST /v1/boxes "$make"
is "another's rate is his own" "$STATUS" 201
neighbour_check 'after the storm'

# all users together
for i in {1..25}; do
    api POST /v1/boxes "{\"backend\":\"jail\",\"user\":\"u$i\"}"
    [ "$STATUS" = 201 ] || break
done
is_error 'max_boxes holds for all' 429 LIMIT 'max_boxes\)'
is 'and says when to come back' "$(header retry-after)" 1
delete_boxes_of() { api DELETE "/v1/boxes?user=$1"; }
for i in {1..25}; do delete_boxes_of "u$i"; done
for user in mallory ann; do delete_boxes_of "$user"; done
