# Bang commands: what a person types in a chat runs in the sender's box of that chat; one grammar for every bridge.
# by default: jail local

bang() { # bang TEXT [MEMBERS]: sets TEXT, the answer for the chat
    json_string "$1"
    api POST /v1/threads/chat/bang "{\"text\":$JSON_STRING${2:+,$2}}"
    TEXT=$(j '.text // empty')
}

bang '!echo hi; pwd'
is 'a command' "$STATUS $TEXT" $'200 ```\nhi\n/workspace\n```'
is 'with its end' "$(j -c '[.command,.exit_code,.is_error,.cwd,.file]')" '["echo hi; pwd",0,false,"/workspace",null]'
bang '  !true  '
is 'blanks around it do not count' "$TEXT" '`OK (no output)`'
bang '!echo no >&2; exit 3'
is 'standard error and the exit code' "$TEXT" $'```\n[stderr] no\n```\n`exit: exit code 3`'
bang '!mkdir -p a/"b c"'
bang '!cd a/"b c"'
is 'cd, by the rules of the shell' "$TEXT $(j .cwd)" '`/workspace/a/b c` /workspace/a/b c'
bang '!pwd'
is 'holds for the next command' "$TEXT" $'```\n/workspace/a/b c\n```'
bang '!!'
is 'and is repeated' "$(j .command) $TEXT" $'pwd ```\n/workspace/a/b c\n```'
bang '!cd nowhere'
like 'a directory that is not there' "$TEXT $(j .cwd)" 'nowhere.*exit code.*/workspace/a/b c$'
bang '!cd'
is 'and back' "$(j .cwd)" /workspace
bang '!! true'
like 'two marks and more: the shell has the second' "$(j -c '[.command,.exit_code]')" '^\["! true",1\]$'
bang '!printf "%s\n" "\`\`\`"'
is 'a fence that the output cannot close' "$TEXT" $'````\n```\n````'

bang '!seq 1 20000'
is 'long output is a file in the box' "$(j -c '[.truncated,.file_bytes]')" '[true,108894]'
FILE=$(j .file)
box_use "$(j .box)"
like 'that the answer names' "$TEXT" "The whole output \(108894 bytes\) is in .$FILE"
like 'below the workspace' "$FILE" '^/workspace/cmd-output-[0-9]+\.txt$'
is 'and it is whole' "$(get "$FILE"; sha256sum < "$WORK/body")" "$(seq 1 20000 | sha256sum)"
bang '!seq 1 100' '"max_chars":100'
is 'from a length of its own on' "$(j .truncated)" true
bang "!get $FILE"
is 'get: a file for the chat' "$STATUS $(j -c '[.file,.file_bytes,.is_error]')" "200 [\"$FILE\",108894,false]"
bang '!get /workspace/a'
like 'not a directory' "$(j .is_error) $TEXT" '^true .*is a directory'
bang '!get ../../../etc/nothing-here'
is 'a file that is not there' "$(j .is_error) $(j .file)" 'true null'
bang '!ln -s /etc/hostname link; mkfifo pipe'
bang '!get pipe'
is 'no pipe' "$(j .is_error) $(j .file)" 'true null'
bang '!sleep 100' '"timeout_ms":300'
like 'a time limit' "$(j .timed_out) $TEXT" '^true .*timed out after 0.3 s'
for bad in 'ls' '!' '  ! ' ''; do
    bang "$bad"
    is "not a bang command: '$bad'" "$STATUS" 400
done
bang '!id' '"extra":1'
is 'an unknown member' "$STATUS" 400

use_cubby
c bang --thread chat '!echo' from here
is 'the command line' "$CODE $OUT" $'0 ```\nfrom here\n```'
c bang --thread chat 'exit 7'
is 'its status is that of the command' "$CODE" 7
c bang --thread chat -o "$WORK/got" "!get $FILE"
is 'and a file comes back' "$CODE $(sha256sum < "$WORK/got")" "0 $(seq 1 20000 | sha256sum)"
