# What the daemon says about itself.
# by default: jail local remote

api GET /healthz
is 'healthz' "$STATUS" 200
api GET /v1/info
is 'info' "$STATUS" 200
like 'version' "$(j .version)" '^[0-9]+\.[0-9]+'
is 'this backend is available' \
    "$(jq -r --arg b "$BACKEND" \
    '.backends | if type == "array" then .[]|select(.name==$b)|.available else .[$b].available end' < "$WORK/body")" \
    true
api GET /openapi.json
is 'openapi' "$STATUS $(j .openapi)" '200 3.1.0'
for path in /v1/boxes '/v1/boxes/{id}' '/v1/boxes/{id}/exec' '/v1/boxes/{id}/files' '/v1/boxes/{id}/grep' \
    '/v1/boxes/{id}/pty' /healthz /metrics; do
    is "openapi has $path" "$(jq --arg p "$path" '.paths|has($p)' < "$WORK/body")" true
done
"${program%/*}/cubbyd" --routes > "$WORK/routes" 2>&1
is 'openapi and the table of routes agree' \
    "$(j '.paths|to_entries[]|.key as $p|.value|keys[]|select(. != "parameters")|"\(ascii_upcase) \($p)"' | sort)" \
    "$(awk '$1 ~ /^[A-Z]+$/ && $2 ~ /^\// {
        sub(/\.\.\.}/, "}", $2) # ANY is one operation, a GET with x-any-method
        count = split($1 == "ANY" ? "GET" : $1, methods, " ")
        for (i = 1; i <= count; i++) print methods[i], $2 }' "$WORK/routes" | sort -u)"
run 'true'
api GET /metrics
is 'metrics' "$STATUS" 200
like 'text' "$(header content-type)" '^text/plain'
like 'boxes by state and backend' "$BODY" "backend=\"$BACKEND\""
like 'calls' "$BODY" 'exec'
like 'a latency histogram' "$BODY" '_bucket\{[^}]*le="'
is 'every line is a sample or a comment' \
    "$(grep -vcE '^(#.*|[a-zA-Z_:][a-zA-Z0-9_:]*(\{[^}]*\})? [0-9.eE+-]+(Inf)?|[a-zA-Z_:][a-zA-Z0-9_:]*(\{[^}]*\})? '\
'(NaN|\+Inf))?$' "$WORK/body")" 0
api GET / '' -H 'Accept: text/html'
like 'the page or none' "$STATUS" '^(200|302|404)$'

# over TCP, without a token
port=
for _ in 1 2 3 4 5; do
    try=$((20000 + SRANDOM % 20000))
    "$program" --listen "127.0.0.1:$try" --state "$WORK/state2" --config "$WORK/config.yaml" --backend "$BACKEND" \
        > "$WORK/tcp.log" 2>&1 &
    tcp=$!
    # dead: somebody has that port
    tcp_answers() { [ ! -d "/proc/$tcp" ] || curl -sf --max-time 2 "http://127.0.0.1:$try/healthz"; }
    if eventually 10 tcp_answers && [ -d "/proc/$tcp" ]; then port=$try && break; fi
    kill "$tcp" 2> /dev/null
done
if [ -n "$port" ]; then
    is 'loopback acts as admin' "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/v1/boxes")" 200
    is 'a foreign Host is refused' \
        "$(curl -s -o /dev/null -w '%{http_code}' -H 'Host: evil.example' "http://127.0.0.1:$port/v1/boxes")" 403
    is 'a foreign Origin is refused' \
        "$(curl -s -o /dev/null -w '%{http_code}' -H 'Origin: https://evil.example' \
    "http://127.0.0.1:$port/v1/boxes")" 403
    # an idle keep-alive connection does not hold up the end
    exec {idle}<> "/dev/tcp/127.0.0.1/$port"
    now_ms; start=$NOW
    kill -TERM "$tcp"
    wait "$tcp"
    code=$?
    now_ms
    is 'it ends in order' "$code" 0
    between 'at once, whoever is idle' $((NOW - start)) 0 9000
    exec {idle}>&-
else fail 'a daemon on TCP' "$(tail -5 "$WORK/tcp.log")"; fi
for bad in 'nonsense' '127.0.0.1:99999' 'unix:' '127.0.0.1'; do
    timeout 10 "$program" --listen "$bad" --state "$WORK/state3" > "$WORK/bad.log" 2>&1
    code=$?
    like "--listen $bad is refused in words" "$code $(tail -1 "$WORK/bad.log")" '^(1|2|125) .+'
done
timeout 10 "$program" --nonsense > "$WORK/bad.log" 2>&1
is 'an unknown option: status 2' $? 2
timeout 10 "$program" --listen 0.0.0.0:0 --state "$WORK/state3" --config "$WORK/config.yaml" > "$WORK/wide.log" 2>&1 &
wide=$!
eventually 3 grep -qiE 'token|listen' "$WORK/wide.log"
like 'a wider listen demands tokens' "$(cat "$WORK/wide.log")" '[Tt]oken'
kill "$wide" 2> /dev/null
wait "$wide" 2> /dev/null
