# Archives from anybody, uploaded: each of the hostile corpus (test/lib/zips.py) is refused with its entry named, and
# leaves the
# old skill, the agent's baseline and the daemon's own directories as they were. Good ones, in GBK too, have their
# names; a
# download gives back what was there, and can be uploaded again.
# by default: jail
at=/v1/skills/zipper/zipagent
python3 test/lib/zips.py "$WORK/zips" || fail 'the corpus is made'

zip_up() { # zip_up FILE [QUERY]
    api POST "$at/upload${2-}" '' -F "file=@$1"
}
seen() { # what the user sees of his skills: names, files, contents
    api GET "$at/list"
    local names=$BODY
    api GET "$at/victim/files"
    names+=$BODY
    api GET "$at/victim/content?path=SKILL.md"
    printf '%s%s' "$names" "$BODY"
}
kept() { # what lies in the daemon's directories of skills
    find "$STATE/skills" -mindepth 1 | sort
}

mkdir -p "$WORK/first/victim/sub"
printf -- '---\nname: victim\ndescription: the old one\n---\n' > "$WORK/first/victim/SKILL.md"
echo old > "$WORK/first/victim/sub/file"
(cd "$WORK/first" && zip -qr ../first.zip victim)
zip_up "$WORK/first.zip"
is 'a skill is uploaded' "$STATUS $(j .data)" "200 Upload successful: skill 'victim' to '/skills/victim'"
zip_up "$WORK/first.zip" '?scope=baseline'
is 'and put into the baseline' "$STATUS" 200
before=$(seen) kept_before=$(kept)
like 'it is seen' "$before" 'the old one.*sub/file'

# Those that are found out only while they are unpacked, and one that is not: what differs by where it goes.
late='slip|bomb_ratio|lies_less|lies_more|crc|damaged|cut_content|behind_content'
refused_all() { # refused_all NAME QUERY NAMES: every bad archive whose name is one of them
    local name code part wrong='' count=0 text want
    while IFS=$'\t' read -r name code part; do
        [[ $name =~ ^($3)$ ]] || continue
        count=$((count + 1))
        zip_up "$WORK/zips/bad/$name.zip" "$2"
        text=$(j .data)
        [ "$code" = TOO_LARGE ] && want=413 || want=500
        [[ $STATUS == "$want" && $(j .status) == error && $text == 'Upload failed: '* && $text == *"$part"* ]] ||
            wrong+="$name: $STATUS ${BODY:0:200}"$'\n'
    done < "$WORK/zips/bad.tsv"
    is "$1: $count hostile archives are refused, their entries named" "$wrong" ''
    between "$1: all of them" "$count" "$4" 1000
}
# names are judged before a box is asked
[[ $BACKEND = jail || $BACKEND = docker ]] && refused_all overlay '' '.*' 100 || refused_all overlay '' "$late" 8
is 'overlay: the old skill is as it was' "$(seen)" "$before"
is 'overlay: nothing is left behind' "$(kept)" "$kept_before"
refused_all baseline '?scope=baseline' "$late" 8
is 'baseline: the old skill is as it was' "$(seen)" "$before"
is 'baseline: nothing is left behind' "$(kept)" "$kept_before"
api GET "/v1/skills/another/zipagent/victim/content?path=sub/file"
is 'baseline: another user reads the old one' "$(j .data.content)" old

wrong=''
while IFS=$'\t' read -r name encoding files; do
    [[ $name != *7z* ]] || continue # one program's archive is enough here
    zip_up "$WORK/zips/good/$name.zip"
    top=$(tr '|' '\n' <<< "$files" | grep -m1 / | cut -d/ -f1)
    want=$(tr '|' '\n' <<< "$files" | sed -n "s|^$top/||p" | LC_ALL=C sort | tr '\n' '|')
    api GET "$at/$(encode "$top")/files"
    got=$(jq -r '.data[]' "$WORK/body" | LC_ALL=C sort | tr '\n' '|')
    [ "$STATUS $got" = "200 $want" ] || wrong+="$name: $STATUS wanted $want, got $got"$'\n'
done < "$WORK/zips/good.tsv"
is 'each of the good archives has its names' "$wrong" ''
api GET "$at/$(encode 天气)/content?path=$(encode 誠.txt)"
is 'a name with the byte of a backslash in GBK has its content' "$(j .data.content)" '天气/誠.txt'

# ---- there and back ----
api GET "$at/download?name=$(encode 天气)"
is 'a download is an archive' "$STATUS $(header content-type)" '200 application/zip'
cp "$WORK/body" "$WORK/down.zip"
ok 'which unzip finds to be sound' unzip -tq "$WORK/down.zip"
is 'and 7z' "$(7z t "$WORK/down.zip" | grep -c 'Everything is Ok')" 1
is 'its entries lie below the skill, and hold what was sent' "$(python3 - "$WORK/down.zip" << 'END'
import sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
names = sorted(name for name in archive.namelist() if not name.endswith('/'))
print(len(names), all(archive.read(name).decode() == name for name in names), names[0])
END
)" '5 True 天气/sub dir/ok.txt'
api GET "$at/download?name=$(encode 天气)"
ok 'the same skill gives the same bytes' cmp "$WORK/body" "$WORK/down.zip"
zip_up "$WORK/down.zip"
is 'what was downloaded can be uploaded' "$STATUS" 200
api GET "$at/download?name=$(encode 天气)"
ok 'and comes back the same' cmp "$WORK/body" "$WORK/down.zip"

# ---- forms that are none ----
api POST "$at/upload" '{"file":"x"}'
is 'a body that is no form is refused in the envelope' "$(j .status)" error
api POST "$at/upload" '' -F "other=@$WORK/first.zip"
like 'a form without the part file is refused' "$(j .status) $(j .data)" "^error .*'?file'?"
head -c $((10 * 1024 * 1024 + 1)) /dev/zero > "$WORK/large"
zip_up "$WORK/large"
like 'a byte more than allowed is refused in the envelope' "$(j .status) $(j .data)" '^error .*10485760 bytes'
head -c $((10 * 1024 * 1024)) /dev/zero > "$WORK/large"
zip_up "$WORK/large"
like 'just as much is looked at' "$(j .status) $(j .data)" '^error .*not a ZIP'
rm -f "$WORK/large"
