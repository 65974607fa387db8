#!/bin/bash
# Real programs in a box with a network policy, unchanged and without a proxy: to hosts that nobody looks into, and to
# hosts of which a secret is bound, whose TLS cubby-seal opens. The internet is a namespace of the test's own.
# backends: jail
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
. test/lib/world.sh
VALUE=ghp_0123456789abcdefghijklmnopqrstuvwxyzAB
TOOLS=/usr/sbin:/usr/bin:/sbin:/bin
[ "$(id -u)" = 0 ] || { skip 'real programs' 'namespaces need root'; finish; }
world_start
write_config
printf 'gate_ca_file: %s\ngate_resolvers: ["93.184.0.53"]\n' "$WORLD/ca.pem" >> "$CONFIG"

python3 test/lib/world_files.py "$WORLD"
mkdir -p "$WORLD/ssh"
if [ -x /usr/sbin/sshd ]; then
    ssh-keygen -q -t ed25519 -N '' -f "$WORLD/ssh/host" && ssh-keygen -q -t ed25519 -N '' -f "$WORLD/ssh/user"
    chmod 755 "$WORK" "$WORLD" && mkdir -p /run/sshd
    W /usr/sbin/sshd -D -p 2200 -h "$WORLD/ssh/host" -o "AuthorizedKeysFile=$WORLD/ssh/user.pub" -o StrictModes=no \
        -o UsePAM=no -o PidFile=none -f /dev/null -E "$WORLD/ssh/log" & SSHD=$!
fi

# ---- clients ----
GET_JAVA='import java.net.*; public class Get { public static void main(String[] a) throws Exception {
  var c = (HttpURLConnection) new URL(a[0]).openConnection(); System.out.println(c.getResponseCode()); } }'
