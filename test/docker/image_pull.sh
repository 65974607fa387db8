# Images from registries, which are played on loopback: credentials right, wrong and missing, in the configuration and
# in a file
# that changes; pull missing, always and never; what a registry may have instead of an image; progress while it comes.
# waits
# daemon: none

R=$WORK/registry
mkdir "$R"
python3 test/docker/registry.py "$R" "$(command -v busybox)" > /dev/null 2> "$R/errors" &
registry=$!
eventually 10 test -s "$R/private"
open=127.0.0.1:$(< "$R/open") private=127.0.0.1:$(< "$R/private")
sed -i /docker_pull/d "$CONFIG"
cat >> "$CONFIG" << END
docker_registries:
  "$private": {username: robot, password: "\${REGISTRY_PASSWORD}"}
users:
  always: {docker_pull: always}
END
REGISTRY_PASSWORD=s3cret start_daemon "$PROGRAM" || fail 'a daemon' "$(tail -3 "$WORK/daemon.log")"
create() { api POST /v1/boxes "{\"backend\":\"docker\",\"template\":\"$1\"${2:+,$2}}"; }
images() { engine GET /images/json | jq -r '.[].RepoTags[]?' | grep -F "$1"; }
gone() { # gone: of the current box
    api DELETE "$B"
    is 'deleted' "$STATUS" 204
}
asked() { grep -c "$1" "$R/log"; }

# ---- missing, always, never ----

create "$open/any/a:1" '"container":{"pull":"never"}'
is_error 'never: what is missing stays missing' 404 NOT_FOUND "image '$open/any/a:1' is not in the engine"
is 'nobody asked the registry' "$(cat "$R/log" 2> /dev/null)" ''
create "$open/any/a:1"
is 'missing: it is pulled' "$STATUS" 201
box_use "$(j .id)"
run 'echo $VERSION'
is 'and a box runs from it, with its variables' "$STATUS $OUT" '200 1'
gone
before=$(asked manifests)
echo 2 > "$R/version"
create "$open/any/a:1"
box_use "$(j .id)"
run 'echo $VERSION'
is 'missing: what is there is taken, and no registry is asked' "$OUT $(asked manifests)" "1 $before"
gone
create "$open/any/a:1" '"container":{"pull":"always"},"user":"u","thread":"t"'
box_use "$(j .id)"
run 'echo $VERSION'
is 'always: the newest' "$OUT" 2
before=$(asked manifests) released=$BOX
echo 3 > "$R/version"
api POST "$B/release"
kill -TERM "$DAEMON_PID" && wait "$DAEMON_PID"
engine POST "/containers/$(container)/kill" > /dev/null
REGISTRY_PASSWORD=s3cret start_daemon "$PROGRAM"
create "$open/any/a:1" '"user":"u","thread":"t"'
box_use "$released"
run 'echo $VERSION'
is 'a container that is there is started again, and not pulled under its files' "$OUT $(asked manifests)" "2 $before"
gone
create "$open/any/a:1" '"user":"always","container":{"pull":"missing"}'
is_error "the configuration's always holds for requests" 403 DENIED 'docker_pull: always'
create "$open/any/a:1" '"user":"always"'
box_use "$(j .id)"
run 'echo $VERSION'
is 'and is what they have' "$OUT" 3
gone
digest=$(engine GET "/images/$open/any/a:1/json" | jq -r '.RepoDigests[0]')
create "$digest" '"container":{"pull":"never"}'
is 'by digest' "$STATUS" 201
box_use "$(j .id)"
gone

# ---- credentials ----

create "$private/any/p:1"
is 'with the credentials of the configuration' "$STATUS" 201
box_use "$(j .id)"
gone
is 'which only their registry was shown' \
    "$(grep -c '^open .* Basic' "$R/log") $(grep -c '^private GET .*blobs.* Basic' "$R/log")" \
    "0 $(grep -c '^private GET .*blobs' "$R/log")"
echo other > "$R/password"
create "$private/any/q:1"
is_error 'wrong ones' 403 DENIED "registry $private refuses the configured credentials"
unlike 'are not told' "$BODY$(cat "$WORK/daemon.log")" 's3cret|czNjcmV0'
kill -TERM "$DAEMON_PID" && wait "$DAEMON_PID"
sed -i "s#^  \"$private\".*#  \"$private\": {username: robot, password_file: $R/password}#" "$CONFIG"
start_daemon "$PROGRAM"
create "$private/any/q:1"
is 'from a file' "$STATUS" 201
box_use "$(j .id)"
gone
echo another > "$R/password"
create "$private/any/r:1"
is 'that is read each time' "$STATUS" 201
box_use "$(j .id)"
gone
rm "$R/password"
create "$private/any/s:1"
is_error 'or is missing' 404 NOT_FOUND "$R/password"
kill -TERM "$DAEMON_PID" && wait "$DAEMON_PID"
sed -i "/^docker_registries/d; /$private/d" "$CONFIG"
start_daemon "$PROGRAM"
create "$private/any/s:1"
is_error 'none at all' 403 DENIED "registry $private may need credentials"

