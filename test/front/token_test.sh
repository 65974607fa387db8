#!/bin/bash
# Tokens made while running: `cubby token`, /v1/tokens, what each scope may do on every route, and what revoking ends.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
use_cubby
printf 'auth: required\npool_size: 1\n' > "$CONFIG"
DAEMON=$BUILD/asan/cubbyd
[ -x "$DAEMON" ] || DAEMON=$BUILD/cubbyd

with() { # with TOKEN METHOD PATH [BODY] [CURL OPTION...]
    api "$2" "$3" "${4-}" -H "Authorization: Bearer $1" "${@:5}"
}
new() { # new OPTION...: TOKEN, ID of a new one
    c token create --json "$@"
    TOKEN=$(jq -r .token <<< "$OUT") ID=$(jq -r .id <<< "$OUT")
}

# ---- the first one ----
ASAN_OPTIONS=exitcode=99 "$DAEMON" --listen "unix:$SOCKET" --state "$STATE" --config "$CONFIG" > "$WORK/none.log" 2>&1
is 'a daemon that demands tokens and has none does not start' $? 125
like 'and says which command makes the first' "$(< "$WORK/none.log")" "cubby token create --scope admin --state $STATE"
c token create --scope admin --state "$STATE" --label first
like 'that command works without a daemon' "$CODE $OUT" '^0 cubby_[0-9a-f]{64}$'
ADMIN=$OUT
is 'its file is closed to others' "$(stat -c '%a %u' "$STATE/tokens.db") $(stat -c %a "$STATE")" "600 $(id -u) 700"
not_ok 'and has no secret in it' grep -qF "${ADMIN#cubby_}" "$STATE/tokens.db"
start_or_end "$DAEMON"
c token list
is 'without a token nobody gets in' "$CODE" 4
export CUBBY_TOKEN=$ADMIN
c token list
like 'the first token opens the daemon' "$CODE $OUT" 'good +admin +- +- .* first$'

# ---- making ----
new --user ann --label $'agents of ann \e[31m' --expires 2
ANN=$TOKEN ANN_ID=$ID
is 'the id is the beginning of its SHA-256' "$ANN_ID" "$(printf %s "$ANN" | sha256sum | cut -c1-12)"
is 'scope user is the default' "$(jq -r '"\(.user) \(.scope) \(.runner)"' <<< "$OUT")" 'ann user null'
like 'it expires in two days' "$(($(date -d "$(jq -r .expires_at <<< "$OUT")" +%s) - $(date +%s)))" \
    '^1727(89|9[0-9])$|^172800$'
new
is "no options: the user 'default'" "$(jq -r '"\(.user) \(.scope)"' <<< "$OUT")" 'default user'
c token revoke "$ID"
new --user bob
BOB=$TOKEN
new --user ann --scope read
EYE=$TOKEN
new --runner machine-1
RUNNER=$TOKEN
is "a runner's" "$(jq -r '"\(.user) \(.scope) \(.runner)"' <<< "$OUT")" 'null runner machine-1'
c token list
unlike 'a label cannot disturb the terminal' "$OUT" $'\e'
for words in 'create --scope nonsense' 'create --scope admin --user x' 'create --scope user --runner m' \
    'create --scope runner' \
    'create --user a/b' 'create --runner ../m' 'revoke 000000000000'; do
    c token $words
    is "refused: $words" "$CODE" 125
done
for words in '' 'create x' 'revoke' 'revoke xyz' 'list --user ann' 'create --expires 99999999' \
    'list --state relative'; do
    c token $words
    is "wrong: token $words" "$CODE" 2
done
for body in '{"scope":"root"}' '{"user":""}' '{"expires_in_ms":0}' '{"expires_in_ms":-1}' \
    '{"label":"'"$(printf 'x%.0s' {1..257})"'"}' '{"sha256":"x"}' \
    '{"runner":"a b"}' '[]'; do
    with "$ADMIN" POST /v1/tokens "$body"
    is_error "refused: ${body:0:40}" 400 INVALID
