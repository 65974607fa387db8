# Bad input: every malformed request gets a strict answer within bounds, and the daemon goes on.
# by default: jail local remote

raw() { printf "$1" | "$TOOL" raw "$SOCKET" "${2:-3000}" ${3-}; } # statuses, then closed or open
strict() { # strict NAME REQUEST WANT-REGEX
    like "$1" "$(raw "$2")" "$3"
}
H='Host: localhost\r\n'
P="POST $B/exec HTTP/1.1\r\n$H"
strict 'content length and transfer encoding' "${P}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" \
    '^400 closed'
strict 'two different lengths' "${P}Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef" '^400 closed'
strict 'a length with a sign' "${P}Content-Length: +5\r\n\r\nabcde" '^400 closed'
strict 'a negative length' "${P}Content-Length: -5\r\n\r\nabcde" '^400 closed'
strict 'a length with a comma' "${P}Content-Length: 5, 5\r\n\r\nabcde" '^400 closed'
strict 'a length that overflows' "${P}Content-Length: 99999999999999999999999\r\n\r\nabcde" '^4(00|13) closed'
strict 'an unknown transfer encoding' "${P}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" '^(400|501) closed'
strict 'chunked twice' "${P}Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" '^(400|501) closed'
strict 'chunked not last' "${P}Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n" '^(400|501) closed'
strict 'a space before the colon' "GET /healthz HTTP/1.1\r\nHost : localhost\r\n\r\n" '^400 closed'
strict 'a folded header' "GET /healthz HTTP/1.1\r\n${H}X: a\r\n b\r\n\r\n" '^400 closed'
strict 'a bare CR in a header' "GET /healthz HTTP/1.1\r\n${H}X: a\rb\r\n\r\n" '^400 closed'
strict 'a bare LF at the end of a header' "GET /healthz HTTP/1.1\r\n${H}X: a\n\r\n" '^400 closed'
like 'a NUL in a value, raw' \
    "$(printf 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n' | "$TOOL" raw "$SOCKET" 3000)" '^400 closed'
strict 'a chunk size with 0x' "${P}Transfer-Encoding: chunked\r\n\r\n0x5\r\nabcde\r\n0\r\n\r\n" '^400 closed'
strict 'a chunk size that overflows' "${P}Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nabcde\r\n0\r\n\r\n" \
    '^4(00|13) closed'
strict 'a chunk longer than it says' "${P}Transfer-Encoding: chunked\r\n\r\n2\r\nabcde\r\n0\r\n\r\n" '^400 closed'
strict 'no Host' "GET /healthz HTTP/1.1\r\n\r\n" '^400 closed'
strict 'two Hosts' "GET /healthz HTTP/1.1\r\n${H}${H}\r\n" '^400 closed'
strict 'no such version' "GET /healthz HTTP/3.7\r\n$H\r\n" '^(400|505) closed'
strict 'no request at all' '\r\n\x01\x02\x03\xff\xfe\r\n\r\n' '^400 closed'
strict 'a TLS greeting' '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n' '^400 closed'
strict 'an unknown method' "BREW /healthz HTTP/1.1\r\n${H}Connection: close\r\n\r\n" '^(4[0-9]+|501) closed'
strict 'a path with an encoded NUL' "GET /v1/boxes/%%00 HTTP/1.1\r\n${H}Connection: close\r\n\r\n" '^400 closed'
strict 'a path with a bad escape' "GET /v1/boxes/%%zz HTTP/1.1\r\n${H}Connection: close\r\n\r\n" '^400 closed'
strict 'an encoded slash' "GET /v1/boxes/a%%2fb HTTP/1.1\r\n${H}Connection: close\r\n\r\n" '^40[04] closed'
strict 'dots in the path' "GET /v1/boxes/../../etc/passwd HTTP/1.1\r\n${H}Connection: close\r\n\r\n" '^40[04] closed'
strict 'a valid chunked body' \
    "${P}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n12\r\n{\"command\":\"true\"}\r\n0\r\n\r\n" '^200 closed'
strict 'two requests in one packet' \
    "GET /healthz HTTP/1.1\r\n${H}\r\nGET /healthz HTTP/1.1\r\n${H}Connection: close\r\n\r\n" '^200 200 closed'
strict 'no smuggling behind a refused request' \
    "${P}Content-Length: 5\r\nContent-Length: 6\r\n\r\nGET /healthz HTTP/1.1\r\n${H}\r\n" '^400 closed'
