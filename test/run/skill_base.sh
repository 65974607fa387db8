# backends: jail
# The public skills of an agent as daemons keep them: stacks of layers that stay shallow, the table that follows, a data
# base
# that is lost, several daemons on one state, a daemon that is killed, the skill that everybody has. (As files alone:
# test/unit/skill/base/skill_base_test.c.)

python3 - "$WORK" 'first 1' 'second 2' 'second v20' 'own o' 'third 3' 'third 33' 'skill-creator x' 'maker-v1 zipped' \
    {here,twin}{1..5}' h' << 'END'
import sys, zipfile
for word in sys.argv[2:]:
    zipfile.ZipFile(f'{sys.argv[1]}/{word}.zip', 'w').writestr(word.split()[0] + '/SKILL.md', word.split()[1])
END
put() { # put SKILL TEXT [SCOPE]: by the door for archives
    api POST "/v1/skills/ann/app/upload?scope=${3:-baseline}" '' -F "file=@$WORK/$1 $2.zip"
}
table() { # SKILL or SKILL@USER of each row
    python3 -c 'import sqlite3, sys
rows = sqlite3.connect(sys.argv[1]).execute("SELECT skill_id, user_id FROM agent_skill_registry WHERE agent_id = ? '\
'ORDER BY 1, 2", ["app"])
print(*(skill + ("@" + user if user else "") for skill, user in rows))' "$STATE/skills.db"
}
depth() { wc -l < "$STATE/skills/agents/app"; }

put first 1
put second 2
api POST /v1/boxes '{"user":"ann","agent":"app"}'
box_use "$(j .id)"
run 'cat /skills/first/SKILL.md /skills/second/SKILL.md'
is 'a box has the public skills of its agent' "$OUT" 12
api PUT '/v1/skills/ann/app/first/edit?path=SKILL.md' '' --data-binary 'mine'
put own o overlay
is 'the table has the public ones and the user'"'"'s' "$(table)" 'first first@ann own@ann second'

# ---- many versions ----

deepest=0
for i in {1..18}; do
    put second v20
    [ "$(depth)" -le "$deepest" ] || deepest=$(depth)
done
is 'a stack has at most 16 layers' "$deepest" 16
ok 'and was made shallow' [ "$(depth)" -lt 16 ]
run 'cat /skills/second/SKILL.md /skills/first/SKILL.md; ls -A /skills/second'
is 'a box that ran all the time has the newest, and what its user changed' "$OUT" $'v20mineSKILL.md'
is 'the table has each skill once' "$(table)" 'first first@ann own@ann second'

# ---- the data base is lost, the daemon is killed ----

rm "$STATE/skills.db" "$STATE"/skills.db-*
api GET /v1/skills/ann/app/list
is 'a list goes on without its data base' "$(j '[.data[].skillId]|join(" ")')" 'first own second'
put third 3
is 'which is made again with the next change, from the files' "$(table)" 'first second third'
mkdir -p "$STATE/skills/staging/0123456789abcdef/half"
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
rm -f "$STATE"/skills.db*
start_daemon "$program"
is 'the next daemon makes it again at its start' "$(table)" 'first second third'
is 'and takes away what the dead one was making' "$(ls "$STATE/skills/staging")" ''
run 'cat /skills/second/SKILL.md'
is 'the box is as it was' "$OUT" v20
is 'and now that it was used, its user has his rows again' "$(table)" 'first first@ann own@ann second third'

# ---- two daemons ----

SECRET_OF_THE_DAEMON=secret ASAN_OPTIONS=exitcode=99 "$program" --listen "unix:$WORK/twin" --state "$STATE" \
    --config "$CONFIG" --backend "$BACKEND" \
    < /dev/null >> "$WORK/daemon.log" 2>&1 &
twin_pid=$!
twin() { SOCKET=$WORK/twin "$@"; }
twin_answers() { curl -sf --unix-socket "$WORK/twin" http://localhost/healthz; }
eventually 20 twin_answers
twin put third 33
is 'a skill that comes by another daemon' "$STATUS" 200
run 'cat /skills/third/SKILL.md'
is 'is in the box of this one' "$OUT" 33
(for i in 1 2 3 4 5; do twin put "twin$i" h; done) &
for i in 1 2 3 4 5; do put "here$i" h; done
wait $!
run 'ls /skills | tr "\n" " "'
is 'both change one agent at once, and nothing is lost' "$OUT" \
    'first here1 here2 here3 here4 here5 own second third twin1 twin2 twin3 twin4 twin5 '
is 'the table says so, too' "$(table)" \
    'first first@ann here1 here2 here3 here4 here5 own@ann second third twin1 twin2 twin3 twin4 twin5'
kill -TERM "$twin_pid"
wait "$twin_pid"
is 'the other one ends well' $? 0

# ---- the skill that everybody has ----

mkdir -p "$WORK/creator"
echo 'makes skills' > "$WORK/creator/SKILL.md"
cp "$CONFIG" "$WORK/before.yaml"
echo "skill_creator: $WORK/creator" >> "$CONFIG"
kill -HUP "$DAEMON_PID"
has() { run 'cat /skills/skill-creator/SKILL.md' && [ "$OUT" = 'makes skills' ]; }
ok 'a box that runs gets it when the configuration is read again' eventually 10 has
run 'echo spoilt > /skills/skill-creator/SKILL.md; cat /skills/skill-creator/SKILL.md'
is 'a user can spoil it for himself' "$OUT" spoilt
is 'and for nobody else' "$(cat "$STATE"/skills/layers/*/skill-creator/SKILL.md)" 'makes skills'
put skill-creator x
isnt 'nobody uploads another' "$STATUS" 200
is 'it is in no row' "$(table | grep -c creator)" 0
cp "$WORK/before.yaml" "$CONFIG"
echo "skill_creator: $WORK/maker-v1 zipped.zip" >> "$CONFIG"
kill -HUP "$DAEMON_PID"
api POST /v1/boxes '{"user":"bob","agent":"app"}'
box_use "$(j .id)"
has() { run 'cat /skills/skill-creator/SKILL.md; ls /skills/skill-creator' && [ "$OUT" = zippedSKILL.md ]; }
ok 'it may be an archive, whatever its folder is called' eventually 10 has
cp "$WORK/before.yaml" "$CONFIG"
