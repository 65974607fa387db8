# A box whose mount the administrator has since taken out of the configuration: it does not come back with it.
# wall: mounts are held against mount_sources again whenever a box starts, not only when it is made

echo shared > "$WORK/shared/sub/file"
asked="{\"backend\":\"jail\",\"user\":\"ann\",\"thread\":\"t\",\"mounts\":[{\"source\":\"$WORK/shared/sub\","\
"\"target\":\"/mnt/sub\"}]}"
api POST /v1/boxes "$asked"
is 'a mount that is allowed' "$STATUS" 201
box_use "$(j .id)"
run 'cat /mnt/sub/file; echo mine > own; echo $$'
is 'is there' "$(head -1 <<< "$OUT")" shared
end_runner() { # its PID 1, seen from the host
    local pid
    for pid in $(pgrep -P "$DAEMON_PID" -f '^cubby-runner'); do
        [ -e "/proc/$pid/root/workspace/own" ] && kill -KILL "$pid"
    done
    eventually 5 is_gone
}
is_gone() { api POST "$B/exec" '{"command":"true"}' && [ "$STATUS" = 410 ]; }
again() { api POST /v1/boxes '{"backend":"jail","user":"ann","thread":"t"}'; } # its record has the mount
widened() { again && [ "$STATUS" = 200 ]; }

cp "$CONFIG" "$WORK/wide.yaml"
printf 'allow_local: true\nmount_sources:\n  - %s\n' "$WORK/forbidden" > "$CONFIG"
kill -HUP "$DAEMON_PID"
other="{\"backend\":\"jail\",\"mounts\":[{\"source\":\"$WORK/shared\",\"target\":\"/mnt/x\"}]}"
refused() { api POST /v1/boxes "$other" && [ "$STATUS" = 403 ]; }
ok 'the configuration is narrowed' eventually 10 refused
run 'cat /mnt/sub/file'
is 'a box that runs keeps what it has' "$OUT" shared
end_runner
again
is_error 'but is not started with it again, and says why' 403 DENIED "$WORK/shared/sub.*no longer allows.*mount_sources"
cp "$WORK/wide.yaml" "$CONFIG"
kill -HUP "$DAEMON_PID"
ok 'allowed again, it starts' eventually 10 widened
run 'cat own /mnt/sub/file'
is 'with its files' "$(tail -1 <<< "$OUT")" shared
api DELETE "$B"
is 'and can be deleted' "$STATUS" 204
box_use "$ATTACKED"
