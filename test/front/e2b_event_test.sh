#!/bin/bash
# Events, webhooks and metrics over time of the E2B dialect; webhooks also over a killed daemon, and to a server that is
# away for a while.
# backends: jail
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
. test/lib/e2b.sh
cat > "$WORK/receiver.py" << 'PY'
# receiver.py PORT FILE: keeps what it is sent, a line of JSON each; answers 500 while FILE.fail exists.
import http.server, json, os, sys
class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers['content-length'])).decode()
        fail = os.path.exists(sys.argv[2] + '.fail')
        with open(sys.argv[2], 'a') as kept:
            kept.write(json.dumps({'path': self.path, 'body': body, 'failed': fail,
                                   'headers': {k.lower(): v for k, v in self.headers.items()}}) + '\n')
        self.send_response(500 if fail else 204)
        self.end_headers()
    def log_message(self, *_): pass
server = http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), Receiver)
print(server.server_port, flush=True)
server.serve_forever()
PY
receive() { # receive PORT: PORT and RECEIVER of a server that keeps what it is sent
    : > "$WORK/port"
    python3 "$WORK/receiver.py" "$1" "$WORK/sent" > "$WORK/port" &
    RECEIVER=$!
    eventually 10 test -s "$WORK/port"
    PORT=$(cat "$WORK/port")
}
receive 0
e2b_start "  - {token: bob-token-0123456789abcdef00, user: bob, scope: user}" \
    "  - {token: eye-token-0123456789abcdef00, user: ann, scope: read}" \
    '  - {token: admin-token-0123456789abcdef, scope: admin}' 'auth: required' \
    "e2b_webhook_hosts: [\"127.0.0.1:$PORT\", \"localhost:$PORT\", \"*.localhost\", \"*.example.com\"]"

key() { # key METHOD PATH [BODY] [CURL ARGUMENTS...]: a request of ann's client
    api "$1" "$2" "${3-}" -H "X-API-KEY: $E2B_API_KEY" "${@:4}"
}
refused() { # refused NAME STATUS: {"code","message"}
    is "$1" "$STATUS $(j .code) $(j '.message|type')" "$2 $2 string"
}
create() { # create [MEMBERS]: ID
    key POST /v2/sandboxes "{\"templateID\":\"base\"${1:+,$1}}"
    ID=$(j .sandboxID)
}
sent() { # sent KIND: of the sandbox ID
    python3 - "$WORK/sent" "$ID" "sandbox.lifecycle.$1" << 'PY'
import json, sys
bodies = [json.loads(json.loads(line)['body']) for line in open(sys.argv[1])]
sys.exit(not any(b['sandbox_id'] == sys.argv[2] and b['type'] == sys.argv[3] for b in bodies))
PY
}

# ---- what is not a webhook ----
EVENTS='"events":["sandbox.lifecycle.created"]'
for body in '{}' "{$EVENTS}" '{"url":"http://a.example.com/"}' "{\"url\":\"file:///etc/passwd\",$EVENTS}" \
    "{\"url\":\"HTTP://a.example.com/\",$EVENTS}" \
    "{\"url\":\"http://u:p@a.example.com/\",$EVENTS}" "{\"url\":\"http://a.example.com/\\r\\nX: y\",$EVENTS}" \
    '{"url":"http://a.example.com/","events":["sandbox.other"]}' '{"url":"http://a.example.com/","events":"x"}'; do
    key POST /events/webhooks "$body"
    refused "not a webhook: $body" 400
done
for url in http://127.0.0.1:1/ http://127.0.0.1/ http://localhost:7070/ http://example.com/ http://a.example.com.evil/ \
    http://evil/.example.com unix:/run/x; do
    key POST /events/webhooks "{\"url\":\"$url\",$EVENTS}"
    like "no host that the configuration names: $url" "$STATUS" '^40[03]$'
done
api POST /events/webhooks "{\"url\":\"http://a.example.com/\",$EVENTS}" -H 'X-API-KEY: eye-token-0123456789abcdef00'
refused 'a key that may only read makes none' 403

