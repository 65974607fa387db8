# Secrets given to a box or to the daemon, looked for wherever they must not be: the audit log and its journal, the
# daemon's
# log, metrics, error texts, the command lines and environments of processes, core files.
# wall: the audit log records only rows marked as told, with the values of every environment replaced; 0600 files in a
# 0700 directory; processes of other uids that nobody may trace
# box: "env":{"BOX_KEY":"sEcReT-box-5f1c"},"user":"holder","thread":"secrets"
# config: env: [CONF_KEY=sEcReT-conf-77aa]
# config: tokens: [{token: sEcReT-admin-token-0123, scope: admin}, {token: sEcReT-holder-token-0123, scope: user, user: holder}]

# Every secret has this in it, so one search finds all of them; each is unique, so that the finding tells which.
mark=sEcReT-
plant() { printf '%s%s' "$mark" "$1"; }
token=(-H "Authorization: Bearer $(plant admin-token-0123)")

# ---- through every field of every route ----

secret_routes() { # what is sent; the values stand in no command and no path but where that is said
    api POST "$B/exec" "{\"command\":\"cat; env | grep -c KEY\",\"env\":{\"REQ_KEY\":\"$(plant \
        req-env)\"},\"stdin\":\"$(plant stdin)\"}"
    api POST "$B/exec" "{\"argv\":[\"cat\"],\"stdin_base64\":\"$(plant stdin64 | base64)\"}"
    api POST "$B/exec" "{\"command\":\"true\",\"env\":{\"REQ_KEY\":\"$(plant req-sse)\"}}" \
        -H 'Accept: text/event-stream'
    # values of the box's, the request's and the configuration's variables, and the caller's token, as text of a command
    api POST "$B/exec" "{\"command\":\"echo $(plant box-5f1c) $(plant conf-77aa) $(plant req-cmd) $(plant \
        admin-token-0123)\",\"env\":{\"REQ_KEY\":\"$(plant req-cmd)\"}}" "${token[@]}"
    api POST "$B/exec" "{\"argv\":[\"echo\",\"--key=$(plant box-5f1c)\",\"two words\"],\"env\":{\"TWO\":\"$(plant \
        box-5f1c) two\"}}"
    api POST "$B/exec" "{\"command\":\"true\",\"cwd\":\"/tmp/$(plant box-5f1c)\"}"
    api POST "$B/processes" "{\"command\":\"exec sleep $TAG\",\"env\":{\"BG_KEY\":\"$(plant bg-env)\"}}"
    pid=$(j .pid)
    api POST "$B/processes" "{\"command\":\"read x\",\"stdin\":\"$(plant bg-stdin)\"}"
    api POST "$B/processes/$pid/stdin" '' --data-binary "$(plant fed)"
    put file "$(plant content)"
    api PUT "$B/files?path=f-$(plant conf-77aa)" '' --data-binary "$(plant content2)" \
        -H 'Content-Type: application/octet-stream'
    api GET "$B/files?path=f-$(plant box-5f1c)"
    api GET "$B/files?path=file" '' -H "If-None-Match: \"$(plant etag)\"" -H "Cookie: $(plant cookie)" \
        -H "X-Api-Key: $(plant header)"
    api POST "$B/edit" "{\"path\":\"file\",\"old\":\"$(plant content)\",\"new\":\"$(plant edited)\"}"
    api POST "$B/edit" "{\"path\":\"file\",\"old\":\"$(plant not-there)\",\"new\":\"x\"}"
    api POST "$B/grep" "{\"pattern\":\"$(plant pattern)\"}"
    api POST "$B/move" "{\"from\":\"file\",\"to\":\"moved-$(plant box-5f1c)\"}"
    api POST "$B/mkdir" "{\"path\":\"dir-$(plant conf-77aa)\"}"
    api POST "$B/glob" "{\"pattern\":\"*$(plant box-5f1c)*\"}"
    printf '%s' "$(plant packed)" > "$WORK/packed"
    tar -C "$WORK" -cf "$WORK/packed.tar" packed
    api PUT "$B/archive?path=." '' --data-binary "@$WORK/packed.tar" -H 'Content-Type: application/x-tar'
    api POST /v1/boxes "{\"env\":{\"K\":\"$(plant other-env)\"},\"labels\":{\"l\":\"$(plant \
        label)\"},\"thread\":\"t-$(plant other-env)\",\"user\":\"holder\"}"
    OTHER=$(j .id)
}

