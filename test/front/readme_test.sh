#!/bin/bash
# The README as a newcomer uses it: a clean clone, `make run`, then the tour, line by line.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
n=0 bad=0
ok() { n=$((n + 1)); echo "ok $n - $1"; }
not_ok() { n=$((n + 1)); bad=1; echo "not ok $n - $1"; sed 's/^/# /' "$2" | tail -25; }
work=$(mktemp -d /tmp/cubby-readme-XXXXXX)
server=
finish() {
    [ -n "$server" ] && kill -- -"$server" 2>/dev/null && wait "$server" 2>/dev/null
    rm -rf "$work"
}
trap finish EXIT

git clone -q "$top" "$work/cubby" 2>"$work/clone.log" ||
    { not_ok "the project can be cloned" "$work/clone.log"; echo "1..$n"; exit 1; }
cd "$work/cubby" || exit 1
# Compiled again would be the same: objects are taken over, all the rest is done as on a fresh machine.
if [ -d "${BUILD-}/host" ] && [ -z "$(git -C "$top" status --porcelain src Makefile)" ]; then
    mkdir build && cp -a "$BUILD/host" "$BUILD/runner" "$BUILD/llhttp" "$BUILD/gen" "$BUILD/musl" build/ &&
        find build -exec touch -h {} +
