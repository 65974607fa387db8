# A tenant after other tenants' boxes: guessed and deleted ids, twisted paths, names that are not his.
# wall: one look-up by id and owner; absent and foreign are one answer, byte for byte; tokens compared in constant time
# config: tokens: [{token: ann-token-0123456789abcdef, user: ann, scope: user}, {token: bob-token-0123456789abcdef, user: bob, scope: user}, {token: eye-token-0123456789abcdef, user: bob, scope: read}]

as() { # as WHO METHOD PATH [BODY]
    api "$2" "$3" "${4-}" -H "Authorization: Bearer $1-token-0123456789abcdef"
}
# The answer as the client sees it, but for what is new in every answer.
answer() { sed -e '/^Date:/d' -e '/^X-Request-Id:/d' "$WORK/head" && sed "s/$1/ID/g" "$WORK/body"; }

as ann POST /v1/boxes '{"backend":"jail","thread":"secret plan","labels":{"project":"moon"}}'
ANNS=$(j .id)
as ann PUT "/v1/boxes/$ANNS/files?path=diary" 'dear diary'
as ann POST "/v1/boxes/$ANNS/processes" '{"command":"sleep 1000"}'
PID=$(j .pid)
as ann POST /v1/boxes '{"backend":"jail"}'
GONE_ID=$(j .id)
as ann DELETE "/v1/boxes/$GONE_ID"
ABSENT=0123456789abcdef

# every route of a box, as the daemon itself lists them: its own and those of the AIO dialect
count=0
while IFS=$'\t' read -r method pattern _; do
    [[ $pattern = */v1/boxes/{id}* || $pattern = /aio/{id}* ]] || continue
    count=$((count + 1))
    path=${pattern//\{pid\}/$PID} path=${path//\{port\}/8080}
    path=$(sed -E 's/\{(path|rest|name|data|server|tool)(\.\.\.)?\}/x/g' <<< "$path")
    [ "$method" != ANY ] || method=GET
    # one group has another status for it, and what the dialect has of no box is told before it is looked for
    case $pattern in
        /aio/*/v1/bash/*) found='^410 410$' ;;
        /aio/*/v1/browser/* | /aio/*/v1/proxy/* | /aio/*/v1/display/* | /aio/*/v1/util/*) found='^501 501$' ;;
        /aio/*/v1/skills* | /aio/*/sandbox/observe/* | /aio/*/sandbox/hooks*) found='^501 501$' ;;
        */relocate) found='^403 403$' ;; # an administrator's alone: refused before anything is looked for
        *) found='^404 404$' ;;
    esac
    case $pattern in */files | */stat | */list | */hash | */watch | */archive) path+='?path=diary' ;; esac
    body=
    case $method$pattern in POST*/exec | POST*/processes) body='{"command":"true"}' ;; POST*/stdin) ;; POST*/rollback) \
        body='{"snapshot":"x"}' ;; POST*) body='{}' ;; esac
    as bob "$method" "${path//\{id\}/$ABSENT}" "$body"
    absent=$(answer "$ABSENT") status=$STATUS
    as bob "$method" "${path//\{id\}/$ANNS}" "$body"
    is "$method ${pattern#/v1}: foreign as absent" "$(answer "$ANNS")" "$absent"
    like "$method ${pattern#/v1}: not found" "$status $STATUS" "$found"
    as bob "$method" "${path//\{id\}/$GONE_ID}" "$body"
    is "$method ${pattern#/v1}: deleted as absent" "$(answer "$GONE_ID")" "$absent"
