# bash: what a model sees of a command. Golden texts, to the last byte.
# by default: jail local

bash_tool() { # bash_tool COMMAND [MORE JSON MEMBERS]
    json_string "$1"
    tool bash "{\"command\":$JSON_STRING${2:+,$2}}"
}

bash_tool 'echo hello'
tool_is 'output as it is' $'hello\n'
is 'the structured result beside it' \
    "$(j -c '.structured | del(.duration_ms)')" \
    '{"exit_code":0,"signal":null,"timed_out":false,"oom_killed":false,"left_running":false,"stdout_bytes":'\
'6,"stderr_bytes":0,"cwd":"/workspace"}'
between 'it says how long it took' "$(j .structured.duration_ms)" 0 60000

bash_tool 'echo out; echo err >&2'
tool_is 'errors below their heading' $'out\n\nStd Error:\nerr\n'
bash_tool 'echo err >&2'
tool_is 'errors alone have none' $'err\n'
bash_tool 'true'
tool_is 'no output' '(no output)'
bash_tool 'exit 3'
tool_is 'an exit code is a result, no error' $'(no output)\nExit Code: 3'
is 'and stands in the structured result' "$(j .structured.exit_code)" 3
bash_tool 'echo a; echo b >&2; exit 1'
tool_is 'all three' $'a\n\nStd Error:\nb\n\nExit Code: 1'
bash_tool 'printf "no newline"'
tool_is 'a missing newline stays missing' 'no newline'
bash_tool 'printf "b\377c"'
tool_is 'bytes that are no text are shown as such' $'b\xef\xbf\xbdc'

bash_tool 'kill -SEGV $$'
tool_fails 'killed by a signal' $'(no output)\nKilled by SIGSEGV'
is 'which is named' "$(j -c '.structured | [.exit_code, .signal]')" '[null,"SIGSEGV"]'
tag_new
bash_tool "echo before; sleep $TAG & sleep $TAG" '"timeout_ms":1500'
tool_fails 'out of time' \
    $'before\n\nCommand timed out after 1.5 seconds and was terminated. To run a long-lived process such as a web '\
$'server, start it with bash_background.'
is 'and told apart' "$(j .structured.timed_out)" true
ok 'with all it started' tag_gone
bash_tool "(sleep $TAG &); echo done"
tool_is 'what it leaves behind does not hold the answer back, and is told' \
    $'done\n\nIt left processes running, which were killed. To keep one running, start it with bash_background.'
ok 'and ends with it' eventually 5 tag_gone

if [[ $BACKEND = jail || $BACKEND = docker ]]; then
    LARGE=$BOX
    box_new '"limits":{"memory_mb":64}'
    bash_tool 'head -c 200m /dev/zero | tail >/dev/null; echo "status $?"'
    like 'out of memory is told, with the limit' "$TEXT" \
        $'\nOut of memory: a process was killed \\(the box may use 64 MB\\)\\.'
    is 'as an error' "$IS_ERROR $(j .structured.oom_killed)" 'true true'
    api DELETE "$B"
    box_use "$LARGE"
else
    skip 'out of memory is told, with the limit' 'backend local has no limits'
fi

bash_tool 'cd /tmp && pwd'
tool_is 'a tip for who changes the directory' \
    $'/tmp\n\nTip: cd affects this command only; use the cd tool to change the working directory.'
bash_tool 'cdx 2>/dev/null || echo cd'
tool_is 'and for nobody else' $'cd\n'
run 'mkdir there'
bash_tool 'pwd' '"cwd":"there"'
tool_is 'a directory for one command' $'/workspace/there\n'
bash_tool 'pwd'
tool_is 'and no more than one' $'/workspace\n'
bash_tool 'pwd' '"cwd":"no/such"'
tool_fails 'a directory that is not there' "Error: no directory '/workspace/no/such' to run the command in"

# ---- arguments ----

