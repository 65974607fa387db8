# Secrets that boxes use and never have: stored sealed, bound by name, a placeholder in a variable.
# backends: jail local
# by default: jail

VALUE=ghp_0123456789abcdefghijklmnopqrstuvwxyzAB
use_cubby

# ---- storing ----
c secret create hub --host api.hub.test --env HUB_TOKEN < /dev/null
is 'no value on standard input is refused' "$CODE" 2
printf %s "$VALUE" > "$WORK/value"
INPUT=$WORK/value c secret create hub --host api.hub.test --env HUB_TOKEN
is 'a secret is made from standard input' "$CODE $ERR" '0 '
INPUT=$WORK/value c secret create hub --host api.hub.test
like 'a name that is taken is refused' "$ERR" 'already'
api GET /v1/secrets/hub
is 'it is shown' "$(j '.name, .hosts[0], .env, .source, .version' | tr '\n' ' ')" 'hub api.hub.test HUB_TOKEN stored 1 '
unlike 'without its value' "$BODY" "$VALUE"
like 'with a digest of 4 bytes' "$(j .digest)" '^[0-9a-f]{8}$'
first=$(j .digest)
api GET /v1/secrets
is 'and listed' "$(j '.secrets | length')" 1
c secret ls
like 'cubby secret ls shows it' "$OUT" 'hub.*api.hub.test'
unlike 'without the value' "$OUT$ERR" "$VALUE"

ok 'the files are for the daemon alone' test "$(stat -c %a "$STATE/secrets.db" "$STATE/secrets.key" | sort -u)" = 600
not_ok 'the value is in no file of the state directory' grep -rqsF "$VALUE" "$STATE"

# ---- what is refused ----
refused() { # refused NAME STATUS BODY REGEX
    api PUT /v1/secrets/bad "$3"
    is "$1: status" "$STATUS" "$2"
    like "$1: why" "$(j .error.message)" "$4"
}
refused 'a value with CR' 400 '{"hosts":["a.test"],"value":"12345678\r90"}' 'byte 9 is a carriage return'
refused 'a value with LF' 400 '{"hosts":["a.test"],"value":"12345678\n"}' 'byte 9 is a line feed'
refused 'a value with NUL' 400 '{"hosts":["a.test"],"value":"1234\u00005678"}' 'NUL|zero|null'
refused 'an empty value' 400 '{"hosts":["a.test"],"value":""}' 'empty'
refused 'three bytes' 400 '{"hosts":["a.test"],"value":"abc"}' 'too short'
refused '64 KiB' 413 "{\"hosts\":[\"a.test\"],\"value\":\"$(head -c 65536 /dev/zero | tr '\0' x)\"}" '8192'
refused 'text that is not ASCII' 400 '{"hosts":["a.test"],"value":"geheim-ä-wort"}' 'visible ASCII'
printf '{"hosts":["a.test"],"value":"abcdefgh\xff\xfe"}' > "$WORK/latin"
refused 'bytes that are not UTF-8' 400 "@$WORK/latin" 'UTF-8|utf-8|decode'
refused 'no host' 400 '{"value":"12345678"}' 'hosts'
refused 'a host in capitals' 400 '{"hosts":["API.test"],"value":"12345678"}' 'lower case'
refused 'an address' 400 '{"hosts":["10.0.0.1"],"value":"12345678"}' 'not a host name'
refused 'a star without wide' 400 '{"hosts":["*.hub.test"],"value":"12345678"}' 'wide'
refused 'an unknown slot' 400 '{"hosts":["a.test"],"value":"12345678","slots":["body"]}' 'slots'
refused 'two sources' 400 '{"hosts":["a.test"],"from":{"file":"/x","env":"Y"}}' 'not several'
refused 'a value and a source' 400 '{"hosts":["a.test"],"value":"12345678","from":{"env":"Y"}}' 'not both'
refused 'a command that is not listed' 403 \
    '{"hosts":["a.test"],"from":{"command":["cat","/etc/shadow"]}}' 'secret_commands'
api PUT '/v1/secrets/bad%20name' '{"hosts":["a.test"],"value":"12345678"}'
is 'a name with a space' "$STATUS" 400
api GET /v1/secrets/bad
is_error 'nothing was stored' 404 NOT_FOUND

# ---- in a box ----
box_new '"secrets":["hub"]'
api GET "$B/secrets"
placeholder=$(j '.secrets[0].placeholder')
is 'a box has it by its variable' "$(j '.secrets[0].name, .secrets[0].env' | tr '\n' ' ')" 'hub HUB_TOKEN '
is 'the placeholder is as long as the value' "${#placeholder}" "${#VALUE}"
like 'and has its prefix and the mark' "$placeholder" '^ghp_cubbyX[A-Za-z0-9]{32}$'
run 'printf %s "$HUB_TOKEN"'
is 'commands find the placeholder' "$(j .stdout)" "$placeholder"
api POST "$B/exec" '{"command":"printf %s $HUB_TOKEN","env":{"HUB_TOKEN":"own"}}'
is "a call's own variable wins" "$(j .stdout)" own
api POST "$B/processes" '{"command":"printf %s \"$HUB_TOKEN\""}'
pid=$(j .pid)
api GET "$B/processes/$pid/output?wait_ms=5000"
is 'background processes have it too' "$BODY" "$placeholder"
api POST "$B/sessions" '{"name":"s"}'
api POST "$B/sessions/s/exec" '{"command":"printf %s \"$HUB_TOKEN\""}'
like 'and sessions' "$BODY" "$placeholder"

