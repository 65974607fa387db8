#!/bin/bash
# The shell group of the AIO dialect, as its clients use it: sessions that keep their state, the ways in which a command
# can
# end or go on without its caller, and terminals.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
write_config
DAEMON=$BUILD/asan/cubbyd
[ -x "$DAEMON" ] || DAEMON=$BUILD/cubbyd
if ! start_daemon "$DAEMON" || ! box_new; then
    fail 'a daemon and a box' "$(tail -5 "$WORK/daemon.log")"
    finish
    exit 1
fi
S=/aio/$BOX/v1/shell DIRECTORY=$STATE

x() { # x COMMAND [MORE MEMBERS]: exec; OUT and CODE of the answer, STATE
    json_string "$1"
    api POST "$S/exec" "{\"command\":$JSON_STRING${2:+,$2}}"
    OUT=$(j .data.output) CODE=$(j .data.exit_code) STATE=$(j .data.status)
}
p() { # p ROUTE BODY
    api POST "$S/$1" "$2"
}
unknown() { # unknown NAME: the last answer
    is "$1" "$STATUS $BODY" '404 {"success":false,"message":"Session not found","data":null,"hint":null}'
}
restart() {
    kill -KILL "$DAEMON_PID"
    wait "$DAEMON_PID" 2> /dev/null
    STATE=$DIRECTORY start_daemon "$DAEMON"
}
status_is() { # status_is STATUS ID
    p view "{\"id\":\"$2\"}" && [ "$(j .data.status)" = "$1" ]
}

# ---- the session that calls without an id share ----
x 'echo one; echo two >&2; (exit 3)'
is 'a command: both streams, its exit status' "$STATUS $STATE $CODE $OUT" $'200 completed 3 one\ntwo'
is 'as the schema wants it' "$(j -c '[.success,.hint,(.data|[.session_id,.command,.console])]')" \
    '[true,null,["default","echo one; echo two >&2; (exit 3)",[{"ps1":"$ ","command":"echo one; echo two >&2; (exit '\
'3)","output":"one\ntwo\n"}]]]'
x 'mkdir -p /tmp/d; cd /tmp/d; export GREETING=hi; f() { echo "f $1"; }; sleep 1000 & echo $! > pid'
is 'nothing printed' "$STATE $CODE [$OUT]" 'completed 0 []'
x 'pwd; echo $GREETING; f x; kill -0 "$(cat pid)" && echo alive'
is 'directory, variables, functions and background jobs are there for the next call' "$OUT" $'/tmp/d\nhi\nf x\nalive'
x 'printf "a\r\nb\tc\033[1md"'
is 'bytes are as they were printed' "$(j '.data.output|@json')" '"a\r\nb\tc\u001b[1md"'
x 'printf "x\377y"'
is 'what is no UTF-8 is replaced' "$(j '.data.output|@json')" '"x�y"'
api POST "$S/exec" '{"command":"printf a\\\\000b"}'
is 'a NUL is a character as others' "$(jq -c .data.output "$WORK/body")" '"a\u0000b"'
x 'echo x; exit 0'
is 'exit: the output and the status are there' "$STATUS $STATE $CODE $OUT" '200 completed 0 x'
x 'echo "${GREETING-none}"; pwd'
is 'and the next call has a new shell' "$OUT" $'none\n/workspace'
x 'kill -9 $$'
is 'a shell that is killed' "$STATUS $STATE $CODE" '200 completed 137'
x 'echo again'
is 'is followed by another' "$OUT" again
x 'set -u; echo "$no_such"; echo not reached'
isnt 'an error that throws the shell out of the command' "$CODE" 0
x 'set +u; echo fine'
is 'leaves the session as it was' "$OUT" fine
x 'echo "$A-$B"; A=3' '"env":{"A":"it'"'"'s","B":"$HOME"}'
is 'env of one command, as it is' "$OUT" "it's-\$HOME"
x 'echo "[$A$B]"'
is 'and of no other' "$OUT" '[]'
x 'echo x' '"env":{"A B":"x"}'
is 'a name that is none' "$STATUS $(j -c '.detail[0].loc')" '422 ["body","env"]'

