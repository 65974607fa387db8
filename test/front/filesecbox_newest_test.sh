#!/bin/bash
# The later family of FileSecBoxService's API, end to end with curl: what its clients rely on, and for each weakness (W)
# of
# the original that it is about a check that fails where that weakness is.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh

# ---- helpers ----

said() { # said NAME success|error JSON: the last answer, byte for byte; an error has status 200, too
    is "$1" "$STATUS $BODY" "200 {\"status\":\"$2\",\"data\":$3}"
}
success() { # success NAME TEXT
    json_string "$2"
    said "$1" success "$JSON_STRING"
}
error() { # error NAME TEXT
    json_string "$2"
    said "$1" error "$JSON_STRING"
}
has() { # has NAME CONTENT: the file that was read is this
    is "$1" "$(j .data.content)" "$2"
}
outcome() { # outcome NAME "STATUS success|error"
    is "$1" "$STATUS $(j .status)" "$2"
}
upload_skills() { # upload_skills USER AGENT ZIP [CURL OPTION...]
    api POST "/v1/skills/$1/$2/upload" '' -F "file=@$WORK/$3.zip" "${@:4}"
}
write() { # write USER PATH CONTENT
    json_string "$2"
    local path=$JSON_STRING
    json_string "$3"
    api POST "/v1/$1/app/write" "{\"file_path\":$path,\"content\":$JSON_STRING}"
}
edit() { # edit USER PATH OLD NEW [EXPECTED]
    json_string "$3"
    local old=$JSON_STRING
    json_string "$4"
    api POST "/v1/$1/app/edit" \
        "{\"file_path\":\"$2\",\"old_string\":$old,\"new_string\":$JSON_STRING${5:+,\"expected_replacements\":$5}}"
}
execute() { # execute USER COMMAND [CURL OPTION...]: OUT, CODE too
    json_string "$2"
    api POST "/v1/$1/app/execute" "{\"command\":$JSON_STRING}" "${@:3}"
    OUT=$(j .data.stdout) CODE=$(j .data.exit_code)
}
content() { # content USER PATH [QUERY]
    api GET "/v1/$1/app/content?path=$(encode "$2")${3-}"
}
files() { api GET "/v1/$1/app/files?path=$(encode "$2")"; }
delete() { api DELETE "/v1/$1/app/delete?path=$(encode "$2")"; }
ids() { # ids USER: folders of the skills he sees
    api GET "/v1/skills/$1/app/list"
    grep -o '"skillId":"[^"]*' <<< "$BODY" | cut -d'"' -f4 | tr '\n' ' '
}
status_of() { # status_of USER SKILL: of list-with-status
    api GET "/v1/skills/$1/app/list-with-status"
    [[ $BODY =~ \"status\":\"([A-Z_]+)\",\"lastSyncTime\":\"[^\"]*\",\"skillId\":\"$2\" ]] && echo "${BASH_REMATCH[1]}"
}
sync_of() { api POST "/v1/skills/$1/app/baseline-sync?name=$(encode "$2")${3:+&direction=$3}"; }
# The bytes of every public skill, as they lie on the disk.
base_sum() { (cd "$STATE/skills/layers" && find . -type f -exec sha256sum {} + | sort | sha256sum); }

weather=$'---\nname: Weather Tool\ndescription: tells the weather\n---\n# Weather\nName: body must not win\n'
python3 - "$WORK" "$weather" << 'END'
import os, sys, zipfile
work, weather = sys.argv[1:]
def archive(name, **entries):
    with zipfile.ZipFile(f"{work}/{name}.zip", "w") as out:
        for path, content in entries.items():
            out.writestr(path, content)
archive("weather", **{"weather/SKILL.md": weather, "weather/run.sh": 'echo "weather for ${1:-nowhere}"\n',
      "weather/a/b/c/d/e/f/deep.txt": "deep",
    "weather/data.txt": "one\ntwo\nthree\n", "plain/readme.txt": "x", "说明/SKILL.md": "# x\n"})
archive("weather2", **{"weather/SKILL.md": weather.replace("tells", "foretells"), "weather/data.txt": "new",
      "weather/run.sh": "echo new\n"})
archive("reserved", **{"skill-creator/SKILL.md": "x", "other/SKILL.md": "x"})
archive("root", **{"SKILL.md": "x"})
archive("big", **{"big/data": os.urandom(6000000), "big/SKILL.md": "x"})
END
mkdir -p "$WORK/creator"
printf -- '---\nname: Skill Creator\ndescription: makes skills\n---\n' > "$WORK/creator/SKILL.md"
echo 'print("made")' > "$WORK/creator/make.py"
write_config
cat >> "$CONFIG" << END
skill_dialect: newest
skill_creator: $WORK/creator
skill_wait_ms: 500
tokens:
  - {token: admin-token-0123456789abcdef, scope: admin}
  - {token: ann-token-0123456789abcdef00, user: ann, scope: user}
  - {token: eye-token-0123456789abcdef00, user: ann, scope: read}
END
daemon=$BUILD/asan/cubbyd
[ -x "$daemon" ] || daemon=$BUILD/cubbyd
start_or_end "$daemon"

# ---- upload and lists ----

upload_skills ann app weather
success 'N1 upload: into the baseline' 'Baseline updated successfully. Skills: [plain, weather, 说明]'
api GET /v1/skills/ann/app/list
said 'N2 list: those with a SKILL.md, the creator among them; W41: with the folder that delete and download need' \
    success '[{"name":"Skill Creator","description":"makes skills","skillId":"skill-creator"},{"name":"Weather '\
'Tool","description":"tells the weather","skillId":"weather"},{"name":"说明","description":"No '\
'description.","skillId":"说明"}]'
api GET /v1/skills/bob/app/list-with-status
said 'N3 list-with-status: fresh' success \
    '[{"name":"Skill Creator","description":"makes '\
'skills","status":"UNCHANGED","lastSyncTime":"System","skillId":"skill-creator"},{"name":"Weather '\
'Tool","description":"tells the '\
'weather","status":"UNCHANGED","lastSyncTime":"Never","skillId":"weather"},{"name":"说明","description":"No '\
'description.","status":"UNCHANGED","lastSyncTime":"Never","skillId":"说明"}]'
upload_skills ann app reserved
error 'a reserved name' \
    "Validation Error: Skill name 'skill-creator' is reserved for system tools and cannot be uploaded."
upload_skills ann app root
error 'only files at the top' 'Validation Error: No valid skill directory found.'
is 'and nothing of them is there' "$(ids ann)" 'skill-creator weather 说明 '
before=$(base_sum)

# ---- files ----

files ann skills/weather
said 'N9 files: sorted, at any depth' success \
    '["skills/weather/SKILL.md","skills/weather/a/b/c/d/e/f/deep.txt","skills/weather/data.txt","skills/weather/'\
'run.sh"]'
files ann skills/weather/data.txt
said 'N9 of a file: itself' success '["skills/weather/data.txt"]'
files ann skills/none/at/all
said 'N9 of nothing: an empty list' success '[]'
files ann files
said 'N9 of an empty place' success '[]'
api GET /v1/ann/app/files
error 'N9 without a path' 'Security Error: Path cannot be null.'
files ann elsewhere/x
error 'N9 elsewhere' "Security Error: Path must start with 'skills/' or 'files/'. Current path: elsewhere/x"
content ann skills/weather/data.txt
said 'N10 content; W23: with the newline at its end' success \
    '{"content":"one\ntwo\nthree\n","lines":["one","two","three"]}'
content ann skills/weather/data.txt '&offset=2&limit=1'
said 'N10 a page' success '{"content":"two","lines":["two"]}'
content ann skills/weather/data.txt '&offset=2&limit=9'
said 'N10 a page beyond the end' success '{"content":"two\nthree","lines":["two","three"]}'
content ann skills/weather/data.txt '&offset=0&limit=1'
said 'N10 a page from before the beginning' success '{"content":"one","lines":["one"]}'
content ann skills/weather/data.txt '&offset=9&limit=1'
said 'N10 a page behind the end' success '{"content":"","lines":[]}'
content ann skills/weather/data.txt '&offset=2&limit=-1'
said 'N10 a page of no lines' success '{"content":"","lines":[]}'
content ann skills/weather/data.txt '&offset=2'
said 'N10 half of a page is all' success '{"content":"one\ntwo\nthree\n","lines":["one","two","three"]}'
content ann skills/weather/data.txt '&offset=x&limit=1'
outcome 'a number that is none: told in the envelope' '400 error'
content ann skills/weather/none
error 'N10 of nothing' 'Path not found: skills/weather/none'
write ann files/notes/a.txt $'x\r\ny\r\n'
success 'N11 write, with its directories' 'Written to workspace: files/notes/a.txt'
content ann files/notes/a.txt
said 'W23: CRLF stays' success '{"content":"x\r\ny\r\n","lines":["x","y"]}'
write ann files/empty ''
content ann files/empty
said 'an empty file' success '{"content":"","lines":[]}'
execute ann "python3 -c \"open('files/bin','wb').write(bytes([0,255,65,66,65]))\""
is 'a binary file' "$STATUS $CODE" '200 0'
content ann files/bin
said 'W23: is readable' success '{"content":"AP9BQkE=","lines":[],"encoding":"base64"}'
edit ann files/bin AB CD 1
success 'W23: and can be edited' 'Edited in workspace: files/bin'
content ann files/bin
has 'W23: no byte of it is another' 'AP9DREE='
api POST /v1/ann/app/write '{"file_path":"files/x"}'
error 'W24: a missing field is named' "Validation Error: 'content' is required and must be a string."
api POST /v1/ann/app/write '{"file_path":null,"content":"x"}'
error 'W24: one that is null, too' "Validation Error: 'file_path' is required and must be a string."
api POST /v1/ann/app/write '{"file_path":"files/x",'
outcome 'bad JSON: told in the envelope' '400 error'
write ann skills/note.txt x
is 'nothing lies beside the skills' "$(j .status)" error

# edit
write ann files/e 'a b a b a'
edit ann files/e a x 3
success 'N12 edit' 'Edited in workspace: files/e'
content ann files/e
has 'every place of it' 'x b x b x'
edit ann files/e b y 1
error 'N12 not as often as expected' \
    "Edit Mismatch: 'b' found 2 times, but expected 1 times. Please refine your search string."
edit ann files/e none y
error 'W24: expected_replacements that is not there is one, not zero' \
    "Edit Mismatch: 'none' found 0 times, but expected 1 times. Please refine your search string."
edit ann files/e '' y
error 'N12 empty' "Security Error: 'old_string' cannot be empty for replacement operation."
edit ann files/none a b
error 'N12 of nothing' 'Edit Error: File not found: files/none'
api POST /v1/ann/app/edit '{"file_path":"files/e","old_string":"x","expected_replacements":3}'
error 'W24: new_string that is not there' "Validation Error: 'new_string' is required and must be a string."
content ann files/e
has 'and none of these changed it' 'x b x b x'
write ann files/aaa aaaa
edit ann files/aaa aa b 2
success 'places do not overlap' 'Edited in workspace: files/aaa'

# files that are uploaded
printf 'bytes\0of it' > "$WORK/up.bin"
api POST /v1/files/ann/app/upload '' -F "file=@$WORK/up.bin;filename=报告 1.bin"
success 'N8 upload of a file' 'File uploaded to workspace: files/报告 1.bin'
execute ann "sha256sum 'files/报告 1.bin'" # not on the list: a word of the box's own, refused
error 'a command that is not on the list' "Security Error: Command 'sha256sum' is not allowed."
execute ann "python3 -c \"import hashlib;print(hashlib.sha256(open('files/报告 1.bin','rb').read()).hexdigest())\""
is 'N8 byte for byte' "$OUT" "$(sha256sum < "$WORK/up.bin" | cut -d' ' -f1)"
for name in ../up.bin /tmp/up.bin 'a/../../x' '..' '.' 'C:\x' 'a\..\x'; do
    api POST /v1/files/ann/app/upload '' -F "file=@$WORK/up.bin;filename=\"${name//\\/\\\\}\""
    error "W16: the file name $name" "Security Error: Access out of scope. Path: $name"
done
execute ann "python3 -c \"import os;os.symlink('/workspace/elsewhere','files/out')\""
api POST /v1/files/ann/app/upload '' -F "file=@$WORK/up.bin;filename=out"
outcome 'W14: a planted link takes no upload elsewhere' '200 error'
api POST /v1/files/ann/app/upload '' -F "other=@$WORK/up.bin"
is 'N8 without the part' "$(j .status)" error

# ---- paths that lead elsewhere ----

write ann files/keep kept
for path in files/.. files/../.meta/x files/../skills/weather/b/SKILL.md files/../../etc/passwd skills/../files/keep; do
    for call in files content; do
        api GET "/v1/ann/app/$call?path=$(encode "$path")"
        error "W15: $call of $path" "Security Error: Access out of scope. Path: $path"
    done
    delete ann "$path"
    error "W15: delete of $path" "Security Error: Access out of scope. Path: $path"
    write ann "$path" x
    error "W15: write of $path" "Security Error: Access out of scope. Path: $path"
done
content ann files/keep
has 'W15: nothing is gone' kept
write ann SKILLS/x/y z
error 'W3: case counts' "Security Error: Path must start with 'skills/' or 'files/'. Current path: SKILLS/x/y"
execute ann 'ls'
is 'and no stray directory came' "$OUT" $'files\nskills'
write ann skills/weather/sub/SKILL.md x
error 'one SKILL.md a skill' "Security Error: 'SKILL.md' can only be at the root of a skill."
execute ann "python3 -c \"import "\
"os;os.symlink('/etc','files/etc');os.symlink('/etc/passwd','files/pw');os.symlink('keep','files/link')\""
for path in files/pw files/etc/passwd; do
    content ann "$path"
    outcome "W14: a planted link does not lead out: $path" '200 error'
    unlike "W14: and nothing of it is shown: $path" "$BODY" 'root:'
    write ann "$path" x
    outcome "W14: nor for writing: $path" '200 error'
done
content ann files/link
has 'a link that stays inside is followed' kept
delete ann files/link
success 'N14 delete of a link' 'Deleted from workspace: files/link'
content ann files/keep
has 'not of what it leads to' kept

# ---- names of skills that lead elsewhere ----

for name in '' . .. ../../bob ../files a/b 'a\b' .hidden; do
    for call in "POST baseline-sync" "DELETE delete" "GET download"; do
        api "${call% *}" "/v1/skills/ann/app/${call#* }?name=$(encode "$name")&direction=bl2ws"
        like "W17, W18: ${call#* } of '$name'" "$STATUS $(j .status)" '^(200|400|500) error$'
    done
done
execute bob 'echo mine > files/mine'
is 'W17: nobody lost anything' \
    "$(execute bob 'cat files/mine'; echo "$OUT") $([ "$(base_sum)" = "$before" ] && echo same)" 'mine same'
is 'W18: all skills are there' "$(ids ann)" 'skill-creator weather 说明 '

# ---- execute ----

execute ann 'bash skills/weather/run.sh Beijing'
said 'N13 execute' success '{"stdout":"weather for Beijing\n","stderror":"","exit_code":0}'
execute ann 'cat files/none; ls skills'
is 'N13 a failure is a result' "$STATUS $(j .status) $CODE $OUT" $'200 success 0 plain\nskill-creator\nweather\n说明'
execute ann 'bash -c "exit 7"'
is 'N13 its exit code' "$(j .status) $CODE" 'success 7'
execute ann 'echo $0 $BASH_VERSION | grep -c bash'
is 'N13 bash runs it' "$OUT" 1
execute ann "python3 -c \"import os;print(sorted(k for k in os.environ if k not in "\
"('_','SHLVL','LC_CTYPE','OLDPWD')))\""
is 'N13 a clean environment' "$OUT" "['HOME', 'LANG', 'LC_ALL', 'PATH', 'PWD', 'USER']"
execute ann ''
error 'N13 no command' "Security Error: Command '' is not allowed."
api POST /v1/ann/app/execute '{}'
error 'W24: no command at all' "Validation Error: 'command' is required and must be a string."
for line in 'echo hi; id' 'echo $(id)' 'echo hi && id' 'ls | id' $'echo hi\nid' 'bash -c id' 'ls | xargs id'; do
    execute ann "$line"
    error "W2: every command counts: ${line/$'\n'/ }" "Security Error: Command 'id' is not allowed."
done
execute ann 'ls ../..'
error 'parents' "Security Error: Path traversal '..' is strictly forbidden."
execute ann 'cat /etc/passwd'
error 'paths elsewhere' \
    "Security Error: Path '/etc/passwd' is out of operable scope. Must start with 'skills/' or 'files/'."
execute ann 'grep --file=/etc/hostname x files/keep'
error 'W3: in options, too' \
    "Security Error: Path '/etc/hostname' is out of operable scope. Must start with 'skills/' or 'files/'."
# What a variable hides nobody can read: it finds the box's files, and nothing of the host's.
echo secret > "$WORK/forbidden/secret"
host=$WORK/forbidden/secret
execute ann "cat ${host//\//\${PATH:0:1\}} \${PATH:0:1}workspace\${PATH:0:1}files\${PATH:0:1}keep"
is 'W3: what gets past the words is in the box' "$OUT $CODE" 'kept 1'
execute ann 'echo 1..2 wait... | grep 1..2'
is 'W5: dots are no paths' "$OUT" '1..2 wait...'
execute ann 'ls skills/nope'
isnt 'W6: looking at nothing fails' "$CODE" 0
files ann skills/nope
said 'W6: and makes nothing' success '[]'
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
delete ann skills/skill-creator
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
api POST /v1/skills/ann/app/install-creator
success 'N7 install-creator' "Global Skill-Creator is ready. You can access it via 'skills/skill-creator'."
execute ann 'cat skills/skill-creator/SKILL.md'
is 'and ann has it again' "$OUT" "$creator"
api GET /v1/skills/ann/skill-creator/list
is 'W19: no agent has its name' "$(j .status)" error

# ---- status and sync ----

execute ann 'sed -i s/deep/deeper/ skills/weather/a/b/c/d/e/f/deep.txt'
is 'W35: a nested change by a command is seen' "$(status_of ann weather)" MODIFIED
is 'and is nobody else'\''s' "$(status_of bob weather)" UNCHANGED
content bob skills/weather/a/b/c/d/e/f/deep.txt
has 'whose content is as it was' deep
is 'and the public bytes, too' "$(base_sum)" "$before"
write ann skills/mine/SKILL.md $'---\nname: mine\ndescription: my own\n---\n'
is 'T36: one of her own' "$(status_of ann mine)" LOCAL_ONLY
api GET '/v1/skills/ann/app/list-with-status?role=manager'
like 'W37: looking as a manager shows what is hers' "$BODY" '"LOCAL_ONLY","lastSyncTime":"Never","skillId":"mine"'
is 'W37: and removes nothing' "$(ids ann)" 'mine skill-creator weather 说明 '
upload_skills boss app weather2
success 'a new public version' 'Baseline updated successfully. Skills: [weather]'
is 'T36: who changed it is out of sync' "$(status_of ann weather)" OUT_OF_SYNC
is 'who did not has the new one' "$(status_of bob weather)" UNCHANGED
content bob skills/weather/data.txt
has 'with its content' new
files bob skills/weather
said 'and nothing of the old one' success \
    '["skills/weather/SKILL.md","skills/weather/data.txt","skills/weather/run.sh"]'
sync_of ann weather BL2WS
success 'N4 bl2ws' 'Skill synchronization completed (BL2WS) for: weather'
is 'is in sync' "$(status_of ann weather)" UNCHANGED
api GET /v1/skills/ann/app/list-with-status
like 'at a time' "$BODY" '"lastSyncTime":"20[0-9-]{8} [0-9:]{8}","skillId":"weather"'
content ann skills/weather/data.txt
has 'with the public content' new
sync_of ann mine
success 'N4 ws2bl, the default' 'Skill synchronization completed (ws2bl) for: mine'
content bob skills/mine/SKILL.md
has 'is public' $'---\nname: mine\ndescription: my own\n---'
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
delete bob skills/weather
success 'N14 delete of a skill: for bob' 'Deleted from workspace: skills/weather'
delete bob skills/weather
success 'N14 again, also if absent' 'Deleted from workspace: skills/weather'
content ann skills/weather/data.txt
has 'ann has it' new
write bob files/weather mine
delete bob skills
success 'N14 of all skills' 'Deleted from workspace: skills'
is 'W36: none comes back' "$(ids bob)" 'skill-creator '
execute bob 'ls skills; cat files/weather'
is 'W36: nor with a command, and files are as they were' "$OUT" $'skill-creator\nmine'
sync_of bob weather bl2ws
content bob skills/weather/data.txt
has 'but one that is asked for' new
api DELETE '/v1/skills/ann/app/delete?name=weather'
success 'N5 delete: from the baseline' 'Successfully deleted skill from baseline: weather'
api DELETE '/v1/skills/ann/app/delete?name=weather'
success 'N5 also if absent' 'Successfully deleted skill from baseline: weather'
is 'N5 a copy of his own stays' "$(status_of bob weather)" LOCAL_ONLY
api DELETE '/v1/skills/ann/app/delete?name=weather&scope=sideways'
is 'W40: an unknown scope' "$(j .status)" error

# ---- download ----

api GET "/v1/skills/ann/app/download?name=$(encode 说明)"
is 'N6 download' "$STATUS $(header content-type)" '200 application/zip'
is 'N6 its name in both forms' "$(header content-disposition)" \
    "attachment; filename=\"%E8%AF%B4%E6%98%8E.zip\"; filename*=UTF-8''%E8%AF%B4%E6%98%8E.zip"
is 'N6 entries below the name' \
    "$(python3 -c 'import sys,zipfile;print(zipfile.ZipFile(sys.argv[1]).namelist())' "$WORK/body")" "['说明/SKILL.md']"
cp "$WORK/body" "$WORK/back.zip"
upload_skills boss other back
success 'and back up' 'Baseline updated successfully. Skills: [说明]'
api GET "/v1/skills/ann/other/download?name=$(encode 说明)"
ok 'round trip: the same bytes' cmp "$WORK/body" "$WORK/back.zip"
api GET '/v1/skills/ann/app/download?name=none'
is 'N6 of nothing' "$STATUS $BODY" '500 {"status":"error","data":"Skill not found: none"}'
upload_skills boss app big
curl -sS --limit-rate 20k --unix-socket "$SOCKET" -o "$WORK/slow" \
    "http://localhost/v1/skills/ann/app/download?name=big" &
slow=$!
ok 'a slow download' eventually 10 test -s "$WORK/slow"
write ann skills/big/SKILL.md changed
upload_skills boss app weather
sync_of ann big bl2ws
success 'W39: holds nobody up' 'Skill synchronization completed (bl2ws) for: big'
kill "$slow" 2> /dev/null
wait "$slow" 2> /dev/null

# ---- turns ----

running() { content ann files/running && [ "$(j .status)" = success ]; }
in_sync() { sync_of ann weather bl2ws && [ "$(j .status)" = success ]; }
curl -sS --unix-socket "$SOCKET" -o /dev/null http://localhost/v1/ann/app/execute \
    -d '{"command":"touch files/running; python3 -c \"import time; time.sleep(99)\""}' &
slow=$!
ok 'a long command' eventually 20 running
sync_of ann weather bl2ws
error 'T43: a change that commands hold up' 'Server busy: Update operation timed out. Please try again.'
delete ann skills/big
is 'a delete waits for them' "$STATUS $BODY" \
    '200 {"status":"success","data":"Deleted from workspace: skills/big","pending":true}'
kill "$slow" 2> /dev/null
wait "$slow" 2> /dev/null
gone() { files ann skills/big && [ "$BODY" = '{"status":"success","data":[]}' ]; }
ok 'and is done then' eventually 20 gone
ok 'T43: the change, too' eventually 20 in_sync
url=http://localhost/v1/dan/app/content?path=skills/weather/data.txt
curl -sS --unix-socket "$SOCKET" --parallel --parallel-immediate -o "$WORK/first#1" "$url&[1-6]" 2> /dev/null
is 'W39: six first looks of a new user at once see all of it' "$(sort -u "$WORK"/first*)" \
    '{"status":"success","data":{"content":"one\ntwo\nthree\n","lines":["one","two","three"]}}'
is 'W39: every one' "$(ls "$WORK"/first* | wc -l)" 6

# ---- who may ----

auth() { # auth TOKEN METHOD PATH [BODY] [CURL OPTION...]
    local token=$1
    shift
    api "$1" "$2" "${3-}" -H "Authorization: Bearer $token-token-0123456789abcdef$([ "$token" = admin ] || echo 00)" \
        "${@:4}"
}
before=$(base_sum)
auth ann POST /v1/skills/ann/app/upload '' -F "file=@$WORK/weather2.zip"
outcome 'W37: a user does not change what all see: upload' '403 error'
auth ann POST '/v1/skills/ann/app/baseline-sync?name=mine'
outcome 'W37: ws2bl' '403 error'
auth ann DELETE '/v1/skills/ann/app/delete?name=mine'
outcome 'W37: delete' '403 error'
is 'W37: and it is not changed' "$(base_sum)" "$before"
auth ann DELETE '/v1/skills/ann/app/delete?name=mine&scope=overlay'
success 'what she sees she may' 'Successfully deleted skill from workspace: mine'
content cat skills/mine/SKILL.md
is 'others see it' "$(j .status)" success
auth ann POST '/v1/skills/ann/app/baseline-sync?name=mine&direction=bl2ws'
success 'and has it back' 'Skill synchronization completed (bl2ws) for: mine'
auth ann GET '/v1/bob/app/files?path=files'
outcome 'nobody acts for another' '403 error'
auth eye POST /v1/ann/app/write '{"file_path":"files/x","content":"y"}'
outcome 'who may read changes nothing' '403 error'
auth eye GET '/v1/ann/app/content?path=files/keep'
outcome 'and reads' '200 success'
auth admin POST /v1/skills/ann/app/upload '' -F "file=@$WORK/weather2.zip"
outcome 'an admin may' '200 success'
api GET '/v1/boxes/app/content?path=files/x'
is_error 'words of the API are no users' 404 NOT_FOUND "no such path: '/v1/boxes/app/content'"
api PUT /v1/ann/app/write
outcome 'a method that is none: told in the envelope' '405 error'
api GET /v1/skills/ann/app/baseline-sync
outcome 'there, too' '405 error'

# ---- what is kept ----

execute ann "python3 -c \"import os;[os.utime(p,(1,1)) for p in ('.','files','skills/mine','files/keep')]\""
kill -TERM "$DAEMON_PID"
wait "$DAEMON_PID"
# and the other dialect, the default
sed -i 's/^skill_dialect: .*/skill_exec_timeout_ms: 1000/; /^skill_creator:/d' "$CONFIG"
start_daemon "$daemon"
content ann files/keep
has 'W38: old times and a restart remove nothing' kept
is 'W38: nor her skills' "$(status_of ann mine)" UNCHANGED
execute ann 'python3 -c "import time; time.sleep(99)"'
like 'N13 its time is over' "$STATUS $BODY" \
    '^200 \{"status":"error","data":"Execution Timeout: Process killed after 1 seconds\."'

# ---- where the other dialect has the routes of both ----

upload_skills ann app reserved
outcome 'its way to upload' '500 error'
upload_skills ann app weather
like 'S1 upload: into her own layer' "$BODY" '"Upload successful: skill '
is 'for her alone' "$(status_of ann weather) $(ids dan)" 'MODIFIED big mine plain weather 说明 '
api POST /v1/skills/dan/app/install-creator
success 'N7 where the configuration has none' \
    "Global Skill-Creator is ready. You can access it via 'skills/skill-creator'."
content dan skills/skill-creator/SKILL.md
like 'it is there' "$(j .data.content)" '^---.name: skill-creator.description: How to make a skill.*# Making a skill'
write ann skills/own/SKILL.md x
api DELETE '/v1/skills/ann/app/delete?name=own'
success 'N5 of one that is hers alone' 'Successfully deleted skill from workspace: own'
api DELETE '/v1/skills/ann/app/delete?name=mine'
success 'N5 of a public one' 'Successfully deleted skill from baseline: mine'
stop_daemon
finish
