#!/bin/bash
# The later family of FileSecBoxService's API, end to end with curl: what its clients rely on, and for each weakness (W) of
# the original that it is about a check that fails where that weakness is.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh

# ---- helpers ----

zip_of() { # zip_of FILE NAME=CONTENT...: an archive of just these
    python3 - "$@" << 'END'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as out:
    for entry in sys.argv[2:]:
        name, _, content = entry.partition("=")
        out.writestr(name, content)
END
}
n() { # n METHOD PATH [BODY] [CURL OPTION...]: a call; DATA is the envelope's data, texts as they are
    api "$@"
    DATA=$(jq -r 'if .data | type == "string" then .data else .data | tojson end' < "$WORK/body" 2> /dev/null)
}
success() { # success NAME DATA: the last call answered just this
    is "$1" "$STATUS $(jq -rc 'keys|join(",")' < "$WORK/body" 2> /dev/null) $(j .status) $DATA" "200 data,status success $2"
}
error() { # error NAME DATA: it answered this as an error, with status 200
    is "$1" "$STATUS $(jq -rc 'keys|join(",")' < "$WORK/body" 2> /dev/null) $(j .status) $DATA" "200 data,status error $2"
}
upload_skills() { # upload_skills USER AGENT ZIP [CURL OPTION...]
    n POST "/v1/skills/$1/$2/upload" '' -F "file=@$3" "${@:4}"
}
write() { # write USER PATH CONTENT
    n POST "/v1/$1/app/write" "$(jq -nc --arg p "$2" --arg c "$3" '{file_path:$p,content:$c}')"
}
edit() { # edit USER PATH OLD NEW [EXPECTED]
    n POST "/v1/$1/app/edit" "$(jq -nc --arg p "$2" --arg o "$3" --arg n "$4" --arg e "${5-}" \
        '{file_path:$p,old_string:$o,new_string:$n} + if $e == "" then {} else {expected_replacements:($e|tonumber)} end')"
}
execute() { # execute USER COMMAND: OUT, ERR, CODE too
    n POST "/v1/$1/app/execute" "$(jq -nc --arg c "$2" '{command:$c}')"
    OUT=$(jq -r '.data.stdout?' < "$WORK/body" 2> /dev/null) ERR=$(jq -r '.data.stderror?' < "$WORK/body" 2> /dev/null)
    CODE=$(jq -r '.data.exit_code?' < "$WORK/body" 2> /dev/null)
}
content() { # content USER PATH [QUERY]
    n GET "/v1/$1/app/content?path=$(encode "$2")${3-}"
}
files() { n GET "/v1/$1/app/files?path=$(encode "$2")"; }
status_of() { # status_of USER SKILL: of list-with-status
    n GET "/v1/skills/$1/app/list-with-status"
    jq -r --arg s "$2" '.data[]|select(.skillId == $s)|.status' < "$WORK/body"
}
sync_of() { n POST "/v1/skills/$1/app/baseline-sync?name=$(encode "$2")${3:+&direction=$3}"; }
# The bytes of every public skill, as they lie on the disk.
base_sum() { (cd "$STATE/skills/layers" && find . -type f -exec sha256sum {} + | sort | sha256sum); }

mkdir -p "$WORK/creator"
printf -- '---\nname: Skill Creator\ndescription: makes skills\n---\n' > "$WORK/creator/SKILL.md"
echo 'print("made")' > "$WORK/creator/make.py"
write_config
cat >> "$CONFIG" << END
skill_dialect: newest
skill_creator: $WORK/creator
tokens:
  - {token: admin-token-0123456789abcdef, scope: admin}
  - {token: ann-token-0123456789abcdef00, user: ann, scope: user}
  - {token: eye-token-0123456789abcdef00, user: ann, scope: read}
END
daemon=$BUILD/asan/cubbyd
[ -x "$daemon" ] || daemon=$BUILD/cubbyd
if ! start_daemon "$daemon"; then
    fail 'a daemon' "$(tail -5 "$WORK/daemon.log")"
    finish
    exit 1
fi

# ---- upload and lists ----

