# The walk through the house: any image is a box. Debian as its user, busybox as root, and one without a shell.
is 'a box is a container' "$STATUS $(j .backend) $(j .state) $(j .workspace)" '201 docker ready /workspace'
run 'id -u; pwd; echo "$HOME $IMAGE"; echo hello > file; cat file'
is 'commands run as the user of the image, in the workspace, with its environment' "$CODE $OUT" \
    $'0 1000\n/workspace\n/home/agent debian\nhello'
get file
is 'files are the same by the file API' "$STATUS $BODY" $'200 hello'
put up 'from outside'
run 'cat up; stat -c %u:%g up .'
is 'both ways, and they are its user'"'"'s' "$CODE $OUT" $'0 from outside1000:1000\n1000:1000'
run 'tr -d "\0" < /proc/1/cmdline; echo; ls /proc | grep -c "^[0-9]*$"'
like 'the runner is its init, which shows nothing but its name, and nothing else is there' "$OUT" \
    $'^cubby-runner\n[3-9]$'

is 'it is one container, which says whose it is' \
    "$(inspect '.Config.Labels["cubby.box"], (.Config.Labels["cubby.home"] == "'"$(< "$STATE/docker-home")"'")' |
    tr '\n' ' ')" "$BOX true "
is 'of the image' "$(inspect '.Image')" "$(engine GET "/images/$IMAGE_DEBIAN/json" | jq -r .Id)"
before=$(inspect .Id)

first=$BOX
box_new "\"template\":\"$IMAGE_BUSYBOX\""
is 'busybox is a box' "$STATUS $(j .template)" "201 $IMAGE_BUSYBOX"
run 'id -u; pwd; echo "$PATH"; busybox | head -n 1 | cut -d " " -f 1; command -v bash'
is 'with what its image has: root, sh, its PATH' "$OUT" $'0\n/workspace\n/bin\nBusyBox'
run 'exit 3'
is 'exit statuses are theirs' "$STATUS $CODE" '200 3'
busybox=$BOX

box_new "\"template\":\"$IMAGE_BARE\""
is 'an image of one program is a box' "$STATUS" 201
api POST "$B/exec" '{"argv":["/tool"]}'
like 'which can be run' "$STATUS $(j .exit_code) $(j .stderr)" '^200 [0-9]+ .*usage: tool'
run 'echo x'
is_error 'a command for a shell says that there is none, and what to do' "$STATUS" "$(j .error.code)" 'no shell.*argv'
like 'as what it is: not the fault of the daemon' "$STATUS" '^4'
put file text
get file
is 'files need nothing of the image' "$STATUS $BODY" '200 text'
api DELETE "$B"
is 'it goes' "$STATUS" 204

kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
start_daemon "$PROGRAM" || fail 'a new daemon starts' "$(tail -5 "$WORK/daemon.log")"
box_use "$first"
run 'cat file'
is 'a container outlives its daemon and is found again' "$CODE $OUT $(inspect .Id)" "0 hello $before"
for box in "$first" "$busybox"; do
    box_use "$box"
    api DELETE "$B"
    is 'a box is deleted' "$STATUS" 204
    is 'and its container with it' \
        "$(engine GET "/containers/$(container "$box")/json" -o /dev/null -w '%{http_code}' 2> /dev/null)" 404
done