# ---- directories ----
x 'pwd' '"exec_dir":"/tmp/d"'
is 'exec_dir' "$OUT" /tmp/d
x 'pwd'
is 'is where the session stays' "$OUT" /tmp/d
x 'pwd' '"exec_dir":"/no/such"'
is 'one that is not there is ignored' "$STATUS $OUT" '200 /tmp/d'
x 'touch /tmp/ran' '"exec_dir":"/no/such","strict":true'
is 'unless strict' "$STATUS $(j .message)" '400 Working directory does not exist: /no/such'
x 'ls /tmp/ran'
isnt 'and then nothing was run' "$CODE" 0

# ---- sessions by id ----
x 'echo x' '"id":"nobody"'
unknown 'exec with an unknown id'
x 'echo x' '"id":"a/../b c"'
unknown 'exec with an id that can be none'
for route in view wait kill; do
    p "$route" '{"id":"nobody"}'
    unknown "$route of an unknown id"
done
p write '{"id":"nobody","input":"x","press_enter":true}'
unknown 'write to an unknown id'
p sessions/update '{"id":"nobody","no_change_timeout":3}'
unknown 'update of an unknown id'
api DELETE "$S/sessions/nobody"
unknown 'delete of an unknown id'
p sessions/create '{"id":"3c2a99fd-c16c-408b-9298-5126e1d00def"}'
is 'create with an id' "$STATUS $(j -c .data)" \
    '200 {"session_id":"3c2a99fd-c16c-408b-9298-5126e1d00def","working_dir":"/workspace"}'
one=3c2a99fd-c16c-408b-9298-5126e1d00def
x 'cd /tmp' "\"id\":\"$one\""
is 'exec in it' "$CODE $(j .data.session_id)" "0 $one"
p sessions/create "{\"id\":\"$one\"}"
is 'create again finds it' "$STATUS $(j -c .data)" "200 {\"session_id\":\"$one\",\"working_dir\":\"/tmp\"}"
p sessions/create '{"exec_dir":"/tmp/d"}'
is 'create without an id, in a directory' "$(j .data.working_dir)" /tmp/d
two=$(j .data.session_id)
p sessions/create '{"exec_dir":"/no/such"}'
is 'in one that is not there' "$STATUS" 400
p sessions/create '{"id":"no good"}'
is 'with an id that can be none' "$STATUS $(j -c '.detail[0].loc')" '422 ["body","id"]'
x 'echo "$V"' "\"id\":\"$two\",\"env\":{\"V\":\"2\"}"
is 'sessions are apart' "$OUT" 2
api GET "$S/sessions"
is 'the list' "$(j -c '.data.sessions|[keys_unsorted[]]|sort')" \
    "$(jq -cn '$ARGS.positional|sort' --args default "$one" "$two")"
is 'of each what the schema wants' \
    "$(j -c ".data.sessions[\"$one\"]|[.working_dir,.status,.current_command,(.age_seconds|type)]")" \
    '["/tmp","idle",null,"number"]'
like 'with times of its form' "$(j ".data.sessions[\"$one\"].created_at")" \
    '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{6}$'
api GET "$S/sessions/stats"
is 'the figures' "$(j \
    -c '.data|[.total_sessions,.active_sessions,.idle_sessions,.max_sessions,.usage_ratio,(.session_timeout|type)]')" \
    '[3,3,0,64,0.047,"number"]'
api DELETE "$S/sessions/$two"
is 'delete' "$STATUS $(j .success)" '200 true'
x 'echo x' "\"id\":\"$two\""
unknown 'exec in it then'

# ---- commands that go on without their caller ----
now_ms && begin=$NOW
x 'echo begun; read line; echo "line $line"; exit 5' '"timeout":0.2'
now_ms
is 'timeout: it runs, with what it printed' "$STATUS $STATE $CODE $OUT" '200 running null begun'
between 'not sooner' $((NOW - begin)) 200 60000
p view '{"id":"default"}'
is 'view while it runs' "$(j -c '.data|[.session_id,.status,.output,.exit_code,.command[:10],.console[0].output]')" \
    '["default","running","begun\n",null,"echo begun","begun\n"]'
