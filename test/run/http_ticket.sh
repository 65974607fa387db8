# Who asks, tickets for what cannot send Authorization, logins, and the headers on bytes of boxes.
# backends: jail

write_tokens "$WORK/ticket.yaml"
second_start "$WORK/ticket.yaml" "$program" || fail 'a daemon with tokens' "$(tail -5 "$WORK/daemon.log")"
shake() { # shake PATH [HEADER]: the head of the answer to a WebSocket
    python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(60)
s.connect(sys.argv[1])
lines = ["GET " + sys.argv[2] + " HTTP/1.1", "Host: localhost", "Upgrade: websocket", "Connection: Upgrade",
         "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="] + sys.argv[3:]
s.sendall("\r\n".join(lines + ["", ""]).encode())
head = b""
while b"\r\n\r\n" not in head:
    head += s.recv(4096) or exit("cut")
print(head.split(b"\r\n\r\n")[0].decode().replace("\r", ""))' "$SOCKET" "$@"
}
ticket() { # ticket AS FOR [BOX]: T
    as "$1" POST /v1/tickets "{\"for\":\"$2\"${3:+,\"box\":\"$3\"}}"
    T=$(j .ticket)
}

# ---- who asks ----
api GET /v1/whoami
is_error 'nobody is nobody' 401 UNAUTHORIZED
as ann GET /v1/whoami
is 'a user' "$STATUS $(j '"\(.scope) \(.user) \(.label) \(.expires_at) \(.open) \(.login)"')" \
    '200 user ann null null false false'
is 'by the id of the token' "$(j .token)" "$(printf ann-token-0123456789abcdef00 | sha256sum | cut -c1-12)"
as admin POST /v1/tokens '{"scope":"read","user":"ann","label":"eyes of ann","expires_in_ms":3600000}'
stored=$(j .token) stored_id=$(j .id)
api GET /v1/whoami '' -H "Authorization: Bearer $stored"
like 'a made one, with its label and end' "$(j '"\(.scope) \(.user) \(.label) \(.expires_at)"')" \
    '^read ann eyes of ann 20'
api GET /v1/info '' -H "Authorization: Bearer $stored"
like 'features are listed' "$(j '.features|join(" ")')" 'tickets login whoami'

# ---- tickets ----
as ann POST /v1/boxes "{\"backend\":\"$BACKEND\",\"thread\":\"t\"}"
box=$(j .id) B=/v1/boxes/$box
as ann PUT "$B/files?path=a%20b.html" '<script>alert(1)</script>'
for wrong in '{}' '{"for":"x"}' '{"for":"pty"}' "{\"for\":\"login\",\"box\":\"$box\"}" '{"for":"files","box":""}'; do
    as ann POST /v1/tickets "$wrong"
    is_error "refused: $wrong" 400 INVALID
done
ticket bob pty "$box"
is_error "no ticket for somebody else's box" 404 NOT_FOUND
ticket eye pty "$box"
is_error 'nor for a terminal with a token that only reads' 403 DENIED
ticket eye files "$box"
is 'but for a download' "$STATUS $(header cache-control)" '201 no-store'
api GET "$B/files?path=a%20b.html&ticket=$T"
is 'a ticket opens a file' "$STATUS $BODY" '200 <script>alert(1)</script>'
is 'which a browser neither guesses nor runs' "$(header x-content-type-options) $(header content-security-policy)" \
    'nosniff sandbox'
is 'but saves' "$(header content-disposition)" "attachment; filename*=UTF-8''a%20b.html"
api GET "$B/files?path=a%20b.html&ticket=$T"
is_error 'once' 401 UNAUTHORIZED
ticket ann files "$box"
api GET "$B/list?ticket=$T"
is_error 'it opens nothing else' 401 UNAUTHORIZED 'purpose'
ticket ann files "$box"
api GET "$B/archive?ticket=$T"
is 'an archive' "$STATUS" 200
ticket ann files "$box"
as ann POST /v1/boxes "{\"backend\":\"$BACKEND\",\"thread\":\"u\"}"
other=$(j .id)
api GET "/v1/boxes/$other/archive?ticket=$T"
is_error 'not another box, even of the same user' 401 UNAUTHORIZED 'another box'
api GET "$B/archive?ticket=$T"
is_error 'and that used it up' 401 UNAUTHORIZED
for wrong in x "$(printf '0%.0s' {1..64})" ''; do
    api GET "$B/files?path=a&ticket=$wrong"
    is_error "no ticket: '${wrong:0:8}'" 401 UNAUTHORIZED
