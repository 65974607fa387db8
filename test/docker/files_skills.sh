# Skills in containers whose users differ: root, one of the image's, one that it does not know. On disk all of it is as
# in a
# jail, so that it fits whoever comes. (How layers change in a running box: test/run/skill_mount.sh.)
# box: "template":"cubby-test/busybox:1","user":"root","agent":"app"

root=$BOX
is 'a box of root with skills' "$STATUS $(j .agent)" '201 app'
api POST /v1/boxes '{"user":"agent","agent":"app"}'
agent=$(j .id)
api POST /v1/boxes '{"user":"other","agent":"app","container":{"user":"4321:8765","read_only":true}}'
other=$(j .id)
is 'and of others' "$STATUS" 201
upper() { find "$STATE/boxes/$1/skills/skills" -mindepth 1 -name .cubby -prune -o -printf '%U:%G\n' | sort -u | xargs; }

box_use "$root"
run 'mkdir -p /skills/greet/d && echo one > /skills/greet/SKILL.md && echo x > /skills/greet/d/f && stat -c %u:%g '\
'/skills /skills/greet/d'
is 'root makes one' "$CODE $OUT $(upper "$root")" $'0 0:0\n0:0 1000:1000'
api POST "$B/skills/greet/sync" '{"direction":"to_base"}'
is 'it becomes public' "$STATUS" 204
for box in "$agent:1000:1000" "$other:4321:8765" "$root:0:0"; do
    box_use "${box%%:*}"
    run 'cat /skills/greet/SKILL.md /workspace/skills/greet/d/f; stat -c %u:%g /skills /skills/greet '\
'/skills/greet/d/f | sort -u; echo mine >> /skills/greet/SKILL.md; rm -r /skills/greet/d; mkdir /skills/own; ls '\
'/skills/greet'
    is "${box#*:} has it, and changes it" "$CODE $OUT" $'0 one\nx\n'"${box#*:}"$'\nSKILL.md'
    # what hides is root's
    is 'on disk it is as everywhere' "$(upper "$BOX")" "$([ "$BOX" = "$root" ] && echo 1000:1000 || echo 0:0 1000:1000)"
done
box_use "$root"
run 'echo two > /skills/greet/SKILL.md'
api POST "$B/skills/greet/sync" '{"direction":"to_base"}'
is 'another version' "$STATUS" 204
box_use "$other"
run 'cat /skills/greet/SKILL.md; ls -d /skills/own'
is 'leaves what is his to him' "$OUT" $'one\nmine\n/skills/own'
run 'grep -c " / /skills .*nosuid,nodev.* overlay" /proc/self/mountinfo; touch /etc/x'
is 'where nothing gives rights' "$OUT" 1
isnt 'and writes nowhere else' "$CODE" 0

# ---- it stops and comes again; deleted, it is gone ----

kill -KILL "$(awk '{ print $2 }' "$STATE/boxes/$other/docker")"
dead() { api GET "$B" && [ "$(j .state)" != ready ]; }
ok 'its runner is killed' eventually 20 dead
api POST /v1/boxes '{"user":"other","agent":"app"}'
box_use "$(j .id)"
run 'cat /skills/greet/SKILL.md; stat -c %u /skills/own'
is 'it comes back with what is his' "$BOX $OUT" "$other one"$'\nmine\n4321'