api GET "$S/sessions"
is 'the list says so' "$(j -c '.data.sessions.default|[.status,.current_command[:10]]')" '["running","echo begun"]'
p wait '{"id":"default","seconds":0}'
is 'wait that is over before it' "$(j .data.status)" running
x 'echo x' '"async_mode":true,"id":"default"'
is 'another one in the background' "$STATUS $(j .success)" '409 false'
for time in timeout no_change_timeout hard_timeout; do
    x 'echo x >> /tmp/ran' "\"id\":\"default\",\"$time\":0.1"
    is "another one whose turn does not come in $time" "$STATUS $(j .success)" '429 false'
done
x 'ls /tmp/ran' "\"id\":\"$one\""
isnt 'is not run' "$CODE" 0
p write '{"id":"default","input":"typed","press_enter":true}'
is 'write' "$STATUS $(j .data.status)" '200 running'
p wait '{"id":"default","seconds":30}'
unknown 'it ends, and the shell with it'

# ---- calls without an id do not wait for a command whose caller was answered ----
x 'mkdir -p /tmp/e; cd /tmp/e; cat' '"no_change_timeout":0.3'
is 'a command that waits for input' "$STATUS $STATE $(j .data.session_id)" '200 no_change_timeout default'
x 'pwd; export KEPT=1'
is 'the next call without an id runs at once, in the same directory' "$STATUS $STATE $OUT" '200 completed /tmp/e'
is 'in a session of its own' "$(j .data.session_id)" default:2
p write '{"id":"default","input":"typed","press_enter":true}'
ok 'the first one runs on, and can be typed to' eventually 10 eval \
    'p view "{\"id\":\"default\"}"; [ "$(j .data.output)" = typed ]'
p kill '{"id":"default"}'
is 'and killed' "$STATUS $(j .data.status)" '200 terminated'
x 'echo "$KEPT"; cd /tmp'
is 'later calls stay where the last one was' "$(j .data.session_id) $OUT" 'default:2 1'
restart || fail 'another daemon' "$(tail -5 "$WORK/daemon.log")"
x 'pwd'
is 'also those of another daemon' "$STATUS $(j .data.session_id) $OUT" '200 default:2 /tmp'
tag_new
x "sleep $TAG" '"async_mode":true'
is 'one in the background' "$STATUS $STATE" '200 running'
x 'rmdir /tmp/e; cat' '"async_mode":true,"exec_dir":"/tmp/e"'
is 'and another: none waits' "$STATUS $STATE $(j .data.session_id)" '200 running default:3'
restart || fail 'another daemon' "$(tail -5 "$WORK/daemon.log")"
x 'pwd' '"hard_timeout":20'
is 'also after a restart; where the directory has gone, in the workspace' "$STATUS $(j .data.session_id) $OUT" \
    '200 default:4 /workspace'
curl -sS --unix-socket "$SOCKET" -H 'Content-Type: application/json' \
    -d '{"command":"echo up > /tmp/up; cat","no_change_timeout":1.5}' "http://localhost$S/exec" > "$WORK/first" &
first=$!
ok 'a command with its caller' eventually 10 eval 'x "cat /tmp/up" "\"id\":\"$one\""; [ "$OUT" = up ]'
x 'echo behind'
is 'is waited for, and no longer than its caller waits' "$STATUS $(j .data.session_id) $OUT" '200 default:5 behind'
wait "$first"
is 'who was answered' "$(jq -r '.data|.status + " " + .session_id' "$WORK/first")" 'no_change_timeout default:4'
api DELETE "$S/sessions/default:5"
for i in 2 3 4; do api DELETE "$S/sessions/default:$i"; done
api DELETE "$S/sessions/default"
x 'echo new'
is 'where all of them were ended there is a new one' "$STATUS $(j .data.session_id) $OUT" '200 default new'
ok 'and what ran there has ended' eventually 10 tag_gone