# ---- what is no image for us ----

create "$open/none/such:1"
is_error 'no such image' 404 NOT_FOUND "there is no image '$open/none/such:1'"
create "$open/foreign/a:1"
is_error 'of a foreign architecture' 501 UNSUPPORTED 'linux/s390x'
create "$open/list/a:1"
is_error 'none for this architecture' 501 UNSUPPORTED 'architecture'
create "$open/gone/a:1"
like 'a layer that is not there' "$STATUS $(j .error.message)" "^(404|503) .*'$open/gone/a:1'"
create 127.0.0.1:1/a:1
is_error 'no registry at all' 503 BUSY "image '127.0.0.1:1/a:1' cannot be pulled"
is 'none of these left anything' "$(directories)" ''

# ---- progress ----

curl -sN --unix-socket "$SOCKET" 'http://localhost/v1/events?type=progress&user=ann' > "$WORK/news" &
listener=$!
eventually 5 grep -q . "$WORK/news"
curl -sN --unix-socket "$SOCKET" \
    -d "{\"backend\":\"docker\",\"template\":\"$open/slow/a:1\",\"user\":\"ann\",\"thread\":\"t\"}" \
    http://localhost/v1/boxes > "$WORK/answer" &
making=$!
halfway() { grep '^data' "$WORK/news" | sed 's/^data: //' | jq -es 'any(.[]; .done > 0 and .done < .total)'; }
ok 'progress comes while the image does' eventually 20 halfway
id=$(printf 'ann:t' | sha256sum | cut -c1-16)
is 'of the box that waits for it' \
    "$(grep '^data' "$WORK/news" | sed 's/^data: //' | jq -r '[.type,.work,.box,.user,.why]|@csv' | sort -u)" \
    "\"progress\",\"pull\",\"$id\",\"ann\",\"$open/slow/a:1\""
api GET "/v1/boxes/$id"
is 'which is starting meanwhile' "$STATUS $(j .state)" '200 starting'
api GET /v1/boxes
is 'and nobody else waits' "$STATUS" 200
: > "$R/go"
wait "$making"
kill "$listener"
wait "$listener" 2> /dev/null
ok 'progress ends with all of it' jq -es 'last|.done == .total and .total > 0' \
    <(grep '^data' "$WORK/news" | sed 's/^data: //')
box_use "$id"
run 'echo here'
is 'then it is there' "$OUT" here
gone
engine DELETE "/images/$open/slow/a:1" > /dev/null
rm "$R/go"
# the same on a terminal
screen=$(timeout 60 "$BUILD/test/ptyrun" 100x20 "expect:pull $open/slow/a:1: " 'expect: of ' 'expect:%)' 'send:\n' \
    -- bash -c '(read -r < /dev/tty; : > "$1") & shift; exec "$@"' sh "$R/go" \
    "$CUBBY" create --backend docker --template "$open/slow/a:1" 2>&1)
is 'cubby create shows it on a terminal' $? 0
like 'then the line goes, and there is the id' "$(tr '\r' '\n' <<< "$screen")" $'\n\e\\[K([0-9a-f]{16})\n'
box_use "${BASH_REMATCH[1]-none}"
gone
c create --backend docker --template "$open/any/a:1" --pull never --container-user 77 --read-only
is 'elsewhere the id alone' "$CODE $ERR" '0 '
box_use "$OUT"
run 'echo $VERSION; : > /x'
is 'with what was asked for' "$(head -1 <<< "$OUT") $CODE" '3 1'
gone
c run --backend docker --template "$open/any/a:1" -- cat /proc/1/comm
is 'cubby run takes an image, too' "$CODE $OUT $ERR" '0 cubby-runner '

for name in $(images "127.0.0.1:"); do engine DELETE "/images/$name?force=1" > /dev/null; done
kill "$registry"
wait "$registry" 2> /dev/null
is 'the registry had no trouble' \
    "$(grep -v -e BrokenPipe -e ConnectionReset -e '^  ' -e '^Traceback' -e '^---' -e '^Exception' "$R/errors")" ''