done
with "$ADMIN" POST /v1/tokens '{"user":"carl"}'
is 'over HTTP' "$STATUS $(j .user) $(header cache-control)" '201 carl no-store'
with "$ADMIN" DELETE "/v1/tokens/$(j .id)"
is 'and gone' "$STATUS" 204
with "$ADMIN" GET /v1/tokens
not_ok 'no list shows a secret' grep -qF -e "${ANN#cubby_}" -e '"token"' -e '"sha256"' "$WORK/body"
is 'it shows who was here last' "$(j '[.tokens[] | select(.last_used_at)] | length')" 1
not_ok 'no log does' grep -qE 'cubby_[0-9a-f]{64}' "$WORK/daemon.log"
not_ok 'nor the audit log' sh -c "cat '$STATE'/audit.db* | grep -aqF -e '${ANN#cubby_}' -e '${BOB#cubby_}'"

# ---- scopes, on every route there is ----
with "$ANN" POST /v1/boxes '{"thread":"t"}'
BOX=$(j .id)
is "ann's box is ann's" "$STATUS $(j .user)" '201 ann'
READS='box_get box_list info audit process_list process_get process_output file_get file_stat file_list file_hash '\
'file_watch archive_get'
walked=0
denied() { # denied NAME: 403, in the shape of the route's door
    case $name in
    filesecbox_* | fsb2_*) is "$1" "$STATUS $(j .status)" '403 error' ;;
    aio_*) is "$1" "$STATUS $(j .success)" '403 false' ;;
    deerflow_health) is "$1: it is open" "$STATUS" 200 ;;
    deerflow_*) like "$1" "$STATUS $(j .detail)" '^403 .*token' ;;
    e2b_volume_stat | e2b_volume_change | e2b_volume_remove | e2b_volume_list | e2b_volume_mkdir | e2b_volume_read | \
        e2b_volume_write) like "$1: only the token of a volume opens it" "$STATUS $(j .code)" '^401 unauthorized$' ;;
    e2b_*) like "$1" "$STATUS $(j .code)" '^403 403$' ;;
    *) is_error "$1" 403 DENIED ;;
    esac
}
while IFS=$'\t' read -r method pattern name _; do
    path=$(sed -E "s/\{id\}/$BOX/; s/\{pid\}/1/; s/\{port\}/1/; s/\{[a-z]+\}/x/g; s/[*…]+$//" <<< "$pattern")
    [ "$method" != ANY ] || method=GET
    walked=$((walked + 1))
    case $path in /healthz | / | /openapi.json | /v1/login | /ui | /ui/*) continue ;; esac
    case $path in
    /runner/ws | /ws | /ws/*)
        with "$RUNNER" "$method" "$path"
        is_error "a runner's token may join there: $method $pattern" 400 INVALID 'needs a WebSocket'
        continue ;;
    esac
    with "$RUNNER" "$method" "$path"
    denied "a runner's token: $method $pattern"
    with "$EYE" "$method" "$path" '' --max-time 5
    case $pattern in
    /v1/tokens* | /v1/templates* | /v1/users | /v1/agents | */pty | */ports/* | \
        /v1/boxes/{id}/tools | /v1/threads/{thread}/tools)
        is_error "a reader's: $method $pattern" 403 DENIED ;;
    /v1/tickets) is_error "a reader's: $method $pattern, for downloads" 400 INVALID "'for' is missing" ;;
    */shell/terminal-url | */shell/ws | */v1/mcp | */v1/mcp/{server}/tools | */mcp | /api/*) denied "a reader's: "\
"$method $pattern" ;;
    *) if [ "$method" = GET ]; then unlike "a reader's may look: $method $pattern" \
        "$STATUS $(j '.error.message // .message // .detail')" '^403 .*only read'
        else denied "a reader's: $method $pattern"; fi ;;
    esac
    [[ $pattern =~ ^/v1/(tokens|templates|users|agents) ]] || continue
    with "$ANN" "$method" "$path" ''
    is_error "a user's: $method $pattern" 403 DENIED
done < <("$DAEMON" --routes)
between 'routes walked' "$walked" 30 400
with "$ANN" GET "/v1/boxes/$BOX"
is 'after all that the box is as it was' "$STATUS $(j .state)" '200 ready'

# ---- looking changes nothing, on every GET of every dialect ----
# Each is asked with what is there and with what is not, by a reader of one user and by one of all. GETs that do change
# something
# are refused to readers (above).
c token create --json --scope read
ALL=$(jq -r .token <<< "$OUT")
python3 -c 'import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as out: out.writestr("foo/SKILL.md", "# Foo\n")' "$WORK/foo.zip"
with "$ADMIN" POST '/v1/skills/ann/app/upload?scope=baseline' '' -F "file=@$WORK/foo.zip"
is 'a public skill' "$STATUS" 200
with "$ANN" PUT '/v1/sandbox/ann/used/edit?path=x' '' --data-binary text
is 'an agent with a box' "$STATUS" 200
with "$ANN" PUT "/v1/boxes/$BOX/files?path=x" '' --data-binary text
everything() { # what is there: boxes, records, layers, templates, rows
    with "$ADMIN" GET /v1/boxes
    j '.boxes | sort_by(.id)[] | "\(.id) \(.user) \(.thread) \(.agent) \(.state) \(.died) \(.labels)"'
    for path in /v1/registry /v1/mcp/servers /v1/machines /api/sandboxes; do
        with "$ADMIN" GET "$path"
        echo "$path $BODY"
    done
    (cd "$STATE" && find . ! -name 'audit.db*' ! -name '*-wal' ! -name '*-shm' ! -path './boxes/.slot-*' ! \
        -path './trash/*' -printf '%P %y %m %U\n' | sort
        find boxes skills -type f ! -name jail ! -path 'boxes/.slot-*' -exec sha256sum {} + | sort)
    sqlite3 "$STATE/skills.db" .dump
    sqlite3 "$STATE/tokens.db" 'SELECT count(*) FROM sqlite_master'
}
everything > "$WORK/before"
python3 - "$SOCKET" "$BOX" "$EYE" "$ALL" << 'END' > "$WORK/looked"
import http.client, itertools, json, re, socket, sys
at, box, *tokens = sys.argv[1:]
def ask(path, token):
    link = http.client.HTTPConnection('localhost')
    link.sock = socket.socket(socket.AF_UNIX)
    link.sock.settimeout(2)  # streams go on: their head is enough
    link.sock.connect(at)
    link.request('GET', path, headers={'Authorization': 'Bearer ' + token})
    try:
        return link.getresponse().status
    except socket.timeout:
        return 0
    finally:
        link.close()
filled = {'id': [box, 'ffffffffffffffff', '0badcafe'], 'user': ['ann', 'zed'], 'agent': ['app', 'used', 'none'],
          'skill': ['foo', 'none'], 'name': ['foo', 'none'], 'path': ['x', 'skills/foo/SKILL.md', 'files', 'SKILL.md']}
link = http.client.HTTPConnection('localhost')
link.sock = socket.socket(socket.AF_UNIX)
link.sock.connect(at)
link.request('GET', '/openapi.json')
asked, answered = 0, set()
for path, entry in json.loads(link.getresponse().read())['paths'].items():
    if 'get' not in entry or path == '/openapi.json':
        continue
    names = re.findall(r'{(\w+)}', path)
    needs = [p['name'] for p in entry['get'].get('parameters', []) if p['in'] == 'query' and p.get('required')]
    for words in itertools.product(*[filled.get(name, ['1', 'none']) for name in names + needs]):
        target = path
        for name, word in zip(names, words):
            target = target.replace('{%s}' % name, word, 1)
        target += '?' * bool(needs) + '&'.join('%s=%s' % pair for pair in zip(needs, words[len(names):]))
        for token in tokens:
            asked += 1
            if ask(target, token) == 200:
                answered.add(path)
print(asked, len(answered), *sorted(answered))
END
everything > "$WORK/after"
read -r asked answered _ < "$WORK/looked"
between 'readers looked at everything there is' "${asked:-0}" 500 5000
between 'and were shown much of it' "${answered:-0}" 25 200
is 'looking changed nothing: no box, no record, no file, no row' "$(diff "$WORK/before" "$WORK/after")" ''
with "$BOB" GET "/v1/boxes/$BOX"
is_error "others' tokens do not see it" 404 NOT_FOUND

# ---- the command line ----
CUBBY_TOKEN=$EYE c exec "$BOX" -- true
is "exec with a token that may only read is our failure, not the program's" "$CODE $ERR" \
    '125 cubby: this token may only read'
CUBBY_TOKEN=$ANN c exec "$BOX" -- /etc/passwd
is "exec of what may not be executed is the program's" "$CODE" 126
CUBBY_TOKEN=cubby_wrong c ps
is 'an unknown token' "$CODE $ERR" \
    '4 cubby: unknown or revoked token; check CUBBY_TOKEN (an administrator makes one with `cubby token create`)'
CUBBY_TOKEN='' c ps
is 'none' "$CODE $ERR" \
    '4 cubby: the daemon requires a token; set CUBBY_TOKEN (an administrator makes one with `cubby token create`)'

# ---- revoking ----
B=/v1/boxes/$BOX
# One connection, one revocation between two requests.
coproc CONNECTION { exec "$TOOL" talk "$SOCKET"; }
say() { # say: one request on the open connection; SAID is the status
    printf 'GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n' "$B" "$ANN" >&"${CONNECTION[1]}"
    SAID=
    read -r -t 60 SAID <&"${CONNECTION[0]}"
}
say
is 'a connection is open' "$SAID" 200
# Streams and terminals of the same token.
curl -sSN --unix-socket "$SOCKET" -H "Authorization: Bearer $ANN" -H 'Accept: text/event-stream' \
    -d '{"command":"echo begun; sleep 1000"}' \
    "http://localhost$B/exec" > "$WORK/exec" 2> "$WORK/exec.err" & exec_pid=$!
curl -sSN --unix-socket "$SOCKET" -H "Authorization: Bearer $ANN" "http://localhost$B/watch" > "$WORK/watch" \
    2> "$WORK/watch.err" & watch_pid=$!
curl -sS --unix-socket "$SOCKET" -H "Authorization: Bearer $ANN" -d '{"command":"sleep 1000"}' \
    "http://localhost$B/exec" > "$WORK/whole" 2>&1 & whole_pid=$!
curl -sS --unix-socket "$SOCKET" -H "Authorization: Bearer $ANN" \
    "http://localhost/v1/audit?after=999999999&wait_ms=300000" > "$WORK/wait" 2>&1 & wait_pid=$!
printf 'expect $ \nwait\n' | TOKEN=$ANN "$TOOL" ws "$SOCKET" "$B/pty?command=$(encode "printf '\$ '; sleep 1000")" \
    > "$WORK/pty" 2>&1 & pty_pid=$!
begun() { grep -q begun "$WORK/exec" && grep -q ready "$WORK/watch" && grep -q seen "$WORK/pty"; }
ok 'streams run' eventually 20 begun
sleepers() { # how many sleeps of ours run in the box
    with "$ADMIN" POST "$B/exec" '{"argv":["sh","-c","grep -lsz ^1000$ /proc/[0-9]*/cmdline | wc -l"]}'
    j .stdout
}
three() { [ "$(sleepers)" = 3 ]; }
ok 'and their commands' eventually 10 three
now_ms; start=$NOW
c token revoke "$ANN_ID"
is 'revoke' "$CODE $OUT" '0 '
with "$ANN" GET "$B"
is_error 'a revoked token is not known' 401 UNAUTHORIZED
revoked=$BODY
with cubby_0000000000000000000000000000000000000000000000000000000000000000 GET "$B"
is 'just as one that never was' "$BODY" "$revoked"
say
is 'nor on the connection that was open' "$SAID" 401
for pid in $exec_pid $watch_pid $whole_pid $wait_pid $pty_pid; do
    eventually 10 test ! -e "/proc/$pid" || fail 'a stream of a revoked token ends' \
        "$(tr '\0' ' ' < "/proc/$pid/cmdline")"