p sessions/create '{"id":"q","no_change_timeout":1}'
x 'echo a; read line; echo b; exit 0' '"id":"q"'
is 'no_change_timeout of the session' "$STATE $CODE $OUT" 'no_change_timeout null a'
is 'it runs on' "$(p view '{"id":"q"}'; j .data.status)" running
p write '{"id":"q","input":"x\n","press_enter":false}'
ok 'until it ends' eventually 10 eval 'p view "{\"id\":\"q\"}"; [ "$STATUS" = 404 ]'
p sessions/create '{"id":"q"}'
p sessions/update '{"id":"q","no_change_timeout":0}'
is 'update with no time' "$STATUS" 422
p sessions/update '{"id":"q","no_change_timeout":1}'
is 'update' "$STATUS $(j .success)" '200 true'
x 'echo a; read line; echo b' '"id":"q"'
is 'then that counts' "$STATE $OUT" 'no_change_timeout a'
p write '{"id":"q","input":"\u0003","press_enter":false}'
ok 'Ctrl-C ends it' eventually 10 status_is completed q
p view '{"id":"q"}'
is 'as it does in a shell' "$(j .data.exit_code)" 130

tag_new
x "sleep $TAG & sleep 1000" '"hard_timeout":0.3,"id":"q"'
is 'hard_timeout' "$STATUS $STATE" '200 hard_timeout'
ok 'all it started is gone' eventually 10 tag_gone
x 'echo on' '"id":"q"'
is 'the session stays' "$OUT" on
x 'trap "" TERM INT; while :; do :; done' '"hard_timeout":0.3,"id":"q","no_change_timeout":60'
is 'hard_timeout of one that does not want to end' "$STATUS $STATE" '200 hard_timeout'
p sessions/create '{"id":"q"}'

x 'read line; echo "got $line"' '"async_mode":true,"id":"q"'
is 'async_mode' "$STATUS $STATE $CODE [$OUT]" '200 running null []'
p write '{"id":"q","input":"a","press_enter":false}'
p write '{"id":"q","input":"b","press_enter":true}'
p wait '{"id":"q","seconds":60,"max_wait_seconds":30}'
is 'wait until it has ended' "$(j .data.status)" completed
p view '{"id":"q"}'
is 'view afterwards' "$(j -c '.data|[.status,.output,.exit_code]')" '["completed","got ab\n",0]'
p write '{"id":"q","input":"echo $((40 + 2))","press_enter":true}'
p wait '{"id":"q"}'
p view '{"id":"q"}'
is 'a line written to an idle session is a command' "$(j -c '.data|[.command,.output]')" '["echo $((40 + 2))","42\n"]'
p write '{"id":"q","input":"y","press_enter":false}'
is 'less than a line is refused' "$STATUS $(j .success)" '400 false'
x 'read -t 0.01 line; echo "[$line]"' '"id":"q"'
is 'and does not wait for the next command' "$OUT" '[]'

tag_new
x "sleep $TAG" '"async_mode":true,"id":"q"'
p kill '{"id":"q"}'
is 'kill' "$STATUS $(j -c '.data|[.status,.exit_code == .returncode]')" '200 ["terminated",true]'
ok 'it is gone' eventually 10 tag_gone
x 'echo on' '"id":"q"'
is 'and the session is not' "$OUT" on
p kill '{"id":"q"}'
is 'kill of nothing' "$STATUS $(j .data.status)" '200 completed'

# a client that hangs up ends its command
tag_new
curl -sS --max-time 1 --unix-socket "$SOCKET" -H 'Content-Type: application/json' \
    -d "{\"id\":\"q\",\"command\":\"sleep $TAG\"}" "http://localhost$S/exec" > /dev/null 2>&1
ok 'a caller that hangs up ends its command' eventually 10 tag_gone
ok 'the session is free' eventually 10 status_is terminated q

