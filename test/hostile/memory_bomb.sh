# A memory bomb: one that grows, then many small ones at once, then one whose memory stays when it is gone.
# wall: the memory controller of the box's cgroup; commands have a higher oom_score_adj than PID 1
# box: "limits":{"memory_mb":64,"pids":512}

attack memory 'anon 512'
is 'the bomb is killed, and the answer says why and at which limit' \
    "$STATUS $(j -c '[.exit_code,.signal,.oom_killed,.memory_limit_bytes,.timed_out]')" \
    '200 [null,"SIGKILL",true,67108864,false]'
run 'echo fine'
is 'the box goes on' "$OUT $(j .oom_killed)" 'fine false'
curl -sN --max-time 120 --unix-socket "$SOCKET" -H 'Accept: text/event-stream' \
    -d '{"argv":["/tmp/attack_memory","anon","512"]}' "http://localhost$B/exec" > "$WORK/events"
like 'the event of its end says the same' "$(grep -A1 '^event: exit' "$WORK/events")" \
    '"oom_killed":true,"memory_limit_bytes":67108864'
api POST "$B/processes" '{"command":"/tmp/attack_memory anon 512"}'
pid=$(j .pid)
ended() { api GET "$B/processes/$pid" && [ "$(j .state)" = exited ]; }
ok 'in the background it ends too' eventually 20 ended
is 'and its entry says why' "$(j -c '[.signal,.oom_killed,.memory_limit_bytes]')" '["SIGKILL",true,67108864]'

# many, none of them larger than the runner
run 'for i in $(seq 400); do /tmp/attack_memory anon 1 hold & done < /dev/zero; wait' '"timeout_ms":20000'
is 'hundreds of small ones' "$STATUS" 200
run 'while :; do for i in $(seq 50); do (/tmp/attack_memory anon 3; :) & done; done' '"timeout_ms":3000'
# its shell may be the one that is killed, before the time is over
like 'and without end' "$STATUS $(j -c '[.oom_killed,.timed_out,.signal]')" '^200 \[true,(true,|false,"SIGKILL")'
run 'until [ "$(cat /proc/self/oom_score_adj)" = 500 ]; do :; done; cat /proc/1/oom_score_adj '\
'/proc/self/oom_score_adj; echo fine'
is 'PID 1 lives' "$OUT" $'0\n500\nfine'
neighbour_check 'after all this'

# without processes there is nobody to kill: what stays in memory must not fill it
AS=root attack memory 'shm 512'
like 'files in memory end at their share' "$OUT" '^shm 3[0-2] ENOSPC'
AS=root attack memory 'sysv 512'
like 'so do segments' "$OUT" '^sysv [678] ENOSPC'
AS=root attack memory 'msg 512'
like 'and messages' "$OUT" '^msg [12] ENOSPC'
attack exhaust sem
like 'and semaphores' "$OUT" '^sem [0-9]+ ENOSPC'
run 'echo fine'
is 'the box lives with all of that at once' "$OUT" fine
put after 'still takes files'
get after
is 'and takes files' "$BODY" 'still takes files'

# Should PID 1 be killed for memory after all (here we make it the dearest victim from outside), the box says so.
runner=$(pgrep -P "$DAEMON_PID" -f '^cubby-runner' | while read -r p; do
    grep -q "^NSpid:.*[[:space:]]1$" "/proc/$p/status" || continue
    [ "$(stat -c %s "/proc/$p/root/workspace/after" 2> /dev/null)" = 17 ] && echo "$p"
done)
# Not with all of root's rights: with CAP_SYS_RESOURCE it would also be the least that its commands can be given.
setpriv --bounding-set=-sys_resource sh -c 'echo 1000 > "$1"' - "/proc/$runner/oom_score_adj"
attack memory 'anon 512'
is_error 'a box whose PID 1 was killed for memory is gone' 410 GONE
said() { api GET "$B" && [[ $(j .died) = *'out of memory'*'64 MiB'* ]]; }
ok 'and says why' eventually 10 said
run 'cat after'
is 'its next use starts it again on its files' "$STATUS $OUT" '200 still takes files'
