# Rules of E2B (allowOut, denyOut) as a network policy: an address or a name alone allowed, one denied, changed while
# the sandbox runs, also where it had no rules. In network namespaces of the test's own: D with the daemon, W for the
# world.
# wall: cubby-gate, which gets E2B's rules in the words of a policy
. test/lib/world.sh
world_start
printf 'nameserver 93.184.0.53\n' > "$WORK/resolv"
key=00112233445566778899aabbccddeeff
{ cat "$CONFIG"; printf 'gate_ca_file: %s\n' "$WORLD/ca.pem"; grep -q '^tokens:' "$CONFIG" || echo tokens:
    printf '  - {token: cubby_%s, user: ann, scope: user}\n' "$key"; } > "$WORK/net.yaml"
code() { run "curl -sk -m 5 -o /dev/null -w %{http_code} $1"; }
rules() { api PUT "/sandboxes/$BOX/network" "$1" -H "X-API-KEY: e2b_$key"; }
if second_start "$WORK/net.yaml" unshare -n -m sh -c 'mount --bind "$0" /etc/resolv.conf; exec "$@"' "$WORK/resolv" \
    "$BUILD/cubbyd" && world_join "$DAEMON_PID"; then
    api POST /v2/sandboxes '{"templateID":"base","network":{"denyOut":["0.0.0.0/0"],"allowOut":["93.184.0.10"]}}' \
        -H "X-API-KEY: e2b_$key"
    is 'a sandbox with one address allowed' "$STATUS" 201
    box_use "$(j .sandboxID)"
    code http://93.184.0.10/
    is 'which is reached' "$OUT" 200
    code https://93.184.0.10/
    is 'also by TLS, which names no host then' "$OUT" 200
    code http://93.184.0.11/
    is 'and no other' "$OUT $(j -c '[.network_denied[].to]|unique')" '403 ["93.184.0.11:80"]'
    rules '{"denyOut":["93.184.0.10"]}'
    is 'one address denied, while it runs' "$STATUS" 204
    code http://93.184.0.10/
    is 'which is not reached any more' "$OUT" 000
    code http://a.hub.test/
    is 'everything else is, by name' "$OUT" 200
    code http://93.184.0.11/
    is 'and by address' "$OUT" 200
    code http://169.254.169.254/
    is 'but never a metadata service' "$OUT" 000
    rules '{"denyOut":["93.184.0.0/24"],"allowOut":["93.184.0.11"]}'
    code http://93.184.0.11/
    is 'allow wins over deny' "$OUT" 200
    code http://93.184.0.10/
    is 'for that address alone' "$OUT" 000
    rules '{"denyOut":["0.0.0.0/0"],"allowOut":["pypi.test"]}'
    code https://pypi.test/
    is 'a name alone allowed' "$OUT" 200
    world_forget
    code http://evil.test/
    is 'no other name is' "$OUT$(world_dns)" 000
    rules '{}'
    is 'without rules' "$STATUS" 204
    code http://93.184.0.10/
    is 'everything is reached again' "$OUT" 200
    api GET "/sandboxes/$BOX" '' -H "X-API-KEY: e2b_$key"
    is 'and the sandbox has none' "$(j -c .network)" null
    rules '{"denyOut":["0.0.0.0/0"]}'
    code http://93.184.0.10/
    is 'all denied: no network' "$STATUS $OUT" '200 000'
    api DELETE "$B"

    # A sandbox without rules has a device of its own, which it loses with the first rule.
    nsenter -t "$DAEMON_PID" -n sysctl -qw net.ipv4.ip_forward=1
    api POST /v2/sandboxes '{"templateID":"base"}' -H "X-API-KEY: e2b_$key"
    box_use "$(j .sandboxID)"
    api GET "$B/network"
    is 'a sandbox without rules has all of the network' "$(j .network)" open
    code http://93.184.0.10/
    is 'and reaches it' "$OUT" 200
    rules '{"denyOut":["93.184.0.10"]}'
    is 'rules while it runs' "$STATUS" 204
    code http://93.184.0.10/
    is 'hold at once' "$OUT" 000
    code http://a.hub.test/
    is 'what they do not deny is reached, by name' "$OUT" 200
    run 'grep -c eth0 /proc/net/dev'
    is 'and its device is gone' "$OUT" 0
    rules '{"denyOut":["0.0.0.0/0"]}'
    code http://a.hub.test/
    is 'without any network while it runs' "$STATUS $OUT" '200 000'
    rules '{}'
    code http://93.184.0.10/
    is 'the rules are dropped: everything is reached' "$STATUS $OUT" '200 200'
    run 'grep -c eth0 /proc/net/dev'
    is 'by a device again' "$OUT" 1

    # Headers that the daemon adds: the sandbox runs, and has no rules yet.
    api POST /secrets '{"name":"Hub","value":"hush-0123456789abcdef0123456789"}' -H "X-API-KEY: e2b_$key"
    rules '{"rules":{"API.hub.test":[{"transform":{"headers":{"X-Own":"literal-1",
        "Authorization":"Bearer ${e2b.secrets.HUB}"}}}]}}'
    is 'a host whose requests get headers' "$STATUS" 204
    run 'curl -s -H "X-Own: mine" https://api.hub.test/a; curl -sk https://a.hub.test/b'
    like 'curl trusts what it sees, and the host has the header' "$OUT" 'literal-1'
    unlike 'not the one of the sandbox' "$OUT" '"mine"'
    is 'the secret went there' "$(grep -c '^auth api.hub.test Bearer hush-0123' "$WORLD/tcp.log")" 1
    unlike 'and did not come back' "$OUT" 'hush-0123'
    is 'nor anywhere else' "$(grep -c '^auth a.hub.test' "$WORLD/tcp.log")" 0
    api GET "/sandboxes/$BOX" '' -H "X-API-KEY: e2b_$key"
    is 'the rules are shown as they were given' "$(j -c '.network.rules|map_values(.[0].transform.headers["X-Own"])')" \
        '{"API.hub.test":"literal-1"}'
    rules '{"rules":{"api.hub.test":[{"transform":{"headers":{"X-Own":"literal-2"}}}]},"denyOut":["0.0.0.0/0"],
        "allowOut":["*.hub.test"]}'
    run 'curl -s https://api.hub.test/'
    like 'other rules, with names alone allowed' "$STATUS $OUT" '200 .*literal-2'
    rules '{"rules":{"api.hub.test":[{"transform":{"headers":{"X-Own":"literal-3"}}}]},"denyOut":["0.0.0.0/0"],
        "allowOut":["pypi.test"]}'
    code https://api.hub.test/
    is 'a rule alone allows no host' "$STATUS $OUT" '200 000'
    rules '{"rules":{"api.hub.test":[{"transform":{"headers":{"X-Own":"${e2b.secrets.none}"}}}]}}'
    is 'a secret that is not there' "$STATUS $(j '.message|test("no secret .none.")')" '400 true'
    api DELETE "$B"
    api POST /v2/sandboxes '{"templateID":"base","network":{"rules":{"api.hub.test":[{"transform":{"headers":{"x-own":
        "from-the-start"}}}]}}}' -H "X-API-KEY: e2b_$key"
    box_use "$(j .sandboxID)"
    run 'curl -s https://api.hub.test/'
    like 'a sandbox that is made with rules' "$STATUS $OUT" '200 .*from-the-start'
    code http://93.184.0.10/
    is 'and everything else' "$OUT" 200
    api DELETE "$B"
    api DELETE /secrets/hub '' -H "X-API-KEY: e2b_$key"
    api POST /v2/sandboxes '{"templateID":"base"}' -H "X-API-KEY: e2b_$key"
    box_use "$(j .sandboxID)"
    rules '{"denyOut":["0.0.0.0/0"]}'
    code http://93.184.0.10/
    is 'a network that is taken away while a sandbox runs' "$STATUS $OUT" '200 000'
    run 'grep -c eth0 /proc/net/dev'
    is 'with its device' "$OUT" 0
    api DELETE "$B"
    second_end
fi
world_end
