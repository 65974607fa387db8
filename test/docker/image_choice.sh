# Which image a box is made from, and what its container may be asked to be: names that are none, names of what others
# have,
# lists of what is allowed, an image that is missing or has no user of that name; and that nothing in a request is an
# option.
# config: docker_images: [cubby-test/*, "127.0.0.1:1/**", "deb*:stable-slim", "docker.io/org/tool:1"]
# config: docker_runtimes: [runc, nosuch]
# config: users: {ann: {docker_images: ["cubby-test/busybox"], docker_image: "cubby-test/busybox:1"}}

first=$BOX
create() { api POST /v1/boxes "{\"backend\":\"docker\",${1:-\"user\":\"default\"}}"; }
refused() { # refused NAME MEMBERS STATUS CODE WORDS: and nothing is made
    create "$2"
    is_error "$1" "$3" "$4" "$5"
    [ "$STATUS" != 201 ] || api DELETE "/v1/boxes/$(j .id)"
}

api GET "$B"
is 'a box that names no image has the default one' "$(j '[.template,.backend]|@csv')" '"debian:stable-slim","docker"'
is 'and an ordinary container' "$(j '.container|tojson')" \
    '{"user":null,"runtime":null,"platform":null,"pull":"never","read_only":false,"init":"runner"}'

# ---- names ----

for name in '-it' '--privileged' 'a b' 'a;b' 'a$(id)' $'a\nb' '../../etc' '/bin/sh' 'A/b' 'a//b' 'a:' 'a:-x' \
    'a@sha256:12' 'a?b' 'a&b=c' 'a%2fb' 'http://a/b' 'a#b' \
    "sha256:$(printf a | sha256sum | cut -d' ' -f1)" "$(printf a | sha256sum | cut -d' ' -f1)" 'host:port/x' 'ü' \
    "$(printf 'a%.0s' {1..256})"; do
    json_string "$name"
    refused "no name of an image: $(tr -d "\n" <<< "${name:0:40}")" "\"template\":$JSON_STRING" 400 INVALID template
done
for name in cubby-0123abcd/layer:0123456789abcdef docker.io/cubby-0123abcd/x localhost/cubby-0123abcd/layer:1; do
    refused "what a box became cannot be named: $name" "\"template\":\"$name\"" 403 DENIED 'fork that box'
done
engine POST "/images/$IMAGE_BUSYBOX/tag?repo=cubby-test/known&tag=1" > /dev/null
id=$(engine GET "/images/$IMAGE_BUSYBOX/json" | jq -r .Id | cut -d: -f2)
refused 'an image is not had by the beginning of its id' "\"template\":\"cubby-test/${id:0:12}\"" 404 NOT_FOUND \
    "not in the engine"

# ---- what is allowed ----

for name in alpine debian:11 org/tool:2 org/tool 127.0.0.2:1/a cubby-test/a/b evil.example/cubby-test/busybox:1 \
    "${id:0:12}"; do
    refused "not on the list: $name" "\"template\":\"$name\"" 403 DENIED 'docker_images'
done
for name in docker.io/org/tool:1 org/tool:1 index.docker.io/org/tool:1 127.0.0.1:1/a/b/c:d \
    docker.io/library/debby:stable-slim; do
    refused "on the list, and missing: $name" "\"template\":\"$name\"" 404 NOT_FOUND "pull is 'never'"
done
create "\"template\":\"docker.io/$IMAGE_BUSYBOX\",\"user\":\"ann\""
is 'a spelling of an allowed image is that image' "$STATUS" 201
box_use "$(j .id)"
run 'busybox id -u'
is 'and its root runs commands' "$OUT" 0
api DELETE "$B"
create '"user":"ann"'
is "a user's own default" "$(j .template)" cubby-test/busybox:1
api DELETE "/v1/boxes/$(j .id)"
refused "a user's own list" "\"user\":\"ann\",\"template\":\"$IMAGE_DEBIAN\"" 403 DENIED 'docker_images'

# an image that was made of somebody's box, under whatever name
tar -cf - -T /dev/null | image_import cubby-test/became:1 "LABEL cubby.home=$(printf 'a%.0s' {1..32}) cubby.user=ann"
refused "what another user's box became has a name, and is not had" '"template":"cubby-test/became:1"' 403 DENIED \
    'fork that box'