tool bash '{}'
tool_fails 'no command' "Error: 'command' is missing: The command line, passed to the box's shell."
tool bash '{"command":""}'
tool_fails 'an empty one' "Error: 'command' may not be empty"
tool bash '{"command":"a\u0000b"}'
tool_fails 'a NUL' "Error: 'command' may not hold a NUL"
tool bash '{"command":"true","timeout":5}'
tool_fails 'an unknown field is named' "Error: unknown field 'timeout'; known: command, timeout_ms, cwd, description"
tool bash '{"command":"true","timeout_ms":0}'
tool_fails 'a time-out of nothing' "Error: 'timeout_ms' must be from 1 to 86400000"
tool bash '{"command":["true"]}'
tool_fails 'the wrong type' "Error: 'command' must be a string, not an array"
printf '{"command":"echo %s"}' "$(head -c 131100 /dev/zero | tr '\0' x)" > "$WORK/long"
tool bash "@$WORK/long"
tool_fails 'longer than the kernel takes' "Error: 'command' is longer than 131071 bytes"
tool bash '{"description":"what for","command":"echo ok"}'
tool_is 'a description is taken' $'ok\n'

# ---- long output ----

bash_tool 'head -c 60000000 /dev/zero | tr "\0" x; echo; echo the end'
is 'much more than fits stays within bounds' "$(((${#TEXT} < 20100)) && echo yes)" yes
like 'and keeps its end' "$TEXT" 'the end'
is 'all of it is counted' "$(j .structured.stdout_bytes)" 60000009
between 'the daemon stays small' "$(($(daemon_memory_kb VmHWM) / 1024))" 1 250

# ---- nobody waits any more ----

tag_new
api POST "$B/tools/bash" "{\"command\":\"setsid sleep $TAG & (sleep $TAG &) ; sleep $TAG\"}" --max-time 1
like 'a client that hangs up' "$STATUS" '^curl-28'
ok 'ends the command and all it started' eventually 10 tag_gone

# ---- where it lies on the host is not the model's business ----

if [ "$BACKEND" = local ]; then
    real=$STATE/boxes/$BOX/workspace
    bash_tool 'pwd -P; echo "$HOME"; readlink -f .; ls -d "$PWD"; cat /workspace/nothing; env | grep HOME; '\
'/workspace/not-there'
    unlike 'commands do not show it' "$TEXT" "$STATE"
    like 'but the boxs paths' "$TEXT" $'^/workspace\n/workspace\n/workspace\n/workspace\n'
    bash_tool "printf %s $real/x | sed 's/./&\n/g' | tr -d '\n'; echo; echo $real/y >&2; echo ${real}-backup"
    tool_is 'however it is written, and nothing else is taken for it' "/workspace/x
${real}-backup

Std Error:
/workspace/y
"
    bash_tool 'echo deep > /workspace/there/f; cat /workspace/there/f; cd /workspace/there && pwd'
    like 'paths of the box work in commands' "$TEXT" $'^deep\n/workspace/there\n'
    seen=''
    for call in 'ls {"path":"/workspace/none"}' 'ls {}' 'glob {"pattern":"**/f"}' 'grep {"pattern":"deep"}' \
        'read_file {"path":"there"}' 'read_file {"path":"none"}' 'write_file {"path":"there","content":"x"}' \
        'str_replace {"path":"none","old_str":"a","new_str":"b"}' 'cd {"path":"there"}' 'cd {"path":"none"}' \
        'bash {"command":"pwd","cwd":"none"}' 'bash_background {"command":"pwd"}' \
        'bash_output {}' 'download {"url":"http://127.0.0.1:1/x","path":"there/d"}'; do
        tool "${call%% *}" "${call#* }"
        seen+="$call: $BODY
"
    done
    unlike 'no tool shows it, in answers or errors' "$seen" "$STATE"
else
    skip 'commands do not show where they lie on the host' 'only backend local has two names for a path'
fi