done
now_ms
between 'all its streams end within seconds' $((NOW - start)) 0 30000
like 'the terminal was cut off' "$(tail -1 "$WORK/pty")" '^closed [0-9]+$'
one() { [ "$(sleepers)" = 1 ]; }
ok 'its commands have ended; the terminal lives on for other tokens of its user' eventually 10 one
exec {CONNECTION[1]}>&-
c token revoke "$ANN_ID"
is 'revoking again is fine' "$CODE" 0
c token list
like 'it is listed as revoked' "$OUT" "$ANN_ID  revoked"
with "$EYE" GET "$B"
is "others of the user's go on" "$STATUS" 200
c audit --verb token_revoke --json
is 'the audit log tells who was revoked' "$(jq -r .detail <<< "$OUT" | grep -c "token=$ANN_ID")" 2
# one's own
new --scope admin
with "$TOKEN" DELETE "/v1/tokens/$ID"
is 'who revokes his own token is answered' "$STATUS" 204
with "$TOKEN" GET /v1/boxes
is_error 'for the last time' 401 UNAUTHORIZED

# ---- another process ----
new_here() { # new_here TOKEN: it opens the daemon
    with "$1" GET /v1/boxes
    [ "$STATUS" = 200 ]
}
gone_here() { with "$1" GET /v1/boxes && [ "$STATUS" = 401 ]; }
now_ms; start=$NOW
new --user dora --state "$STATE"
ok 'what is made beside the daemon is known' eventually 5 new_here "$TOKEN"
curl -sSN --unix-socket "$SOCKET" -H "Authorization: Bearer $EYE" "http://localhost$B/watch" > "$WORK/watch" 2>&1 \
    & watch_pid=$!
