# Secrets of one call: in its command's environment and nowhere else; [redacted] in whatever comes back or is kept. The
# variables that no tool's command gets.
# by default: jail local

TOKEN=tok-4f9c2d71e8
with() { # with TOOL SECRETS ARGUMENTS: a call with secrets
    tool "$1" "{\"_meta\":{\"secrets\":$2},$3}"
}

with bash "{\"API_TOKEN\":\"$TOKEN\"}" \
    '"command":"printf %s \"$API_TOKEN\" | tr a-z A-Z; echo; echo \"got $API_TOKEN.\""'
tool_is 'the command has it, the answer has not' $'TOK-4F9C2D71E8\ngot [redacted].\n'
tool bash '{"command":"echo \"[$API_TOKEN]\"; env | grep -c TOKEN"}'
tool_is 'the next command has it no more' $'[]\n0\n\nExit Code: 1'
with bash "{\"T\":\"$TOKEN\"}" '"command":"echo \"$T\" >&2; exit 1"'
tool_is 'nor in its errors' $'[redacted]\n\nExit Code: 1'
with bash "{\"T\":\"$TOKEN\"}" \
    '"command":"for c in $(echo \"$T\" | sed \"s/./& /g\"); do printf %s \"$c\"; sleep 0.02; done"'
tool_is 'however it is cut into pieces' '[redacted]'
with bash "{\"T\":\"$TOKEN\"}" "\"command\":\"echo $TOKEN\""
tool_is 'also where the model typed it' $'[redacted]\n'
with bash '{"A":"abcdef","B":"defghi","C":"abcdefgh"}' '"command":"echo xabcdefghix abcdef defghi"'
tool_is 'values that overlap' $'x[redacted]x [redacted] [redacted]\n'
with bash '{"KEY":"line one\nline \"two\"\n"}' '"command":"echo \"$KEY\"; printf %s \"$KEY\" | jq -Rs ."'
if [ -x /usr/bin/jq ]; then tool_is 'of several lines, bare and in JSON' $'[redacted]\n"[redacted]"\n'; else
    skip 'of several lines, bare and in JSON' 'no jq in the box'; fi
with bash "{\"T\":\"$TOKEN\"}" "\"command\":\"true\",\"cwd\":\"$TOKEN\""
tool_fails 'in an error' "Error: no directory '/workspace/[redacted]' to run the command in"
with ls "{\"T\":\"$TOKEN\"}" "\"path\":\"$TOKEN\""
unlike 'of another tool too' "$TEXT" "$TOKEN"
run 'mkdir directory-77'
with cd '{"T":"directory-77"}' '"path":"directory-77"'
is 'and in the structured result' "$(j .structured.cwd)" '/workspace/[redacted]'
tool cd '{}'

# ---- in the background ----

with bash_background "{\"T\":\"$TOKEN\"}" "\"command\":\"echo a $TOKEN; echo \$T; echo \$T >&2\""
PID=$(j .structured.pid)
unlike 'a command in the background is told without it' "$TEXT" "$TOKEN"
tool bash_output "{\"pid\":$PID,\"wait_ms\":20000,\"until_exit\":true}"
like 'and shown so by a later call that has no secrets' "$TEXT" \
    $'^a \\[redacted\\]\n\\[redacted\\]\n\nStd Error:\n\\[redacted\\]\n'
api GET "$B/processes/$PID"
is 'nor do lists show it' "$(j .command)" 'echo a [redacted]; echo $T; echo $T >&2'
api GET "$B/processes/$PID/output"
is 'nor the raw output' "$BODY" $'a [redacted]\n[redacted]'

# ---- kept, logged ----

with bash "{\"T\":\"$TOKEN\"}" \
    "\"command\":\": xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx$TOKEN; yes \$T | head "\
