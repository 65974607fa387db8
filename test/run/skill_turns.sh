# Uploads, edits, reads and commands of many users at once: nobody sees half a skill, and a change waits for the
# commands that
# use what it replaces (test/lib/skillrace.py).
# backends: jail

python3 test/lib/skillrace.py "$SOCKET" "$BACKEND" "${SKILL_SECONDS:-3}" > "$WORK/race" 2>&1
status=$?
diag "$(head -1 "$WORK/race")"
if [ "$status" = 0 ]; then pass 'whoever looks finds one version, whole, his own or the public one'; else
    fail 'whoever looks finds one version, whole, his own or the public one' "$(tail -20 "$WORK/race")"
fi
like 'new versions came meanwhile, public ones and his own' "$(head -1 "$WORK/race")" \
    'newer own [1-9].* newer public [1-9]'

skill_zip() { # skill_zip FILE SKILL TEXT: a skill that says TEXT
    python3 -c 'import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as f: f.writestr(sys.argv[2] + "/says", sys.argv[3])' "$WORK/$1" "$2" "$3"
}
skill_put() { # skill_put FILE [QUERY]
    api PUT "$B/skills${2-}" '' --data-binary "@$WORK/$1" -H 'Content-Type: application/zip'
}
for word in one two three; do skill_zip "$word.zip" talk "$word"; done
skill_zip public.zip open first
skill_zip newer.zip open second

# A command that waits in the box for the file `go`, and then tells what the skill says.
waiter() {
    curl -s --unix-socket "$SOCKET" "http://localhost$B/exec" \
        -d '{"command":"touch waits; until [ -e go ]; do sleep 0.02; done; cat /skills/talk/says; rm go waits"}' \
    > "$WORK/waiter" &
    WAITER=$!
    eventually 10 waits || fail 'a command that waits' "$(< "$WORK/waiter")"
}
waits() { api GET "$B/stat?path=waits" && [ "$STATUS" = 200 ]; }
holds() { api GET "$B/stat?path=holds" && [ "$STATUS" = 200 ]; }
on_disk() { [ "$(cat "$STATE/boxes/$BOX"/{fs,skills}/skills/talk/says 2> /dev/null)" = "$1" ]; }

cp "$CONFIG" "$WORK/turns.yaml"
echo 'skill_wait_ms: 100' >> "$WORK/turns.yaml"
second_start "$WORK/turns.yaml" "$program" || { fail 'a daemon that waits briefly' "$(tail -5 "$WORK/daemon.log")"; \
    return; }
box_new '"user":"ann","agent":"talks"'
skill_put one.zip
is 'an upload while nothing runs is there at once' "$STATUS $(j .pending)" '200 false'
waiter
skill_put two.zip
is 'one while a command runs is kept for later' "$STATUS $BODY" '202 {"skills":["talk"],"pending":true,"background":0}'
put go ''
wait "$WAITER"
is 'that command keeps what it started with' "$(jq -r .stdout "$WORK/waiter")" one
ok 'the change is made when it has ended, without another call' eventually 10 on_disk two
run 'cat /skills/talk/says; ls -A /skills /skills/.cubby'
is 'and the next command sees it, and nothing beside' "$OUT" $'two/skills:\n.cubby\ntalk\n\n/skills/.cubby:'

waiter
skill_put three.zip
api DELETE "$B/skills/talk"
is 'a removal waits as well' "$STATUS" 202
skill_put one.zip
is 'and an upload behind it' "$STATUS" 202
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" "$WAITER" 2> /dev/null
start_daemon "$program" || fail 'the daemon again' "$(tail -5 "$WORK/daemon.log")"
run 'cat /skills/talk/says'
is 'changes that waited when the daemon was killed are made in their order' "$OUT" one

skill_put public.zip '?base=1'
api POST "$B/processes" '{"command":"cd /skills/open && touch /workspace/holds && exec sleep 600"}'
PID=$(j .pid)
ok 'a process in the background has a directory of it' eventually 10 holds
skill_put newer.zip '?base=1'
is 'a public skill is replaced whatever runs' "$STATUS" 200
skill_put two.zip
is 'an upload tells of background processes' "$STATUS $(j .background)" '200 1'
run 'cat /skills/open/says'
is 'a box keeps the old one while a background process uses it' "$OUT" first
api POST "$B/processes/$PID/signal" '{"signal":"KILL"}'
newer() { run 'cat /skills/open/says' && [ "$OUT" = second ]; }
ok 'and has the new one when it has ended' eventually 10 newer
box_new '"user":"bob","agent":"talks"'
run 'cat /skills/open/says; ls /skills'
is 'another user has the public one alone' "$OUT" $'secondopen'

sqlite() { # sqlite QUERY: of what is written down
    python3 -c 'import sqlite3, sys
for row in sqlite3.connect(f"file:{sys.argv[1]}/skills.db?mode=ro", uri=True).execute(sys.argv[2]): print(*row)' \
    "$STATE" "$1"
}
rows='SELECT skill_id, user_id FROM agent_skill_registry ORDER BY 1, 2'
is 'what is public, and whose is what' "$(sqlite "$rows")" $'open None\ntalk ann'
box_new '"user":"ann","agent":"talks"'
api DELETE "$B"
box_new '"user":"ann","agent":"talks"'
run 'ls /skills'
is 'what a user had goes with his box' "$OUT" open
skill_zip other.zip other x
skill_put other.zip
is 'and is not written down any more' "$(sqlite "$rows")" $'open None\nother ann'
delete_boxes
second_end
is 'it ends in order' $? 0
