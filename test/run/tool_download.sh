# download: a URL into a file, fetched from inside the box. The servers are in the box, too: this needs no other
# network.
# by default: jail

upload server "$BUILD/test/attack_server" '&mode=0755'
server_starts() {
    tool bash_background '{"command":"exec ./server"}'
    SERVER=$(j .structured.pid)
    tool bash_output "{\"pid\":$SERVER,\"wait_ms\":20000}"
    PORT=${TEXT%%$'\n'*}
}
server_starts
U=http://127.0.0.1:$PORT
no_parts() { run 'find / -xdev -name ".upload-*.part" 2>/dev/null | grep .'; is "$1" "$OUT" ''; }

tool download "{\"url\":\"$U/big/100000\",\"path\":\"got/zeros\"}"
tool_is 'into a file, with its directories' 'Downloaded: /workspace/got/zeros (100000 bytes)'
run 'stat -c "%s %U" got/zeros; head -c 100000 /dev/zero | cmp - got/zeros && echo same'
is 'all of it, the agents own' "$OUT" "100000 $(run 'id -un'; echo "$OUT")
same"
tool download "{\"url\":\"$U/echo\",\"path\":\"got/zeros\"}"
is 'an older one is replaced' "$IS_ERROR $(j -c '.structured | [.path, .content_type]')" \
    'false ["/workspace/got/zeros","text/plain"]'
tool cd '{"path":"got"}'
tool download "{\"url\":\"$U/a/page.html?x=1#top\"}"
like 'without a path: the URLs last name, in the working directory' "$TEXT" \
    '^Downloaded: /workspace/got/page\.html \([0-9]+ bytes\)$'
tool download "{\"url\":\"$U\",\"path\":\"/workspace/got\"}"
like 'into a directory; a URL without a name' "$TEXT" '^Downloaded: /workspace/got/download \('
tool download "{\"url\":\"$U/..\",\"path\":\"/workspace/got/\"}"
like 'a name that is none' "$TEXT" '^Downloaded: /workspace/got/download \('
tool cd '{}'
tool download "{\"url\":\"$U/redirect\",\"path\":\"moved\"}"
like 'redirects are followed' "$TEXT" '^Downloaded: /workspace/moved \([0-9]+ bytes\)$'
get moved
like 'to where they lead' "$BODY" '^GET /there\?x=1 '
tool download "{\"url\":\"$U/chunked\",\"path\":\"chunks\"}"
tool_is 'an answer without a length' 'Downloaded: /workspace/chunks (7 bytes)'

# ---- what does not come ----

tool download "{\"url\":\"$U/404\",\"path\":\"moved\"}"
tool_fails 'an error of the server' 'Error: download failed: curl: (22) The requested URL returned error: 404'
get moved
like 'leaves the older file alone' "$BODY" '^GET /there\?x=1 '
tool download "{\"url\":\"$U/big/5000\",\"path\":\"large\",\"max_bytes\":4999}"
tool_fails 'larger than allowed' "Error: $U/big/5000 has more than 4999 bytes (max_bytes); nothing was kept"
tool download "{\"url\":\"$U/big/5000\",\"path\":\"exact\",\"max_bytes\":5000}"
tool_is 'exactly as large' 'Downloaded: /workspace/exact (5000 bytes)'
tool download "{\"url\":\"$U/endless\",\"path\":\"large\",\"max_bytes\":1000000}"
tool_fails 'endless' "Error: $U/endless has more than 1000000 bytes (max_bytes); nothing was kept"
tool download "{\"url\":\"$U/hang\",\"path\":\"large\",\"timeout_ms\":500}"
tool_fails 'a server that says nothing' "Error: download timed out after 0.5 seconds: $U/hang"
tool download "{\"url\":\"$U/cut/length\",\"path\":\"large\"}"
like 'one that ends too early' "$IS_ERROR $TEXT" '^true Error: download failed: curl: \(18\)'
tool download "{\"url\":\"$U/redirect-loop\",\"path\":\"large\"}"
like 'one that sends in circles' "$IS_ERROR $TEXT" '^true Error: download failed: curl: \(47\)'
tool download "{\"url\":\"$U/redirect-file\",\"path\":\"large\"}"
like 'or to a file' "$IS_ERROR $TEXT" '^true Error: download failed: curl: \(1\)'
run 'test -e large'
is 'nothing is there of all that' "$CODE" 1
no_parts 'not even in parts'
for url in ftp://x/y file:///etc/passwd //x "http://a b" -o; do
    tool download "{\"url\":\"$url\"}"
    tool_fails "not a URL for it: $url" "Error: 'url' must begin with http:// or https:// and contain no blanks"
done
tool download "{\"url\":\"$U/echo\",\"path\":\"exact/below\"}"
like 'below a file' "$IS_ERROR $TEXT" '^true Error: '

tool bash_kill "{\"pid\":$SERVER}"
tool download "{\"url\":\"$U/echo\"}"
if [[ $BACKEND = jail || $BACKEND = docker ]]; then
    like 'nobody there: the box has no network' "$TEXT" \
        '^Error: download failed: curl: \(7\) .*\. This box has no network \(network: none\), so only servers inside '\
'it can be reached$'
    # A server of the host's: the box, and so the tool, cannot reach it.
    "$BUILD/test/attack_server" > "$WORK/port" &
    host=$!
    ok 'a server of the hosts' eventually 10 test -s "$WORK/port"
    tool download "{\"url\":\"http://127.0.0.1:$(< "$WORK/port")/echo\"}"
    like 'the daemons network is not used' "$IS_ERROR $TEXT" '^true Error: download failed: curl: \(7\)'
    kill "$host"
else
    like 'nobody there' "$TEXT" '^Error: download failed: curl: \(7\) .*[^d]$'
    skip 'the daemons network is not used' 'backend local has the hosts'
fi

# ---- without curl ----

box_new '"env":{"PATH":"/workspace/bin"}'
upload server "$BUILD/test/attack_server" '&mode=0755'
tool download '{"url":"http://127.0.0.1:1/x"}'
tool_fails 'neither curl nor wget' \
    'Error: download needs curl or wget, and the box has neither; install one of them in the box'
if [ -x /usr/bin/wget ] && [ "$BACKEND" = jail ]; then
    run '/bin/mkdir bin && /bin/ln -s /usr/bin/wget bin/wget'
    server_starts
    U=http://127.0.0.1:$PORT
    tool download "{\"url\":\"$U/big/3000\",\"path\":\"w\"}"
    tool_is 'wget does as well' 'Downloaded: /workspace/w (3000 bytes)'
    tool download "{\"url\":\"$U/endless\",\"path\":\"w2\",\"max_bytes\":1000000}"
    tool_fails 'with the same limit' "Error: $U/endless has more than 1000000 bytes (max_bytes); nothing was kept"
    tool download "{\"url\":\"$U/404\",\"path\":\"w3\"}"
    like 'and its own words' "$IS_ERROR $TEXT" '^true Error: download failed: .*404'
else
    skip 'wget does as well' 'there is none on this machine, or no box to hide curl in'
fi
