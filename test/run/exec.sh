# Commands in the foreground: streams, status, environment, input, limits on output.

run 'echo out; echo err >&2; exit 3'
is 'exec answers 200' "$STATUS" 200
is 'standard output' "$OUT" out
is 'standard error' "$ERR" err
is 'exit code' "$CODE" 3
is 'text is utf-8' "$(j .encoding)" utf-8
is 'no signal' "$(j .signal)" null
is 'true counts, nothing cut, no time-out' \
    "$(j '[.stdout_bytes,.stderr_bytes,.stdout_truncated,.stderr_truncated,.timed_out,.oom_killed]|tostring')" \
    '[4,4,false,false,false,false]'
between 'duration of a short command' "$(j .duration_ms)" 0 20000

run 'sleep 0.3'
between 'duration counts the time' "$(j .duration_ms)" 290 20000

run 'kill -KILL $$'
is 'killed: exit_code is null' "$CODE" null
is 'killed: the signal is named' "$(j .signal)" SIGKILL
run 'kill -SEGV $$'
is 'another signal' "$(j .signal)" SIGSEGV
run 'exit 255'
is 'exit 255' "$CODE" 255

# where and with what
run 'pwd'
is 'starts in the workspace' "$OUT" /workspace
run 'mkdir -p sub && cd sub && pwd'
run 'pwd' '"cwd":"/workspace/sub"'
is 'cwd absolute' "$OUT" /workspace/sub
run 'pwd' '"cwd":"sub"'
is 'cwd relative to the workspace' "$OUT" /workspace/sub
run 'pwd' '"cwd":"/workspace/nowhere"'
is_error 'cwd that does not exist' 404 NOT_FOUND nowhere
run 'echo "$A-$B"' '"env":{"A":"1 2","B":"ü\""}'
is 'environment' "$OUT" '1 2-ü"'
run 'echo "${PATH:+path} ${HOME:+home}"'
is 'PATH and HOME are set' "$OUT" 'path home'
run 'echo "$SECRET_OF_THE_DAEMON"'
is "the daemon's environment stays outside" "$OUT" ''
if [ "$BACKEND" = jail ] && [ -x /usr/bin/localedef ]; then
    run 'x=ü; echo ${#x} $LANG'
    is 'text is UTF-8 for programs, too' "$OUT" '1 C.UTF-8'
    run 'localedef --list-archive | grep -x C.utf8'
    is 'C.UTF-8 is in the archive of locales, which programs read with few calls' "$OUT" C.utf8
fi
run 'echo "[$A]"'
is 'environment of one call does not stay' "$OUT" '[]'

# input
run 'cat' '"stdin":"line 1\nline 2"'
is 'stdin' "$OUT" $'line 1\nline 2'
run 'od -An -tx1' '"stdin_base64":"AP8B"'
is 'stdin_base64' "${OUT// /}" 00ff01
run 'cat | wc -c'
is 'without stdin: at its end at once' "$OUT" 0
run 'true' '"stdin":"a","stdin_base64":"YQ=="'
is_error 'both inputs' 400 INVALID stdin
run 'true' '"stdin_base64":"***"'
is_error 'bad base64' 400 INVALID base64
head -c 3000000 /dev/zero | tr '\0' x > "$WORK/big"
jq -Rs '{command:"wc -c", stdin:.}' < "$WORK/big" > "$WORK/request"
api POST "$B/exec" "@$WORK/request"
is 'three megabytes of stdin' "$(j .stdout)" 3000000
jq -Rs '{command:"exec <&-; sleep 0.1; echo done", stdin:.}' < "$WORK/big" > "$WORK/request"
api POST "$B/exec" "@$WORK/request"
is 'a command that does not read its stdin' "$(j .stdout)" done
jq -Rs '{command:"cat", stdin:., output_limit_bytes:4000000}' < "$WORK/big" > "$WORK/request"
api POST "$B/exec" "@$WORK/request"
is 'megabytes in and out at once' "$(j '.stdout|length')" 3000000