weather=$'---\nname: Weather Tool\ndescription: tells the weather\n---\n# Weather\nName: body must not win\n'
zip_of "$WORK/weather.zip" "weather/SKILL.md=$weather" weather/run.sh=$'echo "weather for ${1:-nowhere}"\n' \
    weather/a/b/c/d/e/f/deep.txt=deep weather/data.txt=$'one\ntwo\nthree\n' plain/readme.txt=x 说明/SKILL.md=$'# x\n'
upload_skills ann app "$WORK/weather.zip"
success 'N1 upload: into the baseline' 'Baseline updated successfully. Skills: [plain, weather, 说明]'
n GET /v1/skills/ann/app/list
success 'N2 list: those with a SKILL.md, the creator among them; W41: with the folder that delete and download need' \
    '[{"name":"Skill Creator","description":"makes skills","skillId":"skill-creator"},{"name":"Weather Tool","description":"tells the weather","skillId":"weather"},{"name":"说明","description":"No description.","skillId":"说明"}]'
n GET /v1/skills/bob/app/list-with-status
success 'N3 list-with-status: fresh' \
    '[{"name":"Skill Creator","description":"makes skills","status":"UNCHANGED","lastSyncTime":"System","skillId":"skill-creator"},{"name":"Weather Tool","description":"tells the weather","status":"UNCHANGED","lastSyncTime":"Never","skillId":"weather"},{"name":"说明","description":"No description.","status":"UNCHANGED","lastSyncTime":"Never","skillId":"说明"}]'
zip_of "$WORK/reserved.zip" skill-creator/SKILL.md=x other/SKILL.md=x
upload_skills ann app "$WORK/reserved.zip"
error 'a reserved name' "Validation Error: Skill name 'skill-creator' is reserved for system tools and cannot be uploaded."
zip_of "$WORK/root.zip" SKILL.md=x
upload_skills ann app "$WORK/root.zip"
error 'only files at the top' 'Validation Error: No valid skill directory found.'
n GET '/v1/skills/ann/app/list'
is 'and nothing of them is there' "$(jq -rc '[.data[].skillId]' < "$WORK/body")" '["skill-creator","weather","说明"]'
before=$(base_sum)

# ---- files ----

files ann skills/weather
success 'N9 files: sorted, at any depth' '["skills/weather/SKILL.md","skills/weather/a/b/c/d/e/f/deep.txt","skills/weather/data.txt","skills/weather/run.sh"]'
files ann skills/weather/data.txt
success 'N9 of a file: itself' '["skills/weather/data.txt"]'
files ann skills/none/at/all
success 'N9 of nothing: an empty list' '[]'
files ann files
success 'N9 of an empty place' '[]'
n GET /v1/ann/app/files
error 'N9 without a path' 'Security Error: Path cannot be null.'
files ann elsewhere/x
error 'N9 elsewhere' "Security Error: Path must start with 'skills/' or 'files/'. Current path: elsewhere/x"
content ann skills/weather/data.txt
success 'N10 content; W23: with the newline at its end' '{"content":"one\ntwo\nthree\n","lines":["one","two","three"]}'
content ann skills/weather/data.txt '&offset=2&limit=1'
success 'N10 a page' '{"content":"two","lines":["two"]}'
content ann skills/weather/data.txt '&offset=2&limit=9'
success 'N10 a page beyond the end' '{"content":"two\nthree","lines":["two","three"]}'
content ann skills/weather/data.txt '&offset=0&limit=1'
success 'N10 a page from before the beginning' '{"content":"one","lines":["one"]}'
content ann skills/weather/data.txt '&offset=9&limit=1'
success 'N10 a page behind the end' '{"content":"","lines":[]}'
content ann skills/weather/data.txt '&offset=2&limit=-1'
success 'N10 a page of no lines' '{"content":"","lines":[]}'
content ann skills/weather/data.txt '&offset=2'
success 'N10 half of a page is all' '{"content":"one\ntwo\nthree\n","lines":["one","two","three"]}'
content ann skills/weather/data.txt '&offset=x&limit=1'
is 'a number that is none: told in the envelope' "$STATUS $(j .status)" '400 error'
content ann skills/weather/none
error 'N10 of nothing' 'Path not found: skills/weather/none'
write ann files/notes/a.txt $'x\r\ny\r\n'
success 'N11 write, with its directories' 'Written to workspace: files/notes/a.txt'
content ann files/notes/a.txt
success 'W23: CRLF stays' '{"content":"x\r\ny\r\n","lines":["x","y"]}'
write ann files/empty ''
content ann files/empty
success 'an empty file' '{"content":"","lines":[]}'
execute ann "python3 -c \"open('files/bin','wb').write(bytes([0,255,65,66,65]))\""
is 'a binary file' "$STATUS $CODE" '200 0'
content ann files/bin
is 'W23: is readable' "$(jq -rc '[.data.content,.data.encoding,.data.lines]' < "$WORK/body")" '["AP9BQkE=","base64",[]]'
edit ann files/bin AB CD 1
success 'W23: and can be edited' 'Edited in workspace: files/bin'
content ann files/bin
is 'W23: no byte of it is another' "$(jq -rc .data.content < "$WORK/body")" 'AP9DREE='
n POST /v1/ann/app/write '{"file_path":"files/x"}'
error 'W24: a missing field is named' "Validation Error: 'content' is required and must be a string."
n POST /v1/ann/app/write '{"file_path":null,"content":"x"}'
error 'W24: one that is null, too' "Validation Error: 'file_path' is required and must be a string."
n POST /v1/ann/app/write '{"file_path":"files/x",'
is 'bad JSON: told in the envelope' "$STATUS $(j .status)" '400 error'
write ann skills/note.txt x
is 'nothing lies beside the skills' "$(j .status)" error

