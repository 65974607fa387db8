# setsid, nohup, double forks: processes that leave their session, group and parent.
# wall: the command's cgroup leaf (cgroup.kill), the pid namespace
# backends: jail docker

for way in "setsid nohup sleep TAG" "(setsid sh -c '(setsid sleep TAG &)' &)" \
    "setsid bash -c 'trap \"\" TERM HUP INT; (setsid sleep TAG &); exec setsid sleep TAG'"; do
    tag_new
    run "${way//TAG/$TAG} > /dev/null 2>&1 < /dev/null & sleep 0.05; grep -c . /proc/self/cgroup; echo out"
    like "left by a command that ended: ${way:0:30}" "$OUT" 'out$'
    ok 'gone with it' eventually 2 tag_gone
    tag_new
    run "${way//TAG/$TAG} & sleep $TAG" '"timeout_ms":300'
    is 'left by one that timed out' "$(j .timed_out)" true
    ok 'gone with it, too' eventually 2 tag_gone
    tag_new
    api POST "$B/processes" "{\"argv\":[\"bash\",\"-c\",$(jq -Rn --arg s "${way//TAG/$TAG} & sleep $TAG" '$s')]}"
    pid=$(j .pid)
    ok 'in the background it runs' eventually 10 tag_alive
    api POST "$B/processes/$pid/signal" '{"signal":"KILL"}'
    ok 'until its command is killed' eventually 5 tag_gone
done
# a client that hangs up takes the whole tree along
tag_new
json_string "setsid nohup sleep $TAG > /dev/null 2>&1 & (setsid sleep $TAG &) ; trap '' TERM; while :; do sleep $TAG; "\
"done"
curl -s --max-time 60 --unix-socket "$SOCKET" -d "{\"command\":$JSON_STRING}" "http://localhost$B/exec" > /dev/null &
client=$!
ok 'a command runs for a client' eventually 10 tag_alive
kill -KILL "$client"
wait "$client" 2> /dev/null
ok 'that hangs up: all of it goes' eventually 5 tag_gone
# the same through every door of exec
tag_new
curl -sN --max-time 60 --unix-socket "$SOCKET" -H 'Accept: text/event-stream' \
    -d "{\"command\":\"setsid sleep $TAG & sleep $TAG\"}" "http://localhost$B/exec" > /dev/null &
client=$!
ok 'a streamed command runs' eventually 10 tag_alive
kill -KILL "$client"
wait "$client" 2> /dev/null
ok 'and goes with its client' eventually 5 tag_gone
run 'echo fine'
is 'the box goes on' "$OUT" fine
