# The same over podman's service: any verb of a box, and what happens to it when its daemon or the service is killed.
# engine: podman
# box: "template":"cubby-test/busybox:1","user":"ann","thread":"one"
# waits
again() { api POST /v1/boxes \
    "{\"backend\":\"docker\",\"template\":\"$IMAGE_BUSYBOX\",\"user\":\"ann\",\"thread\":\"one\"}"; }
told() { api GET "$B" && [ "$(j .running)" = false ] && [[ $(j .died) =~ $1 ]]; } # told WHY

is 'a box is a container' "$STATUS $(j .backend) $(j .state) $(j .workspace)" '201 docker ready /workspace'
run 'id -u; pwd; echo "$PATH"; echo hello > file; cat file'
is 'commands run as the user of the image, in the workspace, with its environment' "$CODE $OUT" \
    $'0 0\n/workspace\n/bin\nhello'
get file
is 'files are the same by the file API' "$STATUS $BODY" '200 hello'
api GET /v1/info
is 'the engine is told' "$(j '.backends[]|select(.name=="docker")|[.available,.engine.kind,.engine.url]|tostring')" \
    "[true,\"podman\",\"$DOCKER_HOST\"]"
"$BUILD/cubby" doctor > "$WORK/doctor"
like 'by doctor, too' "$(cat "$WORK/doctor")" \
    "container engine +ok +podman [0-9.]+ \(API 1\.[0-9]+, linux/[a-z0-9]+\) at $DOCKER_HOST"

run 'sed -n "s/^\(CapBnd\|CapEff\|NoNewPrivs\|Seccomp\):[[:space:]]*//p" /proc/self/status | xargs; for n in mnt pid '\
'net ipc uts cgroup; do readlink /proc/self/ns/$n; done'
is 'no capability beyond what its root needs, no new privileges, filtered' "$(head -1 <<< "$OUT")" \
    '00000000000000fb 00000000000000fb 1 2'
for ns in mnt pid net ipc uts cgroup; do readlink "/proc/self/ns/$ns"; done > "$WORK/own"
# with cgroup v1 podman has no namespace of cgroups to give, and doctor says so
[ "$(engine GET /info | jq -r .CgroupVersion)" = 1 ] && shared=cgroup: || shared=
is 'namespaces of its own' "$(grep -xFf "$WORK/own" <<< "$OUT" | sed 's/\[.*//') $(tail -n +2 <<< "$OUT" | wc -l)" \
    "$shared 6"
like 'as doctor says' "$(grep 'container namespaces' "$WORK/doctor")" \
    "$([ -n "$shared" ] && echo "but that of cgroups" || echo "all its own *$")"
is 'limits are given to the engine' \
    "$(inspect '[.HostConfig.Memory,.HostConfig.MemorySwap,.HostConfig.PidsLimit]|tostring')" \
    '[2147483648,2147483648,1024]'

# ---- files kept ----

api POST "$B/export"
is 'nothing has changed: nothing is exported' "$STATUS $(j .changed)" '200 false'
run 'echo one > /tmp/f; echo one > f'
api GET "$B/diff"
is 'what changed is told' "$(j '[.changes[]|"\(.change) \(.path)"]|sort|join(", ")')" \
    'added /tmp/f, added /workspace/f, added /workspace/file'
api POST "$B/snapshots" '{"name":"s"}'
is 'a snapshot is an image' "$STATUS $(j .method)" '201 commit'
run 'echo two > /tmp/f; echo two > f'
api POST "$B/fork" '{"snapshot":"s"}'
is 'a fork' "$STATUS" 201
first=$BOX
box_use "$(j .id)"
run 'cat /tmp/f f'
is 'has what was kept' "$OUT" $'one\none'
api DELETE "$B"
is 'and goes' "$STATUS" 204
box_use "$first"
api POST "$B/rollback" '{"snapshot":"s"}'
run 'cat /tmp/f f'
is 'the box is as it was' "$OUT" $'one\none'
run 'echo three > /tmp/f'
api POST "$B/export"
like 'exported to one layer' \
    "$STATUS $(j .changed) $(engine GET "/images/$(j .image)/json" |
    jq -rc '[(.RootFS.Layers|length),.Config.Cmd,.Config.Env]|tostring')" '^200 true \[1,\["sh"\],\["PATH=/bin"'
run 'cat /tmp/f f; echo "$PATH"'
is 'and goes on from there' "$OUT" $'three\none\n/bin'

# ---- life ----

api POST "$B/pause"
is 'paused' "$STATUS $(inspect .State.Status)" '200 paused'
api POST "$B/resume"
run 'cat f'
is 'resumed' "$OUT" one
engine POST "/containers/$(container)/kill" > /dev/null
ok 'a container that somebody kills is noticed without a call' eventually 20 told 'killed by SIGKILL'
again
before=$(inspect .Id)
run 'cat /tmp/f f'
is 'its user has it again, with all its files' "$STATUS $OUT" $'200 three\none'
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
kill -KILL "$(cat "$ENGINE_DIR/pid")"
start_daemon "$PROGRAM" || fail 'a new daemon starts' "$(tail -5 "$WORK/daemon.log")"
run 'cat /tmp/f f'
is 'a container outlives its daemon and its engine, and is found without the engine' "$STATUS $OUT" $'200 three\none'
api POST /v1/boxes "{\"backend\":\"docker\",\"template\":\"$IMAGE_BUSYBOX\"}"
is_error 'a new one needs it, which is said' 503 BUSY \
    "container engine at $DOCKER_HOST cannot be reached.*podman system service"
ENGINE_KIND=podman engine_launch "$ENGINE_DIR" || fail 'the service starts again' "$ENGINE_WHY"
is 'then it is the same container' "$(inspect '.Id+" "+.State.Status')" "$before running"
api DELETE "$B"
is 'a box is deleted' "$STATUS" 204
is 'and its container with it' \
    "$(engine GET "/containers/$(container)/json" -o /dev/null -w '%{http_code}' 2> /dev/null)" 404