# edit
write ann files/e 'a b a b a'
edit ann files/e a x 3
success 'N12 edit' 'Edited in workspace: files/e'
content ann files/e
is 'every place of it' "$(jq -r .data.content < "$WORK/body")" 'x b x b x'
edit ann files/e b y 1
error 'N12 not as often as expected' "Edit Mismatch: 'b' found 2 times, but expected 1 times. Please refine your search string."
edit ann files/e none y
error 'W24: expected_replacements that is not there is one, not zero' "Edit Mismatch: 'none' found 0 times, but expected 1 times. Please refine your search string."
edit ann files/e '' y
error 'N12 empty' "Security Error: 'old_string' cannot be empty for replacement operation."
edit ann files/none a b
error 'N12 of nothing' 'Edit Error: File not found: files/none'
n POST /v1/ann/app/edit '{"file_path":"files/e","old_string":"x","expected_replacements":3}'
error 'W24: new_string that is not there' "Validation Error: 'new_string' is required and must be a string."
content ann files/e
is 'and none of these changed it' "$(jq -r .data.content < "$WORK/body")" 'x b x b x'
write ann files/aaa aaaa
edit ann files/aaa aa b 2
success 'places do not overlap' 'Edited in workspace: files/aaa'

# files that are uploaded
printf 'bytes\0of it' > "$WORK/up.bin"
n POST /v1/files/ann/app/upload '' -F "file=@$WORK/up.bin;filename=报告 1.bin"
success 'N8 upload of a file' 'File uploaded to workspace: files/报告 1.bin'
execute ann "sha256sum 'files/报告 1.bin'" # not on the list: a word of the box's own, refused
error 'a command that is not on the list' "Security Error: Command 'sha256sum' is not allowed."
execute ann "python3 -c \"import hashlib;print(hashlib.sha256(open('files/报告 1.bin','rb').read()).hexdigest())\""
is 'N8 byte for byte' "$OUT" "$(sha256sum < "$WORK/up.bin" | cut -d' ' -f1)"
for name in ../up.bin /tmp/up.bin 'a/../../x' '..' '.' 'C:\x' 'a\..\x'; do
    n POST /v1/files/ann/app/upload '' -F "file=@$WORK/up.bin;filename=\"${name//\\/\\\\}\""
    error "W16: the file name $name" "Security Error: Access out of scope. Path: $name"
done
n POST /v1/files/ann/app/upload '' -F "other=@$WORK/up.bin"
is 'N8 without the part' "$(j .status)" error

# ---- paths that lead elsewhere ----

write ann files/keep kept
for path in files/.. files/../.meta/x files/../skills/weather/b/SKILL.md files/../../etc/passwd skills/../files/keep; do
    for call in files content; do
        n GET "/v1/ann/app/$call?path=$(encode "$path")"
        error "W15: $call of $path" "Security Error: Access out of scope. Path: $path"
    done
    n DELETE "/v1/ann/app/delete?path=$(encode "$path")"
    error "W15: delete of $path" "Security Error: Access out of scope. Path: $path"
    write ann "$path" x
    error "W15: write of $path" "Security Error: Access out of scope. Path: $path"
