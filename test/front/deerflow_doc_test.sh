#!/bin/bash
# docs/deerflow.md as its reader uses it: the configurations are fine, every line of its consoles is run and says what
# the guide
# prints, and nothing of either side is left out. And cubby-aio(7) has every route.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
GUIDE=docs/deerflow.md
DAEMON=$BUILD/asan/cubbyd
[ -x "$DAEMON" ] || DAEMON=$BUILD/cubbyd
use_cubby
export PROVISIONER_API_KEY=key-of-the-guide-0123456789 PIP_INDEX_URL=https://packages.example/simple
port_new() { # a port nobody listens on, below those that clients get
    PORT=$((15000 + RANDOM % 15000))
    while (exec 3<> "/dev/tcp/127.0.0.1/$PORT") 2> /dev/null; do PORT=$((15000 + RANDOM % 15000)); done
}
port_new

# The guide with the directories and the port of this test; its blocks, each a file: 01.yaml, 02.sh, ...
mkdir -p "$WORK/blocks" "$WORK/srv/deer-flow" "$WORK/srv/datasets"
sed "s#/srv/#$WORK/srv/#g; s#/var/lib/cubby#$STATE#g; s#127\.0\.0\.1:7070#127.0.0.1:$PORT#g; s#:7070#:$PORT#g" $GUIDE \
    > "$WORK/guide"
awk -v dir="$WORK/blocks" '/^```[a-z]+$/ { kind = substr($0, 4); count++; next } /^```$/ { kind = "" }
    kind { print > sprintf("%s/%02d.%s", dir, count, kind) }' "$WORK/guide"
