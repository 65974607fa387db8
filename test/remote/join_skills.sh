# Skills and sub-agents that every box has are placed on a machine when it registers, into that machine and no other,
# and again
# after it was away, by the difference of hashes.
mkdir -p "$WORK/global/weather/scripts" "$WORK/subs"
printf -- '---\nname: weather\ndescription: of the sky\n---\n' > "$WORK/global/weather/SKILL.md"
printf '#!/bin/sh\necho sunny\n' > "$WORK/global/weather/scripts/run.sh"
chmod 755 "$WORK/global/weather/scripts/run.sh"
printf -- '---\nname: critic\ndescription: finds faults\n---\nBe strict.\n' > "$WORK/subs/critic.md"
FIRST_DIR=$MACHINE_DIR FIRST_PID=$MACHINE_PID
placed() { [ "$(cat "$1/.agents/critic.md" 2> /dev/null | tail -1)" = 'Be strict.' ] &&
    [ "$("$1/.skills/weather/scripts/run.sh" 2> /dev/null)" = sunny ]; }
not_ok 'nothing is there before' placed "$FIRST_DIR"
printf 'global_skills: [%s]\nglobal_agents: [%s]\n' "$WORK/global" "$WORK/subs" >> "$CONFIG"
kill -TERM "$DAEMON_PID"
wait "$DAEMON_PID"
server_start "$PROGRAM"
ok 'a machine that comes gets them, on a fresh machine their directories too' eventually 30 placed "$FIRST_DIR"
machine_start second
SECOND_DIR=$MACHINE_DIR
ok 'defect 17: a second machine of the same user gets its own' eventually 15 placed "$SECOND_DIR"
touch -d '2001-01-01' "$FIRST_DIR/.skills/weather/SKILL.md" 2> /dev/null
STAMP=$(stat -c %Y "$FIRST_DIR/.skills/weather/SKILL.md")

# while the second one is away the source changes; and only what changed is sent
echo 'changed on the machine' > "$SECOND_DIR/.skills/weather/SKILL.md"
machine_end "$MACHINE_PID"
ok 'the second one is away' machine_is second offline
printf 'name: critic\nBe kind.\n' > "$WORK/subs/critic.md"
kill -HUP "$DAEMON_PID"
machine_join second "$SECOND_DIR"
kind() { [ "$(tail -1 "$SECOND_DIR/.agents/critic.md")" = 'Be kind.' ]; }
ok 'back again it gets what changed meanwhile' eventually 15 kind
healed() { grep -q 'of the sky' "$SECOND_DIR/.skills/weather/SKILL.md"; }
ok 'and what is no longer as it was placed' eventually 15 healed
is 'what is as it was is not written again' "$(stat -c %Y "$FIRST_DIR/.skills/weather/SKILL.md")" "$STAMP"

api POST /v1/boxes '{"machine":"second","thread":"of its own"}'
api GET "/v1/boxes/$(j .id)/sync"
is 'a thread that chose the machine is told how they came there' "$STATUS $(j .how) $(j .error)" '200 copy null'

# defect 4: two machines of one user online, each is itself
for name in laptop second; do
    box_use "$(machine_box "$name")"
    run 'pwd'
    is "defect 4: of two machines $name is the one that was chosen" "$OUT" "$WORK/work-$name"
done
machine_end "$FIRST_PID"
ok 'one goes' machine_is laptop offline
box_use "$(machine_box laptop)"
run pwd
is_error 'defect 4: and the other one does not take its calls' 503 BUSY laptop
