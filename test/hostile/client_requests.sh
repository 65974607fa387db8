# Requests that want more than their share: half heads, endless and deep and packed bodies, pipelines.
# wall: limits of the HTTP server (head, headers, body, memory budget, connections: the one idle longest goes)
# daemon: plain
# config: max_connections: 200
# config: body_memory_mb: 64

CLIENT=$BUILD/test/attack_client
start_client() { # start_client ARGUMENTS...: LINE is the first line it prints; client_end lets it go
    coproc CLIENT_IO { "$CLIENT" "$@" 2>&1; }
    CLIENT_PID=$! CLIENT_IN=${CLIENT_IO[1]}
    read -r -t 60 LINE <&"${CLIENT_IO[0]}"
}
client_end() {
    eval "exec $CLIENT_IN>&-"
    wait "$CLIENT_PID"
}
post_text() { printf 'POST %s/exec HTTP/1.1\\r\\nHost: localhost\\r\\n%s\\r\\n' "$B" "$1"; }

# more half heads than connections are allowed
start_client heads "$SOCKET" 1000
like 'a thousand half heads where 200 connections are allowed' "$LINE" '^holding [0-9]+$'
for i in {1..10}; do
    API_SECONDS=5 api GET /healthz
    [ "$STATUS" = 200 ] || break
done
is 'others are served at once all the same' "$STATUS" 200
API_SECONDS=10 run 'echo fine'
is 'and commands run' "$OUT" fine
neighbour_check 'meanwhile'
between 'the daemon holds no more than its connections' "$(ls "/proc/$DAEMON_PID/fd" | wc -l)" 1 330
client_end

# bodies
before=$(daemon_memory_kb VmHWM)
is 'a JSON body of 10 GB is refused before it comes' \
    "$("$CLIENT" endless "$SOCKET" "$(post_text 'Content-Length: 10000000000\r\n')" | cut -d' ' -f1)" 413
read -r status megabytes \
    < <("$CLIENT" endless "$SOCKET" "$(post_text 'Transfer-Encoding: chunked\r\n')fffffff\r\n{\"command\":\"")
is 'one without a length is refused where the budget ends' "$status" 503
between 'after at most so many MiB' "$megabytes" 1 100
between 'memory for both, in KB' $(($(daemon_memory_kb VmHWM) - before)) 0 300000
start_client bodies "$SOCKET" 20 8000000 "$B/exec"
like 'bodies beyond the budget of memory are 503' "$LINE" '^held [12] answered 1[89] 503$'
api POST "$B/exec" '{"command":"echo small"}'
is 'a small one still goes through' "$(j .stdout)" small
neighbour_check 'with the budget used up'
client_end
{ printf '{"command":"true","stdin":"'; head -c 2000000 /dev/zero | tr '\0' x; printf '"}'; } > "$WORK/large"
fits() { api POST "$B/exec" "@$WORK/large" && [ "$STATUS" = 200 ]; }
ok 'what they held is given back' eventually 10 fits
{ printf '{"command":"true","stdin":"'; head -c 12000000 /dev/zero | tr '\0' x; printf '"}'; } > "$WORK/large"
api POST "$B/exec" "@$WORK/large"
is_error 'one larger than the whole budget' 503 BUSY '64 MiB'
is 'says when to come back' "$(header retry-after)" 1
run 'head -c 16000000 /dev/zero | tr "\0" x; head -c 16000000 /dev/zero | tr "\0" x >&2' '"output_limit_bytes":16000000'
is 'output is charged to the same budget: kept' "$STATUS $(j .stdout_bytes) $(j .stderr_bytes)" '200 16000000 16000000'
loud() { (WORK=$WORK/loud$1 && mkdir -p "$WORK" && run 'head -c 16000000 /dev/zero | tr "\0" x; sleep 0.3' \
    '"output_limit_bytes":16000000' && echo "$STATUS" > "$WORK/result"); }
# Six grow at the same time: which of them are refused is the scheduler's choice, now and then all of them.
some_refused() {
    local i loudest=
    for i in {1..6}; do loud "$i" & loudest+=" $!"; done
    wait $loudest
    LOUD=$(cat "$WORK"/loud?/result | sort | uniq -c | tr -s ' \n' ' ')
    [[ $LOUD =~ ^\ [1-4]\ 200\ [2-5]\ 503\ $ ]]
}
eventually 30 some_refused
like 'or refused when others hold it' "$LOUD" '^ [1-4] 200 [2-5] 503 $'

# shapes
deep() { printf '{"command":"true","env":'; head -c "$1" /dev/zero | tr '\0' "$2"; echo; }
for shape in '[' '{'; do
    deep 5000000 "$shape" > "$WORK/deep"
    api POST "$B/exec" "@$WORK/deep"
    is_error "five million times $shape" 400 INVALID
done
{ printf '{"command":"true","env":{'; seq -f '"k%.0f":"v",' 200000; echo '"z":""}}'; } > "$WORK/wide"
api POST "$B/exec" "@$WORK/wide"
is_error 'two hundred thousand members' 413 TOO_LARGE
{ printf '{"command":"true","env":{"a":"'; for i in {1..9}; do printf '\\ud800'; done; echo '"}}'; } > "$WORK/half"
api POST "$B/exec" "@$WORK/half"
is_error 'half characters' 400 INVALID
head -c 50000000 /dev/zero | gzip -9 > "$WORK/bomb"
for coding in gzip deflate br 'gzip, gzip' x-gzip; do
    api POST "$B/exec" "@$WORK/bomb" -H "Content-Encoding: $coding"
    is_error "a packed body: $coding" 415 INVALID Content-Encoding
done
upload x "$WORK/bomb" '' -H 'Content-Encoding: gzip'
is_error 'a packed upload' 415 INVALID
api POST "$B/exec" '{"command":"true"}' -H 'Content-Encoding: identity'
is 'identity is none' "$STATUS" 200

# heads
headers() { local i; for ((i = 0; i < $1; i++)); do printf 'X-%d: y\r\n' "$i"; done; }
raw() { "$TOOL" raw "$SOCKET" 5000; }
for count in 101 5000; do
    like "$count headers" \
        "$({ printf 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n'; headers $count; printf '\r\n'; } | raw)" \
    '^431 closed'
done
like 'a head of a megabyte' \
    "$({ printf 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: '; head -c 1000000 /dev/zero |
    tr '\0' y; printf '\r\n\r\n'; } | raw)" '^431 closed'
like 'a target of 20 KB' \
    "$({ printf 'GET /'; head -c 20000 /dev/zero | tr '\0' y; printf ' HTTP/1.1\r\nHost: localhost\r\n\r\n'; } | raw)" \
    '^414 closed'
api GET "/v1/boxes?$(seq -f 'p%.0f=1' -s '&' 1000)"
like 'a thousand parameters' "$STATUS" '^4(00|14|31)$'
api GET '/v1/boxes?user=a&user=b'
is_error 'a parameter given twice' 400 INVALID
is 'a hundred thousand pipelined requests are answered one by one' "$("$CLIENT" pipeline "$SOCKET" 100000)" 100000
neighbour_check 'afterwards'
between 'the most memory it ever took, in KB' "$(daemon_memory_kb VmHWM)" 1 500000