fi
port=$((15000 + RANDOM % 15000)) # below those that clients get
while (exec 3<> "/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((15000 + RANDOM % 15000)); done
: >"$work/run.log"
setsid env -u BUILD -u MAKEFLAGS -u MAKELEVEL -u SANITIZE make run \
    RUN_ARGS="--listen 127.0.0.1:$port --state $work/state --end-boxes" >>"$work/run.log" 2>&1 &
server=$!
timeout 400 tail -n +1 -f --pid="$server" "$work/run.log" 2>/dev/null | grep -q -m1 ' ready on '
if curl -fs "http://127.0.0.1:$port/healthz" >/dev/null; then
    ok "make run in a clean clone builds and starts the daemon"
else
    not_ok "make run in a clean clone builds and starts the daemon" "$work/run.log"
    echo "1..$n"
    exit 1
fi
grep -q 'cubby run' "$work/run.log" && ok "make run says what to try" ||
    not_ok "make run says what to try" "$work/run.log"

# The tour is the shell block under "One minute".
awk '/^## One minute/ { on = 1 } on && /^```sh/ { block = 1; next } block && /^```/ { exit } block' README.md |
    sed "s|localhost:7070|127.0.0.1:$port|g" >"$work/tour"
[ -s "$work/tour" ] && ok "the README has a tour" || not_ok "the README has a tour" README.md
export CUBBY_URL=http://127.0.0.1:$port
{ echo 'set -e'; cat "$work/tour"; } >"$work/tour.sh"
if bash "$work/tour.sh" >"$work/tour.out" 2>"$work/tour.err"; then
    ok "every line of the tour succeeds"
else
    cat "$work/tour.out" >>"$work/tour.err"
    not_ok "every line of the tour succeeds" "$work/tour.err"
fi
grep -q '^hello from outside' "$work/tour.out" && ok "the tour shows what it promises" ||
    not_ok "the tour shows what it promises" "$work/tour.out"
grep -q '"exit_code":3' "$work/tour.out" && ok "the HTTP line answers with the exit code" ||
    not_ok "the HTTP line answers with the exit code" "$work/tour.out"

# So are those about skills.
awk '/^## Skills/ { on = 1 } on && /^```sh/ { block = 1; next } block && /^```/ { exit } block' README.md |
    sed "s|localhost:7070|127.0.0.1:$port|g" >"$work/skills"
{ echo 'set -e'; cat "$work/skills"; } >"$work/skills.sh"
if [ -s "$work/skills" ] && bash "$work/skills.sh" >"$work/skills.out" 2>"$work/skills.err"; then
    ok "every line about skills succeeds"
else
    cat "$work/skills.out" >>"$work/skills.err"
    not_ok "every line about skills succeeds" "$work/skills.err"
fi
if grep -q '"stdout":"rain' "$work/skills.out" && grep -q '"stdout":"sunny' "$work/skills.out"; then
    ok "two users of one agent do not see each other's changes"
else
    not_ok "two users of one agent do not see each other's changes" "$work/skills.out"
fi

# And the two lines that make a machine a box, the second of which stays, and those that use it.
awk '/^## / { on = $0 == "## Your own machine is a box" } !on { next } /^```sh/ { inside = ++block; next } /^```/ { '\
'inside = 0 } inside == 1 { print > one } inside == 2 { print > two }' \
    one="$work/join.one" two="$work/join.two" README.md
sed -i "s|localhost:7070|127.0.0.1:$port|g; 2s|build/cubby join|exec &|" "$work/join.one"
(cd "$work/cubby" && exec env XDG_STATE_HOME="$work/home" bash "$work/join.one") >"$work/join.log" 2>&1 &
join=$!
machine_ready() { "$work/cubby/build/cubby" ps --json 2>/dev/null |
    jq -e '.boxes? // . | .[] | select(.machine == "laptop" and .state == "ready")' >/dev/null; }
for ((i = 0; i < 200; i++)); do machine_ready && break; read -r -t 0.1 <> <(:); done
{ echo 'set -e'; cat "$work/join.two"; } >"$work/join.sh"
if bash "$work/join.sh" >"$work/join.out" 2>>"$work/join.log" && grep -qx "$work/cubby/project" "$work/join.out" &&
    [ -s "$work/cubby/project/result.txt" ]; then
    ok "two lines make a machine a box, and the next ones use it"
else
    cat "$work/join.sh" "$work/join.out" >>"$work/join.log"
    not_ok "two lines make a machine a box, and the next ones use it" "$work/join.log"
fi
kill -INT "$join" && wait "$join" && ok "Ctrl-C ends it" || not_ok "Ctrl-C ends it" "$work/join.log"

# The lines for MCP hosts, under "An agent in a box": what a host would do with each.
awk '/^## / { on = $0 == "## An agent in a box" } on' README.md |
    sed "s|localhost:7070|127.0.0.1:$port|g; s|/home/me/project|$work/project|g; "\
"s|\${workspaceFolder}|$work/project|g" >"$work/agent"
mkdir "$work/project" "$work/hosts"
echo 'of the project' >"$work/project/file.txt"
awk -v dir="$work/hosts" \
    '/^```(json|toml|sh)$/ { kind = substr($0, 4); count++; next } /^```$/ { kind = "" } kind { print >(dir "/" '\
'count "." kind) }' "$work/agent"
hello='{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}'\
',"clientInfo":{"name":"t","version":"1"}}}'
call() { printf '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bash","arguments":{"command":"%s"}}}' \
    "$1"; }
stdio_host() { # stdio_host COMMAND...: starts it as a host would, asks for a file of the project
    printf '%s\n' "$hello" "$(call 'cat file.txt')" |
        (cd "$work/project" && PATH=$work/cubby/build:$PATH "$@") 2>"$work/host.err" |
        jq -r 'select(.id == 1).result.content[0].text' | grep -qx 'of the project'
}
http_host() { # http_host URL HEADER
    local post=(curl -s "$1" -H "$2" -H 'Content-Type: application/json' \
        -H 'Accept: application/json, text/event-stream') session
    session=$("${post[@]}" -D - -o "$work/host.err" -d "$hello" | tr -d '\r' | sed -n 's/^mcp-session-id: //Ip')
    "${post[@]}" -H "Mcp-Session-Id: $session" -d "$(call 'echo in a box')" |
        tee "$work/host.err" | sed 's/^data: //' | jq -r '.result.content[0].text? // empty' 2>/dev/null |
        grep -qx 'in a box'
}
claude() { # `claude mcp add` as that program takes it
    [ "$1 $2" = 'mcp add' ] || return 1
    shift 2
    case $1 in
    --transport) [ "$2 $3 $5" = 'http cubby --header' ] && http_host "$4" "$6" ;;
    cubby) [ "$2" = -- ] && stdio_host "${@:3}" ;;
    *) return 1 ;;
    esac
}
tried=0
for host in "$work"/hosts/*; do
    case $host in
    *.json)
        entry=$(jq -c '(.mcpServers // .servers).cubby' "$host")
        if [ "$(jq -r .type <<<"$entry")" = http ]; then
            http_host "$(jq -r .url <<<"$entry")" \
                "$(jq -r '.headers | to_entries[0] | "\(.key): \(.value)"' <<<"$entry")"
        else
            mapfile -t words < <(jq -r '.command, .args[]' <<<"$entry")
            stdio_host "${words[@]}"
        fi
        ;;
    *.toml)
        mapfile -t words < <(sed -n 's/^command = //p; s/^args = //p' "$host" |
            jq -r 'if type == "array" then .[] else . end')
        grep -qx '\[mcp_servers.cubby\]' "$host" && stdio_host "${words[@]}"
        ;;
    *.sh) (cd "$work/project" && PWD=$work/project . "$host") ;;
    esac && ok "an MCP host with these lines works in a box: $(head -1 "$host")" ||
        { cat "$host" >>"$work/host.err"; not_ok "an MCP host with these lines works in a box: $(head -1 "$host")" \
        "$work/host.err"; }
    tried=$((tried + 1))
done
[ "$tried" = 6 ] && ok 'all of them' || { ls "$work/hosts" >"$work/host.err"; not_ok 'all of them' "$work/host.err"; }
echo "1..$n"
exit $bad
