# waits
# Ten seconds without a cable in the middle of a build lose nothing: the command, what it prints, a stream of events, an
# upload, a
# download, a terminal, a background process and a watch all go on where they were.
lines() { seq -f 'step %g of the build' 1 40; }
put build.sh 'i=1; while [ $i -le 40 ]; do echo "step $i of the build"; i=$((i+1)); sleep 0.3; done; echo done > '\
'built; exit 7'
head -c 3000000 /dev/urandom > "$WORK/large"
upload large.down "$WORK/large"
SUM=$(sha256sum < "$WORK/large")

request() { curl -sS --max-time 60 --unix-socket "$SOCKET" "$@"; }
request -o "$WORK/out-exec" -H 'Content-Type: application/json' -d '{"command":"sh build.sh"}' \
    "http://localhost$B/exec" & exec_pid=$!
request -N -o "$WORK/out-stream" -H 'Accept: text/event-stream' -H 'Content-Type: application/json' \
    -d '{"command":"sh build.sh; cat > /dev/null"}' "http://localhost$B/exec" & stream_pid=$!
request -o "$WORK/out-up" --limit-rate 300k -T "$WORK/large" "http://localhost$B/files?path=large.up" & up_pid=$!
request -o "$WORK/out-down" --limit-rate 300k "http://localhost$B/files?path=large.down" & down_pid=$!
api POST "$B/processes" '{"command":"i=0; while [ $i -lt 60 ]; do echo line $i; i=$((i+1)); sleep 0.2; done"}'
PID=$(j .pid)
mkfifo "$WORK/pty"
"$TOOL" ws "$SOCKET" "$B/pty?command=cat" < "$WORK/pty" > "$WORK/out-pty" & pty_pid=$!
exec {terminal}> "$WORK/pty"
printf '%s\n' 'send before\r' 'expect before\r\n' >&"$terminal"
started() { [ -s "$WORK/out-stream" ] && grep -q 'step 3' "$WORK/out-stream"; }
ok 'the build runs' eventually 10 started
cable cut
now_ms
before=$NOW
api GET /healthz
is 'the server answers others meanwhile' "$STATUS" 200
read -r -t 10 -u "$LIB_NEVER" || : # ten seconds: what is promised
kill -0 "$exec_pid"
is 'the caller still waits' $? 0
printf '%s\n' 'send typed without a cable\r' >&"$terminal"
cable join
printf '%s\n' 'expect typed without a cable\r\ntyped without a cable\r\n' 'drop' >&"$terminal"
exec {terminal}>&-
wait "$exec_pid"
is 'the command is answered' $? 0
is 'with all that it printed' "$(jq -r .stdout "$WORK/out-exec")" "$(lines)"
is 'and its exit code' "$(jq .exit_code "$WORK/out-exec")" 7
wait "$stream_pid"
is 'the stream has every line, once, in order' \
    "$(sed -n 's/^data: //p' "$WORK/out-stream" | jq -rj 'select(.data)|.data')" "$(lines)"
wait "$up_pid"
is 'the upload is whole' "$(sha256sum < "$WORK/work-laptop/large.up")" "$SUM"
wait "$down_pid"
is 'the download is whole' "$(sha256sum < "$WORK/out-down")" "$SUM"
wait "$pty_pid"
is 'the terminal goes on, with what was typed meanwhile' "$(tail -n +3 "$WORK/out-pty")" $'seen\nseen'
ended() { api GET "$B/processes/$PID" && [ "$(j .state)" = exited ]; }
ok 'the background process ends' eventually 20 ended
api GET "$B/processes/$PID/output?stream=stdout&offset=0&wait_ms=0"
is 'with all its output' "$BODY" "$(seq -f 'line %g' 0 59)"
is 'the build was made on the machine' "$(cat "$WORK/work-laptop/built")" done
run 'echo as before'
is 'the box answers as before' "$OUT" 'as before'
api GET "$B"
is 'online' "$(j .remote.online) $(j .state)" 'true ready'
