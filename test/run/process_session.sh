# Sessions: a shell that lives on from command to command. Its state, its output, its end; turns, time-outs, stops.

session() { api POST "$B/sessions" "{\"name\":\"$1\"${2:+,$2}}"; }
se() { # se NAME COMMAND [MORE MEMBERS] -> STATUS, OUT, E "STATE EXIT ENDED"
    json_string "$2"
    api POST "$B/sessions/$1/exec" "{\"command\":$JSON_STRING${3:+,$3}}"
    E=$(j '[.state,.exit_code,.ended]|tostring')
    OUT=$(j .output | tr -d '\0')
}
look() { api GET "$B/sessions/$1${2:+?wait_ms=$2}"; }
state() { look "$1" && j .state; }
went() { look "$1" && [ "$STATUS" = 404 ]; }
done0='["completed",0,false]'

api GET "$B/sessions"
is 'no sessions at first' "$STATUS $(j '.sessions|length')" '200 0'
session one
is 'a session is made' "$STATUS $(j '[.name,.state,.commands,.exit_code]|tostring')" '201 ["one","new",0,null]'
CWD=$(j .cwd)
session one
is 'and found again' "$STATUS $(j .name)" '200 one'
se one 'echo hello; echo oops >&2'
is 'a command' "$E $OUT" "$done0 hello
oops"
se one 'cd /; X=5; export Y=6; f() { echo "in f $1"; }; alias aa=true; false'
is 'its exit code' "$E [$OUT]" '["completed",1,false] []'
is 'and directory' "$(j .cwd)" /
se one 'pwd; echo $X; sh -c "echo \$Y"; f a'
is 'what a command leaves behind is there for the next' "$OUT" '/
5
6
in f a'
run pwd
is 'and nowhere else' "$OUT" "$CWD"
se one 'echo -n; printf "no newline"'
is 'output without a newline' "$OUT" 'no newline'
is 'no bytes are added' "$(j .output_bytes)" 10
se one 'printf "a\r\nb\t\000\033[31m\134"'
is 'all bytes as they are' "$(jq -c '[.output,.output_bytes]' <"$WORK/body")" '["a\r\nb\t\u0000\u001b[31m\\",12]'
se one 'true'
is 'nothing printed' "$E [$OUT]" "$done0 []"
se one 'tty >/dev/null && test -t 0 && test -t 1 && test -t 2 && echo terminal'
is 'it has a terminal' "$OUT" terminal
se one 'cat <<END
a $X
END
if true
then echo several lines
fi # and a comment'
is 'several lines' "$OUT" 'a 5
several lines'
se one 'echo "a!b" $?'
is 'no history expansion' "$OUT" 'a!b 0'
se one 'if'
like 'a syntax error is told' "$OUT" '[Ss]yntax error'
like 'and fails' "$E" '^\["completed",[12],false\]$'
se one 'set -u; echo $nosuchvariable; echo not here'
like 'an unset variable under set -u' "$E$OUT" '\["completed",[12],false\].*nosuchvariable'
unlike 'ends the command' "$OUT" 'not here'
se one 'set +u; echo ${nosuchvariable:?is missing}; echo not here'
like 'an error of expansion' "$OUT" 'is missing'
unlike 'ends the line' "$OUT" 'not here'
se one 'echo $X $?'
like 'the shell lives on' "$OUT" '^5 '
se one 'sh -c "exit 3"'
is 'exit of a child' "$E" '["completed",3,false]'
se one 'sh -c "kill -9 \$\$"'
is 'death of a child' "$(j .exit_code)" 137
se one 'PS1="(venv) "; PROMPT_COMMAND="echo PROMPT"; stty sane 2>/dev/null; true'
se one 'echo plain'
is 'no prompt, whatever it is set to; the terminal is calm again' "$OUT $(j .output_bytes)" 'plain 6'
se one 'exec 1>/dev/null; echo hidden'
se one 'echo seen'
is 'redirected output comes back with the next command' "$OUT" seen
se one 'for fd in 231 232 233 7 8 9; do printf "%032d\\0000\\000/\\000" 0 >&$fd; done 2>/dev/null; printf "\\n$ PS1 '\
'\\004\\003"; sleep 0.1; echo end'
is 'no end can be forged' "$E $(tail -1 <<<"$OUT")" "$done0"' $ PS1 '$'\004\003end'
se one 'head -c 300000 /dev/zero >&233 2>/dev/null || head -c 300000 /dev/zero >&9; echo end'
is 'nor be kept from being told' "$E $(tail -1 <<<"$OUT")" "$done0 end"