done < <("$BUILD/cubbyd" --routes)
between 'routes tried' "$count" 90 200
# routes that name a user, and those of a provisioner: refused before anything is looked for, and no box is made
as ann GET /v1/boxes
before=$(j '[.boxes[].id] | sort | join(" ")') count=0
while IFS=$'\t' read -r method pattern name _; do
    [[ $name = filesecbox_* || $name = fsb2_* || $pattern = /api/*sandboxes* ]] || continue
    count=$((count + 1))
    path=${pattern//\{user\}/ann} path=${path//\{agent\}/a} path=${path//\{skill\}/x}
    body=
    [ "$method" = GET ] || [ "$method" = DELETE ] || body='{}'
    as bob "$method" "${path//\{id\}/$ABSENT}" "$body"
    absent=$(answer "$ABSENT") status=$STATUS
    as bob "$method" "${path//\{id\}/$ANNS}" "$body"
    is "$method $pattern: refused" "$status $STATUS" '403 403'
    is "$method $pattern: foreign as absent" "$(answer "$ANNS")" "$absent"
done < <("$BUILD/cubbyd" --routes)
between 'routes of users tried' "$count" 25 100
as ann GET /v1/boxes
is 'no box of hers came or went' "$(j '[.boxes[].id] | sort | join(" ")')" "$before"
as ann GET "/v1/boxes/$ANNS/files?path=diary"
is "nothing of it did anything: the file" "$BODY" 'dear diary'
as ann GET "/v1/boxes/$ANNS/processes/$PID"
is 'nor to the process' "$(j .state)" running
as eye GET "/v1/boxes/$ANNS"
is_error 'a reader of another user' 404 NOT_FOUND

# Nor does the time tell: the daemon's own, of many requests in turn, the middle one.
urls=()
for _ in {1..150}; do \
    urls+=("http://localhost/v1/boxes/$ABSENT/files?path=diary" "http://localhost/v1/boxes/$ANNS/files?path=diary"); \
    done
curl -s -o /dev/null --unix-socket "$SOCKET" -H 'Authorization: Bearer bob-token-0123456789abcdef' "${urls[@]}" \
    > /dev/null
middle_us() { # middle_us ID: of the last 150 requests for it
    grep -o "GET /v1/boxes/$1/files 404 .* us=[0-9]*" "$WORK/daemon.log" | tail -150 | sed 's/.*us=//' | sort -n |
        sed -n 75p
}
logged() { [ "$(grep -c "GET /v1/boxes/$ANNS/files 404" "$WORK/daemon.log")" -ge 150 ]; }
eventually 10 logged
absent_us=$(middle_us "$ABSENT") foreign_us=$(middle_us "$ANNS")
between "foreign takes as long as absent ($foreign_us us, $absent_us us), in percent" \
    $((foreign_us * 100 / (absent_us + 1))) 50 200

# paths that mean one thing to one reader and another to the next
for path in "/v1/boxes/$ANNS/" "/v1/boxes//$ANNS" "/v1/boxes/%2e%2e/boxes/$ANNS" "/v1/boxes/../boxes/$ANNS" \
    "/v1/boxes/.;/$ANNS" \
    "/v1/boxes/$ANNS;x=y" "/v1/boxes/$ANNS%3bx" "/v1/boxes/$ANNS%00" "/v1/boxes/$ANNS%2f" "/v1/boxes/x%2f..%2f$ANNS" \
    "/v1/boxes/${ANNS^^}" "/v1/boxes/$ANNS%20" "/v1/boxes/%20$ANNS" "/v1/boxes/$ANNS." \
    "/v1/boxes/%252e%252e%252f$ANNS" \
    "/v1/boxes/$ANNS%25" "/v1/boxes/%EF%BC%90${ANNS:1}" "/v1/boxes/$ANNS%E2%80%8B" "/v1/boxes/%c0%ae%c0%ae/$ANNS" \
    "/v1/boxes/$ANNS%0a" "/v1/boxes/$ANNS#" "/V1/boxes/$ANNS" "//v1/boxes/$ANNS" "/v1/./boxes/$ANNS" \
    "/v1/boxes/$ANNS?id=$ANNS" \
    "/v1/boxes/*" "/v1/boxes/%25" "/v1/boxes/null" "/v1/boxes/-1" "/v1/boxes/${ANNS:0:15}" "/v1/boxes/${ANNS}0"; do
    as bob GET "$path"
    like "bob: $path" "$STATUS" '^40[045]$'
    unlike 'and no word of what is there' "$BODY" 'secret plan|moon|"user"'
done
printf 'GET http://localhost/v1/boxes/%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer '\
'bob-token-0123456789abcdef\r\nConnection: close\r\n\r\n' "$ANNS" > "$WORK/raw"
like 'a whole URL as target' "$("$TOOL" raw "$SOCKET" 5000 < "$WORK/raw")" '^40[04] closed'
for header in "X-Original-URL: /v1/boxes/$ANNS" "X-Rewrite-URL: /v1/boxes/$ANNS" 'X-HTTP-Method-Override: DELETE' \
    'X-Forwarded-User: ann' 'X-User: ann' \
    'Authorization: Bearer ann-token-0123456789abcdef'; do
    api GET "/v1/boxes/$ANNS" '' -H 'Authorization: Bearer bob-token-0123456789abcdef' -H "$header"
    like "a header beside the token: ${header%%:*}" "$STATUS" '^40[04]$'
done

# names
as bob GET /v1/boxes
is 'his list is his' "$(j '.boxes|length')" 0
for query in 'user=ann' 'label=project' 'label=project%3Dmoon' 'state=ready'; do
    as bob GET "/v1/boxes?$query"
    is "whatever he asks: $query" "$STATUS $(j '.boxes|length')" '200 0'
done
as bob POST /v1/boxes '{"backend":"jail","user":"ann","thread":"secret plan"}'
is_error "a box in another's name" 403 DENIED
as bob POST /v1/boxes '{"backend":"jail","thread":"secret plan"}'
is 'the same thread is another box' "$STATUS $(j .user)" '201 bob'
isnt 'with an id of its own' "$(j .id)" "$ANNS"
BOBS=$(j .id)
as bob GET "/v1/boxes/$BOBS/files?path=diary"
is_error 'and nothing in it' 404 NOT_FOUND
as bob POST /v1/boxes '{"backend":"jail","user":"bob:ann","thread":"x"}'
like 'no name can hold the separator' "$STATUS" '^40[03]$'
as bob DELETE '/v1/boxes?user=ann'
is "all of another's boxes are none" "$STATUS $(j .ended)" '200 0'
as ann GET "/v1/boxes/$ANNS"
is 'it is still there' "$STATUS" 200
as bob GET /metrics
is_error 'nor are the numbers of all for him' 403 DENIED
as bob GET "/v1/audit?box=$ANNS"
is 'nor the records of others: only what he did himself' \
    "$STATUS $(j '[.events[] | .actor, .user] | unique | join(" ")')" '200 bob'
as bob GET /v1/audit
is 'by no query' "$STATUS $(j '[.events[] | .actor, .user] | unique | join(" ")')" '200 bob'

# An id that comes back is a new box: nothing of the old one is in it.
as ann DELETE "/v1/boxes/$ANNS"
as ann POST /v1/boxes '{"backend":"jail","thread":"secret plan"}'
is 'the id comes back' "$STATUS $(j .id)" "201 $ANNS"
as ann GET "/v1/boxes/$ANNS/files?path=diary"
is_error 'without the files' 404 NOT_FOUND
as ann GET "/v1/boxes/$ANNS/processes/$PID"
is_error 'and the processes' 404 NOT_FOUND

# tokens
for token in '' ann-token-0123456789abcde ann-token-0123456789abcdeff ANN-TOKEN-0123456789ABCDEF \
    'ann-token-0123456789abcdef x' \
    $'ann-token-0123456789abcdef\x01' ann-token-0123456789abcdee; do
    api GET /v1/boxes '' -H "Authorization: Bearer $token"
    like "a token that is nearly right: '${token:0:30}'" "$STATUS" '^40[01]$'
done
as ann DELETE "/v1/boxes/$ANNS"
as bob DELETE "/v1/boxes/$BOBS"
