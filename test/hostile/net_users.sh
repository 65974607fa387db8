# Secrets and policies of another user (A56): by name, in lists, bound to a box, by the box they belong to. Each answer
# is the one for a thing that does not exist.
# wall: every look-up of a secret and of a box is by its user
write_tokens "$WORK/users.yaml"
printf 'networks: [none, policy]\n' >> "$WORK/users.yaml"
secret='{"value":"ghp_0123456789abcdefghijklmnopqrstuvwxyzAB","hosts":["api.hub.test"],"env":"HUB"}'
policy='"network":{"allow":["api.hub.test"]}'
if second_start "$WORK/users.yaml" "$BUILD/cubbyd"; then
    as ann PUT /v1/secrets/hub "$secret"
    is 'A56: a secret of ann' "$STATUS" 200
    as ann POST /v1/boxes "{\"backend\":\"jail\",$policy,\"secrets\":[\"hub\"]}"
    is 'A56: and her box with it' "$STATUS" 201
    box=$(j .id)
    as ann GET "/v1/boxes/$box/secrets"
    placeholder=$(j '.secrets[0].placeholder')
    same() { # same NAME METHOD PATH-OF-ANN'S PATH-OF-NOTHING [BODY]
        as bob "$2" "$4" "${5-}"
        local nothing="$STATUS ${BODY//$(basename "$4")/X}"
        as bob "$2" "$3" "${5-}"
        is "A56: $1" "$STATUS ${BODY//$(basename "$3")/X}" "$nothing"
        like "A56: $1: as if it did not exist" "$STATUS" '^404$'
        unlike "A56: $1: nothing is said" "$BODY" "$placeholder|api.hub.test|ann"
    }
    same 'her secret by name' GET /v1/secrets/hub /v1/secrets/none
    same 'her secret removed' DELETE /v1/secrets/hub /v1/secrets/none
    none=0000000000000000
    for path in '' /network /secrets; do
        as bob GET "/v1/boxes/$none$path"
        nothing="$STATUS ${BODY//$none/X}"
        as bob GET "/v1/boxes/$box$path"
        is "A56: her box$path" "$STATUS ${BODY//$box/X}" "$nothing"
    done
    as bob PUT "/v1/boxes/$box/network" '{"network":{"allow":["evil.test"]}}'
    is_error 'A56: her policy changed' 404 NOT_FOUND
    as bob PUT "/v1/boxes/$box/secrets/hub"
    is_error 'A56: a secret bound to her box' 404 NOT_FOUND
    as bob GET /v1/secrets
    is 'A56: a list of secrets' "$(j '.secrets | length')" 0
    as bob POST /v1/boxes "{\"backend\":\"jail\",$policy,\"secrets\":[\"none\"]}"
    nothing="$STATUS ${BODY//none/X}"
    as bob POST /v1/boxes "{\"backend\":\"jail\",$policy,\"secrets\":[\"hub\"]}"
    is 'A56: her secret in his box' "$STATUS ${BODY//hub/X}" "$nothing"
    as bob GET "/v1/audit"
    unlike 'A56: his log has nothing of hers' "$BODY" "$placeholder|\"ann\""
    as ann GET /v1/secrets/hub
    is 'A56: hers is still there' "$STATUS" 200
    as ann DELETE "/v1/boxes/$box"
    is 'A56: and her box goes' "$STATUS" 204
    second_end
else
    fail 'a daemon with users'
fi
