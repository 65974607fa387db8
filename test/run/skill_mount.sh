# /skills of an agent's box: the public skills below, the user's own above, one box a user and agent. How layers change
# in a running box, and that they are part of what is kept of it. (The mounts themselves:
# test/unit/box/provider/attach_test.c.)
# not remote: nothing of this host is mounted there; its skills are copies (test/remote/join_skills.sh)

if [ "$BACKEND" != jail ] && [ "$BACKEND" != docker ]; then
    skip 'skills are mounted' "$BACKEND: it mounts nothing; its skills are copies"
    return
fi
publish() { api POST "$B/skills/$1/sync" '{"direction":"to_base"}'; } # publish SKILL: of the current box

# ---- one box a user and agent ----

api POST /v1/boxes '{"user":"ann","agent":"app"}'
ann=$(j .id)
is 'a box with an agent' "$STATUS $(j .agent) $(j .thread)" '201 app agent:app'
api POST /v1/boxes '{"user":"ann","thread":"agent:app"}'
is 'is that of its thread' "$STATUS $(j .id) $(j .agent)" "200 $ann app"
api POST /v1/boxes '{"user":"bob","agent":"app"}'
bob=$(j .id)
api POST /v1/boxes '{"user":"ann","agent":"app","thread":"t"}'
is_error 'and has no other' 400 INVALID 'agent'
for name in '.x' 'a/b' 'skill-creator' 'a b' '..' ''; do
    api POST /v1/boxes "{\"agent\":\"$name\"}"
    is "'$name' is no agent's name" "$STATUS $(j .error.code)" '400 INVALID'
done
is 'the box of nobody has none' "$(api GET "$B" && j .agent) $(run 'ls -d /skills' && echo "$CODE")" 'null 2'

# ---- the public ones below, the user's above ----

box_use "$ann"
run 'mkdir -p /skills/greet/lib && cd /skills/greet && printf -- "---\nname: greet\ndescription: hello\n---\n" > '\
'SKILL.md &&
    echo "echo hello from ann" > run.sh && echo data > lib/data && echo ann only > /skills/greet/secret && rm secret; '\
'ls'
is 'a user makes a skill' "$OUT" $'SKILL.md\nlib\nrun.sh'
publish greet
is 'it becomes public' "$STATUS" 204
base() { (cd "$STATE/skills/layers" && find . -type f -exec sha256sum {} + -o -printf '%p %y %m %U\n' | sort |
    sha256sum); }
was=$(base)
box_use "$bob"
run 'cat /skills/greet/run.sh; stat -c %u:%a /skills/greet/run.sh; ls /workspace/skills/greet'
is 'another user, whose box runs, has it at once, and where the configuration says' "$OUT" \
    $'echo hello from ann\n1000:644\nSKILL.md\nlib\nrun.sh'
run 'cd /skills/greet && sed -i s/ann/bob/ run.sh && rm -r lib && echo mine > mine && sh run.sh && ls'
is 'he changes it for himself' "$OUT" $'hello from bob\nSKILL.md\nmine\nrun.sh'
box_use "$ann"
run 'cd /skills/greet && sh run.sh && ls'
is 'and for nobody else' "$OUT" $'hello from ann\nSKILL.md\nlib\nrun.sh'
is 'the public bytes are as they were' "$(base)" "$was"

# ---- while commands run ----

box_use "$bob"
api POST "$B/processes" '{"command":"cd /skills/greet; echo in; read x; cat SKILL.md mine; cat lib/data"}'
pid=$(j .pid)
inside() { api GET "$B/processes/$pid/output?stream=stdout" && [ "$BODY" = in ]; }
ok 'a process in the background stands in a skill' eventually 10 inside
box_use "$ann"
run 'mkdir -p /skills/second && echo 2 > /skills/second/SKILL.md; echo v2 > /skills/greet/SKILL.md'
publish second
publish greet
box_use "$bob"
run 'ls /skills; cat /workspace/skills/greet/mine'
is 'and keeps what it stands in, whole, for itself and others' "$OUT" $'greet\nmine'
api POST "$B/processes/$pid/stdin" '' --data-binary go$'\n'
gone() { api GET "$B/processes/$pid" && [ "$(j .state)" != running ]; }
ok 'it ends' eventually 10 gone
newest() { run 'ls /skills; cat /skills/greet/SKILL.md /skills/greet/mine' && [ "$OUT" = $'greet\nsecond\nv2\nmine' ]; }
ok 'and then the box has the newest, with what its user changed' eventually 10 newest || diag "$OUT"

# ---- another daemon ----

restart() { # restart SIGNAL
    kill "-$1" "$DAEMON_PID"
    wait "$DAEMON_PID" 2> /dev/null
    start_daemon "$program"
}
restart TERM
run 'ls /skills; cat /skills/greet/mine'
is 'the next daemon finds it so' "$OUT" $'greet\nsecond\nmine'
box_use "$ann"
run 'mkdir /skills/third && echo 3 > /skills/third/SKILL.md'
publish third
box_use "$bob"
run 'cat /skills/third/SKILL.md'
is 'and attaches what is new' "$OUT" 3

# A daemon that dies while it holds a box still leaves a mark: it is not taken for a box that somebody paused.
case $BACKEND in
jail)
    mark=held group=$(sed -n 's/^0::\///p' "/proc/$(cut -d' ' -f1 "$STATE/boxes/$bob/jail")/cgroup")
    frozen() { grep -qs 'frozen 1' "/sys/fs/cgroup/unified/$group/cgroup.events" \
        "/sys/fs/cgroup/$group/cgroup.events"; }
    api POST "$B/pause"
    ;;
docker)
    mark=still
    frozen() { [ "$(engine GET "/containers/$(container "$bob")/json" | jq .State.Paused)" != false ]; }
    engine POST "/containers/$(container "$bob")/pause"
    ;;
esac
ok 'a box stands still' frozen
touch "$STATE/boxes/$bob/$mark"
restart KILL
api GET "$B"
is 'a box that a dead daemon held still goes on' \
    "$(j .state) $(frozen && echo frozen) $(ls "$STATE/boxes/$bob/$mark" 2> /dev/null)" 'ready  '
run 'cat /skills/third/SKILL.md'
is 'and answers' "$OUT" 3

# ---- kept ----

api POST "$B/snapshots" '{"name":"one"}'
is 'a snapshot' "$STATUS" 201
run 'rm -r /skills/greet; mkdir /skills/late; ls /skills'
is 'then changes' "$OUT" $'late\nsecond\nthird'
api GET "$B/diff"
is 'which are told' "$(j '[.changes[]|select(.path|startswith("/skills/"))|"\(.change) \(.path)"]|sort|join(" ")')" \
    'added /skills/late removed /skills/greet'
api POST "$B/rollback" '{"snapshot":"one"}'
run 'ls /skills; cat /skills/greet/mine /workspace/skills/greet/mine'
is 'are taken back by a rollback' "$OUT" $'greet\nsecond\nthird\nmine\nmine'
api POST "$B/fork" '{"snapshot":"one","user":"carol","thread":"agent:app"}'
box_use "$(j .id)"
run 'ls /skills; cat /skills/greet/mine; echo carol > /skills/greet/mine'
is 'and are in a fork' "$STATUS $OUT" $'200 greet\nsecond\nthird\nmine'
box_use "$bob"
run 'cat /skills/greet/mine'
is 'which is another box' "$OUT" mine
is 'none of it changed a public skill of before' "$(cd "$STATE/skills/layers" && cat ./*/greet/run.sh | sort -u)" \
    'echo hello from ann'