# ---- calls at once ----
for i in 1 2 3 4 5 6; do
    curl -sS --unix-socket "$SOCKET" -H 'Content-Type: application/json' \
        -d "{\"id\":\"q\",\"command\":\"echo $i >> order; n=\$((n + 1)); echo \$n\"}" "http://localhost$S/exec" \
    > "$WORK/out-$i" &
    waits[i]=$!
done
wait "${waits[@]}"
is 'calls of one session queue' "$(jq -r .data.output "$WORK"/out-[1-6] | sed '/^$/d' | sort | tr '\n' ' ')" \
    '1 2 3 4 5 6 '
x 'echo 1; read -t 20 y; echo "$y"' '"async_mode":true,"id":"q"'
x 'echo 2' "\"id\":\"$one\""
is 'another session does not wait for it' "$OUT" 2
p kill '{"id":"q"}'

# ---- how much comes back ----
x 'for ((i = 0; i < 20000; i++)); do echo "é$i"; done'
is 'of much output the middle is left out' "$(j '.data.output|length <= 30000 and length > 29000')" true
like 'it says how much' "$OUT" $'^é0\né1\n.*\n\\[\\.\\.\\. 98[0-9]{3} characters left out \\.\\.\\.\\]\n.*\né19999$'
x 'head -c 30000 /dev/zero | tr "\0" x'
is 'up to 30000 characters are all there' "$(j '.data.output|length')" 30000
x 'for ((i = 0; i < 20000; i++)); do echo "é$i"; done' '"truncate":false'
is 'truncate: false' "$(j '.data.output|[length, (split("\n")|length)]' -c)" '[128890,20001]'

# ---- events ----
api POST "$S/exec" '{"id":"q","command":"printf \"\\303\"; sleep 0.1; printf \"\\251\\n\"; exit 4"}' \
    -H 'Accept: text/event-stream'
is 'exec as events: no character is torn' \
    "$(sed -n 's/^data: //p' <<< "$BODY" | jq -c '.data,.status,.exit_code|values' | tr '\n' ' ')" \
    '"é\n" "completed" 4 '
is 'their names' "$(sed -n 's/^event: //p' <<< "$BODY" | tr '\n' ' ')" 'output result '
api POST "$S/exec" '{"id":"q","command":"echo"}' -H 'Accept: text/event-stream'
unknown 'a refusal is no stream'
x 'echo a; read -t 30 y; echo b' '"async_mode":true'
curl -sSN --unix-socket "$SOCKET" -H 'Accept: text/event-stream' -H 'Content-Type: application/json' \
    -d '{"id":"default"}' "http://localhost$S/view" > "$WORK/view" &
viewer=$!
ok 'view as events: what is there comes' eventually 10 grep -q '"a\\n"' "$WORK/view"
p write '{"id":"default","input":"","press_enter":true}'
wait "$viewer"
is 'and the rest, until it ends' "$(sed -n 's/^data: //p' "$WORK/view" | jq -c '.data,.status|values' | tr '\n' ' ')" \
    '"a\n" "b\n" "completed" '

# ---- bodies ----
p exec '{}'
is 'no command' "$STATUS $(j -c '.detail[0]|[.loc,.msg,.type]')" '422 [["body","command"],"Field required","missing"]'
p exec '{"command":"echo x","timeout":-1}'
is 'a time below zero' "$STATUS" 422
p write '{"id":"default","input":"x"}'
is 'press_enter is required' "$STATUS $(j -c '.detail[0].loc')" '422 ["body","press_enter"]'
x 'echo x' '"no_such_member":1,"id":null,"exec_dir":null,"timeout":null'
is 'members that are null or not known are not there' "$STATUS $OUT" '200 x'

# ---- terminals ----
x 'true' "\"id\":\"$one\""
cat > "$WORK/terminals.py" << 'END'
import sys
sys.path.insert(0, 'test/lib')
from terminal import Terminal
socket, base, one = sys.argv[1:]
def check(name, got, want):
    print(f'ok - {name}' if got == want else f'not ok - {name}\ngot {got!r}, want {want!r}')
