# bash_background, bash_output, bash_kill: golden texts, waits, ends of whole trees, other threads, restarts.
# by default: jail local remote

background() { # background COMMAND [MORE JSON MEMBERS]: PID
    json_string "$1"
    tool bash_background "{\"command\":$JSON_STRING${2:+,$2}}"
    PID=$(j .structured.pid)
}
output() { tool bash_output "{\"pid\":$PID${1:+,$1}}" "${@:2}"; }
told() { # told TEXT: what is the same every time
    sed -E 's/for [0-9]+ s/for N s/; s/after [0-9.]+ s/after N s/; s/process [0-9]+/process P/; s/^Process '\
'[0-9]+/Process P/; s/pid: [0-9]+/pid: P/; s/^[0-9]+ /P /' <<< "$1"
}

tool bash_output '{}'
tool_is 'none yet' 'No background commands.'

background 'echo one; echo two >&2; read -r line; echo "read: $line"; sleep 0.1; echo three; exit 4'
is 'it is started' "$IS_ERROR $(told "$TEXT")" 'false Background task started [pid: P]
Command: echo one; echo two >&2; read -r line; echo "read: $line"; sleep 0.1; echo three; exit 4
Read its output with bash_output, stop it with bash_kill. It is stopped with the box.'
output '"wait_ms":20000,"until_exit":true'
is 'to its end: both streams and how it ended' "$IS_ERROR $(told "$TEXT")" 'false one
read: 
three

Std Error:
two

[process P ended after N s with exit code 4; stdout_offset 17, stderr_offset 4]'
is 'also structured' "$(j -c '.structured | del(.pid, .started_at)')" \
    '{"state":"exited","exit_code":4,"signal":null,"timed_out":false,"oom_killed":false,"stdout_offset":'\
'17,"stderr_offset":4}'
output
is 'what was shown is not shown again' "$(told "$TEXT")" '(no new output)
[process P ended after N s with exit code 4; stdout_offset 17, stderr_offset 4]'
output '"stdout_offset":4,"stderr_offset":4'
is 'but can be asked for' "$(told "$TEXT")" 'read: 
three

[process P ended after N s with exit code 4; stdout_offset 17, stderr_offset 4]'
output '' '' -H 'Cubby-Thread: another'
like 'another thread begins at the beginning' "$TEXT" '^one'

# ---- waiting ----

run 'mkfifo gate'
background 'while read -r line < gate; do echo "$line"; done'
output '"wait_ms":100'
is 'silence ends with the time' "$(told "$TEXT")" '(no new output)
[process P is running for N s; stdout_offset 0, stderr_offset 0]'
is 'and its state is told' "$(j -c '.structured | [.state, .exit_code]')" '["running",null]'
mkdir "$WORK/waiter"
(WORK=$WORK/waiter; tool bash_output "{\"pid\":$PID,\"wait_ms\":30000}"; printf '%s' "$TEXT" > "$WORK/text") &
waiter=$!
run 'echo errand > gate'
wait "$waiter"
like 'a wait ends with something new' "$(< "$WORK/waiter/text")" $'^errand\n'
background 'sleep 0.2; echo late >&2; exec sleep 1000'
output '"wait_ms":30000'
like 'also of its errors' "$TEXT" $'^late\n\n\\[process [0-9]+ is running'
tool bash_output '{}'
like 'all of them in one list' "$(told "$TEXT")" \
    $'P ended after N s with exit code 4: echo one; .*P is running for N s: sleep 0.2; echo late'

# ---- the end ----

tag_new
background "trap '' TERM; setsid sleep $TAG & (sleep $TAG &) ; sleep $TAG; sleep $TAG"
ok 'a tree that does not want to end' eventually 5 tag_alive
tool bash_kill "{\"pid\":$PID}"
like 'is ended' "$(told "$TEXT")" '^Process P ended after N s, killed by SIGKILL$'
ok 'with everything in it' tag_gone
background 'trap "echo bye; exit 7" TERM; echo up; while :; do sleep 0.05; done'
output '"wait_ms":20000'
tool bash_kill "{\"pid\":$PID}"
like 'one that listens ends by itself' "$(told "$TEXT")" '^Process P ended after N s with exit code 7$'
output
like 'its last words are kept' "$TEXT" '^bye'
tool bash_kill "{\"pid\":$PID}"
is 'twice is as good as once' "$IS_ERROR $(told "$TEXT")" \
    'false Process P had already exited: it ended after N s with exit code 7'
# The shell reports the sleep that the signal ends, on its standard error: that is not what is waited for.
background 'trap "echo got it" USR1; echo up; while :; do sleep 0.05; done 2> /dev/null'
output '"wait_ms":20000'
tool bash_kill "{\"pid\":$PID,\"signal\":\"SIGUSR1\"}"
like 'a signal and nothing else' "$TEXT" '^Sent SIGUSR1 to all processes of [0-9]+; it is running'
output '"wait_ms":20000'
like 'which arrives' "$TEXT" '^got it'
tool bash_kill "{\"pid\":$PID,\"signal\":\"9\"}"
like 'by number' "$TEXT" 'killed by SIGKILL$'
background 'exec sleep 1000' '"timeout_ms":200'
output '"wait_ms":20000,"until_exit":true'
like 'out of time' "$TEXT" 'ended after [0-9.]+ s, timed out'

# ---- mistakes ----

tool bash_output '{"pid":999999}'
tool_fails 'a number nobody has' 'Error: no background command 999999; bash_output without pid lists them'
tool bash_kill '{"pid":999999}'
tool_fails 'to kill as well' 'Error: no background command 999999; bash_output without pid lists them'
tool bash_kill "{\"pid\":$PID,\"signal\":\"SIGNOTHING\"}"
tool_fails 'a signal there is not' \
    "Error: 'signal' must be a name such as SIGTERM or a number from 1 to 64, not 'SIGNOTHING'"
tool bash_output "{\"pid\":$PID,\"wait_ms\":600001}"
tool_fails 'too long a wait' "Error: 'wait_ms' must be from 0 to 600000"
background true '"cwd":"no/such"'
tool_fails 'no directory' "Error: no directory '/workspace/no/such' to run the command in"

# ---- much output, and a daemon that dies ----

background 'head -c 3000000 /dev/zero | tr "\0" x; echo; echo the end; exec sleep 1000'
eventually 20 eval 'output "\"stdout_offset\":0"; [[ $TEXT = *"the end"* ]]'
like 'what is gone is told' "$TEXT" \
    '\[19[0-9]{5} bytes before this were dropped: only the last 1 MB of a stream is kept\]'
output
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
start_daemon "$program"
output
like 'it outlives a killed daemon, and so does what was read of it' "$TEXT" \
    $'^\\(no new output\\)\n\\[process [0-9]+ is running for [0-9]+ s; stdout_offset 3000009, stderr_offset 0\\]$'
tool bash_kill "{\"pid\":$PID}"
like 'and it can be ended' "$TEXT" 'killed by SIGTERM$'