# where
se one 'pwd' '"cwd":"/etc"'
is 'cwd of a command' "$OUT" /etc
se one 'pwd'
is 'stays' "$OUT" /etc
se one 'pwd' '"cwd":"/no/such"'
is 'a missing one is 404' "$STATUS $(j .error.code)" '404 NOT_FOUND'
se one 'pwd'
is 'and changes nothing' "$OUT" /etc
se one "mkdir -p $CWD/elsewhere"
session two "\"cwd\":\"$CWD/elsewhere\",\"env\":{\"GIVEN\":\"v\"}"
se two 'echo $GIVEN; pwd'
is 'a session that begins elsewhere, with a variable' "$OUT" "v
$CWD/elsewhere"
session bad "\"cwd\":\"$CWD/no/such\""
is 'a session cannot begin nowhere' "$STATUS" 404
look bad
is 'and is not there then' "$STATUS" 404
for name in '' 'a/b' 'a b' "$(printf %0129d 0)"; do
    session "$name"
    is "no session is called '${name:0:8}'" "$STATUS" 400
done
se nosuch 'echo x'
is 'an unknown session is 404' "$STATUS $(j .error.code)" '404 NOT_FOUND'
session cat '"shell":"/bin/cat"'
is 'what is no shell is told' "$STATUS $(j .error.code)" '501 UNSUPPORTED'
look cat
is 'and no session' "$STATUS" 404
killed_at_once() { # killed_at_once N: sessions whose first command is stopped as soon as it is begun
    local i
    for ((i = 0; i < $1; i++)); do
        session "k$i"
        api POST "$B/sessions/k$i/exec" '{"command":"sleep 60","background":true}'
        api POST "$B/sessions/k$i/stop" ''
        is 'the first command is stopped as soon as it is begun' "$(j '[.state,.ended]|tostring')" \
            '["terminated",false]'
        se "k$i" 'echo here'
        is 'and its session is there' "$OUT" here
        api DELETE "$B/sessions/k$i"
    done
}
killed_at_once 8

# input
json_string 'read -r line; echo "got $line"'
api POST "$B/sessions/one/exec" "{\"command\":$JSON_STRING,\"background\":true}"
is 'in the background: an answer at once' "$STATUS $(j .state)" '200 running'
api POST "$B/sessions/one/exec" '{"command":"echo x","background":true}'
is 'a second one there is BUSY' "$(j .error.code)" BUSY
api POST "$B/sessions/one/stdin" '' --data-binary $'typed\n'
like 'input is taken' "$STATUS" '^20'
look one 20000
is 'waiting for its end' "$(j '[.state,.exit_code]|tostring')" '["completed",0]'
api GET "$B/processes/$(j .pid)/output?offset=$(j .offset)"
is 'its output is kept' "$BODY" 'got typed'
json_string 'sleep 60; echo not here'
api POST "$B/sessions/one/exec" "{\"command\":$JSON_STRING,\"background\":true}"
api POST "$B/sessions/one/stdin" '' --data-binary $'\003'
look one 20000
is 'Ctrl-C ends a command' "$(j '[.state,.exit_code]|tostring')" '["completed",130]'
se one 'echo $X'
is 'and not the shell' "$OUT" 5

# time
se one 'echo begun; sleep 60' '"wait_ms":300'
is 'wait_ms: it runs on' "$E $OUT" '["running",null,false] begun'
is 'as the list says' "$(state one)" running
se one 'echo never' '"wait_ms":200'
is 'whose turn does not come in time' "$STATUS $(j .error.code)" '429 LIMIT'
se one 'echo never' '"quiet_ms":200'
is 'quiet_ms bounds the wait for the turn' "$STATUS $(j .error.code)" '429 LIMIT'
se one 'echo never' '"timeout_ms":200'
is 'so does timeout_ms' "$STATUS $(j .error.code)" '429 LIMIT'
api POST "$B/sessions/one/stop" ''
is 'it is stopped' "$STATUS $(j '[.state,.ended]|tostring')" '200 ["terminated",false]'
se one 'echo $X'
is 'the session stays' "$E $OUT" "$done0 5"
api POST "$B/sessions/one/stop" ''
is 'nothing to stop: nothing happens' "$STATUS $(j .ended)" '200 false'
se one 'echo a; sleep 0.1; echo b; sleep 60' '"quiet_ms":300'
is 'quiet_ms: nothing came for so long' "$E $OUT" '["quiet",null,false] a
b'
is 'it runs on' "$(state one)" quiet
api POST "$B/sessions/one/stop" ''
se one 'sleep 77 & echo $!; sleep 61; echo not here' '"timeout_ms":300'
is 'timeout_ms: killed' "$STATUS $(j '[.state,.timed_out,.ended]|tostring') $(wc -l <<<"$OUT")" \
    '200 ["timed_out",true,false] 1'