# argv
api POST "$B/exec" '{"argv":["printf","%s|","a b","$HOME","*"]}'
is 'argv goes to no shell' "$(j .stdout)" 'a b|$HOME|*|'
api POST "$B/exec" '{"argv":["no-such-program-x"]}'
is_error 'argv of no program names it' 404 NOT_FOUND no-such-program-x
run 'no-such-command-x'
is 'no such command: 127' "$CODE" 127
like 'no such command: the text of the shell' "$ERR" 'no-such-command-x'
api POST "$B/exec" '{"argv":["/etc/passwd"]}'
like 'argv of no executable is refused' "$STATUS" '^(403|400)$'
api POST "$B/exec" '{"argv":["true"],"command":"true"}'
is_error 'argv and command' 400 INVALID
api POST "$B/exec" '{}'
is_error 'neither argv nor command' 400 INVALID command
api POST "$B/exec" '{"argv":[]}'
is_error 'empty argv' 400 INVALID argv
api POST "$B/exec" '{"command":"true","user":"nobody"}'
is_error 'user is agent or root' 400 INVALID user
api POST "$B/exec" '{"command":"a\u0000b"}'
is_error 'NUL in a command' 400 INVALID
api POST "$B/exec" '{"command":"true","env":{"A=B":"x"}}'
is_error 'a name of the environment with =' 400 INVALID
api POST "$B/exec" '{"command":"true","timeout_ms":-1}'
is_error 'negative time-out' 400 INVALID timeout_ms
api POST "$B/exec" '{"command":"true","timeout_ms":999999999999}'
is_error 'time-out above the limit' 400 INVALID timeout_ms

# who
if [ "$BACKEND" = local ]; then
    skip 'agent is uid 1000' 'local: commands run as the user of the daemon'
    skip 'root of the box' 'local: there is no other user'
else
    run 'id -u; id -un'
    is 'agent is uid 1000' "$OUT" $'1000\nagent'
    run 'id -u; echo x > /root-was-here && stat -c %u /root-was-here' '"user":"root"'
    if [ "$BACKEND" = docker ]; then is_error 'of an image with a user of its own there is no root' 501 UNSUPPORTED \
        root; else
        is 'root of the box' "$OUT" $'0\n0'
    fi
fi

# bytes
run "printf '\\377\\376\\000x'"
is 'not UTF-8: base64' "$(j .encoding)" base64
is 'not UTF-8: exact' "$(j .stdout)" //4AeA==
run "printf 'a\\000b'"
is 'a NUL survives' "$(j '.stdout|@base64')" YQBi
run "printf '\\355\\240\\200'"
is 'a lone surrogate is not UTF-8' "$(j .encoding)" base64

# limits on output
run 'seq 1 100000' '"output_limit_bytes":1000'
is 'cut: told' "$(j .stdout_truncated)" true
is 'cut: the count is true' "$(j .stdout_bytes)" 588895
between 'cut: within the limit, with a mark' "$(j '.stdout|length')" 900 1200
like 'cut: the head is kept' "$OUT" $'^1\n2\n3\n'
like 'cut: the tail is kept' "$OUT" $'99999\n100000$'
is 'the other stream is not cut' "$(j .stderr_truncated)" false
run 'seq 1 100000 >&2' '"output_limit_bytes":1000'
is 'stderr is cut by itself' "$(j '[.stdout_truncated,.stderr_truncated]|tostring')" '[false,true]'
run 'printf 0123456789' '"output_limit_bytes":10'
is 'output of exactly the limit is whole' "$(j '[.stdout,.stdout_truncated]|tostring')" '["0123456789",false]'
run 'true' '"output_limit_bytes":99999999999'
is_error 'a limit above the limit' 400 INVALID output_limit_bytes

# what commands leave behind
tag_new
now_ms
start=$NOW
run "sleep $TAG & echo started"
now_ms
is 'a background child holds nothing up: output' "$OUT" started
between 'a background child holds nothing up: time' $((NOW - start)) 0 20000
ok 'it was killed with its command' tag_gone
run "setsid -f sleep $TAG; (sleep $TAG & ) ; setsid -f sh -c 'exec <&- >&- 2>&-; exec sleep $TAG'; echo x"
is 'setsid, double fork, closed streams: output' "$OUT" x
ok 'setsid, double fork, closed streams: all gone' tag_gone

run 'for i in 1 2 3 4 5 6 7 8 9 10; do (sh -c "exit $i" &); done; echo ok'
is 'orphans' "$OUT" ok
if [[ $BACKEND = jail || $BACKEND = docker ]]; then
    run 'cat /proc/[0-9]*/stat | grep -c " Z "'
    is 'orphans are reaped' "$OUT" 0
else skip 'orphans are reaped' 'local: their parent is the init of the machine'; fi