# What is refused: the sentence goes to the client and into no log. Each names what is wrong without the value.
ERRORS=
secret_refusals() {
    local body
    for body in "{\"command\":\"true\",\"env\":{\"A\":\"$(plant err-nul)\\u0000\"}}" \
        "{\"command\":\"true\",\"env\":[\"A=$(plant err-list)\"]}" \
        "{\"command\":\"true\",\"stdin\":\"$(plant err-both)\",\"stdin_base64\":\"eA==\"}" \
        "{\"command\":\"true\",\"stdin_base64\":\"!$(plant err-base64)\"}" \
        "{\"command\":\"true\",\"timeout_ms\":0,\"env\":{\"A\":\"$(plant err-later)\"}}" \
        "{\"argv\":[],\"env\":{\"A\":\"$(plant err-argv)\"}}" \
        "{\"command\":\"true\",\"user\":\"nobody\",\"stdin\":\"$(plant err-user)\"}"; do
        api POST "$B/exec" "$body"
        [ "$STATUS" = 400 ] || fail 'it is refused' "$STATUS $body"
        ERRORS+=$BODY
    done
    api POST /v1/boxes "{\"env\":{\"A\":\"$(plant err-box)\"},\"backend\":\"none\"}"
    ERRORS+=$BODY
    api POST /v1/boxes "{\"env\":{\"A\":\"$(plant err-mount)\"},\"mounts\":[{\"source\":\"/etc\",\"target\":\"/x\"}]}"
    ERRORS+=$BODY
    api GET "$B" '' -H "Authorization: Bearer $(plant wrong-token)"
    ERRORS+=$BODY
    api GET "$B" '' -H "Authorization: Basic $(plant basic)"
    ERRORS+=$BODY
    api POST "$B/nothing?key=$(plant query)" "{\"a\":\"$(plant nowhere)\"}"
    api POST "$B/exec" '{"command":"no-such-command-x"}'
    ERRORS+=$BODY
}

tag_new
secret_routes
is 'the routes were used' "$STATUS" 201
secret_refusals

# ---- where they are not ----

found_in() { grep -rahoE "$mark[A-Za-z0-9_-]*" "$@" 2> /dev/null | sort -u | tr '\n' ' '; }
audited() { api GET '/v1/audit?limit=1000' && [[ $BODY = *no-such-command-x* ]]; } # the last one
eventually 5 audited
cp "$WORK/body" "$WORK/audit.json"
between 'control: the requests are in the audit log' \
    "$(jq '[.events[]|select(.user=="holder")]|length' "$WORK/audit.json")" 20 100
