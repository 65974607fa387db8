#!/bin/bash
# `cubby skill`: a user's skills and his agent's, and those that users share, as a person would handle them.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
use_cubby
write_tokens "$CONFIG"
DAEMON=$BUILD/asan/cubbyd
[ -x "$DAEMON" ] || DAEMON=$BUILD/cubbyd
by() { # by USER WORD...: `cubby skill` with his token
    export CUBBY_TOKEN=$1-token-0123456789abcdef
    [ "$1" = admin ] || CUBBY_TOKEN+=00
    shift
    c skill "$@"
}
in_box() { # in_box USER COMMAND: in his box for the agent app
    local token=$1-token-0123456789abcdef00
    curl -s --unix-socket "$SOCKET" -H "Authorization: Bearer $token" -d '{"agent":"app"}' http://localhost/v1/boxes \
        > "$WORK/body"
    local id
    id=$(j .id)
    json_string "$2"
    curl -s --unix-socket "$SOCKET" -H "Authorization: Bearer $token" -d "{\"command\":$JSON_STRING}" \
        "http://localhost/v1/boxes/$id/exec" > "$WORK/body"
    OUT=$(j .stdout)
}
make_skill() { # make_skill DIR TEXT
    mkdir -p "$1/scripts"
    printf -- '---\nname: Shown %s\ndescription: %s \033[31m\n---\nbody\n' "$2" "$2" > "$1/SKILL.md"
    printf '#!/bin/sh\necho %s\n' "$2" > "$1/scripts/go.sh"
    chmod 755 "$1/scripts/go.sh"
}
start_or_end "$DAEMON"

# ---- upload ----
make_skill "$WORK/weather" public
mkdir "$WORK/weather/.git"
ln -s scripts/go.sh "$WORK/weather/run"
by ann upload --agent app --base "$WORK/weather"
is "an agent's skills are for admins to change" "$CODE $ERR" \
    "125 cubby: changing an agent's skills needs a token of scope admin"
by admin upload --agent app --user ann --base "$WORK/weather"
is 'a directory becomes a skill of the agent' "$CODE $OUT" '0 weather'
in_box ann 'ls -A /skills/weather; /skills/weather/run; /skills/weather/scripts/go.sh'
is 'a user has it, its link a file of its own, without .git' "$OUT" $'SKILL.md\nrun\nscripts\npublic\npublic'
make_skill "$WORK/own/weather" mine
make_skill "$WORK/own/天气" zip
(cd "$WORK/own" && python3 -c 'import shutil; shutil.make_archive("../own", "zip", ".")')
by ann upload --agent app "$WORK/own.zip"
is 'a ZIP with two skills' "$CODE $OUT" $'0 weather\n天气'
in_box ann '/skills/weather/scripts/go.sh; sh /skills/天气/scripts/go.sh; ls -A /skills/weather'
is "replaces the user's whole" "$OUT" $'mine\nzip\nSKILL.md\nscripts'
in_box bob '/skills/weather/scripts/go.sh; ls /skills'
is 'and nobody else sees it' "$OUT" $'public\nweather'
by ann upload --agent app --json "$WORK/own/天气"
is 'as JSON' "$CODE $(jq -c . <<< "$OUT")" '0 {"skills":["天气"],"pending":false,"background":0}'
ln -s /etc/passwd "$WORK/own/天气/leak"
by ann upload --agent app "$WORK/own/天气"
like 'a link that leads outside stays here' "$CODE $ERR" '125 .*天气/leak is a link to something outside'
rm "$WORK/own/天气/leak"
mkfifo "$WORK/own/天气/pipe"
by ann upload --agent app "$WORK/own/天气"
like 'so does what is no file' "$CODE $ERR" '125 .*天气/pipe'
rm "$WORK/own/天气/pipe"
echo 'no zip' > "$WORK/bad.zip"
by ann upload --agent app "$WORK/bad.zip"
is 'what is no ZIP is refused' "$CODE" 125
by ann upload --agent app "$WORK/nothing"
like 'what is not there is named' "$CODE $ERR" "125 .*$WORK/nothing"
make_skill "$WORK/skill-creator" fake
by admin upload --agent app --user ann --base "$WORK/skill-creator"
isnt 'a name that is reserved' "$CODE" 0

# ---- list ----
by ann list --agent app
like 'list: what there is, and from where' "$OUT" '天气 +personal +Shown zip +zip'
unlike 'and nothing that disturbs a terminal' "$OUT" $'\e'
by ann list --agent app --json
is 'list as JSON' "$(jq -r '[.skills[].id]|sort|join(" ")' <<< "$OUT")" 'weather 天气'

# ---- edit ----
printf 'new\ntext\n' > "$WORK/in"
INPUT=$WORK/in by ann edit --agent app 天气/notes/deep.txt
by ann edit --agent app 天气/notes/second.txt "$WORK/in"
in_box ann 'cat /skills/天气/notes/deep.txt /skills/天气/notes/second.txt'
is 'edit: standard input, or a file' "$OUT" $'new\ntext\nnew\ntext'
by ann edit --agent app --old text --new words 天气/notes/deep.txt
in_box ann 'cat /skills/天气/notes/deep.txt'
is 'edit: a string' "$CODE $OUT" $'0 new\nwords'
rows() { # rows USER: what is written down as his own
    python3 -c 'import sqlite3, sys
print(*(row[0] for row in sqlite3.connect(sys.argv[1]).execute("SELECT skill_id FROM agent_skill_registry WHERE '\
'agent_id = ? AND user_id = ? ORDER BY 1", ("app", sys.argv[2]))))' "$STATE/skills.db" "$1"
}
is "what a user has of his own is written down" "$(rows ann)|$(rows bob)" 'weather 天气|'
by bob edit --agent app weather/notes "$WORK/in"
is 'also after an edit of what was his agent'"'"'s' "$CODE $(rows bob)" '0 weather'
by bob sync --agent app --from-base weather
by ann edit --agent app --old absent --new words 天气/notes/deep.txt
is 'which must be there' "$CODE" 125
printf '#!/bin/sh\nsed -i s/words/edited/ "$1"\n' > "$WORK/editor"
chmod 755 "$WORK/editor"
EDITOR=$WORK/editor VISUAL='' CUBBY_TOKEN=ann-token-0123456789abcdef00 timeout 20 "$BUILD/test/ptyrun" 80x24 \
    -- "$CUBBY" skill edit --agent app 天气/notes/deep.txt < /dev/null > "$WORK/pty" 2>&1
