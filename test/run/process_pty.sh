# Terminals over a WebSocket.
# by default: jail local remote

pty() { # pty QUERY: script on standard input; OUTPUT
    OUTPUT=$("$TOOL" ws "$SOCKET" "$B/pty$1")
}

pty '?cols=100&rows=30' << 'END'
send stty size; tty; echo mar''ker\r
expect 30 100
expect /dev/pts/
expect marker
text {"resize":{"cols":132,"rows":43}}
send stty size\r
expect 43 132
send exit 3\r
wait
last
END
is 'a shell on a terminal' "$(head -7 <<< "$OUTPUT")" 'status 101
accept right
seen
seen
seen
seen
closed 1000'
is 'its exit is told' "$(tail -1 <<< "$OUTPUT" | jq -c '.exit|[.exit_code,.signal]')" '[3,null]'

pty '?command=cat' << 'END'
send abc\r
expect abc\r\n
expect abc\r\n
send \x03
wait
END
like 'Ctrl-C ends the command' "$OUTPUT" $'seen\nseen\nclosed 1000$'

pty '?command=head%20-c%203000000%20/dev/zero%20%7C%20tr%20%22%5C0%22%20z%3B%20echo%20over' << 'END'
expect over
wait
END
like 'a flood arrives whole' "$OUTPUT" $'seen\nclosed 1000$'

pty '?command=printf%20%22%5C377%5C000%5C376%22' << 'END'
expect \xff\x00\xfe
wait
END
like 'bytes are exact' "$OUTPUT" $'seen\nclosed 1000$'

tag_new
pty "?command=echo%20up%3B%20sleep%20$TAG" << 'END'
expect up
drop
END
if eventually 5 tag_alive; then
    # A dropped terminal lives on, to be attached again.
    api GET "$B/processes"
    pid=$(j '.processes[]|select(.state=="running")|.pid' | head -1)
    between 'a dropped terminal is listed' "$pid" 1 100000000
    api POST "$B/processes/$pid/signal" '{"signal":"SIGKILL"}'
    ok 'and can be ended' eventually 10 tag_gone
else fail 'a dropped terminal is listed' 'it did not outlive its client'; fi

pty '?cols=80&rows=24&command=echo%20first%3B%20read%20x%3B%20echo%20got%20%24x%3B%20read%20y' << 'END'
expect first
drop
END
api GET "$B/processes"
pid=$(j '[.processes[]|select(.state=="running")]|last|.pid')
pty "?pid=$pid&offset=0" << 'END'
expect first
send again\r
expect got again
send x\r
wait
END
like 'attached again: old output, then new' "$OUTPUT" $'seen\nseen\nclosed 1000$'

env='%7B%22COLOUR%22%3A%22blue%22%2C%22TERM%22%3A%22vt100%22%7D' # {"COLOUR":"blue","TERM":"vt100"}
named='echo%20%22name%3D%24TERM.%20%24COLOUR.%22' # echo "name=$TERM. $COLOUR."
while read -r query expected; do
    pty "?command=$named${query#none}" << END
expect name=$expected
wait
END
    like "the terminal's name and environment: $query" "$OUTPUT" $'\nseen\nclosed 1000'
done << END
none xterm-256color. .
&term=screen screen. .
&env=$env vt100. blue.
&term=linux&env=$env linux. blue.
END
for query in term= term=a%20b term=a%3Bb "term=$(printf 'x%.0s' {1..65})" env=1 env=%7B env='%7B%22a%22%3A1%7D' \
    env='%7B%22A%3DB%22%3A%22x%22%7D'; do
    api GET "$B/pty?$query" '' -H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' \
        -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='
    is_error "refused: ${query:0:40}" 400 INVALID "${query%%=*}"
done
pty '?command=echo%20up%3B%20read%20x%3B%20echo%20got%20%24x%3B%20read%20y' << 'END'
expect up
text nonsense
send on\r
expect got on
last
END
is 'a text frame that is not understood is answered, and the terminal goes on' \
    "$(grep -c seen <<< "$OUTPUT") $(tail -1 <<< "$OUTPUT" | jq -r '.warning.message' | cut -c1-24)" \
    '2 a text frame was ignored'
api GET "$B/pty"
is_error 'pty without an upgrade' 400 INVALID
api GET "/v1/boxes/0123456789abcdef/pty" '' -H 'Connection: Upgrade' -H 'Upgrade: websocket' \
    -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='
is_error 'pty of no box' 404 NOT_FOUND
api GET "$B/pty?cols=0" '' -H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' \
    -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='
is_error 'a terminal without columns' 400 INVALID cols
pty '?command=cat' << 'END'
text {"resize":{"cols":"x"}}
text nonsense
send abc\r
expect abc
close
wait
END
like 'bad control messages do no harm' "$OUTPUT" $'(seen\nclosed|closed) 1[0-9]+$'
run 'echo fine'
is 'the box goes on' "$OUT" fine