se one "kill -0 $OUT 2>/dev/null || echo gone"
is 'with all it had started' "$OUT" gone
se one 'sleep 78 & KEPT=$!; sh -c "sleep 79 & " ; true'
is 'a job in the background holds nothing up' "$E" "$done0"
se one '(trap "" TERM INT; sleep 62; sleep 63; true); echo not here' '"timeout_ms":200'
is 'what ignores signals is killed' "$(j .state) [$OUT]" 'timed_out []'
se one 'kill -0 $KEPT && echo job && kill $KEPT'
is 'jobs of earlier commands are left alone' "$OUT" job
se one 'while :; do :; done' '"timeout_ms":200'
is 'a loop of the shell itself' "$E" '["timed_out",130,false]'
se one 'echo $X'
is 'after all of this' "$OUT" 5

# turns
turn() { api POST "$B/sessions/one/exec" "{\"command\":\"echo $1 >>turns; sleep 0.05; echo $1 >>turns\"}"; }
se one "cd $CWD"
pids=
for i in 1 2 3 4 5; do
    turn $i >/dev/null &
    pids="$pids $!"
done
for pid in $pids; do wait "$pid"; done
get turns
is 'commands of one session go one after another' "$(uniq -c <<<"$BODY" | awk '$1 != 2' | wc -l) $(wc -l <<<"$BODY")" \
    '0 10'
json_string 'echo here >left; until [ -e right ]; do sleep 0.02; done; echo met'
api POST "$B/sessions/one/exec" "{\"command\":$JSON_STRING,\"background\":true}"
se two "cd $CWD; until [ -e left ]; do sleep 0.02; done; echo >right; echo met" '"timeout_ms":20000'
is 'those of two at once' "$OUT" met
look one 20000
is 'both' "$(j .state)" completed

# much
se one 'i=0; while [ $i -lt 20000 ]; do echo "line $i of many that are printed"; i=$((i+1)); done'
is 'much output' "$(j '[.state,.output_bytes,.output_truncated]|tostring')" '["completed",708890,false]'
se one 'head -c 3000000 /dev/zero | tr "\0" z' '"output_limit_bytes":1000'
is 'more than is kept' "$(j '[.state,.output_bytes,.output_truncated]|tostring')" '["completed",3000000,true]'
big=$(head -c 100000 /dev/zero | tr '\0' y)
se one "big=$big; echo \${#big}"
is 'a long command' "$OUT" 100000

# the end
se two 'echo bye; exit 7; echo not here'
is 'exit ends the session' "$E $OUT" '["completed",7,true] bye'
look two
is 'which is gone' "$STATUS" 404
se one 'echo here'
is 'and no other' "$OUT" here
session two
is 'its name is free' "$STATUS $(j .state)" '201 new'
se two 'kill -9 $$; sleep 1'
is 'death of the shell' "$E" '["completed",137,true]'
session two
json_string 'trap "" INT TERM HUP; while :; do sleep 1; done'
api POST "$B/sessions/two/exec" "{\"command\":$JSON_STRING,\"background\":true}"
api DELETE "$B/sessions/two"
is 'deleted while it runs' "$STATUS" 204
look two
is 'it is gone' "$STATUS" 404
api DELETE "$B/sessions/two"
is 'deleted twice' "$STATUS" 404
json_string 'sleep 99'
api POST "$B/sessions/one/exec" "{\"command\":$JSON_STRING}" --max-time 0.3
is 'a caller who hangs up takes his command along' "$(look one 20000; j .state)" terminated
api GET "$B/sessions"
is 'the list' "$(j '.sessions|map(.name)|tostring')" '["one"]'
api DELETE "$B/sessions/one"