blocks_with() { grep -lE "$1" "$WORK"/blocks/*."$2"; } # blocks_with REGEX KIND

# ---- the configurations ----
configs=0
for block in $(blocks_with '^(listen|deerflow_)' yaml); do
    configs=$((configs + 1))
    is "a configuration of cubby: $(head -1 "$block" | sed "s#$WORK##")" "$("$DAEMON" --config "$block" --check 2>&1)" \
        "the configuration $block is fine"
done
between 'there are several' "$configs" 5 20
SETUP=$(blocks_with '^listen: 127' yaml | head -1) BRIDGE=$(blocks_with '^allowed_hosts:' yaml | head -1)
gateway=$(blocks_with '^sandbox:' yaml)
is 'the gateway asks where cubby listens' "$(sed -n 's#^  provisioner_url: http://##p' "$gateway")" \
    "$(sed -n 's/^listen: //p' "$SETUP")"
is 'with its provider' "$(sed -n 's/^  use: //p' "$gateway")" deerflow.community.aio_sandbox:AioSandboxProvider
is 'and the same key' "$(sed -n 's/^  provisioner_api_key: \$//p' "$gateway")" \
    "$(sed -n 's/^deerflow_api_key: \${\(.*\)}$/\1/p' "$SETUP")"
compose=$(blocks_with '^services:' yaml)
is 'a gateway in a container: its directory on the host is ours' \
    "$(sed -n 's/^ *DEER_FLOW_HOST_BASE_DIR: //p' "$compose")" "$(sed -n 's/^deerflow_home: //p' "$BRIDGE")"
is 'mounted where it looks for it' "$(sed -n 's/^ *- \(.*:\/.*\)$/\1/p' "$compose")" \
    "$(sed -n 's/^deerflow_home: //p' "$BRIDGE"):$(sed -n 's/^ *DEER_FLOW_HOME: //p' "$compose")"
name=$(sed -n 's/^ *- "\(.*\):host-gateway"$/\1/p' "$compose")
is 'by a name that is served' "$(sed -n 's/^allowed_hosts: \[\(.*\)\]$/\1/p' "$BRIDGE")" "$name"
ok 'which is that of its provisioner_url' grep -qF "provisioner_url: http://$name:$PORT" "$WORK/guide"

# ---- the consoles ----
# Of the first configuration all but what a test machine may lack: limits, and the network.
sed '/^deerflow_network/d; /^limits/,$d' "$SETUP" > "$CONFIG"
tcp_daemon() { # tcp_daemon [WORDS...]: as the guide has it, on its port
    state_new "$STATE"
    ASAN_OPTIONS=exitcode=99 "$DAEMON" --config "$CONFIG" --state "$STATE" --listen "unix:$SOCKET,127.0.0.1:$PORT" \
        --pool-size 1 "$@" \
        < /dev/null >> "$WORK/daemon.log" 2>&1 &
    DAEMON_PID=$!
    eventually 20 curl -sf --max-time 5 "http://127.0.0.1:$PORT/health"
}
if ! tcp_daemon; then
    fail 'a daemon as the guide starts it' "$(tail -5 "$WORK/daemon.log")"
    finish
    exit 1
fi
# Lines that begin with "$ " are run one after another in one shell; what stands behind each is what it prints.
cat "$WORK"/blocks/*.console > "$WORK/console"
awk '/^\$ / { printf "printf \"\\n%s\\n\" line-%d\n%s\n", "%s", ++n, substr($0, 3) } END { print "printf '\
'\"\\nline-end\\n\"" }' "$WORK/console" > "$WORK/console.sh"
timeout 240 bash "$WORK/console.sh" > "$WORK/printed" 2>&1 < /dev/null
lines=$(grep -c '^\$ ' "$WORK/console")
part() { awk -v n="$1" '/^\$ / { at++; next } at == n' "$WORK/console"; }
said() { awk -v from="line-$1" '/^line-/ { on = $0 == from; next } on' "$WORK/printed"; }
for ((i = 1; i <= lines; i++)); do
    is "the guide's line says what it prints: $(sed -n 's/^\$ //p' "$WORK/console" | sed -n "${i}p" | cut -c1-90)" \
        "$(said $i)" "$(part $i)"
done
between 'lines were run' "$lines" 10 100

# ---- the manual has every member of every request ----
api GET /openapi.json
paragraph() { awk -v head=".It Pa $1 $2" '/^\.(It Pa|S[hs]) / { on = 0 } $0 == head { on = 1 } on' man/cubby-aio.7; }
members=0
while read -r method path member; do
    members=$((members + 1))
    paragraph "$method" "$path" | tr -s ' ,' '\n\n' | grep -qxF -- "$member" ||
        fail "cubby-aio(7) has $member of $method $path"
done < <(jq -r '.paths | to_entries[] | select(.key | test("^/(aio|api)/")) | .key as $path | .value | to_entries[] | '\
'.key as $method | .value |
    ((.requestBody.content["application/json"].schema.properties // {} | keys[]), ((.parameters // [])[] | select(.in '\
'== "query").name)) |
    "\($method | ascii_upcase) \($path) \(.)"' "$WORK/body")
between 'members were looked for' "$members" 100 1000
stop_daemon

# ---- on an address that demands tokens ----
sed "s/^listen: .*/listen: 127.0.0.1:$PORT/" "$BRIDGE" > "$CONFIG"
line=$(grep -h '^cubby token create' "$WORK"/blocks/*.sh)
TOKEN=$("$CUBBY" ${line#cubby } 2> "$WORK/err" | tail -1)
like 'the line that makes the first token' "$TOKEN $(< "$WORK/err")" '^cubby_[0-9a-f]+'
tcp_daemon --auth required || fail 'a daemon for gateways in containers' "$(tail -5 "$WORK/daemon.log")"
http() { curl -s --max-time 60 "$@"; }
url=$(http "http://127.0.0.1:$PORT/api/sandboxes" -H "Host: $name:$PORT" -H "X-API-Key: $PROVISIONER_API_KEY" \
    -d '{"sandbox_id":"0123456789abcdef"}' | jq -r .sandbox_url)
like 'a sandbox by that name has a key in its address' "$url" "^http://$name:$PORT/aio/0123456789abcdef~[0-9a-f]{32}\$"
is 'which is all its calls need' \
    "$(http "http://127.0.0.1:$PORT${url#http://"$name:$PORT"}/v1/shell/exec" -H "Host: $name:$PORT" \
    -d '{"command":"echo in"}' | jq -r .data.output)" in
like 'without it they are refused' "$(http "http://127.0.0.1:$PORT/aio/0123456789abcdef/v1/sandbox")" \
    'a token is needed'
like 'another name is told what to do' "$(http "http://127.0.0.1:$PORT/api/sandboxes" -H 'Host: other.example')" \
    'is not served here; add it to the allowed hosts'
http -X DELETE "http://127.0.0.1:$PORT/api/sandboxes/0123456789abcdef" -H "X-API-Key: $PROVISIONER_API_KEY" > /dev/null
kill -TERM "$DAEMON_PID"
wait "$DAEMON_PID"
is 'it ends in order' $? 0
DAEMON_PID=

# ---- the texts ----
section() { awk -v head="## $1" '$0 == head { on = 1; next } /^## / { on = 0 } on' $GUIDE; }
strings=$(find src/front src/box src/store src/daemon src/rows src/http src/runner src/base src/wire -name "*.[ch]" \
    -exec cat {} + | tr '\n' ' ' | sed -e 's/" *"//g' -e 's/\\"/"/g')
while IFS= read -r text; do
    case $text in
    'No such file or directory' | 'Permission denied' | 'Read-only file system') continue ;;      # the kernel's
    'failed to become ready within timeout at') continue ;;                                        # the gateway's
    pip | curl | 'git clone' | 'thread_data_mounts: true' | deerflow_home) continue ;;
    esac
    case $strings in *"$text"*) pass "a text that is said: $text" ;; *) fail "a text that is said: $text" ;; esac
done < <(section 'When it does not work' | sed -n 's/^| `\([^`]*\)`.*/\1/p')

# ---- nothing is left out ----
for option in $("$DAEMON" --options | cut -f1 | grep -E '^(deerflow|aio)_'); do
    ok "the guide has the option $option" grep -qE "(^|[^a-z_])$option([^a-z_]|\$)" $GUIDE
done
for option in $(grep -oE '`[a-z]+_[a-z_]+`|`(listen|replicas|cpus|pids|tokens)`' <(section 'Every setting') |
    tr -d '`' | grep -E '^(deerflow|aio|max|memory|idle)_|^(listen|cpus|pids)$' | sort -u); do
    case $option in max_running | idle_timeout) continue ;; esac # the other side's
    ok "what it names is an option: $option" grep -qP "^$option\t" <("$DAEMON" --options)
done
settings=$(section 'Every setting' | sed -n 's/^| \(`[^|]*\)|.*/\1/p' | grep -oE '`[^`]+`' | tr -d '`')
for setting in use allow_host_bash image port replicas overflow_policy acquire_timeout burst_limit container_prefix \
    idle_timeout \
    health_check_skip_seconds ownership ownership.type ownership.redis_url ownership.renewal_interval_seconds \
    ownership.ttl_multiplier \
    ownership.key_prefix mounts host_path container_path read_only thread_data_mounts environment \
    bash_output_max_chars \
    read_file_output_max_chars ls_output_max_chars bash_command_timeout provisioner_url provisioner_api_key \
    network.mode skills.container_path \
    DEER_FLOW_HOME DEER_FLOW_HOST_BASE_DIR DEER_FLOW_SANDBOX_HOST DEER_FLOW_SANDBOX_BIND_HOST \
    DEER_FLOW_SANDBOX_OWNERSHIP_REDIS_URL \
    DEER_FLOW_STREAM_BRIDGE_REDIS_URL REDIS_URL DEERFLOW_WRITE_FILE_MAX_BYTES PROVISIONER_API_KEY \
    DEER_FLOW_DOCKER_SOCKET HTTP_PROXY HTTPS_PROXY \
    NO_PROXY DEERFLOW_CHANNEL_USER_ID GH_TOKEN GITHUB_TOKEN DEERFLOW_LARK_BROKER_URL K8S_NAMESPACE SANDBOX_IMAGE \
    THREADS_HOST_PATH \
    SKILLS_PVC_NAME USERDATA_PVC_NAME SKILLS_PVC_SUBPATH_TEMPLATE SANDBOX_CONTAINER_PORT SANDBOX_SERVICE_TYPE \
    KUBECONFIG_PATH K8S_API_SERVER \
    NODE_HOST LARK_CLI_INIT_IMAGE LARK_CLI_BROKER_IMAGE DEERFLOW_LARK_BROKER_DENY_SUBCOMMANDS \
    DEER_FLOW_SANDBOX_SECCOMP_UNCONFINED \
    DEER_FLOW_SANDBOX_SECCOMP_PROFILE DEER_FLOW_SANDBOX_MEMORY DEER_FLOW_SANDBOX_CPUS DEER_FLOW_SANDBOX_PIDS_LIMIT \
    DEER_FLOW_SANDBOX_CONTAINER_USER DEER_FLOW_SANDBOX_NETWORK MAX_SHELL_SESSIONS SANDBOX_API_KEY JWT_PUBLIC_KEY \
    TICKET_TTL_SECONDS WORKSPACE; do
    ok "its setting $setting has a row" grep -qxF "$setting" <<< "$settings"
done
while IFS=$'\t' read -r method path _; do
    ok "cubby-aio(7) has $method $path" grep -qxF ".It Pa $method $path" man/cubby-aio.7
done < <("$DAEMON" --routes | awk -F'\t' '$3 ~ /^(aio|deerflow)_/')
ok 'the README leads to the guide' grep -qF '(docs/deerflow.md)' README.md
for anchor in $(grep -oE '\]\(#[a-z-]+\)' $GUIDE | grep -oE '[a-z-]+' | sort -u); do
    ok "its link #$anchor leads somewhere" grep -qx "$anchor" \
        <(sed -n 's/^##* //p' $GUIDE | tr 'A-Z ' 'a-z-' | tr -cd 'a-z\n-')
done
finish