t = Terminal(socket, base + '/ws')
first, ready = t.take(), t.take()
check('a terminal: its session, then that it is ready',
      [first['type'], ready['type'], ready['session_id'] == first['data'], ready['resumed']],
            ['session_id', 'ready', True, False])
t.expect('/workspace$ ')
t.type('echo one$((1+1))\n')
check('a line is shown and run', t.expect('one2\r\n'), 'echo one$((1+1))\r\none2\r\n')
check('then comes the prompt', t.expect('$ '), '/workspace$ ')
t.type('cd /tmp\n')
t.type('pwd -P\r')
t.expect('pwd -P\r\n/tmp\r\n/tmp$ ')
check('lines one after another are commands', True, True)
t.type('echo ab')
t.type('X\x7fc\n')
t.expect('\r\nabc\r\n')
t.expect('$ ')
check('keys that edit', True, True)
t.type('echo no')
t.type('\x03')
check('Ctrl-C throws the line away', t.expect('^C\r\n/tmp$ '), 'echo no^C\r\n/tmp$ ')
t.type('for i in 1 2; do\n echo i$i\ndone\n')
t.expect('\r\ni1\r\ni2\r\n')
t.expect('$ ')
check('lines that come at once are one command', True, True)
t.send(type='resize', data={'cols': 132, 'rows': 43})
t.type('stty size\n')
t.expect('43 132\r\n/tmp$ ')
t.send(type='resize', cols=90, rows=20)
t.type('stty size; [ -t 0 ] && [ -t 1 ] && echo terminal\n')
t.expect('20 90\r\nterminal\r\n/tmp$ ')
check('resize, in both forms', True, True)
t.type('echo up; cat\n')
t.expect('up\r\n')
t.send(type='input', data='typed\n')
t.expect('typed\r\ntyped\r\n')
t.type('\x03')
t.expect('$ ')
check('what is typed while a command runs is its own', True, True)
t.send(type='ping', timestamp=77)
check('ping', t.until('pong')['timestamp'], 77)
t.door.frame(1, b'echo raw\n')
t.expect('\r\nraw\r\n')
t.expect('$ ')
check('a message that is no JSON is typed', True, True)
session = first['data']
t.drop()
t = Terminal(socket, f'{base}/ws?session_id={session}')
t.expect('raw\r\n')
check('a terminal comes back', [m['type'] for m in t.messages[:3]] + [t.messages[1]['resumed']],
      ['session_id', 'ready', 'restore_output', True])
t.expect('/tmp$ ')
u = Terminal(socket, f'{base}/ws?session_id={session}')
u.expect('/tmp$ ')
u.type('echo from the other\n')
t.expect('from the other\r\n')
check('two see the same', True, True)
t.expect('/tmp$ ')
t.type('x' * 30000 + '\x7f' * 29990 + '\x17echo edi' + '\x7f' + 'ited\n')
shown = t.expect('edited\r\n')
check('a line that is edited much is not told anew for every key', len(shown) < 200000, True)
t.expect('edited\r\n')
t.expect('/tmp$ ')
t.type('\x04')
check('Ctrl-D ends the session', t.until('closed')['data'], 'Session ended')
check('for the other too', u.until('closed') is not None, True)
w = Terminal(socket, f'{base}/ws?session_id=nobody')
check('there is no terminal on what is not there', w.open, False)
v = Terminal(socket, f'{base}/ws?session_id={one}')
v.expect('$ ')
v.type('echo $((3*4)); exit 3\n')
v.expect('12\r\n')
check('a terminal on a session that was made before', v.until('closed') is not None, True)
END
program 'terminals' python3 "$WORK/terminals.py" "$SOCKET" "$S" "$one"
api GET "$S/terminal-url"
url=$(j .data)
like 'terminal-url' "$url" '^ws://localhost/aio/[0-9a-f]{16}[^/]*/v1/shell/ws\?session_id=[0-9a-f]+$'
x 'stty -a > /dev/null; echo a; echo b' "\"id\":\"${url##*=}\""
is 'its session is there' "$OUT" $'a\nb'
OUTPUT=$("$TOOL" ws "$SOCKET" "$S/ws?protocol=binary&session_id=${url##*=}" << 'END'
expect $ 
send printf '\\377\\n'; exit\r
expect \xff\r\n
wait
END
)
like 'in binary' "$OUTPUT" $'seen\nseen\nclosed 1000$'
api GET "$S/ws"
is 'without an upgrade' "$STATUS $(j .success)" '400 false'