done
content ann files/keep
is 'W15: nothing is gone' "$(jq -r .data.content < "$WORK/body")" kept
write ann SKILLS/x/y z
error 'W3: case counts' "Security Error: Path must start with 'skills/' or 'files/'. Current path: SKILLS/x/y"
execute ann 'ls'
is 'and no stray directory came' "$OUT" $'files\nskills'
write ann skills/weather/sub/SKILL.md x
error 'one SKILL.md a skill' "Security Error: 'SKILL.md' can only be at the root of a skill."
execute ann "python3 -c \"import os;os.symlink('/etc','files/etc');os.symlink('/etc/passwd','files/pw');os.symlink('keep','files/link')\""
for path in files/pw files/etc/passwd; do
    content ann "$path"
    is "W14: a planted link does not lead out: $path" "$(j .status) $(jq -r '.data|contains("root:")' < "$WORK/body")" 'error false'
    write ann "$path" x
    is "W14: nor for writing: $path" "$(j .status)" error
done
content ann files/link
is 'a link that stays inside is followed' "$(jq -r .data.content < "$WORK/body")" kept
n DELETE '/v1/ann/app/delete?path=files/link'
success 'N14 delete of a link' 'Deleted from workspace: files/link'
content ann files/keep
is 'not of what it leads to' "$(jq -r .data.content < "$WORK/body")" kept

# ---- names of skills that lead elsewhere ----

for name in '' . .. ../../bob ../files a/b 'a\b' .hidden; do
    for call in "POST baseline-sync" "DELETE delete" "GET download"; do
        n "${call% *}" "/v1/skills/ann/app/${call#* }?name=$(encode "$name")&direction=bl2ws"
        like "W17, W18: ${call#* } of '$name'" "$STATUS $(j .status)" '^(200|400|500) error$'
    done
done
execute bob 'echo mine > files/mine'
is 'W17: nobody lost anything' "$(execute bob 'cat files/mine'; echo "$OUT") $([ "$(base_sum)" = "$before" ] && echo same)" 'mine same'
n GET /v1/skills/ann/app/list
is 'W18: all skills are there' "$(jq -rc '[.data[].skillId]' < "$WORK/body")" '["skill-creator","weather","说明"]'

# ---- execute ----

execute ann 'bash skills/weather/run.sh Beijing'
success 'N13 execute' '{"stdout":"weather for Beijing\n","stderror":"","exit_code":0}'
execute ann 'cat files/none; ls skills'
is 'N13 a failure is a result' "$STATUS $(j .status) $CODE $OUT" $'200 success 0 plain\nskill-creator\nweather\n说明'
execute ann 'bash -c "exit 7"'
is 'N13 its exit code' "$(j .status) $CODE" 'success 7'
execute ann 'echo $0 $BASH_VERSION | grep -c bash'
is 'N13 bash runs it' "$OUT" 1
execute ann "python3 -c \"import os;print(sorted(k for k in os.environ if k not in ('_','SHLVL','LC_CTYPE','OLDPWD')))\""
is 'N13 a clean environment' "$OUT" "['HOME', 'LANG', 'LC_ALL', 'PATH', 'PWD', 'USER']"
execute ann ''
error 'N13 no command' "Security Error: Command '' is not allowed."
n POST /v1/ann/app/execute '{}'
error 'W24: no command at all' "Validation Error: 'command' is required and must be a string."
for line in 'echo hi; id' 'echo $(id)' 'echo hi && id' 'ls | id' $'echo hi\nid' 'bash -c id' 'ls | xargs id'; do
    execute ann "$line"
    error "W2: every command counts: ${line/$'\n'/ }" "Security Error: Command 'id' is not allowed."
