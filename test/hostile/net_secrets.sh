# A secret that the box uses and never has: where it goes (A45 to A48, A50), what comes back (A51, A52), rotation (A53),
# plain HTTP (A54), other boxes (A57), clients (A58, A59), and where the value is not (A44).
# wall: only cubby-seal, outside of the box, has the value; it swaps placeholders in named slots of requests to hosts
# that have proved the bound name, and swaps values back in answers
. test/lib/world.sh
world_start
VALUE=ghp_0123456789abcdefghijklmnopqrstuvwxyzAB
printf 'nameserver 93.184.0.53\n' > "$WORK/resolv"
{ cat "$CONFIG"; printf 'gate_ca_file: %s\n' "$WORLD/ca.pem"; } > "$WORK/net.yaml"
policy='{"allow":["pypi.test","*.hub.test"],"deny":["bad.hub.test"]}'
if second_start "$WORK/net.yaml" unshare -n -m sh -c 'mount --bind "$0" /etc/resolv.conf; exec "$@"' "$WORK/resolv" \
    "$BUILD/cubbyd" && world_join "$DAEMON_PID"; then
    api PUT /v1/secrets/hub "{\"value\":\"$VALUE\",\"hosts\":[\"api.hub.test\"],\"env\":\"HUB\"}"
    is 'a secret' "$STATUS" 200
    api POST /v1/boxes "{\"backend\":\"jail\",\"network\":{\"allow\":[\"pypi.test\"]},\"secrets\":[\"hub\"]}"
    is_error 'a bound host that the policy does not allow' 400 INVALID
    box_new "\"network\":$policy,\"secrets\":[\"hub\"]" || return 0
    api GET "$B/secrets"
    placeholder=$(j '.secrets[0].placeholder')
    seen() { grep -c "^auth $1 $2" "$WORLD/tcp.log"; }

    # A45, A51: the world echoes all headers
    run 'curl -s -H "Authorization: Bearer $HUB" https://api.hub.test/x'
    like 'A45: curl verifies and gets an answer' "$OUT" '"host": "api.hub.test"'
    is 'A45: the host has the value' "$(seen api.hub.test "Bearer $VALUE")" 1
    unlike 'A51: the echo has not' "$OUT$ERR" "$VALUE"
    like 'A51: but the placeholder' "$OUT" "$placeholder"
    run 'curl -s -u "$HUB:x" https://api.hub.test/basic'
    is 'A45: Basic' "$(seen api.hub.test "Basic $(printf %s "$VALUE:x" | base64 -w0)")" 1
    unlike 'A51: base64 of it' "$OUT" "$(printf %s "$VALUE" | base64 -w0 | cut -c1-40)"
    world_forget
    # A46, A47, A52, A54
    run 'for u in https://pypi.test/ http://api.hub.test/; do curl -sk -H "Authorization: Bearer $HUB" $u; done'
    is 'A46, A54: others see the placeholder' "$(grep -c "auth .*$placeholder" "$WORLD/tcp.log")" 2
    run 'curl -s -A "$HUB" -d "$HUB" "https://api.hub.test/?k=$HUB"'
    like 'A47: nothing is swapped elsewhere' "$OUT" "$placeholder"
    run 'curl -skL -H "Authorization: Bearer $HUB" https://api.hub.test/redirect/https://pypi.test/'
    is 'A52: a redirect takes no value along' "$(seen pypi.test "Bearer $VALUE")" 0
    # A48, A50
    run 'curl -s --resolve api.hub.test:443:9.9.9.66 -H "Authorization: Bearer $HUB" https://api.hub.test/real'
    is 'A48: an address of its own leads to the real host' "$(grep -c 9.9.9.66 "$WORLD/tcp.log")" 0
    run 'curl -s -o /dev/null -w %{http_code} -H "Host: a.hub.test" -H "X-Api-Key: $HUB" https://api.hub.test/'
    is 'A50: another Host inside' "$OUT" 421
    # A53
    new=ghp_ZYXW456789abcdefghijklmnopqrstuvwxyzAB
    api PUT /v1/secrets/hub "{\"value\":\"$new\"}"
    run 'curl -s -H "Authorization: Bearer $HUB" https://api.hub.test/'
    is 'A53: rotation needs nothing of the box' "$(seen api.hub.test "Bearer $new")" 1
    # A57
    first=$BOX
    world_forget
    box_new "\"network\":$policy,\"secrets\":[\"hub\"]"
    run "curl -s -H 'Authorization: Bearer $placeholder' https://api.hub.test/stolen"
    is "A57: another box's placeholder means nothing" "$(seen api.hub.test "Bearer $placeholder")" 1
    both() { api GET '/v1/audit?verb=secret_misuse&limit=100'; [[ $BODY == *"box $BOX of "*"of box $first of "* ]]; }
    ok 'A57: an administrator sees both boxes' eventually 10 both
    is 'A57: in a row that has no user' "$(j '[.events[]|select(.detail|test("of box"))|.user]|unique|@json')" '[null]'
    api GET "$B"
    is 'its usage has its connections' "$(j '.usage.network.connections > 0 and .usage.network.active == 0')" true
    api GET /metrics
    like 'so do the metrics' "$BODY" 'cubby_gate_secret_misuses_total [1-9]'
    api DELETE "$B"
    box_use "$first"
    # A35: bound while it runs
    box_new "\"network\":$policy"
    late=$BOX
    api PUT "$B/secrets/hub"
    is 'A35: the first secret, bound while the box runs' "$STATUS" 200
    world_forget
    run 'curl -s -H "Authorization: Bearer $HUB" https://api.hub.test/'
    is 'A35: works at once' "$(seen api.hub.test "Bearer $new")" 1
    box_use "$first"
    # A58, A59
    world_forget
    for client in 'curl -sf https://api.hub.test/' 'wget -qO- https://api.hub.test/' \
        'python3 -c "import urllib.request as u; print(u.urlopen(\"https://api.hub.test/\").status)"' \
        'python3 -c "import requests; print(requests.get(\"https://api.hub.test/\").status_code)"' \
        'node -e "fetch(\"https://api.hub.test/\").then(r => r.text()).catch(() => process.exit(1))"' \
        'openssl s_client -connect api.hub.test:443 -servername api.hub.test -verify_return_error < /dev/null' \
        'git ls-remote https://api.hub.test/x'; do
        name=${client%% *}
        run "command -v $name && if [[ '$client' == *requests* ]]; then python3 -c 'import requests'; fi"
        if [ "$CODE" != 0 ]; then
            skip "A58: ${client:0:40}" "$name is not on this machine"
            continue
        fi
        run "$client"
        is "A58: ${client:0:40}" "$CODE" 0
        [[ $client != node* && $client != *requests* ]] || continue
        run "env -i PATH=\$PATH HOME=/tmp $client"
        is "A59: without variables: ${client:0:40}" "$CODE" 0
    done
    if [ -e /etc/ssl/certs/java/cacerts ] && command -v javac > /dev/null; then
        put Get.java 'public class Get { public static void main(String[] a) throws Exception {
            var connection = (java.net.HttpURLConnection) new java.net.URL(a[0]).openConnection();
            System.out.println(connection.getResponseCode()); } }'
        run 'java Get.java https://api.hub.test/'
        is 'A58: java' "$OUT" 200
    else
        skip 'A58: java' 'java is not on this machine'
    fi
    if [ -x /usr/bin/chromium ]; then
        run 'base64 -d <<< "$(sed "s/.*\[.//;s/.\].*//" /etc/chromium/policies/managed/cubby.json)" |
            openssl x509 -inform DER -noout -fingerprint; openssl x509 -noout -fingerprint < /run/cubby/ca.pem'
        is 'A58: a browser is told of the authority' "$(sort -u <<< "$OUT" | grep -c Fingerprint)" 1
    else
        skip 'A58: a browser is told of the authority' 'chromium is not on this machine'
    fi
    # A44
    run "v=${VALUE:0:20}; v=\$v${VALUE:20}"'; env; cat /proc/[0-9]*/environ 2> /dev/null | tr "\0" "\n" | grep -F "$v"
        grep -rsF "$v" /etc /home /tmp /workspace /run /var'
    unlike 'A44: nowhere in the box' "$OUT" "$VALUE|$new"
    not_ok 'A44: nor in the state directory' grep -rqsF -e "$VALUE" -e "$new" "$STATE"
    not_ok 'A44: nor in the log' grep -qF -e "$VALUE" -e "$new" "$WORK/daemon.log"
    api GET "/v1/audit?limit=1000"
    unlike 'A44: nor in the audit log' "$BODY" "$VALUE|$new"
    like 'which says who used it where' "$BODY" 'secret_use'
    like 'and where it was misused' "$BODY" 'secret_misuse'
    # headers that the policy sets
    rule='{"host":"api.hub.test","headers":{"Authorization":"Bearer ${secrets.hub}","X-Tenant":"acme-literal-token"}}'
    box_use "$late"
    api DELETE "$B/secrets/hub"
    api PUT "$B/network" "{\"allow\":[{\"host\":\"a.hub.test\",\"headers\":{\"X-A\":\"\${secrets.hub}\"}}]}"
    is_error 'headers: a secret that is not for the host' 400 INVALID
    api PUT "$B/network" "{\"allow\":[{\"host\":\"api.hub.test\",\"headers\":{\"X-A\":\"\${secrets.none}\"}}]}"
    is_error 'headers: a secret that does not exist' 400 INVALID
    api PUT "$B/network" "{\"allow\":[$rule]}"
    is 'headers: a policy that sets them' "$STATUS" 200
    like 'headers: shown with the reference' "$BODY" '\$\{secrets.hub\}'
    world_forget
    run 'curl -s -H "Authorization: Bearer mine" https://api.hub.test/'
    is 'headers: the host has the value' "$(seen api.hub.test "Bearer $new")" 1
    like 'headers: and the literal' "$OUT" 'acme-literal-token'
    unlike 'headers: the box does not get the value back' "$OUT$ERR" "$new"
    box_new "\"network\":{\"allow\":[$rule]}"
    run 'curl -s https://api.hub.test/'
    is 'headers: of a box that is made with them' "$(seen api.hub.test "Bearer $new")" 2
    api DELETE "$B"
    box_use "$first"
    api GET "/v1/audit?limit=1000"
    unlike 'headers: no value in the audit log' "$BODY" "$new|acme-literal-token"
    # A53: gone
    api DELETE /v1/secrets/hub
    run 'curl -s -o /dev/null -w %{http_code} -H "Authorization: Bearer $HUB" https://api.hub.test/'
    is 'A53: a secret that was removed' "$OUT" 503
    for box in "$first" "$late"; do api DELETE "/v1/boxes/$box"; done
    second_end
fi
world_end
