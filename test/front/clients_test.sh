#!/bin/bash
# cubby's own clients (clients/python, clients/typescript) against a real daemon: the table of cases in both languages,
# what goes wrong on the way, the examples of their READMEs, and the API beside what they know of it.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
export PYTHONDONTWRITEBYTECODE=1
NODE=$(command -v node)

# ---- the API, and what the clients know of it ----
ok 'what is generated is current' clients/generate "$BUILD/cubbyd" --check
program 'the contract' python3 test/clients/contract.py "$BUILD/cubbyd"

# ---- a daemon with tokens for the cases ----
write_config
ok 'certificates' openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=cubby \
    -addext subjectAltName=IP:127.0.0.1 -keyout "$WORK/key.pem" -out "$WORK/cert.pem"
ok 'and others' openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=other \
    -keyout "$WORK/other-key.pem" -out "$WORK/other.pem"
printf '%s\n' "tls_cert: $WORK/cert.pem" "tls_key: $WORK/key.pem" 'max_boxes_per_user: 0' >> "$CONFIG"
state_new "$STATE"
# A killed daemon may still hold the port while the kernel takes it apart: then the next one ends, and is started again.
cat > "$WORK/again" << END
#!/bin/sh
for try in 1 2 3 4 5 6 7 8 9; do
    "$BUILD/cubbyd" --listen "\$(cat "$WORK/address"),unix:$SOCKET" --state "$STATE" --config "$CONFIG" \\
        --backend jail --pool-size 1 < /dev/null >> "$WORK/daemon.log" 2>&1 &
    echo \$! > "$WORK/pid"
    while kill -0 \$(cat "$WORK/pid") 2> /dev/null; do
        ! curl -sf -o /dev/null --unix-socket "$SOCKET" http://localhost/healthz || exit 0
        sleep 0.05
    done
    wait
done
exit 1
END
chmod +x "$WORK/again"
echo 127.0.0.1:0 > "$WORK/address"
ok 'a daemon' "$WORK/again"
CUBBY_TLS=$(sed -n 's/.* ready on \(127[0-9.:]*\).*/\1/p' "$WORK/daemon.log")
echo "$CUBBY_TLS" > "$WORK/address" # the same one after a restart
export CUBBY_URL=unix:$SOCKET CUBBY_TLS
PROXY_PORT=$((20000 + SRANDOM % 12000))
python3 test/lib/proxy.py plain "127.0.0.1:$PROXY_PORT" --to "$SOCKET" --cut 50000 > "$WORK/proxy.log" 2>&1 & proxy=$!
eventually 10 grep -q ready "$WORK/proxy.log"
export CUBBY_CUT=http://127.0.0.1:$PROXY_PORT

# ---- Python ----
program 'Python, threads' python3 test/clients/client_python.py sync
program 'Python, asyncio' python3 test/clients/client_python.py async
program 'Python, bad days' python3 test/clients/bad_python.py "$WORK"
program 'Python, its README' python3 test/clients/readme.py python
# The package: built twice with the same bytes, without any other package, and usable from where it was installed.
build='import sys; sys.path.insert(0, "."); import build_backend as b
for directory in sys.argv[1:]: b.build_wheel(directory), b.build_sdist(directory)'
mkdir "$WORK/one" "$WORK/two"
ok 'a wheel and a source archive' sh -c 'cd clients/python && python3 -c "$@"' - "$build" "$WORK/one" "$WORK/two"
ok 'the wheel is the same twice' cmp "$WORK"/one/cubby-*.whl "$WORK"/two/cubby-*.whl
if python3 -m pip --version > /dev/null 2>&1; then
    ok 'pip installs it offline' python3 -m pip install -q --no-index --target "$WORK/site" "$WORK"/one/cubby-*.tar.gz
    ok 'and it works there' env PYTHONPATH="$WORK/site" python3 -c \
        'import cubby; box = cubby.Box(); assert box.run("echo x").stdout == "x\n"; box.delete()'
else
    skip 'pip installs it offline' 'there is no pip'
fi
took=$(for _ in 1 2 3 4 5; do
    PYTHONDONTWRITEBYTECODE='' PYTHONPYCACHEPREFIX=$WORK/pyc PYTHONPATH=clients/python python3 -X importtime -c \
        'import cubby' 2>&1 | awk -F'|' 'END { print int($2 / 1000) }'
done | sort -n | head -1)
between 'import cubby takes at most 30 ms' "$took" 0 30

# ---- TypeScript ----
if [ -n "$NODE" ]; then
    program 'TypeScript, Node' "$NODE" test/clients/client_typescript.mjs node
    program 'TypeScript, bad days' "$NODE" test/clients/bad_typescript.mjs "$WORK"
    program 'TypeScript, its README' python3 test/clients/readme.py typescript
    mkdir -p "$WORK/project" && cp -r clients/typescript/package.json clients/typescript/dist "$WORK/project"
    ok 'its package works from elsewhere' sh -c 'mkdir -p "$1/user/node_modules" && mv "$1/project" \
        "$1/user/node_modules/cubby" && cd "$1/user" && "$2" --input-type=module -e "import { Client } from \"cubby\";
        console.log((await new Client().health()).status)"' - "$WORK" "$NODE"
    if [ -d clients/typescript/node_modules/typescript ]; then
        ok 'its types are right' "$NODE" clients/typescript/node_modules/typescript/bin/tsc -p clients/typescript \
            --outDir "$WORK/dist"
        ok 'and what is compiled is current' diff -r "$WORK/dist" clients/typescript/dist
    else
        skip 'its types' 'clients/typescript/node_modules is not there: tools/setup npm installs it with npm'
    fi
else
    skip 'TypeScript' 'there is no node'
fi

# ---- the end ----
kill "$proxy"
kill -TERM "$(< "$WORK/pid")"
eventually 20 test ! -e "/proc/$(< "$WORK/pid")"
start_or_end "$BUILD/cubbyd"
stop_daemon
finish