# ---- sending ----
key POST /events/webhooks "{\"name\":\"all\",\"url\":\"http://127.0.0.1:$PORT/hook?x=1\",\"enabled\":true,
    \"signatureSecret\":\"s3cret\",\"events\":[$(printf '"sandbox.lifecycle.%s",' created updated paused resumed \
    checkpointed)\"sandbox.lifecycle.killed\"]}"
is 'a webhook' "$STATUS $(j -c '[.name,.enabled,(.events|length)]')" '201 ["all",true,6]'
HOOK=$(j .id)
is 'its secret is not given out' "$(grep -c s3cret "$WORK/body")" 0
create '"timeout":60,"metadata":{"who":"ann"}'
ok 'created' eventually 10 sent created
is 'as E2B sends it' "$(tail -1 "$WORK/sent" | python3 -c '
import base64, hashlib, hmac, json, sys
one = json.loads(sys.stdin.read()); body = json.loads(one["body"]); head = one["headers"]
want = base64.b64encode(hashlib.sha256(("s3cret" + one["body"]).encode()).digest()).decode().rstrip("=")
strong = "hmac-sha256=" + hmac.new(b"s3cret", one["body"].encode(), "sha256").hexdigest()
print(one["path"], head["e2b-signature"] == want, head["e2b-signature-version"], head["cubby-signature"] == strong,
      len(head["e2b-delivery-id"]), body["event_data"]["sandbox_metadata"], body["sandbox_template_id"])')" \
    "/hook?x=1 True v1 True 32 {'who': 'ann'} base"
key POST "/sandboxes/$ID/pause"
key POST "/sandboxes/$ID/connect" '{"timeout":60}'
key POST "/sandboxes/$ID/timeout" '{"timeout":1}'
for kind in paused resumed updated killed; do
    ok "$kind" eventually 10 sent "$kind"
done

