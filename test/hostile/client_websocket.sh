# WebSocket frames that break the rules: unmasked, compressed, in wrong fragments, endless, half, oversized, floods; at
# a
# terminal and at the door for machines, from one who may join.
# wall: one parser for both ends (http/websocket.c): bounds before memory, a close with code and reason
# daemon: plain
# config: pool_size: 0
# config: remote_grace_s: 2

frames() { timeout 120 python3 test/lib/frames.py "$SOCKET" "$@"; } # frames PATH [TOKEN [REGISTER]]
expected='extensions: none
no mask: closed 1002 no mask on what a client sends
compressed: closed 1002 reserved bits; compression was not agreed on
unknown: closed 1002 an unknown kind of frame
unknown control: closed 1002 an unknown kind of frame
continuation: closed 1002 a continuation of nothing
message in a message: closed 1002 a message inside a message
ping in fragments: closed 1002 a control frame that is long or in fragments
long ping: closed 1002 a control frame that is long or in fragments
long length: closed 1002 a length that is longer than it needs
not UTF-8: closed 1007 text that is not UTF-8
a claim of exabytes: closed 1009 a message that is too large
a negative length: closed 1009 a message that is too large
100 MB claimed: closed 1009 a message that is too large
100 MB in fragments: closed 1009 a message that is too large
empty fragments: closed 1008 a flood of frames that carry nothing
pings: closed 1008 a flood of frames that carry nothing
pongs: closed 1008 a flood of frames that carry nothing
close of one byte: closed 1002 a close with an invalid code
close without a code: closed 1000 
close 1006: closed 1002 a close with an invalid code
noise: closed 1002 reserved bits; compression was not agreed on'

sockets() { find "/proc/$DAEMON_PID/fd" -lname 'socket:*' | wc -l; }
gone() { [ "$(sockets)" -le "$open" ]; }
before=$(daemon_memory_kb VmHWM) open=$(sockets)
is 'at a terminal each is closed with code and reason' "$(frames "$B/pty")" "$expected"
TOKEN=$("$BUILD/cubby" token create --runner laptop --user mallory --state "$STATE")
is 'at the door, by one who has not registered' "$(frames /runner/ws "$TOKEN")" "$expected"
register='{"type":"register","body":{"link":1,"workspace":"/home/m","shell":"/bin/'\
'sh","version":"1","isolation":"none","platform":"P"}}'
is 'and by one who has' "$(frames /runner/ws "$TOKEN" "$register")" "$expected"
between 'memory that all of it took, in KB' $(($(daemon_memory_kb VmHWM) - before)) 0 40000
for reason in 'no mask on what a client sends' 'reserved bits' 'a message that is too large' 'a flood of frames' \
    'a continuation of nothing'; do
    ok "the daemon's log has the reason: $reason" grep -q "machine laptop of mallory: .*$reason" "$WORK/daemon.log"
done
left() { CUBBY_URL=unix:$SOCKET "$BUILD/cubby" audit --verb machine_left --user mallory --json |
    grep -q 'machine=laptop: .*no mask on what a client sends'; }
ok 'and so has the audit log' eventually 10 left
ok 'no socket of theirs stays open' eventually 20 gone
