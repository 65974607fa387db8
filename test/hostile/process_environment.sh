# Variables that take programs over: they reach the command that was given them and nothing else.
# wall: the runner builds a command's environment from the request and runs nothing itself with it
# backends: jail docker
# by default: jail
api POST "$B/processes" '{"command":"exec cat"}'
run 'env' '"env":{"LD_PRELOAD":"/nonexistent.so","BASH_ENV":"/workspace/evil","PATH":"/'\
'nowhere","IFS":"x","PROMPT_COMMAND":"exit 9","LD_LIBRARY_PATH":"/workspace","GLIBC_TUNABLES":"x","TMPDIR":"/nowhere"}'
like 'a command gets them' "$STATUS $CODE $ERR" '^200 127 '
put evil 'echo taken over'
run 'echo fine' '"env":{"BASH_ENV":"/workspace/evil"}'
is 'and is taken over by them, as it asked' "$OUT" $'taken over\nfine'
run 'echo fine'
is 'the next one is not' "$OUT" fine
api GET "$B/list?path=/workspace"
is 'nor is the runner' "$STATUS $(j '[.entries[].name]|join(" ")')" '200 evil'
api POST "$B/grep" '{"pattern":"taken","path":"/workspace"}'
is 'nor its workers' "$STATUS" 200
for bad in '{"A=B":"x"}' '{"":"x"}' '{"A":"x\u0000y"}'; do
    api POST "$B/exec" "{\"command\":\"true\",\"env\":$bad}"
    is_error "refused: $bad" 400 INVALID
done