done
execute ann 'ls ../..'
error 'parents' "Security Error: Path traversal '..' is strictly forbidden."
execute ann 'cat /etc/passwd'
error 'paths elsewhere' "Security Error: Path '/etc/passwd' is out of operable scope. Must start with 'skills/' or 'files/'."
execute ann 'grep --file=/etc/hostname x files/keep'
error 'W3: in options, too' "Security Error: Path '/etc/hostname' is out of operable scope. Must start with 'skills/' or 'files/'."
# What a variable hides nobody can read: it finds the box's own files, and nothing of the host's.
execute ann 'cat ${PATH:0:1}proc${PATH:0:1}1${PATH:0:1}comm; cat ${PATH:0:1}etc${PATH:0:1}hostname'
unlike 'W3: what gets past the words is in the box' "$OUT" "$(hostname)"
execute ann 'echo 1..2 wait... | grep 1..2'
is 'W5: dots are no paths' "$OUT" '1..2 wait...'
execute ann 'ls skills/nope'
isnt 'W6: looking at nothing fails' "$CODE" 0
files ann skills/nope
success 'W6: and makes nothing' '[]'
execute ann 'touch files/Makefile && cp files/keep files/copy && cat files/copy'
is 'W6: files are files' "$OUT $CODE" 'kept 0'

# ---- the creator ----

creator=$(cat "$WORK/creator/SKILL.md")
execute ann 'cat skills/skill-creator/SKILL.md'
is 'W13: the creator can be read' "$OUT" "$creator"
execute ann 'python3 skills/skill-creator/make.py > files/made && cat files/made'
is 'W13: and its output kept' "$OUT" made
write ann skills/skill-creator/x y
error 'not written to' 'Security Error: Writing to skill-creator is strictly forbidden.'
write ann skills/./skill-creator/x y
error 'W19: nor by a dot' 'Security Error: Writing to skill-creator is strictly forbidden.'
edit ann skills/skill-creator/SKILL.md makes breaks
error 'not edited' 'Security Error: Editing skill-creator is strictly forbidden.'
n DELETE '/v1/ann/app/delete?path=skills/skill-creator'
error 'W13: not deleted' 'Security Error: Deleting skill-creator is strictly forbidden.'
execute ann 'rm -rf skills/skill-creator'
error 'nor by a command' "Security Error: Modification of 'skill-creator' is strictly forbidden. Command 'rm' blocked."
execute ann 'echo x > skills/skill-creator/SKILL.md'
error 'nor by a redirection' "Security Error: Redirecting output to 'skill-creator' is strictly forbidden."
write ann skills/skill-creator-mine/a b
success 'W19: another with that beginning is an ordinary skill' 'Written to workspace: skills/skill-creator-mine/a'
execute ann 'find skills/skill-creator -delete; sed -i s/makes/breaks/ skills/skill-creator/SKILL.md'
execute bob 'cat skills/skill-creator/SKILL.md'
is 'W13: whatever a command of ann does to it, bob has it whole' "$OUT" "$creator"
n POST /v1/skills/ann/app/install-creator
success 'N7 install-creator' "Global Skill-Creator is ready. You can access it via 'skills/skill-creator'."
execute ann 'cat skills/skill-creator/SKILL.md'
is 'and ann has it again' "$OUT" "$creator"
n GET /v1/skills/ann/skill-creator/list
is 'W19: no agent has its name' "$(j .status)" error

# ---- status and sync ----

