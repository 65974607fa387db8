# The list of a user's skills is kept while nothing can have changed them, and shows at once what a verb, a command, a
# process in
# the background, an upload to either layer or another user's view made of them: never an old one.
# by default: jail
at=/v1/skills/lister/listagent
mkdir -p "$WORK/one" "$WORK/two"
skill() { # skill DIRECTORY NAME DESCRIPTION
    mkdir -p "$1/$2" && printf -- '---\nname: %s\ndescription: %s\n---\n' "$2" "$3" > "$1/$2/SKILL.md"
}
send() { # send DIRECTORY [QUERY]
    rm -f "$1.zip"
    (cd "$1" && zip -qr "$1.zip" .)
    api POST "$at/upload${2-}" '' -F "file=@$1.zip"
}
listed() { # what the list says: NAME=DESCRIPTION ...
    api GET "$at/list"
    jq -r '[.data[] | .name + "=" + .description] | join(" ")' "$WORK/body"
}
execute() { # execute SKILL SCRIPT
    json_string "$2"
    api POST "$at/$1/execute?command=sh" "[\"-c\",$JSON_STRING]"
}

for i in 1 2 3; do skill "$WORK/one" "own$i" first; skill "$WORK/two" "base$i" first; done
send "$WORK/one"
send "$WORK/two" '?scope=baseline'
all='base1=first base2=first base3=first own1=first own2=first own3=first'
is 'both layers are listed' "$(listed)" "$all"
is 'and again' "$(listed)" "$all"

api GET /v1/boxes
BOX=$(jq -r '.boxes[] | select(.agent == "listagent") | .id' "$WORK/body") B=/v1/boxes/$BOX

run 'cd /skills/own1 && sed s/first/FIRST/ SKILL.md > /tmp/new && cat /tmp/new > SKILL.md'
all=${all/own1=first/own1=FIRST}
is 'a command changes a file in its place, to one as long' "$CODE $(listed)" "0 $all"
execute base2 'sed -i s/first/mine/ SKILL.md'
all=${all/base2=first/base2=mine}
is 'a command changes a public skill for its user' "$STATUS $(listed)" "200 $all"
api GET /v1/skills/somebody/listagent/list
is 'another user sees the public one' "$(jq -r '[.data[] | .description] | join(" ")' "$WORK/body")" 'first first first'
api PUT "$at/own2/edit?path=SKILL.md&start=3&end=3" '' --data-binary 'description: edited' -H 'Content-Type: text/plain'
all=${all/own2=first/own2=edited}
is 'an edit is seen' "$STATUS $(listed)" "200 $all"
run 'rm -r /skills/own3'
all=${all/ own3=first/}
is 'a skill that a command removed is gone' "$(listed)" "$all"
skill "$WORK/one" own4 fourth
rm -r "$WORK/one/own1" "$WORK/one/own2" "$WORK/one/own3"
send "$WORK/one"
all+=' own4=fourth'
is 'an upload is seen' "$(listed)" "$all"
rm -r "$WORK/two"
skill "$WORK/two" base3 third
send "$WORK/two" '?scope=baseline'
all=${all/base3=first/base3=third}
is 'an upload to the public ones is seen' "$(listed)" "$all"

# A process in the background: no call of anybody tells of what it does.
api POST "$B/processes" \
    '{"command":"n=0; while :; do n=$((n+1)); printf -- \"---\\nname: own4\\ndescription: n%d\\n---\\n\" $n > '\
'/skills/own4/.x; mv /skills/own4/.x /skills/own4/SKILL.md; done"}'
pid=$(j .pid)
changed() { [[ $(listed) == *own4=n* && $(listed) != "$before" ]]; }
before=$(listed)
ok 'what a process in the background does is seen' eventually 10 changed
before=$(listed)
ok 'and again' eventually 10 changed
api POST "$B/processes/$pid/signal" '{"signal":"KILL"}'
ended() { api GET "$B/processes/$pid"; [ "$(j .state)" = exited ]; }
ok 'it ends' eventually 10 ended
run 'sed -n "s/^description: //p" /skills/own4/SKILL.md'
is 'what it did last is seen' "$(listed)" "${all/own4=fourth/own4=$OUT}"