long=$(head -c 40000 /dev/zero | tr '\0' x)
strict 'a header too long' "GET /healthz HTTP/1.1\r\n${H}X: $long\r\n\r\n" '^4(00|13|31) closed'
strict 'a path too long' "GET /$long HTTP/1.1\r\n${H}\r\n" '^4(00|13|14|31) closed'
strict 'too many headers' "GET /healthz HTTP/1.1\r\n${H}$(printf 'X: y\\r\\n%.0s' {1..300})\r\n" '^4(00|31) closed'
like 'half a request, then the end' "$(raw 'GET /healthz HT' 3000 half)" 'closed$'
like 'half a body, then the end' "$(raw "${P}Content-Length: 50\r\n\r\n{" 5000 half)" 'closed$'

# slow senders, beside the rest
yes 'X' | head -c 3000 | { printf 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: '; tr '\n' y; } > "$WORK/slow"
"$TOOL" drip "$SOCKET" 200 < "$WORK/slow" > "$WORK/drip" &
drip=$!

# JSON
post() { api POST "$B/exec" "$1"; }
post '{"command":"true","nonsense":1}'
is_error 'an unknown field is named' 400 INVALID nonsense
post '{"command":1}'
is_error 'a wrong type is named' 400 INVALID command
post '{"command":"true","timeout_ms":"1"}'
is_error 'a wrong type of a number' 400 INVALID timeout_ms
post '{"command":"true","env":[]}'
is_error 'a wrong type of an object' 400 INVALID env
post '{"command":"true","env":{"A":1}}'
is_error 'a wrong type inside' 400 INVALID
post '{"command":"true","timeout_ms":1.5}'
is_error 'a fraction' 400 INVALID timeout_ms
post '{"command":"a","command":"b"}'
is_error 'a field given twice' 400 INVALID
post '[1,2]'
is_error 'no object' 400 INVALID
post '{"command":'
is_error 'cut JSON' 400 INVALID
post '{"command":"true"} x'
is_error 'something behind it' 400 INVALID
post 'nonsense'
is_error 'no JSON' 400 INVALID
api POST "$B/exec"
is_error 'an empty body' 400 INVALID
printf '{"command":"\xff\xfe"}' > "$WORK/bytes"
post "@$WORK/bytes"
is_error 'JSON that is not UTF-8' 400 INVALID
{ printf '{"command":"true","env":'; printf '[%.0s' {1..20000}; printf ']%.0s' {1..20000}; echo '}'; } > "$WORK/deep"
post "@$WORK/deep"
is_error 'deep JSON' 400 INVALID
{ printf '{"command":"'; head -c 34000000 /dev/zero | tr '\0' x; printf '"}'; } > "$WORK/huge"
post "@$WORK/huge"
is_error 'huge JSON' 413 TOO_LARGE
jq -n '{argv:[range(5000)|"x"]}' > "$WORK/args"
post "@$WORK/args"
like 'too many arguments' "$STATUS" '^4(00|13|29)$'
jq -n '{command:"true",env:([range(2000)|{key:"K\(.)",value:"v"}]|from_entries)}' > "$WORK/args"
post "@$WORK/args"
like 'too many variables' "$STATUS" '^4(00|13|29)$'
jq -n '{command:("x"*2000000)}' > "$WORK/args"
post "@$WORK/args"
like 'a command too long' "$STATUS" '^4(00|13)$'
printf '{"command":"true"}' | gzip > "$WORK/gzip"
api POST "$B/exec" "@$WORK/gzip" -H 'Content-Encoding: gzip'
like 'a compressed body is refused' "$STATUS" '^4'

# routes
api GET /nowhere
is_error 'no such route' 404 NOT_FOUND
api PATCH "$B/exec" '{}'
like 'a wrong method' "$STATUS" '^40[45]$'
api GET "/v1/boxes?nonsense=1"
is_error 'an unknown parameter' 400 INVALID nonsense
isnt 'every answer has a request id' "$(header x-request-id)" ''

wait "$drip"
like 'a slow sender is ended within the bound' "$(< "$WORK/drip")" '^(408|closed) 1?[0-9]{4}$'
api GET /healthz
is 'the daemon is well' "$STATUS" 200
run 'echo fine'
is 'and the box' "$OUT" fine