"-100000\""
id=$(sed -n 's/.*\[offload:\([^]]*\)\].*/\1/p' <<< "$TEXT" | head -1)
isnt 'a long result is kept' "$id" ''
unlike 'without it' "$TEXT" 'tok-'
tool recall "{\"id\":\"$id\",\"pattern\":\"tok-\"}"
unlike 'also where it lies' "$TEXT" 'tok-4'
ok 'nowhere on the disk' eval '! grep -rqs "$TOKEN" "$STATE/offload" "$STATE"/tools.db*'
if [ "$BACKEND" = jail ]; then
    audited() { api GET "/v1/audit?limit=1000" && [[ $(j '[.events[].detail // ""] | join("\n")') = \
        *"[redacted]; yes"* ]]; }
    ok 'the audit log has the command' eventually 5 audited
    unlike 'without it, too' "$BODY" 'tok-4'
    tag_new
    curl -sS --max-time 60 --unix-socket "$SOCKET" -o /dev/null \
        -d "{\"_meta\":{\"secrets\":{\"T\":\"$TOKEN\"}},\"command\":\"sleep $TAG # $TOKEN\"}" \
    "http://localhost$B/tools/bash" 2> /dev/null &
    waiter=$!
    lasts() { api GET "/v1/audit?limit=1000" && [ "$(j '[.events[]|select(.outcome=="running")][-1].detail')" = \
        "bash sleep $TAG # [redacted]" ]; }
    ok 'one that lasts is there before it ends, just so' eventually 10 lasts
    kill "$waiter"
else
    skip 'the audit log has the command' 'seen on backend jail'
fi
unlike 'and so has the daemons log' "$(< "$WORK/daemon.log")" 'tok-4'

# ---- mistakes ----

with bash '{"T":"abc"}' '"command":"true"'
tool_fails 'one too short to be hidden' \
    'Error: the secret T has less than 4 bytes and could not be hidden in the output'
with bash '{"T":""}' '"command":"echo \"[$T]\""'
tool_is 'an empty one has nothing to hide' $'[]\n'
with bash "{\"A B\":\"$TOKEN\"}" '"command":"true"'
tool_fails 'a name that is none' "Error: a secret's name must be a variable name: letters, digits and _"
with bash "[\"$TOKEN\"]" '"command":"true"'
tool_fails 'no names' "Error: _meta: 'secrets' must be an object of strings, not an array"
tool bash '{"_meta":{"secret":{}},"command":"true"}'
tool_fails 'an unknown word in _meta' "Error: _meta: unknown field 'secret'; known: secrets"
with bash "{$(for i in {1..65}; do printf '"S%d":"value-%d",' $i $i; done | sed 's/,$//')}" '"command":"true"'
tool_fails 'too many' "Error: _meta: 'secrets' holds more than 64 entries"
with bash "{\"BIG\":\"$(head -c 70000 /dev/zero | tr '\0' x)\"}" '"command":"true"'
tool_fails 'too much' 'Error: a call may have at most 64 secrets, of 65536 bytes in all'

# ---- variables that no command gets ----

box_new '"env":{"KUBERNETES_SERVICE_HOST":"10.0.0.1","SERVICE_X":"1","SECRET_THING":"shh!","KEPT":"yes"}'
tool bash '{"command":"env | grep -E \"KUBE|SERVICE|SECRET|KEPT\" | sort"}'
tool_is 'variables of the box with certain beginnings are left out' $'KEPT=yes\n'
tool bash_background '{"command":"env | grep -cE \"^(KUBE|SERVICE|SECRET)\""}'
tool bash_output "{\"pid\":$(j .structured.pid),\"wait_ms\":20000,\"until_exit\":true}"
like 'in the background too' "$TEXT" '^0'
with bash "{\"SECRET_TOKEN\":\"$TOKEN\"}" '"command":"test -n \"$SECRET_TOKEN\" && echo there"'
tool_is 'what the call itself brings is not' $'there\n'
run 'echo $SECRET_THING'
is 'nor are other commands concerned' "$OUT" 'shh!'
