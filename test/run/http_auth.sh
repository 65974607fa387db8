# Tokens: who may do what, and what others' boxes look like.
# backends: jail

write_tokens "$WORK/auth.yaml"
if second_start "$WORK/auth.yaml" "$program"; then
    api GET /healthz
    is 'healthz needs no token' "$STATUS" 200
    api GET /v1/boxes
    is_error 'no token' 401 UNAUTHORIZED
    api GET /v1/boxes '' -H 'Authorization: Bearer nonsense'
    is_error 'a wrong token' 401 UNAUTHORIZED
    api GET /v1/boxes '' -H 'Authorization: Basic YTpi'
    is_error 'another scheme' 401 UNAUTHORIZED
    as ann POST /v1/boxes "{\"backend\":\"$BACKEND\",\"thread\":\"t\"}"
    is "a user's box is the user's" "$STATUS $(j .user)" '201 ann'
    anns=$(j .id)
    as ann POST "/v1/boxes/$anns/exec" '{"command":"echo mine"}'
    is 'and runs commands' "$(j .stdout)" mine
    as bob GET "/v1/boxes/$anns"
    is_error "somebody else's box" 404 NOT_FOUND
    theirs=$BODY
    as bob GET /v1/boxes/0123456789abcdef
    is 'answers exactly as none' "${BODY//0123456789abcdef/ID}" "${theirs//$anns/ID}"
    for call in 'DELETE ' 'GET /files?path=x' 'GET /processes' 'POST /release'; do
        as bob "${call%% *}" "/v1/boxes/$anns${call#* }"
        is_error "nor can it be touched: $call" 404 NOT_FOUND
    done
    as bob POST "/v1/boxes/$anns/exec" '{"command":"true"}'
    is_error 'nor run' 404 NOT_FOUND
    as bob GET /v1/boxes
    is 'nor is it listed' "$(j '.boxes|length')" 0
    as bob GET '/v1/boxes?user=ann'
    like 'not even by name' "$STATUS $(j '.boxes|length')" '^(200 0|403 .*)$'
    as bob POST /v1/boxes "{\"backend\":\"$BACKEND\",\"user\":\"ann\",\"thread\":\"t\"}"
    is_error "nor acquired in the owner's name" 403 DENIED
    as eye GET "/v1/boxes/$anns"
    is 'read: looks' "$STATUS" 200
    as eye POST "/v1/boxes/$anns/exec" '{"command":"true"}'
    is_error 'read: runs nothing' 403 DENIED
    as eye PUT "/v1/boxes/$anns/files?path=x" x
    is_error 'read: writes nothing' 403 DENIED
    as eye DELETE "/v1/boxes/$anns"
    is_error 'read: deletes nothing' 403 DENIED
    as admin GET "/v1/boxes/$anns"
    is 'admin: sees all' "$STATUS" 200
    as admin DELETE "/v1/boxes/$anns"
    is 'admin: deletes' "$STATUS" 204
    not_ok 'tokens are not in the log' grep -q token-0123456789 "$WORK/daemon.log"
    second_end
    is 'it ends in order' $? 0
else
    fail 'a daemon with tokens' "$(tail -5 "$WORK/daemon.log")"
    second_end
fi
