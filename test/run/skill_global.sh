# Global skills and sub-agents: in every box from its start, mounted where the backend can, else copied; and what came
# of it.
# by default: jail local remote

mkdir -p "$WORK/g1/weather/scripts" "$WORK/g1/plain" "$WORK/g1/nothing" "$WORK/g2/weather" "$WORK/a1"
printf -- '---\nname: weather\ndescription: of the first\n---\n' > "$WORK/g1/weather/SKILL.md"
printf '#!/bin/sh\necho sunny\n' > "$WORK/g1/weather/scripts/run.sh"
chmod 755 "$WORK/g1/weather/scripts/run.sh"
echo '# plain' > "$WORK/g1/plain/SKILL.md"
ln -s /etc/hostname "$WORK/g1/plain/out"
ln -s SKILL.md "$WORK/g1/plain/inner"
echo no > "$WORK/g1/nothing/file"
printf -- '---\nname: critic\ndescription: finds faults\n---\nBe strict.\n' > "$WORK/a1/critic.md"
echo stray > "$WORK/a1/notes.txt"
cat > "$WORK/global.yaml" << END
allow_local: true
global_skills: [$WORK/g1]
global_agents: [$WORK/a1]
END
second_start "$WORK/global.yaml" "$program" || fail 'a daemon with global skills' "$(tail -5 "$WORK/daemon.log")"
box_new
at=$B # to machines they go from a queue, each once, as it comes: into its own box
[ "$BACKEND" != remote ] || at=/v1/boxes/$(machine_box "$SUITE_NAME")
came() { api GET "$at/sync" && [ "$STATUS $(j .how) $(j .error) $(j .written)" = '200 copy null 5' ]; }
[ "$BACKEND" != remote ] || eventually 30 came
run 'cat .skills/weather/SKILL.md | sed -n 3p; .skills/weather/scripts/run.sh; cat .agents/critic.md | tail -1'
is 'a box has them' "$OUT" $'description: of the first\nsunny\nBe strict.'
run 'ls .skills .agents'
is 'skills are folders with a SKILL.md, sub-agents are .md files' "$OUT" \
    $'.agents:\ncritic.md\n\n.skills:\nplain\nweather'
run 'ls .skills/plain; cat .skills/plain/inner'
is 'a link inside a skill is a file, one that leads out is left out' "$OUT" $'SKILL.md\ninner\n# plain'
api GET "$B/sync"
version=$(j .version)
if [ "$BACKEND" = jail ] || [ "$BACKEND" = docker ]; then
    is 'how they came is told' "$STATUS $(j .how) $(j .error)" '200 mount null'
    run 'echo mine > .skills/weather/SKILL.md'
    isnt 'a command cannot change them' "$CODE" 0
    run 'rm -rf .skills/weather; mkdir .skills/x; chmod 777 .skills/weather/SKILL.md; touch .skills/weather/SKILL.md'
    is 'in no way' "$(cat "$STATE/skills/global/$version/skills/weather/SKILL.md")" "$(cat "$WORK/g1/weather/SKILL.md")"
else
    ok 'how they came is told' eventually 10 came
    run 'echo mine > .skills/plain/SKILL.md'
    api POST "$B/sync"
    is 'again: what differs is copied, the rest is not' "$(j .written) $(j .unchanged)" '1 4'
    run 'cat .skills/plain/SKILL.md'
    is 'they are not the box to change' "$OUT" '# plain'
fi
first=$BOX

# ---- sources change ----

printf -- '---\nname: weather\ndescription: of the second\n---\n' > "$WORK/g2/weather/SKILL.md"
rm -r "$WORK/g1/plain"
sed -i "s|global_skills: .*|global_skills: [$WORK/g1, $WORK/g2]|" "$WORK/global.yaml"
kill -HUP "$DAEMON_PID"
newer() {
    box_new
    run 'sed -n 3p .skills/weather/SKILL.md; ls .skills'
    [ "$OUT" = $'description: of the second\nweather' ]
}
ok 'a later source wins; a box that starts has the newest' eventually 20 newer
box_new
run 'ls .skills/weather'
is 'a skill is one source, whole' "$OUT" SKILL.md
box_use "$first"
if [ "$BACKEND" = jail ] || [ "$BACKEND" = docker ]; then
    run 'sed -n 3p .skills/weather/SKILL.md; .skills/weather/scripts/run.sh; ls .skills'
    is 'one that runs keeps what it started with' "$OUT" $'description: of the first\nsunny\nplain\nweather'
else
    follow() {
        run 'sed -n 3p .skills/weather/SKILL.md; ls .skills .skills/weather'
        [ "$OUT" = $'description: of the second\n.skills:\nweather\n\n.skills/weather:\nSKILL.md' ]
    }
    if [ "$BACKEND" = remote ]; then ok 'copies follow soon after the next use' eventually 20 follow; else ok \
        'copies follow at the next use' follow; fi
fi

# ---- over daemons, and gone ----

mv "$WORK/g2" "$WORK/away"
sed -i "s|global_skills: .*|global_skills: [$WORK/g2]|" "$WORK/global.yaml"
kill -HUP "$DAEMON_PID"
told() {
    box_new
    api POST "$B/sync"
    [ "$STATUS" = 200 ] && [[ $(j .error) == *"$WORK/g2"* ]]
}
ok 'a source that is missing is told, and the box is there' eventually 20 told
box_new
run 'echo works'
is 'and works' "$OUT" works
mv "$WORK/away" "$WORK/g2"
kill -TERM "$DAEMON_PID"
wait "$DAEMON_PID"
is 'it ends in order' $? 0
start_daemon "$program" || fail 'a daemon again' "$(tail -5 "$WORK/daemon.log")"
box_use "$first"
run 'sed -n 3p .skills/weather/SKILL.md'
[[ $BACKEND = jail || $BACKEND = docker ]] && want='description: of the first' || want='description: of the second'
is 'a box that was left running still has what it had' "$OUT" "$want"
for id in $(api GET /v1/boxes && j '.boxes[].id'); do api DELETE "/v1/boxes/$id"; done
echo more >> "$WORK/g2/weather/SKILL.md"
gone() {
    box_new
    run 'tail -1 .skills/weather/SKILL.md'
    api DELETE "$B"
    [ "$OUT" = more ] && [ "$(ls "$STATE/skills/global" | wc -l)" = 1 ]
}
ok 'trees that no box has any more go' eventually 30 gone
second_end