is 'control: with names instead of values' \
    "$(jq -r '[.events[].detail//empty|select(startswith("echo ["))][0]' "$WORK/audit.json")" \
    'echo [BOX_KEY] [CONF_KEY] [REQ_KEY] [token]'
is 'control: also across arguments' \
    "$(jq -r '[.events[].detail//empty|select(startswith("argv=echo"))][0]' "$WORK/audit.json")" \
    'argv=echo --key=[TWO] words'
is 'control: and in paths' "$(jq -r '[.events[]|select(.verb=="file_mkdir")][0].detail' "$WORK/audit.json")" \
    'dir-[CONF_KEY]'
is 'no value is in GET /v1/audit' "$(found_in "$WORK/audit.json")" ''
api GET /metrics
is 'nor in the metrics' "$(found_in "$WORK/body")" ''
is 'nor in error answers' "$(grep -oE "$mark[a-z0-9-]*" <<< "$ERRORS" | sort -u | tr '\n' ' ')" ''
api GET /v1/info
is 'nor in what the daemon tells about itself' "$(found_in "$WORK/body")" ''
is "nor in the daemon's log" "$(found_in "$WORK/daemon.log")" ''
ok 'control: the log has the requests' grep -q "POST /v1/boxes/$BOX/exec 200" "$WORK/daemon.log"
api GET /v1/audit/verify
is 'control: the journal is written' "$(j .intact)" true
is 'nor in the data base and its journal' "$(found_in "$STATE"/audit.db*)" ''
ok 'control: the commands are there' grep -qa 'no-such-command-x' "$STATE"/audit.db "$STATE"/audit.db-wal

# The record of a box has its environment, because a box that is started again needs it; nothing else below the state
# has.
is 'the record is its owner'"'"'s alone' "$(stat -c '%a %u' "$STATE/boxes/$BOX/box.json")" "600 $(id -u)"
is 'in a directory that is' "$(stat -c %a "$STATE") $(stat -c %a "$STATE/boxes")" '700 700'
is 'control: it has the box'"'"'s' "$(found_in "$STATE/boxes/$BOX/box.json")" "$(plant box-5f1c) $(plant conf-77aa) "
is 'beside it, nothing of the state has any' \
    "$(find "$STATE" -xdev -type f ! -name box.json ! -path '*/fs*' -print0 |
    xargs -0 grep -laE "$mark" 2> /dev/null)" ''

# ---- processes ----

alive() { tag_alive; }
eventually 5 alive
sleeper=$(grep -slzx "[${TAG:0:1}]${TAG:1}" /proc/[0-9]*/cmdline | head -1 | cut -d/ -f3)
is 'control: the command has its variables' \
    "$(tr '\0' '\n' < "/proc/$sleeper/environ" | grep -E "^(BG|BOX|CONF)_KEY=" | sort | tr '\n' ' ')" \
    "BG_KEY=$(plant bg-env) BOX_KEY=$(plant box-5f1c) CONF_KEY=$(plant conf-77aa) "
runner=$(awk '/^PPid/ { print $2 }' "/proc/$sleeper/status")
like 'control: its parent is the runner' "$(tr '\0' ' ' < "/proc/$runner/cmdline")" '^cubby-runner'
is 'the runner has none' "$(found_in "/proc/$runner/environ" "/proc/$runner/cmdline")" ''
is 'nor has any command line of the machine' \
    "$(cat /proc/[0-9]*/cmdline 2> /dev/null | tr '\0' '\n' | grep -a 's[E]cReT-' | sort -u)" ''
is 'nor the environment of the daemon' "$(found_in "/proc/$DAEMON_PID/environ")" ''
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@" 2>&1; }
if [ "$(id -u)" = 0 ]; then
    like 'another user may not read the environment' "$(as_nobody cat "/proc/$sleeper/environ")" 'Permission denied'
    like 'nor the record' "$(as_nobody cat "$STATE/boxes/$BOX/box.json")" 'Permission denied'
    like 'nor the audit log' "$(as_nobody cat "$STATE/audit.db")" 'Permission denied'
else skip 'as another user' 'not root'; fi
run 'cat /proc/1/environ /proc/1/cmdline | tr "\0" "\n"; ulimit -Hc'
like 'inside, the runner shows none to agent' "$OUT$ERR" 'Permission denied|^cubby-runner'
is 'not one' "$(grep -oE "$mark[a-z0-9-]*" <<< "$OUT$ERR")" ''
like 'and no core file is written' "$OUT" $'(^|\n)0$'
run 'cat /proc/1/environ | tr "\0" "\n"' '"user":"root"'
is 'nor to root of the box' "$(grep -oE "$mark[a-z0-9-]*" <<< "$OUT$ERR")" ''

# ---- afterwards ----

api DELETE "/v1/boxes/$OTHER"
api DELETE "$B"
is 'the box goes' "$STATUS" 204
GONE=1
left() { grep -rlaE "$mark" "$STATE" 2> /dev/null | grep -vF "/boxes/$NEIGHBOUR/"; } # who has the configuration's, too
nothing_left() { [ -z "$(left)" ]; }
ok 'with it every value goes' eventually 10 nothing_left
