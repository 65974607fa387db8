#!/bin/bash
# Every dialect over a head with three workers: one call path of each, from the first request to files and a command in
# a box on a worker.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
BACKEND=fleet
. test/lib/daemon.sh
. test/lib/fleet.sh
write_config
use_cubby
start_or_end "$BUILD/asan/cubbyd"
trap 'for pid in "${WORKER_PID[@]}"; do kill "$pid"; done 2> /dev/null; clean_up' EXIT
workers_start || { fail 'workers' ''; finish; exit 1; }
workers_used() { # names of workers that have boxes
    api GET /v1/workers
    j '[.workers[] | select(.boxes > 0) | .name] | sort | join(" ")'
}

# ---- native ----

for thread in 1 2 3; do api POST /v1/boxes "{\"thread\":\"native $thread\"}"; done
box_use "$(j .id)"
is 'boxes are on all three workers' "$(workers_used)" 'w1 w2 w3'
api PUT "$B/files?path=/workspace/n" native
api POST "$B/exec" '{"command":"cat n"}'
is 'native: a file and a command' "$(j .stdout)" native

# ---- AIO ----

api POST "/aio/$BOX/v1/file/write" '{"file":"/workspace/a","content":"aio"}'
is 'AIO: a file' "$STATUS $(j .success)" '200 true'
api POST "/aio/$BOX/v1/shell/exec" '{"command":"cat a n"}'
is 'AIO: a command' "$(j .data.output)" aionative
api POST "/aio/$BOX/v1/shell/sessions/create" '{"id":"s1"}'
api POST "/aio/$BOX/v1/shell/exec" '{"id":"s1","command":"cd /tmp; x=7"}'
api POST "/aio/$BOX/v1/shell/exec" '{"id":"s1","command":"echo $x $PWD"}'
like 'AIO: a session' "$(j .data.output)" '^7 /tmp'

# ---- E2B ----

c token create --user ann
KEY=e2b_${OUT#cubby_}
api POST /v2/sandboxes '{"templateID":"base"}' -H "X-API-KEY: $KEY"
E2B=$(j .sandboxID) TOKEN=$(j .envdAccessToken)
isnt 'E2B: a sandbox' "$E2B" null
inside() { api "$1" "$2" '' -H "E2b-Sandbox-Id: $E2B" -H 'E2b-Sandbox-Port: 49983' \
    -H "X-Access-Token: $TOKEN" "${@:3}"; }
inside POST '/files?path=/home/user/f&username=user' -F 'file=@/etc/hostname'
like 'E2B: a file' "$STATUS" '^20'
inside GET '/files?path=/home/user/f&username=user'
is 'E2B: and back' "$BODY" "$(cat /etc/hostname)"
api DELETE "/sandboxes/$E2B" '' -H "X-API-KEY: $KEY"
is 'E2B: killed' "$STATUS" 204

# ---- MCP ----

mcp() { # mcp METHOD PARAMS [CURL ARGUMENTS...]: ANSWER
    api POST /mcp "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"$1\",\"params\":$2}" \
        -H 'Accept: application/json, text/event-stream' -D "$WORK/heads" "${@:3}"
    ANSWER=$(sed -n 's/^data: //p' <<< "$BODY")
    ANSWER=${ANSWER:-$BODY}
}
mcp initialize '{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}'
SESSION=$(sed -n 's/^[Mm]cp-[Ss]ession-[Ii]d: *//p' "$WORK/heads" | tr -d '\r')
tool() { # tool NAME ARGUMENTS: TEXT
    mcp tools/call "{\"name\":\"$1\",\"arguments\":$2}" -H "Mcp-Session-Id: $SESSION"
    TEXT=$(jq -r '.result.content[0].text' <<< "$ANSWER" 2> /dev/null)
}
tool bash '{"command":"echo mcp > m; cat m"}'
like 'MCP: a command' "$TEXT" mcp
tool read_file '{"description":"d","path":"/workspace/m"}'
like 'MCP: a file' "$TEXT$BODY" mcp

# ---- DeerFlow ----

api POST /api/sandboxes '{"sandbox_id":"1badcafe","thread_id":"t","user_id":"u"}'
is 'DeerFlow: a sandbox' "$STATUS" 200
URL=$(j .sandbox_url)
DEER=${URL#http://localhost}
api POST "$DEER/v1/shell/exec" '{"command":"echo deer > /mnt/user-data/workspace/d; cat /mnt/user-data/workspace/d"}'
is 'DeerFlow: a command' "$STATUS $(j .data.output)" '200 deer'

# ---- FileSecBox ----

mkdir -p "$WORK/zip/weather"
printf -- '---\nname: weather\ndescription: says the weather\n---\n' > "$WORK/zip/weather/SKILL.md"
echo 'print("sunny")' > "$WORK/zip/weather/main.py"
(cd "$WORK/zip" && python3 -m zipfile -c ../w.zip weather)
api POST /v1/skills/ann/app/upload '' -F "file=@$WORK/w.zip"
is 'FileSecBox: a skill' "$STATUS" 200
api POST /v1/skills/ann/app/weather/execute '{"command":"python3 main.py"}'
like 'FileSecBox: a command of it' "$STATUS $BODY" '^200 .*sunny'

delete_boxes
workers_end
stop_daemon
finish