# not its script, which reads /etc/chromium.d
CHROMIUM='/usr/lib/chromium/chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage'
CHROMIUM+=' --user-data-dir=/tmp/profile --dump-dom'
NPM='npm install --registry https://a.hub.test/ --no-audit --no-fund --fetch-retries=0 tiny 2>&1'
apt() { # apt SCHEME: a command
    local o='-q -o Dir::State=/tmp/a -o Dir::State::lists=/tmp/a/lists -o Dir::Cache=/tmp/a/cache'
    o+=' -o Dir::Etc::sourcelist=/tmp/a/list -o Dir::Etc::sourceparts=- -o Dir::State::status=/tmp/a/status'
    o+=" -o APT::Sandbox::User= $APT"
    echo "mkdir -p a/lists/partial a/cache/archives/partial; echo 'deb [trusted=yes] $1://a.hub.test/deb ./' > a/list"
    echo "touch a/status; cd a; apt-get $o update && apt-get $o download tiny && ls"
}
client() { # client NAME PROGRAM REGEX COMMAND
    local name=$1 program=$2 want=$3
    if [[ " $UNTRUSTING " = *" $name "* ]]; then
        skip "$KIND: $name" "boxes' authority is not in the store of this program"
        return
    fi
    if ! PATH=$TOOLS command -v "$program" > /dev/null; then
        skip "$KIND: $name" "$program is not on this machine"
        return
    fi
    run "export PATH=$TOOLS; $CA cd /tmp; $4" '"timeout_ms":60000'
    if [ "$CODE" = 0 ] && [[ $OUT$ERR =~ $want ]]; then pass "$KIND: $name"; else
        fail "$KIND: $name" "exit $CODE: ${OUT: -600} ${ERR: -600} $(j .network_denied)"
    fi
}
clients() { # to pypi.test, a.hub.test, git.test
    client curl curl 'the world' 'curl -sS https://pypi.test/'
    client wget wget 'the world' "wget -qO- $WGET https://pypi.test/"
    client 'openssl s_client' openssl 'Verify return code: 0' \
        'openssl s_client -connect pypi.test:443 -servername pypi.test -verify_return_error < /dev/null'
    client 'git over https' git main "rm -rf r; git clone -q https://git.test/repo.git r && git -C r branch"
    client 'python urllib' python3 'the world' \
        "python3 -c 'import urllib.request as u; print(u.urlopen(\"https://pypi.test/\").read())'"
    if /usr/bin/python3 -c 'import requests' 2> /dev/null; then
        client 'python requests' python3 'the world' \
            "python3 -c 'import requests; print(requests.get(\"https://pypi.test/\").text)'"
    else
        skip "$KIND: python requests" 'python3-requests is not on this machine'
    fi
    client pip pip3 tiny-1.0 'rm -rf w; python3 -m pip download -q --disable-pip-version-check --no-deps -d w \
        --index-url https://pypi.test/simple tiny && ls w'
    client 'node fetch' node 'the world' "node -e 'fetch(\"https://pypi.test/\").then(r => r.text()).then(console.log)'"
    client npm npm added "rm -rf n; mkdir n && cd n && $NPM $CAFILE"
    client java java 200 "cat > Get.java <<< '${GET_JAVA//\'/}' && java $JAVA Get.java https://pypi.test/"
    client 'apt over https' apt-get tiny_1.0 "rm -rf a; $(apt https)"
}
if start_daemon unshare -n "$BUILD/cubbyd" && world_join "$DAEMON_PID"; then
    # ---- nobody looks inside: each program is told of the world's authority in its own way ----
    KIND=passed UNTRUSTING=
    box_new '"network":{"allow":["pypi.test:80,443","a.hub.test","git.test:443,2200","db.test:5433","six.test"]}'
    upload /tmp/ca.pem "$WORLD/ca.pem"
    upload /tmp/key "$WORLD/ssh/user" '&mode=0600'
    run 'keytool -importcert -noprompt -trustcacerts -alias w -file /tmp/ca.pem -keystore /tmp/ts -storepass changeit'
    CA='for v in SSL_CERT_FILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE PIP_CERT GIT_SSL_CAINFO NODE_EXTRA_CA_CERTS; do'
    CA+=' export $v=/tmp/ca.pem; done;'
    CAFILE=--cafile=/tmp/ca.pem WGET=--ca-certificate=/tmp/ca.pem APT='-o Acquire::https::CaInfo=/tmp/ca.pem'
    JAVA='-Djavax.net.ssl.trustStore=/tmp/ts -Djavax.net.ssl.trustStorePassword=changeit'
    clients
    client 'apt over http' apt-get tiny_1.0 "rm -rf a; $(apt http)"
    client psql psql world "psql -h db.test -p 5433 -U t -d t -Atc 'select 1'"
    client 'a host with IPv6 alone' curl '2606:4700::10' 'curl -sS https://six.test/'
    if [ -n "${SSHD-}" ]; then
        ssh='ssh -i /tmp/key -p 2200 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes'
        client ssh ssh '^the world' "$ssh root@git.test echo the world"
        client 'git over ssh' git main "rm -rf s; export GIT_SSH_COMMAND='$ssh'
            git clone -q ssh://root@git.test$WORLD/www/git.test/repo.git s && git -C s branch"
    else
        skip 'passed: ssh, git over ssh' 'openssh-server is not on this machine'
    fi
    client chromium chromium 'the world' "$CHROMIUM http://pypi.test/"
    client go go 'the world' 'printf %s "package main; import (\"io\"; \"net/http\"; \"os\"); func main() {
        r, e := http.Get(\"https://pypi.test/\"); if e != nil { panic(e) }
        io.Copy(os.Stdout, r.Body) }" > get.go && go run get.go'
    run 'curl -sS http://evil.test/'
    isnt 'passed: another host is not reached' "$CODE" 0
    api DELETE "$B"
    # ---- inspected: nothing is said to any program ----
    KIND=inspected CA='' CAFILE='' WGET='' APT='' JAVA=''
    hosts='["pypi.test","a.hub.test","git.test"]'
    api PUT /v1/secrets/hub "{\"value\":\"$VALUE\",\"hosts\":$hosts,\"env\":\"HUB\"}"
    is 'a secret' "$STATUS" 200
    box_new '"network":{"allow":["pypi.test","a.hub.test","git.test"]},"secrets":["hub"]'
    run '[ -n "${JAVA_TOOL_OPTIONS-}" ] || echo java; ls /etc/chromium/policies/managed/* > /dev/null || echo chromium'
    UNTRUSTING=${OUT//$'\n'/ }
    clients
    client chromium chromium 'the world' "$CHROMIUM https://pypi.test/"
    # ---- with the secret ----
    KIND=secret
    world_forget
    client curl curl '' 'curl -sS -H "Authorization: Bearer $HUB" https://pypi.test/'
    client git git main 'rm -rf r; git -c "http.extraHeader=Authorization: Bearer $HUB" clone -q \
        https://git.test/repo.git r && git -C r branch'
    client pip pip3 tiny-1.0 'rm -rf w; python3 -m pip download -q --disable-pip-version-check --no-deps -d w \
        --index-url https://$HUB:@pypi.test/simple tiny && ls w'
    client npm npm added 'rm -rf n; mkdir n && cd n && echo "//a.hub.test/:_authToken=$HUB" > .npmrc && '"$NPM"
    client 'node fetch' node 200 \
        "node -e 'fetch(\"https://pypi.test/\", {headers: {authorization: \"token \" + process.env.HUB}}
            ).then(r => console.log(r.status))'"
    for want in "auth pypi.test Bearer $VALUE" "auth pypi.test token $VALUE" "auth git.test Bearer $VALUE" \
        "auth pypi.test Basic $(printf %s "$VALUE:" | base64 -w0)" "auth a.hub.test Bearer $VALUE"; do
        ok "secret: the host has it: ${want:0:24}" grep -qF "$want" "$WORLD/tcp.log"
    done
    not_ok 'secret: never the placeholder' grep -q cubbyX "$WORLD/tcp.log"
    api DELETE "$B"
    stop_daemon
else
    fail 'a daemon with a world around it' "$(tail -5 "$WORK/daemon.log")"
fi
[ -z "${SSHD-}" ] || kill "$SSHD"
world_end
finish
