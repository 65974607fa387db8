# Random acquire, exec, release, pause, kill and delete through two daemons on one state directory, by many threads,
# beside
# a model of what must be true of each box (test/lib/model.py). MODEL_SECONDS, MODEL_SEED: longer, or one again.
# backends: jail

first_pid=$DAEMON_PID first_socket=$SOCKET
SOCKET=$WORK/twin
start_daemon "$program"
twin_pid=$DAEMON_PID
seed=${MODEL_SEED:-$SRANDOM}
python3 test/lib/model.py "$BACKEND" "$STATE" "${MODEL_SECONDS:-6}" "$seed" "$first_socket" "$SOCKET" > "$WORK/model" \
    2>&1
status=$?
diag "seed $seed: $(head -1 "$WORK/model")"
if [ "$status" = 0 ]; then pass 'every answer of both is what the model says'; else fail \
    'every answer of both is what the model says' "$(tail -20 "$WORK/model")"; fi
like 'boxes were deleted and used again meanwhile' "$(head -1 "$WORK/model")" 'append [0-9]+ .*delete [0-9]+'
kill "$twin_pid"
wait "$twin_pid"
is 'the second daemon ends well' "$?" 0
DAEMON_PID=$first_pid SOCKET=$first_socket