if [ "$BACKEND" = jail ]; then
    run 'env | grep -c =/run/cubby/; cat /run/cubby/ca.pem; tail -n +1 /etc/ssl/certs/ca-certificates.crt | tail -c 300'
    is 'programs find the authority by their variables' "${OUT%%$'\n'*}" 19
    ca=$(sed -n 8p "$STATE/gate/ca.pem")
    is 'which is in the file, and in the bundle' "$(grep -cF -- "$ca" <<< "$OUT")" 2
    run 'echo x >> /etc/ssl/certs/ca-certificates.crt || echo x >> /run/cubby/ca.pem'
    isnt 'and cannot be changed' "$CODE" 0
    is 'the key of the authority is for the daemon alone' "$(stat -c %a "$STATE/gate/ca.key")" 600
    with=$BOX
    box_new
    run 'env | grep -c =/run/cubby/; ls /run/cubby'
    is 'a box without secrets has none of it' "${OUT%%$'\n'*} $CODE" '0 2'
    c secret bind "$BOX" hub
    run 'env | grep -c =/run/cubby/; cat /run/cubby/ca.pem'
    is 'until the first is bound, while it runs' "${OUT%%$'\n'*} $CODE" '19 0'
    api DELETE "$B"
    box_use "$with"
fi
c secret bind "$BOX" hub=OTHER
is 'another variable for it' "$CODE" 0
run 'printf "%s %s" "$OTHER" "${HUB_TOKEN-gone}"'
is 'holds for commands from then on, with the same placeholder' "$(j .stdout)" "$placeholder gone"
INPUT=$WORK/value c secret set second --host two.hub.test
c secret bind "$BOX" second
run 'echo ${#SECOND}'
is 'a second one, bound while the box runs' "$(j .stdout)" "$((${#VALUE}))"
c secret list "$BOX"
like 'the list of a box' "$OUT" 'hub +OTHER +ghp_cubbyX'
c secret unbind "$BOX" second
run 'echo "${SECOND-gone}"'
is 'and taken away' "$(j .stdout)" gone
c secret unbind "$BOX" second
is 'twice is an error' "$CODE" 125
api POST /v1/boxes '{"secrets":["nothing"]}'
is_error 'a box with a secret that does not exist' 404 NOT_FOUND
api POST /v1/boxes '{"secrets":["hub","hub=X"]}'
is_error 'the same secret twice' 400 INVALID

# ---- rotation, forks, restarts ----
printf 'ghp_%s' 'ZZZZ6789abcdefghijklmnopqrstuvwxyzABCD' > "$WORK/value2"
INPUT=$WORK/value2 c secret rotate hub
is 'rotation takes a value alone' "$CODE" 0
api GET /v1/secrets/hub
is 'and keeps what it is for' "$(j '.version, .hosts[0], .env' | tr '\n' ' ')" '2 api.hub.test HUB_TOKEN '
isnt 'the digest is another' "$(j .digest)" "$first"
run 'printf %s "$OTHER"'
is 'boxes are not touched' "$(j .stdout)" "$placeholder"
if [ "$BACKEND" = jail ]; then
    api POST "$B/fork" '{}'
    is 'a fork' "$STATUS" 201
    fork=$(j .id)
    api GET "/v1/boxes/$fork/secrets"
    is 'has the secret by name' "$(j '.secrets[0].name, .secrets[0].env' | tr '\n' ' ')" 'hub OTHER '
    like 'with a placeholder of the same shape' "$(j '.secrets[0].placeholder')" '^ghp_cubbyX[A-Za-z0-9]{32}$'
    isnt 'that is its own' "$(j '.secrets[0].placeholder')" "$placeholder"
    api DELETE "/v1/boxes/$fork"
fi
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
start_daemon "$program"
run 'printf %s "$OTHER"'
is 'a restarted daemon knows it' "$(j .stdout)" "$placeholder"
not_ok 'neither value is in any file' grep -rqsF -e "$VALUE" -e "$(< "$WORK/value2")" "$STATE"
not_ok 'nor in the log' grep -qF -e "$VALUE" -e "$(< "$WORK/value2")" "$WORK/daemon.log"
api GET "/v1/audit?limit=1000"
unlike 'nor in the audit log' "$BODY" "$VALUE"
like 'which says that it was set' "$BODY" secret_set

# ---- a changed row, another key ----
c secret rm second
is 'removed' "$CODE" 0
c secret rm second
is 'once' "$CODE" 125