done
ticket ann pty "$box"
like 'a WebSocket by the query' "$(shake "$B/pty?command=true&ticket=$T")" '^HTTP/1.1 101'
ticket ann pty "$box"
head=$(shake "$B/pty?command=true" "Sec-WebSocket-Protocol: cubby.v1, ticket.$T")
like 'and by its protocols' "$head" '^HTTP/1.1 101'
like 'of which ours is selected' "$head" 'Sec-WebSocket-Protocol: cubby.v1('$'\n''|$)'
unlike 'and the ticket is not repeated' "$head" "$T"
like 'once' "$(shake "$B/pty?command=true" "Sec-WebSocket-Protocol: cubby.v1, ticket.$T")" '^HTTP/1.1 401'
ticket ann files "$box"
like 'a ticket for files opens no terminal' "$(shake "$B/pty?ticket=$T")" '^HTTP/1.1 401'
ticket ann port "$box"
like 'a port' "$(shake "$B/ports/1?ticket=$T")" '^HTTP/1.1 502'
api GET "$B/files?path=a%20b.html&ticket=$T" '' -H 'Authorization: Bearer nonsense'
is_error 'a wrong token is not saved by a ticket' 401 UNAUTHORIZED
for i in {1..256}; do ticket bob login; [ "$STATUS" = 201 ] || break; done
ticket bob login
is_error 'one sender has a limit' 429 LIMIT
ticket ann login
is 'which is no other one'"'s" "$STATUS" 201

# ---- logins ----
api POST /v1/login "{\"ticket\":\"$T\"}"
is 'a login without a token' "$STATUS $(j '"\(.scope) \(.user)"') $(header cache-control)" '200 user ann no-store'
login=$(j .token)
api POST /v1/login "{\"ticket\":\"$T\"}"
is_error 'once' 401 UNAUTHORIZED
api GET "$B/files?path=a%20b.html" '' -H "Authorization: Bearer $login"
is 'it is a token' "$STATUS" 200
api GET /v1/whoami '' -H "Authorization: Bearer $login"
is 'and known as a login' "$(j '"\(.user) \(.login) \(.open)"')" 'ann true false'
isnt 'which ends' "$(j .expires_at)" null
api POST /v1/tickets '{"for":"login"}' -H "Authorization: Bearer $login"
is_error 'and makes no other one' 403 DENIED
api GET /v1/boxes '' -H "Authorization: Bearer ${login%?}x"
is_error 'a changed one is none' 401 UNAUTHORIZED
api GET /v1/boxes '' -H "Authorization: Bearer login.99999999999999.open.${login##*.}"
is_error 'nor one of another name' 401 UNAUTHORIZED
api POST /v1/tickets '{"for":"login"}' -H "Authorization: Bearer $stored"
api POST /v1/login "{\"ticket\":\"$(j .ticket)\"}"
reader=$(j .token)
api POST "$B/exec" '{"command":"true"}' -H "Authorization: Bearer $reader"
is_error 'a login has the scope of its token' 403 DENIED
api POST /v1/tickets "{\"for\":\"files\",\"box\":\"$box\"}" -H "Authorization: Bearer $stored"
T=$(j .ticket)
as admin DELETE "/v1/tokens/$stored_id"
api GET /v1/boxes '' -H "Authorization: Bearer $reader"
is_error 'and ends with it' 401 UNAUTHORIZED 'log in again'
api GET "$B/files?path=a%20b.html&ticket=$T"
is_error 'as does a ticket' 401 UNAUTHORIZED
ticket ann pty "$box"
api POST /v1/login "{\"ticket\":\"$T\"}"
is_error 'a ticket for something else is no login' 401 UNAUTHORIZED
as admin GET /v1/audit
unlike 'the audit log has no ticket' "$BODY" 'ticket=[0-9a-f]'
not_ok 'nor has the log' grep -qE '[0-9a-f]{64}' "$WORK/daemon.log"
as admin GET /v1/info
is 'an answer in JSON is not guessed either' "$(header x-content-type-options)" nosniff
as admin DELETE '/v1/boxes?user=ann'
second_end
is 'it ends in order' $? 0
api GET /v1/whoami
is 'where nothing is asked, everybody is admin' "$(j '"\(.scope) \(.user) \(.token) \(.open)"')" 'admin null null true'