# ---- what a command leaves behind ----
p sessions/create '{"id":"behind"}'
x 'mkfifo /tmp/go /tmp/went; (read -r _ < /tmp/go; head -c 3000000 /dev/zero | tr "\0" x; echo > /tmp/went) & echo hi' \
    '"id":"behind"'
p view '{"id":"behind"}'
is 'a command that is over, to look at' "$STATUS $(j .data.output)" '200 hi'
x 'echo > /tmp/go; read -r _ < /tmp/went; rm /tmp/go /tmp/went'
p view '{"id":"behind"}'
is 'of which nothing is kept any more, because what it left behind printed too much: nothing' \
    "$STATUS $(j '.data|[.status, (.output|length < 100)]|@json')" '200 ["completed",true]'
x "PWD=$(printf '%020000d' 0)"' && echo said' '"id":"behind","timeout":20'
is 'a PWD that is no path does not keep a command from its end' "$STATE $CODE $OUT" 'completed 0 said'
x 'cd /tmp; pwd' '"id":"behind"'
is 'nor the next one' "$STATE $OUT" 'completed /tmp'

# ---- the end ----
api DELETE "$S/sessions"
is 'delete all' "$STATUS $(j .success)" '200 true'
api GET "$S/sessions"
is 'then there is none' "$(j -c .data)" '{"sessions":{}}'
for ((i = 1; i <= 64; i++)); do
    printf 'next\nurl = "http://localhost%s/sessions/create"\nunix-socket = "%s"\nheader = "Content-Type: '\
'application/json"\ndata = "{\\"id\\":\\"s%d\\"}"\noutput = "/dev/null"\n' "$S" "$SOCKET" "$i"
    printf 'next\nurl = "http://localhost%s/exec"\nunix-socket = "%s"\nheader = "Content-Type: '\
'application/json"\ndata = "{\\"id\\":\\"s%d\\",\\"command\\":\\"read x\\",\\"async_mode\\":true}"\noutput '\
'= "/dev/null"\n' "$S" "$SOCKET" "$i"
done | sed 1d > "$WORK/many"
curl -sS -K "$WORK/many"
p sessions/create '{"id":"one-more"}'
is 'as many as there may be, and all of them busy' "$STATUS $BODY" \
    '400 {"success":false,"message":"Cannot create shell session: session limit reached and all 64 existing sessions '\
'have active commands","data":null,"hint":null}'
p kill '{"id":"s7"}'
p sessions/create '{"id":"one-more"}'
is 'an idle one makes room' "$STATUS" 200
x 'echo x' '"id":"s7"'
unknown 'it is gone'
api DELETE "$S/sessions"
is 'all of them end' "$(j .message)" 'Cleaned up 64 sessions'
x 'read x' '"async_mode":true'
for ((i = 1; i <= 63; i++)); do
    printf 'next\nurl = "http://localhost%s/exec"\nunix-socket = "%s"\nheader = "Content-Type: '\
'application/json"\ndata = "{\\"command\\":\\"read x\\",\\"async_mode\\":true}"\noutput = "/dev/null"\n' "$S" "$SOCKET"
done | sed 1d > "$WORK/many"
curl -sS -K "$WORK/many"
x 'echo on'
is 'as many commands as there may be sessions, all left alone: the first one makes room' \
    "$STATUS $(j .data.session_id) $OUT" '200 default:65 on'
p view '{"id":"default"}'
unknown 'and is gone'
api DELETE "$S/sessions"

STATE=$DIRECTORY
stop_daemon
finish
