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

git clone -q "$top" "$work/cubby" 2>"$work/clone.log" || { not_ok "the project can be cloned" "$work/clone.log"; echo "1..$n"; exit 1; }
cd "$work/cubby" || exit 1
port=$((20000 + RANDOM % 20000))
: >"$work/run.log"
setsid env -u BUILD -u MAKEFLAGS -u MAKELEVEL -u SANITIZE make run RUN_ARGS="--listen 127.0.0.1:$port --state $work/state --end-boxes" >>"$work/run.log" 2>&1 &
server=$!
timeout 400 tail -n +1 -f --pid="$server" "$work/run.log" 2>/dev/null | grep -q -m1 ' ready on '
if curl -fs "http://127.0.0.1:$port/healthz" >/dev/null; then
    ok "make run in a clean clone builds and starts the daemon"
else
    not_ok "make run in a clean clone builds and starts the daemon" "$work/run.log"
    echo "1..$n"
    exit 1
fi
grep -q 'cubby run' "$work/run.log" && ok "make run says what to try" || not_ok "make run says what to try" "$work/run.log"

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
grep -q '^hello from outside' "$work/tour.out" && ok "the tour shows what it promises" || not_ok "the tour shows what it promises" "$work/tour.out"
grep -q '"exit_code":3' "$work/tour.out" && ok "the HTTP line answers with the exit code" || not_ok "the HTTP line answers with the exit code" "$work/tour.out"
echo "1..$n"
exit $bad