execute ann 'sed -i s/deep/deeper/ skills/weather/a/b/c/d/e/f/deep.txt'
is 'W35: a nested change by a command is seen' "$(status_of ann weather)" MODIFIED
is 'and is nobody else'\''s' "$(status_of bob weather)" UNCHANGED
content bob skills/weather/a/b/c/d/e/f/deep.txt
is 'whose content is as it was' "$(jq -r .data.content < "$WORK/body")" deep
is 'and the public bytes, too' "$(base_sum)" "$before"
write ann skills/mine/SKILL.md $'---\nname: mine\ndescription: my own\n---\n'
is 'T36: one of her own' "$(status_of ann mine)" LOCAL_ONLY
n GET '/v1/skills/ann/app/list-with-status?role=manager'
is 'W37: looking as a manager removes nothing' "$(jq -rc '[.data[]|select(.skillId=="mine" or .skillId=="weather")|.status]' < "$WORK/body")" '["LOCAL_ONLY","MODIFIED"]'
zip_of "$WORK/weather2.zip" "weather/SKILL.md=${weather/tells/foretells}" weather/data.txt=new weather/run.sh=$'echo new\n'
upload_skills boss app "$WORK/weather2.zip"
success 'a new public version' 'Baseline updated successfully. Skills: [weather]'
is 'T36: who changed it is out of sync' "$(status_of ann weather)" OUT_OF_SYNC
is 'who did not has the new one' "$(status_of bob weather)" UNCHANGED
content bob skills/weather/data.txt
is 'with its content' "$(jq -r .data.content < "$WORK/body")" new
files bob skills/weather
success 'and nothing of the old one' '["skills/weather/SKILL.md","skills/weather/data.txt","skills/weather/run.sh"]'
sync_of ann weather BL2WS
success 'N4 bl2ws' 'Skill synchronization completed (BL2WS) for: weather'
is 'is in sync' "$(status_of ann weather)" UNCHANGED
like 'at a time' "$(jq -r '.data[]|select(.skillId=="weather").lastSyncTime' < "$WORK/body")" '^20[0-9-]{8} [0-9:]{8}$'
content ann skills/weather/data.txt
is 'with the public content' "$(jq -r .data.content < "$WORK/body")" new
sync_of ann mine
success 'N4 ws2bl, the default' 'Skill synchronization completed (ws2bl) for: mine'
content bob skills/mine/SKILL.md
like 'is public' "$(jq -r .data.content < "$WORK/body")" 'my own'
is 'and unchanged' "$(status_of ann mine)" UNCHANGED
before=$(base_sum)
sync_of ann weather sideways
error 'W40: an unknown direction does nothing' "Validation Error: Unknown direction 'sideways': it is ws2bl or bl2ws."
is 'really' "$(base_sum)" "$before"
sync_of ann none bl2ws
error 'N4 bl2ws of nothing' 'Skill not found in both baseline and workspace: none'
sync_of ann none ws2bl
error 'N4 ws2bl of nothing' 'Skill not found in both workspace and baseline: none'
execute ann "python3 -c \"import os;os.symlink('/etc/passwd','skills/mine/pw')\""
sync_of ann mine
is 'W14: a link out of a skill is not published' "$(j .status)" error
content bob skills/mine/pw
error 'nothing of it is' 'Path not found: skills/mine/pw'

# deleted stays deleted
n DELETE '/v1/bob/app/delete?path=skills/weather'
success 'N14 delete of a skill: for bob' 'Deleted from workspace: skills/weather'
n DELETE '/v1/bob/app/delete?path=skills/weather'
success 'N14 again, also if absent' 'Deleted from workspace: skills/weather'
content ann skills/weather/data.txt
is 'ann has it' "$(jq -r .data.content < "$WORK/body")" new
write bob files/weather mine
n DELETE '/v1/bob/app/delete?path=skills'
success 'N14 of all skills' 'Deleted from workspace: skills'
n GET /v1/skills/bob/app/list
is 'W36: none comes back' "$(jq -rc '[.data[].skillId]' < "$WORK/body")" '["skill-creator"]'
execute bob 'ls skills; cat files/weather'
is 'W36: nor with a command, and files are as they were' "$OUT" $'skill-creator\nmine'
sync_of bob weather bl2ws
content bob skills/weather/data.txt
is 'but one that is asked for' "$(jq -r .data.content < "$WORK/body")" new
n DELETE '/v1/skills/ann/app/delete?name=weather'
success 'N5 delete: from the baseline' 'Successfully deleted skill from baseline: weather'
n DELETE '/v1/skills/ann/app/delete?name=weather'
success 'N5 also if absent' 'Successfully deleted skill from baseline: weather'
is 'N5 a copy of his own stays' "$(status_of bob weather)" LOCAL_ONLY
n DELETE '/v1/skills/ann/app/delete?name=weather&scope=sideways'
is 'W40: an unknown scope' "$(j .status)" error

# ---- download ----