# ---- where names lead, and what is recorded ----
key POST /events/webhooks "{\"url\":\"http://a.localhost:$PORT/below?token=hidden-1\",$EVENTS}"
BELOW=$(j .id)
key POST /events/webhooks "{\"url\":\"http://localhost:$PORT/named?token=hidden-2\",$EVENTS}"
NAMED=$(j .id)
create
came() { grep -q "\"path\": \"/$1" "$WORK/sent"; }
ok 'a host that the configuration names may be this machine' eventually 10 came named
tries() { python3 -c 'import sqlite3, sys
print(*sqlite3.connect(sys.argv[1]).execute("SELECT count(*), max(tries)>0 FROM delivery WHERE webhook=?", sys.argv[2:])
      .fetchone())' "$STATE/e2b-plane.db" "$1"; }
is 'a name below *.NAME may not: its event was tried before, and waits' "$(tries "$BELOW")" '1 1'
is 'nothing was sent there' "$(grep -c '"path": "/below' "$WORK/sent")" 0
for hook in "$BELOW" "$NAMED"; do key DELETE "/events/webhooks/$hook"; done
as admin GET '/v1/audit?limit=1000'
is 'the audit log has the hosts of webhooks' "$(grep -c "http://localhost:$PORT" "$WORK/body")" 1
is 'and nothing that follows them' "$(grep -c 'hidden-' "$WORK/body")" 0
as bob POST /v2/sandboxes '{"templateID":"base"}'
OTHER=$(j .sandboxID)
touch "$WORK/sent.fail"
create
ok 'a server that fails' eventually 10 sent created
rm "$WORK/sent.fail"
again() { [ "$(grep -c "$ID" "$WORK/sent")" -ge 2 ]; }
ok 'is tried again' eventually 30 again
kill "$RECEIVER"
wait "$RECEIVER" 2> /dev/null
create
eventually 5 grep -q "$ID" "$STATE/e2b-plane.db-wal"
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
receive "$PORT"
e2b_run
is 'a killed daemon is started again' $? 0
ok 'what it had not sent is sent by the next one' eventually 40 sent created
is "nobody else's events were sent" "$(grep -c "$OTHER" "$WORK/sent")" 0
api GET "/events/webhooks/$HOOK" '' -H 'X-API-KEY: bob-token-0123456789abcdef00'
refused "somebody else's webhook" 404
key PATCH "/events/webhooks/$HOOK" '{"url":"http://127.0.0.1:1/"}'
refused 'a change to a host that is not named' 403
deliveries() { python3 -c 'import sqlite3, sys
print(*sqlite3.connect(sys.argv[1]).execute("SELECT count(*), max(tries) FROM delivery").fetchone())' \
    "$STATE/e2b-plane.db"; }
none_wait() { [ "$(deliveries)" = '0 None' ]; }
eventually 20 none_wait
sed -i 's/^e2b_webhook_hosts.*/e2b_webhook_hosts: ["*.example.com"]/' "$CONFIG"
kill -HUP "$DAEMON_PID"
eventually 10 grep -q 'read again' "$WORK/daemon.log"
create
tried() { [[ $(deliveries) == '1 '[1-4] ]]; }
ok 'an event for a host that the configuration does not name any more' eventually 10 tried
is 'is not sent' "$(grep -c "$ID" "$WORK/sent")" 0
key PATCH "/events/webhooks/$HOOK" '{"enabled":false}'
is 'nothing waits for a webhook that is off' "$(deliveries)" '0 None'
is 'switched off' "$STATUS $(j -c '[.enabled,.name]')" '200 [false,"all"]'
key GET /events/webhooks
is 'the list' "$(j -c '[.[].id]')" "[\"$HOOK\"]"
key DELETE "/events/webhooks/$HOOK"
is 'it goes' "$STATUS" 204
key DELETE "/events/webhooks/$HOOK"
refused 'once' 404
kill "$RECEIVER"

# ---- use over time ----
create '"timeout":600'
usage() { api GET "/v1/boxes/$ID/usage${1-}" '' -H "Authorization: Bearer cubby_$E2B_SECRET"; }
several() { usage && [ "$(j '.samples|length')" -ge 3 ]; }
ok 'a box is measured while it runs' eventually 30 several
is 'with times that rise' "$(j -c '[.samples[].at]|.==sort')" true
is 'and what it uses' "$(j -c '[.samples[]|.memory_bytes>0 and .pids>0]|all')" true
MIDDLE=$(j '.samples[1].at')
usage "?since=$MIDDLE&until=$MIDDLE"
is 'between two times' "$(j -c '[.samples[].at]')" "[\"$MIDDLE\"]"
usage '?since=yesterday'
is 'what is not a time' "$STATUS" 400
key GET "/sandboxes/$ID/metrics"
is 'the same for E2B' "$(j 'length>=3 and all(.[]; .cpuUsedPct>=0 and .memUsed>0)')" true
exec_in() { api POST "/v1/boxes/$ID/exec" "$1" -H "Authorization: Bearer cubby_$E2B_SECRET"; }
exec_in '{"command":"head -c 30000000 /dev/urandom > big; cat big > /dev/null"}'
key GET "/sandboxes/$ID/metrics"
is 'pages of files are told apart' "$(j '.[-1]|.memCache>=29000000 and .memCache<=.memUsed')" true
LAST=$(j '.[-1].timestampUnix') FIRST=$(j '.[0].timestampUnix')
key GET "/sandboxes/$ID/metrics?start=$FIRST&end=$FIRST"
is 'with start and end' "$(j "all(.[]; .timestampUnix==$FIRST)")" true
key GET "/sandboxes/$ID/metrics?start=$((LAST + 1000))"
is 'of the future: none' "$(j -c .)" '[]'
key POST "/sandboxes/$ID/pause"
key GET "/sandboxes/$ID/metrics"
is 'a paused one keeps what was measured' "$(j 'length>=2')" true
api GET "/v1/boxes/$ID/usage" '' -H 'Authorization: Bearer bob-token-0123456789abcdef00'
is "nobody sees another's" "$STATUS" 404

delete_boxes() { # by an admin: everybody's
    local id
    as admin GET /v1/boxes
    for id in $(j '.boxes[].id'); do as admin DELETE "/v1/boxes/$id"; done
}
stop_daemon
finish
