# A user's own skills: uploads replace whole skills, whatever is in the way; downloads give back what was there; how a
# user's
# version stands to the public one is told by content.
# by default: jail

ZIPS=$WORK/zips
mkdir -p "$ZIPS"
python3 - "$ZIPS" << 'END'
import sys, zipfile
def archive(name, files):
    with zipfile.ZipFile(f"{sys.argv[1]}/{name}.zip", "w", zipfile.ZIP_DEFLATED) as file:
        for path, text in files.items():
            info = zipfile.ZipInfo(path)
            mode = 0o755 if path.endswith(".sh") else 0o644
            info.external_attr = (0o40755 << 16 | 16) if path.endswith("/") else mode << 16
            file.writestr(info, text)
archive("one", {"天气/SKILL.md": "# one\n", "天气/run.sh": "#!/bin/sh\necho one\n", "天气/empty/": "",
      "天气/deep/er/x": "x" * 70000})
archive("two", {"天气/SKILL.md": "# two\n", "天气/only two": "2"})
archive("both", {"a/f": "a", "b/f": "b"})
archive("public", {"p/SKILL.md": "# p\n", "p/d/f": "1\n"})
archive("newer", {"p/SKILL.md": "# p\n", "p/d/f": "2\n"})
archive("large", {"天气/large": "".join(chr(33 + i * 7919 % 90) for i in range(9 << 20))})
END
skill_put() { api PUT "$B/skills${2-}" '' --data-binary "@$ZIPS/$1.zip" -H 'Content-Type: application/zip'; }
download() { # download SKILL FILE
    STATUS=$(curl -s --unix-socket "$SOCKET" -o "$2" -w '%{http_code}' \
        "http://localhost/v1/skills/ann/$AGENT/download?name=$(encode "$1")")
    BODY=$(head -c 300 "$2" | tr -d '\0')
}
how() { # how SKILL: its state, as the dialect tells it
    curl -s --unix-socket "$SOCKET" "http://localhost/v1/skills/ann/$AGENT/list-with-status" |
        jq -r --arg skill "$1" '.data[] | select(.skillId == $skill) | .status'
}
tree() { run 'cd /skills && find [!.]* -printf "%y%m %p\n" | sort | sed "s/^\(.\)[0-7]*\([0-7]\)[0-7][0-7] /\1\2 /"'; }

AGENT=own-$BACKEND
box_new "\"user\":\"ann\",\"agent\":\"$AGENT\""
skill_put one
is 'an upload' "$STATUS $BODY" '200 {"skills":["天气"],"pending":false,"background":0}'
tree
is 'its files, directories and programs' "$OUT" \
    $'d7 天气\nd7 天气/deep\nd7 天气/deep/er\nd7 天气/empty\nf6 天气/SKILL.md\nf6 天气/deep/er/x\nf7 天气/run.sh'
download 天气 "$WORK/first.zip"
is 'it can be had back' "$STATUS" 200
is 'with the same contents' "$(unzip -p "$WORK/first.zip" 天气/run.sh)" $'#!/bin/sh\necho one'
download 天气 "$WORK/again.zip"
ok 'in the same bytes each time' cmp "$WORK/first.zip" "$WORK/again.zip"
cp "$WORK/first.zip" "$ZIPS/back.zip"
skill_put two
tree
is 'another upload replaces all of it' "$OUT" $'d7 天气\nf6 天气/SKILL.md\nf6 天气/only two'
skill_put back
download 天气 "$WORK/again.zip"
ok 'what was had back is the same when it is put again' cmp "$WORK/first.zip" "$WORK/again.zip"
skill_put both
api DELETE "$B/skills/a"
is 'one is removed' "$STATUS" 204
run 'ls /skills'
is 'and the others stay' "$OUT" $'b\n天气'
api DELETE "$B/skills/a"
is_error 'twice it is not there' 404 NOT_FOUND "no skill 'a'"
api DELETE "$B/skills/..%2fworkspace"
is_error 'a name that is no name' 400 INVALID

run 'cd /skills/b && ln -s f inside && mkdir d && ln -s ../f d/up'
download b "$WORK/links.zip"
is 'links to files of the skill are files in a download' \
    "$STATUS $(unzip -p "$WORK/links.zip" b/inside) $(unzip -p "$WORK/links.zip" b/d/up)" '200 b b'
run 'ln -s /etc/passwd /skills/b/out'
download b "$WORK/links.zip"
unlike 'one that leads elsewhere is not followed' "$(unzip -p "$WORK/links.zip" 2> /dev/null; cat "$WORK/links.zip")" \
    'root:'
like 'and told by its name' "$BODY" "b/out"
api DELETE "$B/skills/b"

if [ "$BACKEND" = jail ]; then
    api POST "$B/exec" '{"command":"mkdir /skills/天气/of-root && touch /skills/天气/of-root/f && chmod 700 '\
'/skills/天气/of-root","user":"root"}'
    is 'files of the box'"'"'s root in a skill' "$(j .exit_code)" 0
    skill_put two
    tree
    is 'do not keep it from being replaced' "$OUT" $'d7 天气\nf6 天气/SKILL.md\nf6 天气/only two'

    skill_put public '?base=1'
    is 'a public skill' "$(how p)" UNCHANGED
    run 'echo mine >> /skills/p/d/f'
    skill_put newer '?base=1'
    run 'cat /skills/p/d/f'
    is 'what a command changed stays the user'"'"'s' "$OUT" $'1\nmine'
    is 'and is known to be founded on an older one' "$(how p)" OUT_OF_SYNC
    api POST "$B/skills/p/sync" '{"direction":"from_base"}'
    is 'taken from the base it is the same' "$STATUS $(how p)" '204 UNCHANGED'
    run 'touch /skills/p/more'
    is 'until it is changed' "$(how p)" MODIFIED
    api POST "$B/skills/p/sync" '{"direction":"to_base"}'
    is 'given to the base it is the same' "$STATUS $(how p)" '204 UNCHANGED'
    api DELETE "$B/skills/p?base=1"
    is 'without a public one it is the user'"'"'s alone' "$(how p)" LOCAL_ONLY

    box_new "\"user\":\"small\",\"agent\":\"$AGENT\",\"limits\":{\"disk_mb\":8}"
    skill_put one
    skill_put large
    isnt 'an upload that does not fit' "$STATUS" 200
    run 'sh /skills/天气/run.sh; ls -A /skills/.cubby'
    is 'leaves the old one, and nothing else' "$OUT" one
else
    skip 'public skills below his own' 'this backend mounts no layers; run/skill_global.sh has its copies'
fi