n GET "/v1/skills/ann/app/download?name=$(encode 说明)"
is 'N6 download' "$STATUS $(header content-type)" '200 application/zip'
is 'N6 its name in both forms' "$(header content-disposition)" "attachment; filename=\"%E8%AF%B4%E6%98%8E.zip\"; filename*=UTF-8''%E8%AF%B4%E6%98%8E.zip"
is 'N6 entries below the name' "$(python3 -c 'import sys,zipfile;print(zipfile.ZipFile(sys.argv[1]).namelist())' "$WORK/body")" "['说明/SKILL.md']"
cp "$WORK/body" "$WORK/back.zip"
upload_skills boss other "$WORK/back.zip"
success 'and back up' 'Baseline updated successfully. Skills: [说明]'
n GET "/v1/skills/ann/other/download?name=$(encode 说明)"
ok 'round trip: the same bytes' cmp "$WORK/body" "$WORK/back.zip"
n GET '/v1/skills/ann/app/download?name=none'
is 'N6 of nothing' "$STATUS $(j .status) $DATA" '500 error Skill not found: none'
head -c 6000000 /dev/urandom > "$WORK/big"
python3 -c 'import sys,zipfile;z=zipfile.ZipFile(sys.argv[1],"w");z.write(sys.argv[2],"big/data");z.writestr("big/SKILL.md","x")' "$WORK/big.zip" "$WORK/big"
upload_skills boss app "$WORK/big.zip"
curl -sS --limit-rate 20k --unix-socket "$SOCKET" -o "$WORK/slow" "http://localhost/v1/skills/ann/app/download?name=big" &
slow=$!
ok 'a slow download' eventually 10 test -s "$WORK/slow"
now_ms
start=$NOW
write ann skills/big/SKILL.md changed
upload_skills boss app "$WORK/weather.zip"
sync_of ann big bl2ws
now_ms
success 'W39: holds nobody up' 'Skill synchronization completed (bl2ws) for: big'
between 'W39: not for a moment' $((NOW - start)) 0 4900
kill "$slow" 2> /dev/null
wait "$slow" 2> /dev/null

# ---- who may ----

auth() { # auth TOKEN METHOD PATH [BODY] [CURL OPTION...]
    local token=$1
    shift
    n "$1" "$2" "${3-}" -H "Authorization: Bearer $token-token-0123456789abcdef$([ "$token" = admin ] || echo 00)" "${@:4}"
}
before=$(base_sum)
auth ann POST /v1/skills/ann/app/upload '' -F "file=@$WORK/weather2.zip"
is 'W37: a user does not change what all see: upload' "$STATUS $(j .status)" '403 error'
auth ann POST '/v1/skills/ann/app/baseline-sync?name=mine'
is 'W37: ws2bl' "$STATUS $(j .status)" '403 error'
auth ann DELETE '/v1/skills/ann/app/delete?name=mine'
is 'W37: delete' "$STATUS $(j .status)" '403 error'
is 'W37: and it is not changed' "$(base_sum)" "$before"
auth ann DELETE '/v1/skills/ann/app/delete?name=mine&scope=overlay'
success 'what she sees she may' 'Successfully deleted skill from workspace: mine'
content cat skills/mine/SKILL.md
is 'others see it' "$(j .status)" success
auth ann POST '/v1/skills/ann/app/baseline-sync?name=mine&direction=bl2ws'
success 'and has it back' 'Skill synchronization completed (bl2ws) for: mine'
auth ann GET '/v1/bob/app/files?path=files'
is 'nobody acts for another' "$STATUS $(j .status)" '403 error'
auth eye POST /v1/ann/app/write '{"file_path":"files/x","content":"y"}'
is 'who may read changes nothing' "$STATUS $(j .status)" '403 error'
auth eye GET '/v1/ann/app/content?path=files/keep'
is 'and reads' "$STATUS $(j .status)" '200 success'
auth admin POST /v1/skills/ann/app/upload '' -F "file=@$WORK/weather2.zip"
is 'an admin may' "$STATUS $(j .status)" '200 success'
n GET '/v1/boxes/app/content?path=files/x'
is 'words of the API are no users' "$(j .status)" error

# ---- what is kept ----

execute ann "python3 -c \"import os;[os.utime(p,(1,1)) for p in ('.','files','skills/mine','files/keep')]\""
n GET /v1/boxes
box=$(jq -r '.boxes[]|select(.user=="ann" and .agent=="app").id' < "$WORK/body")
api POST "/v1/boxes/$box/release"
kill -TERM "$DAEMON_PID"
wait "$DAEMON_PID"
start_daemon "$daemon"
content ann files/keep
is 'W38: old times and a restart remove nothing' "$(jq -r .data.content < "$WORK/body")" kept
is 'W38: nor her skills' "$(status_of ann mine)" UNCHANGED
stop_daemon
finish