in_box ann 'cat /skills/天气/notes/deep.txt'
is 'edit: on a terminal, in an editor' "$OUT" $'new\nedited'
for word in 天气 天气/ /x ../x/y 天气/../../x ''; do
    INPUT=$WORK/in by ann edit --agent app "$word"
    is "edit: no path of a skill: '$word'" "$CODE" 2
done

# ---- rm, sync ----
by ann rm --agent app weather
in_box ann 'ls /skills'
is 'rm hides also what the agent has' "$CODE $OUT" '0 天气'
by ann sync --agent app --from-base weather
in_box ann '/skills/weather/scripts/go.sh'
is 'sync --from-base brings it back' "$CODE $OUT" '0 public'
by ann sync --agent app --to-base 天气
is 'sync --to-base is for admins' "$CODE $ERR" "125 cubby: changing an agent's skills needs a token of scope admin"
by admin sync --agent app --user ann --to-base 天气
in_box bob 'cat /skills/天气/notes/deep.txt'
is 'then all users of the agent have it' "$CODE $OUT" $'0 new\nedited'
by admin rm --agent app --user ann --base 天气
in_box bob 'ls /skills'
is 'and with rm --base no longer' "$CODE $OUT" '0 weather'
by ann rm --agent app nothing
is 'rm of what is not there' "$CODE" 125

by ann sync --agent app
is 'sync of what every box gets: here nothing' "$CODE $OUT" '0 none: 0 written, 0 removed, 0 kept, 0 unchanged'
by ann sync --agent app --json
is 'as JSON' "$(jq -c '[.how,.error]' <<< "$OUT")" '["none",null]'

# ---- between users ----
by ann publish --agent app --tags sun,rain 天气
is 'publish' "$CODE $OUT" '0 ann/天气@1'
by ann publish --agent app --private --version 7 --json weather
is 'publish as private' "$(jq -r '[.version,.sharing]|join(" ")' <<< "$OUT")" '7 private'
by bob search rain
like 'search finds it' "$OUT" 'skill +ann/天气@1 +public +4 '
unlike 'without what could disturb a terminal' "$OUT" $'\e'
by bob search --json
is 'and nothing private' "$(jq -r '[.entries[].name]|join(" ")' <<< "$OUT")" 天气
by ann search --mine --versions --json
is 'but to its author' "$(jq -r '[.entries[].name]|sort|join(" ")' <<< "$OUT")" 'weather 天气'
by bob install --agent app ann/天气
is 'install' "$CODE $OUT" '0 /skills/天气'
in_box bob 'cat /skills/天气/notes/deep.txt; ls -A /skills | grep -vx .cubby'
is 'it is there, whole' "$OUT" $'new\nedited\nweather\n天气'
by bob install --agent app 天气
like 'once' "$CODE $ERR" "125 cubby: skill '天气' is already installed"
by bob install --agent app --replace 天气@1
is 'or in its place' "$CODE $OUT" '0 /skills/天气'
by bob install --agent app weather
is 'a private one is not there' "$CODE" 125
by bob unpublish ann/天气
like 'unpublish: not by others' "$CODE $ERR" '125 .*only that user or an admin'
by ann unpublish ann/天气 weather@7
is 'unpublish' "$CODE $OUT" $'0 ann/天气\nweather@7'
by ann search --json
is 'nothing is left' "$(jq .total <<< "$OUT")" 0
by bob uninstall --agent app 天气
in_box bob 'ls -A /skills | grep -vx .cubby'
is 'uninstall' "$CODE $OUT" '0 weather'

# ---- words ----
for words in '' 'nonsense' 'list' 'list --agent a --box 0123456789abcdef' 'upload --agent a' 'list --user x' \
    'sync --agent a x' \
    'sync --agent a --to-base --from-base x' 'publish --agent a' 'search a b' 'list --agent a --type thing' \
    'edit --agent a x/y --old z' \
    'list --box x'; do
    by ann $words
    is "wrong: skill $words" "$CODE" 2
done
by ann list --agent '../x'
is 'no name of an agent' "$CODE" 125
by bob list --box "$(CUBBY_TOKEN=ann-token-0123456789abcdef00 "$CUBBY" ps --json | jq -r '.boxes[0].id')"
is "somebody else's box is none" "$CODE" 125

export CUBBY_TOKEN=admin-token-0123456789abcdef
c rm --all
kill -TERM "$DAEMON_PID"
wait "$DAEMON_PID"
is 'the daemon ends in order' $? 0
not_ok 'the sanitizers are silent' grep -qE 'Sanitizer|runtime error:|Assertion' "$WORK/daemon.log"
DAEMON_PID=
finish