eventually 10 grep -q ready "$WORK/watch"
c token revoke "$ID" --state "$STATE"
ok 'and what is revoked there is not' eventually 2 gone_here "$TOKEN"
eye=$(printf %s "$EYE" | sha256sum | cut -c1-12)
now_ms; start=$NOW
c token revoke "$eye" --state "$STATE"
eventually 10 test ! -e "/proc/$watch_pid"
now_ms
between 'with its streams' $((NOW - start)) 0 30000
# a second daemon on the same state
second=$WORK/other
"$DAEMON" --listen "unix:$second" --state "$STATE" --config "$CONFIG" < /dev/null >> "$WORK/daemon.log" 2>&1 \
    & other_pid=$!
other() { curl -s -o /dev/null -w '%{http_code}' --unix-socket "$second" -H "Authorization: Bearer $1" \
    http://localhost/v1/boxes; }
other_is() { [ "$(other "$1")" = "$2" ]; }
ok 'two daemons share them' eventually 20 other_is "$ADMIN" 200
new --user eve
ok 'made at one, known at the other' eventually 2 other_is "$TOKEN" 200
c token revoke "$ID"
ok 'revoked at one, refused at the other' eventually 2 other_is "$TOKEN" 401
kill -TERM "$other_pid"
wait "$other_pid"
is 'it ends in order' $? 0
# time
with "$ADMIN" POST /v1/tokens '{"user":"fay","expires_in_ms":1500}'
FAY=$(j .token)
with "$FAY" GET /v1/boxes
is 'one that expires works until then' "$STATUS" 200
curl -sS --unix-socket "$SOCKET" -H "Authorization: Bearer $FAY" \
    "http://localhost/v1/audit?after=999999999&wait_ms=300000" > "$WORK/wait" 2>&1 & wait_pid=$!
ok 'and no longer' eventually 5 gone_here "$FAY"
ok 'with what it has open' eventually 5 test ! -e "/proc/$wait_pid"
# damage
cp "$STATE/tokens.db" "$WORK/tokens.db"
rm "$STATE/tokens.db"
ok 'without the file its tokens are not known' eventually 5 gone_here "$ADMIN"
mv "$WORK/tokens.db" "$STATE/tokens.db"
ok 'with it they are again' eventually 5 new_here "$ADMIN"
chmod 644 "$STATE/tokens.db"
c token list --state "$STATE"
is 'a file that others can read is refused' "$CODE" 125
chmod 600 "$STATE/tokens.db"

with "$ADMIN" DELETE "$B"
is 'the box goes' "$STATUS" 204
kill -TERM "$DAEMON_PID"
wait "$DAEMON_PID"
is 'the daemon ends in order' $? 0
DAEMON_PID=
unlike 'the sanitizers are silent' "$(< "$WORK/daemon.log")" 'Sanitizer|runtime error:'
c token list --state "$STATE" --json
is 'when each was used outlives it' "$(jq -r '.tokens[0] | "\(.label) \(.last_used_at != null)"' <<< "$OUT")" \
    'first true'
finish