refused 'an architecture that it is not for' \
    "\"template\":\"$IMAGE_BUSYBOX\",\"container\":{\"platform\":\"linux/s390x\"}" 404 NOT_FOUND 'not for linux/s390x'

# ---- the container ----

for member in '"user":"-x"' '"user":"a b"' '"user":"a:b:c"' '"user":":1"' '"user":"$(id)"' '"platform":"amd64"' \
    '"platform":"linux/"' '"platform":"windows/amd64"' \
    '"platform":"linux/a&b"' '"pull":"sometimes"' '"runtime":"-x"' '"runtime":"a/b"' '"init":"systemd"' \
    '"read_only":1' '"privileged":true' '"cap_add":["SYS_ADMIN"]'; do
    refused "no such container: $member" "\"container\":{$member}" 400 INVALID ''
done
refused 'a runtime that the configuration does not name' '"container":{"runtime":"nvidia"}' 403 DENIED docker_runtimes
refused 'one that the engine does not have' '"container":{"runtime":"nosuch"}' 501 UNSUPPORTED nosuch
refused 'never is never' '"container":{"pull":"missing"}' 403 DENIED 'docker_pull: never'
refused 'a user that the image does not know' '"container":{"user":"nosuchuser"}' 400 INVALID nosuchuser
api POST /v1/boxes '{"backend":"jail","container":{"user":"0"}}'
is_error 'a jail is no container' 400 INVALID 'container.user'
is 'none of these left anything' "$(directories | wc -l) $(containers | wc -l)" '1 1'

box_new "\"template\":\"$IMAGE_BUSYBOX\",\"container\":{\"user\":\"1234:4321\",\"read_only\":true,"\
"\"runtime\":\"runc\",\"platform\":\"linux/$(engine GET /version | jq -r .Arch)\"},\"env\":{\"A\":\"--privileged\","\
"\"B\":\"x y\\nC=d\"},\"labels\":{\"cubby.home\":\"x\",\"a/b\":\"--rm -v /:/host\"}"
second=$BOX
run 'busybox id -u; busybox id -g; echo "$A"; echo "$B"'
is 'a container as it was asked for: user, group, variables as they are' "$OUT" $'1234\n4321\n--privileged\nx y\nC=d'
run 'for d in / /bin /etc; do busybox touch $d/x && echo $d; done; busybox touch /workspace/x /tmp/x && echo fine'
is 'its files are read-only but for workspace and /tmp' "$OUT" fine
is "labels of the request are the box's, not the container's" \
    "$(engine GET "/containers/$(container)/json" |
    jq -c '[.Config.Labels["cubby.home"] == "x", .Config.Labels["a/b"]]')" '[false,null]'
api GET "$B"
asked=$(j '.container|tojson')
like 'which the box tells' "$asked" \
    '"user":"1234:4321","runtime":"runc","platform":"linux/[a-z0-9]+","pull":"never","read_only":true,"init":"runner"'

# ---- the image's own program beside the runner ----

mkdir -p "$WORK/image/bin" && cp "$(command -v busybox)" "$WORK/image/bin/busybox" && ln -s busybox "$WORK/image/bin/sh"
tar -C "$WORK/image" --owner 0 --group 0 -cf - . | image_import cubby-test/served:1 'ENV PATH=/bin' \
    'ENTRYPOINT ["/bin/busybox","sh","-c","echo served > /served; exec busybox sleep 100000"]'
create '"template":"cubby-test/served:1","container":{"init":"image"}'
is 'an image may have its own first process' "$STATUS" 201
box_use "$(j .id)"
run 'busybox cat /served; busybox tr "\0" " " < /proc/1/cmdline'
is 'which runs, and the runner beside it' "$OUT" $'served\nbusybox sleep 100000 '
api DELETE "$B"

# ---- the next daemon ----

kill -TERM "$DAEMON_PID" && wait "$DAEMON_PID"
start_daemon "$PROGRAM"
box_use "$second"
api GET "$B"
is 'the next daemon knows it, too' "$(j '.container|tojson')" "$asked"
run 'busybox id -u'
is 'and goes on with it' "$OUT" 1234
for name in known became served; do engine DELETE "/images/cubby-test/$name:1" > /dev/null; done
