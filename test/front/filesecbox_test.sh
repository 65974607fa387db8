#!/bin/bash
# The first family of the skill dialect, as its clients use it: layers, lists, content, line edits, commands, uploads.
# Checks
# that begin with W and a number are about a weakness of the service that the dialect comes from: they fail where it is
# back.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
cat > "$CONFIG" << END
skill_upload_bytes: 200000
skill_exec_timeout_ms: 4000
skill_wait_ms: 100
END
DAEMON=$BUILD/asan/cubbyd
[ -x "$DAEMON" ] || DAEMON=$BUILD/cubbyd
start_or_end "$DAEMON"

# ---- archives ----
Z=$WORK/zips
mkdir "$Z"
python3 - "$Z" << 'END'
import io, os, sys, zipfile
os.chdir(sys.argv[1])
def make(name, entries, **kw):
    with zipfile.ZipFile(name + '.zip', 'w', zipfile.ZIP_DEFLATED) as z:
        for path, data in entries:
            info = zipfile.ZipInfo(path)
            info.compress_type = kw.get('how', zipfile.ZIP_DEFLATED)
            info.external_attr = 0o100644 << 16
            z.writestr(info, data)
md = '---\nname: "Weather"\ndescription: tells the weather\n---\nName: of the body\n'
weather = [('weather/SKILL.md', md), ('weather/main.py', 'import sys\nprint("sunny in", *sys.argv[1:])\n'),
           ('weather/lib/deep/a/b/c/d/e/f.txt', 'one\ntwo\nthree\n'), ('weather/v', '1\n'),
                 ('other/README.md', '# Other one\n')]
make('weather', weather)
make('weather2', [('weather/SKILL.md', md), ('weather/v', '2\n')])
make('clash', [('weather/lib', 'a file'), ('weather/v/w', 'deep')])
make('own', [('own/run.sh', 'ln -s /etc/passwd l; ln -s /etc d; ln -s lib/x inside; mkdir -p lib; echo x > lib/x\n')])
make('up', [('../x', 'x'), ('weather/SKILL.md', 'replaced')])
make('top', [('../weather/SKILL.md', 'replaced')])
make('slip', [('weather/SKILL.md', 'replaced'), ('weather/../../../slip.txt', 'x')])
make('absolute', [('/etc/x', 'x'), ('weather/SKILL.md', 'replaced')])
make('bomb', [('weather/zeros', b'\0' * (60 << 20))])
make('loose', [('SKILL.md', 'x')])
make('mac', [('m/SKILL.md', 'name: m\n'), ('m/._x', 'x'), ('m/.DS_Store', 'x'), ('__MACOSX/m/._SKILL.md', 'x')])
make('reserved', [('skill-creator/SKILL.md', 'x')])
make('twice', [('t/t/SKILL.md', 'name: flat\n')])
def gbk(name, top, file):
    out = io.BytesIO()
    make(name, [('AAAA/BBBB', 'x')])
    data = open(name + '.zip', 'rb').read().replace(b'AAAA', top.encode('gbk')).replace(b'BBBB', file.encode('gbk'))
    open(name + '.zip', 'wb').write(data)
gbk('gbk', '天气', '说明')
for k in range(6):
    make('race%d' % k, [('race/f%d' % i, '%d\n' % k) for i in range(20)] + [('own%d/v' % k, 'x')])
open('not.zip', 'w').write('this is no archive')
open('cut.zip', 'wb').write(open('weather.zip', 'rb').read()[:-30])
room = 200000 - 300
make('fits', [('fits/x', os.urandom(room))], how=zipfile.ZIP_STORED)
make('large', [('large/x', os.urandom(200001))], how=zipfile.ZIP_STORED)
END
touch "$Z/empty.zip"

S() { echo "/v1/skills/${1:-ann}/app"; }
K=$(S)/weather # the skill most checks are about, as ann
A=/v1/sandbox/ann/app
send() { # send ZIP [QUERY] [USER]
    api POST "$(S "${3-}")/upload${2-}" '' -F "file=@$Z/$1.zip"
}
show() { # show USER PATH [QUERY]: content of a file of the skill weather
    api GET "$(S "$1")/weather/content?path=$2${3-}"
}
edit() { # edit USER PATH QUERY TEXT
    api PUT "$(S "$1")/weather/edit?path=$2$3" '' -H 'Content-Type: text/plain' --data-binary "$4"
}
area() { # area PATH QUERY TEXT: the same in the general area
    api PUT "$A/edit?path=$1$2" '' -H 'Content-Type: text/plain' --data-binary "$3"
}
execute() { # execute COMMAND [JSON ARGUMENTS] [USER]
    api POST "$(S "${3-}")/weather/execute?command=$(encode "$1")" "${2-}"
    OUT=$(j .data.stdout) ERR=$(j .data.stderror) CODE=$(j .data.exit_code)
}
answers() { # answers NAME STATUS BODY: just that
    is "$1" "$STATUS $BODY" "$2 $3"
}
layers() { find "$STATE/skills/layers" -type f -exec sha256sum {} + | sort; }

# ---- a first walk, as the seed's clients take it ----
send weather '?scope=Baseline'
answers 'upload into the baseline' 200 \
    "{\"status\":\"success\",\"data\":\"Upload successful: skill 'other' to '/skills/other', skill 'weather' "\
"to '/skills/weather'\"}"
LAYERS=$(layers)
api GET "$(S)/list"
is 'who only looks makes no box' \
    "$(jq -c '[.data[].skillId]' < "$WORK/body") $(api GET /v1/boxes; j '.boxes | length')" '["other","weather"] 0'
for path in '../files' 'weather/../other/files' '%2e%2e/files' 'weather/./content?path=v'; do
    api GET "$(S)/$path" '' --path-as-is
    answers "dots in the path of a URL are refused in the envelope: $path" 400 \
        '{"status":"error","data":"the request path has a segment '"'.' or '..'"'"}'
done
api GET "$K/files"
answers 'W25: files at any depth, sorted' 200 \
    '{"status":"success","data":["SKILL.md","lib/deep/a/b/c/d/e/f.txt","main.py","v"]}'
api GET "$(S)/list"
answers 'the list: name and description of SKILL.md, with the id that paths need' 200 \
    '{"status":"success","data":[{"name":"Other one","description":"No description '\
'available.","skillId":"other"},{"name":"Weather","description":"tells the weather","skillId":"weather"}]}'
show ann v
answers 'content whole' 200 '{"status":"success","data":{"content":"1\n"}}'
show ann lib/deep/a/b/c/d/e/f.txt '&start=2&end=3'
answers 'lines of it' 200 '{"status":"success","data":{"content":["two","three"]}}'
show ann lib/deep/a/b/c/d/e/f.txt '&start=2'
answers 'a start alone: all of it' 200 '{"status":"success","data":{"content":"one\ntwo\nthree\n"}}'
for range in '3&end=2 []' '9&end=99 []' '0&end=1 ["one"]' '-5&end=1 ["one"]' '2147483647&end=2147483647 []' \
    '-2147483648&end=2147483647 ["one","two","three"]'; do
    show ann lib/deep/a/b/c/d/e/f.txt "&start=${range% *}"
    is "lines ${range% *}" "$(jq -c .data.content < "$WORK/body")" "${range#* }"
done
show ann nothing
answers 'a file that is not there' 404 '{"status":"error","data":null}'
api GET "$(S)/nothing/content?path=x"
answers 'nor its skill' 404 '{"status":"error","data":null}'
api GET "$(S)/nothing/files"
answers 'files of a skill that is not there' 500 '{"status":"error","data":null}'
execute python3 '["main.py","Beijing"]'
answers 'W43: a command with arguments, exit_code' 200 \
    '{"status":"success","data":{"stdout":"sunny in Beijing\n","stderror":"","exit_code":0}}'
api POST "$K/execute" '{"command":"python3 main.py --city Beijing","more":1}'
answers 'the same as a line' 200 \
    '{"status":"success","data":{"stdout":"sunny in --city Beijing\n","stderror":"","exit_code":0}}'
execute bash '["-c","echo a; echo b >&2; exit 3"]'
answers 'a status that is not 0 is a result' 200 \
    '{"status":"success","data":{"stdout":"a\n","stderror":"b\n","exit_code":3}}'
execute bash '["-c","kill -9 $$"]'
is 'a signal is 128 and its number' "$CODE" 137
execute ls
is 'a command without arguments' "$OUT" $'SKILL.md\nlib\nmain.py\nv'
execute bash '["-c","pwd; env | grep -vE ^\\(_\\|SHLVL\\)= | sort"]'
is 'in the skill, and of the environment six names' "$OUT" \
    $'/skills/weather\nHOME=/workspace\nLANG=C.UTF-8\nLC_ALL=C.UTF-8\nPATH=/usr/local/bin:/usr/bin:/bin\n'\
$'PWD=/skills/weather\nUSER=agent'
api POST "$(S)/nothing/execute?command=ls"
answers 'in a skill that is not there' 500 '{"status":"error","data":"Skill not found."}'
api POST "/v1/boxes/$(api GET /v1/boxes; j '.boxes[] | select(.agent == "app") | .id')/exec" \
    '{"command":"mv /usr/bin/find /usr/bin/find.gone","user":"root"}'
execute find '["."]'
is 'W12: allowed but not installed is a result' "$STATUS $CODE $OUT|$ERR" "200 127 |no command 'find'"
api POST "$A/execute?command=find" '["."]'
is 'W12: in the area, too' "$STATUS $(j .data.exit_code)" '200 127'
api POST "/v1/boxes/$(api GET /v1/boxes; j '.boxes[] | select(.agent == "app") | .id')/exec" \
    '{"command":"mv /usr/bin/find.gone /usr/bin/find","user":"root"}'
for name in python touch tee chmod xargs; do
    execute "$name"
    answers "W12: not one of the seventeen: $name" 500 \
        "{\"status\":\"error\",\"data\":\"Security Error: Command '$name' is not allowed.\"}"
done
for path in skill/overlay/ann/app/weather skill/baseline/app/weather; do
    execute cat "[\"/webIde/product/$path/v\"]"
    is "the physical path of the skill is one of it: $path" "$STATUS $OUT" '200 1'
done
for path in skill/overlay/bob/app/weather skill/overlay/ann/other/weather skill/baseline/app/weatherman \
    sandbox/ann/app skill/overlay/ann/app/other; do
    execute cat "[\"/webIde/product/$path/v\"]"
    like "no other is: $path" "$STATUS $BODY" '^500 .*Security Error: Absolute path'
done
execute cat '["/webIde/product/skill/overlay/ann/app/weather/../other/README.md"]'
like 'nor one with ..' "$STATUS $BODY" '^500 .*Path traversal'

audited() { api GET '/v1/audit?verb=filesecbox_execute' && j '.events[].detail' | grep -qxF 'python3 main.py Beijing'; }
ok 'W42: the audit log says what ran' eventually 5 audited

# ---- the general area ----
api GET "$A/files"
answers 'an area without files; skills are no part of it' 200 '{"status":"success","data":[]}'
area a/b.txt '' 'x'
answers 'a file is written, with its directory' 200 '{"status":"success","data":"Sandbox file updated successfully."}'
api GET "$A/files"
answers 'and listed' 200 '{"status":"success","data":["a/b.txt"]}'
api GET "$A/content?path=a/b.txt"
answers 'byte by byte' 200 '{"status":"success","data":{"content":"x"}}'
api GET "$A/content?path=none"
answers 'none' 404 '{"status":"error","data":null}'
api POST "$A/execute?command=cat" '["a/b.txt"]'
answers 'commands in it' 200 '{"status":"success","data":{"stdout":"x","stderror":"","exit_code":0}}'
api POST "$A/execute?command=id"
answers 'W42: the area answers, and refuses what is not allowed' 500 \
    '{"status":"error","data":"Execution failed: Security Error: Command '"'id'"' is not allowed."}'
api POST "$A/execute?command=ls" '["/workspace/a","/workspace"]'
is 'absolute paths inside' "$STATUS $(j .data.exit_code)" '200 0'
api POST "$A/execute?command=cat" '["/webIde/product/sandbox/ann/app/a/b.txt"]'
is 'and the physical path of the area' "$STATUS $(j .data.stdout)" '200 x'
for path in sandbox/bob/app/a/b.txt sandbox/ann/app2/a/b.txt skill/overlay/ann/app/weather/v; do
    api POST "$A/execute?command=cat" "[\"/webIde/product/$path\"]"
    like "no other is: $path" "$STATUS $BODY" '^500 .*Security Error: Absolute path'
done

area skills/weather/v '' x
like 'skills are not written through it' "$STATUS $BODY" '^500 .*Edit failed: Security Error: Access out of scope\.'
api GET "$A/content?path=skills/weather/v"
answers 'nor read' 404 '{"status":"error","data":null}'

# ---- line edits ----

# Sixteen clients, six inserts each into one file: no edit fails because of another, and none is lost.
together() { # together PATH OF THE API
    python3 - "$SOCKET" "$1" << 'END'
import http.client, socket, sys, threading
bad = []
def work(number):
    link = http.client.HTTPConnection('localhost')
    link.sock = socket.socket(socket.AF_UNIX)
    link.sock.connect(sys.argv[1])
    for turn in range(6):
        link.request('PUT', sys.argv[2], 'line %d %d' % (number, turn), {'Content-Type': 'text/plain'})
        answer = link.getresponse()
        text = answer.read()
        if answer.status != 200:
            bad.append((answer.status, text))
threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
[t.start() for t in threads]
[t.join() for t in threads]
print(len(bad), *bad[:1])
END
}
is 'inserts into one file of the area at once' "$(together "$A/edit?path=together&start=1&end=0")" 0
api GET "$A/content?path=together"
is 'and all are there' "$(j .data.content | sort -u | grep -c '^line')" 96
is 'into one of a skill' "$(together "$K/edit?path=together&start=1&end=0")" 0
api GET "$K/content?path=together"
is 'the same' "$(j .data.content | sort -u | grep -c '^line')" 96
execute rm '["together"]'
api POST "$A/execute?command=rm" '["together"]'
lines() { # lines NAME FILE BODY START END WANT
    area l '' "$2"
    [ "$2" != none ] || api POST "$A/execute?command=rm" '["l"]'
    area l "${4:+&start=$4}${5:+&end=$5}" "$3"
    local status=$STATUS
    api GET "$A/content?path=l"
    is "$1" "$status $(jq -c .data.content < "$WORK/body")" "$6"
}
lines 'a line is replaced' $'a\nb\nc\n' X 2 2 '200 "a\nX\nc\n"'
lines 'an empty body is an empty line' $'a\nb\nc\n' '' 2 2 '200 "a\n\nc\n"'
lines 'a newline removes' $'a\nb\nc\n' $'\n' 2 2 '200 "a\nc\n"'
lines 'insert' $'a\nb\nc\n' X 2 1 '200 "a\nX\nb\nc\n"'
lines 'to the end' $'a\nb\nc\n' X 2 '' '200 "a\nX\n"'
lines 'W22: padding stands there once' $'a\nb\n' X 5 6 '200 "a\nb\n\n\nX\n"'
lines 'W22: also in a new file' none X 3 3 '200 "\n\nX\n"'
lines 'W22: an end before its start changes nothing' $'a\nb\nc\nd\ne\n' X 4 2 '500 "a\nb\nc\nd\ne\n"'
lines 'W22: nor does a start beyond all reason' $'a\n' X 2147483647 2147483647 '500 "a\n"'
area l '' ''
answers 'W22: an empty file can be written' 200 '{"status":"success","data":"Sandbox file updated successfully."}'
area l '&start=4&end=2' X
like 'with the words of the family' "$BODY" '"data":"Edit failed: end 2 is before start 4"'
printf 'bin\xff\n' > "$WORK/bin"
api PUT "$A/edit?path=bin" '' --data-binary "@$WORK/bin"
area bin '&start=1&end=1' X
is 'what is no text has no lines' "$STATUS" 500
api GET "$A/content?path=bin"
answers 'and no content in JSON' 404 '{"status":"error","data":null}'

for i in 1 2 3 4 5 6 7 8; do
    curl -s --unix-socket "$SOCKET" -o /dev/null -X PUT --data-binary "line $i" \
        "http://localhost$A/edit?path=many&start=1&end=0" &
    editors[i]=$!
done
wait "${editors[@]}"
api GET "$A/content?path=many"
is 'W21: of edits at the same time none is lost' "$(j .data.content | grep . | sort | tr '\n' ' ')" \
    'line 1 line 2 line 3 line 4 line 5 line 6 line 7 line 8 '

# W21: writes are whole: readers meanwhile see all of one version
head -c 150000 /dev/zero | tr '\0' A > "$WORK/a"
head -c 150000 /dev/zero | tr '\0' B > "$WORK/b"
api PUT "$A/edit?path=whole" '' --data-binary "@$WORK/a"
for i in {1..15}; do
    [ "$i" = 1 ] || echo next
    printf 'unix-socket = "%s"\nurl = "http://localhost%s/edit?path=whole"\nrequest = PUT\ndata-binary '\
'= "@%s"\noutput = /dev/null\n' "$SOCKET" "$A" "$WORK/$([ $((i % 2)) = 0 ] && echo a || echo b)"
done > "$WORK/writes"
curl -sf -K "$WORK/writes" & writer=$!
seen=
for i in {1..12}; do
    api GET "$A/content?path=whole"
    seen+=$(j .data.content | tr -s AB | head -c 10)$(j .data.content | wc -c)' '
done
wait "$writer"
is 'writes while it is read' $? 0
unlike 'W21: nobody sees a part of a write' "$seen" 'AB|BA|[AB] '
like 'as a whole it is there' "$seen" '^([AB]150001 ){12}$'

# ---- two users of one application ----
edit ann lib/deep/a/b/c/d/e/f.txt '&start=2&end=2' 'TWO of ann'
answers 'W33: an edit of a nested file of the baseline' 200 '{"status":"success","data":"File updated successfully."}'
show ann lib/deep/a/b/c/d/e/f.txt
answers 'is seen by who made it' 200 '{"status":"success","data":{"content":"one\nTWO of ann\nthree\n"}}'
show bob lib/deep/a/b/c/d/e/f.txt
answers 'W33: and by nobody else' 200 '{"status":"success","data":{"content":"one\ntwo\nthree\n"}}'
api GET "$K/files"
answers 'W33: all other files are still there' 200 \
    '{"status":"success","data":["SKILL.md","lib/deep/a/b/c/d/e/f.txt","main.py","v"]}'
api GET "$(S)/list"
is 'W33: and what it says of itself' "$(jq -c '.data[1]' < "$WORK/body")" \
    '{"name":"Weather","description":"tells the weather","skillId":"weather"}'
execute python3 '["main.py","x"]'
is 'W33: it runs' "$OUT" 'sunny in x'
edit ann new/er/file '' $'n\n'
is 'a new file, with its directories' "$STATUS" 200
edit bob v '&start=1' 'of bob'
show ann v
answers "bob's is not ann's" 200 '{"status":"success","data":{"content":"1\n"}}'
execute bash '["-c","touch made; echo changed > main.py; chmod 777 lib; rm v; ls; id -un"]' bob
is 'W1 W11: a command may change the skill, as nobody of this machine' "$OUT" $'SKILL.md\nlib\nmade\nmain.py\nagent'
api GET "$(S carl)/weather/files"
answers 'W11: for its user alone' 200 \
    '{"status":"success","data":["SKILL.md","lib/deep/a/b/c/d/e/f.txt","main.py","v"]}'
api GET "$(S bob)/weather/files"
answers 'a removal is a removal for him' 200 \
    '{"status":"success","data":["SKILL.md","lib/deep/a/b/c/d/e/f.txt","made","main.py"]}'
is "W11: the baseline's bytes are as they were" "$(layers)" "$LAYERS"

# ---- what commands may say ----
said() { # said NAME COMMAND ARGUMENTS WANT
    execute "$2" "$3"
    answers "$1" 500 "{\"status\":\"error\",\"data\":\"Security Error: $4\"}"
}
for name in id '' /bin/ls LS env; do
    said "'$name' may not be run" "$name" '' "Command '$name' is not allowed."
done
said 'no way up' cat '["../other/README.md"]' "Path traversal '..' is strictly forbidden."
said 'nor inside an option' cat '["--x=../y"]' "Path traversal '..' is strictly forbidden."
for path in /etc /etc/passwd //etc/passwd --file=/etc/x '-c cat /proc/1/environ'; do
    said "W4: $path" ls "[\"$path\"]" 'Forbidden access to system paths in arguments.'
done
for path in / /tmp/x //webIde/product/x /skills/weather2/x '/skills/weather/v /skills/other/x'; do
    said "W4: $path is outside" ls "[\"$path\"]" "Absolute path '$path' is outside the allowed skill directory."
done
for args in '["1..2"]' '["wait..."]' '["src/bin/x"]' '["s/a/b/"]' '["http://x/etc/y"]' \
    '["/skills/weather/v","/workspace/skills/weather"]'; do
    execute echo "$args"
    is "W5: harmless: $args" "$STATUS $OUT" "200 $(jq -r 'join(" ")' <<< "$args")"
done
execute find '[".","-name","*.py"]'
is 'W5: a pattern is the command'"'"'s' "$OUT" ./main.py
execute sed '["s/1/7/","v"]'
is 'W5: so is a program' "$OUT" 7
execute python3 '["-c","print(1.5, 4 / 2)"]'
is 'W5: and another' "$OUT" '1.5 2.0'
execute ls '["skills/nope"]'
is 'W6: looking makes nothing' "$CODE $(api GET "$K/files"; jq -c .data < "$WORK/body")" \
    '2 ["SKILL.md","lib/deep/a/b/c/d/e/f.txt","main.py","new/er/file","v"]'
api POST "$A/execute?command=mkdir" '["files/Makefile"]'
is 'W6: a missing directory is not made up' \
    "$(j .data.exit_code) $(api GET "$A/files"; j '.data | map(select(startswith("files"))) | length')" '1 0'
execute bash '["-c","cd / && cd root && ls; cat /etc/shadow; ls /root; echo $(id -u)"]'
like 'W4: who says it through a shell is refused by words' "$BODY" 'Forbidden access'
edit ann s.sh '' $'cd / && cd root && ls; cat < /etc/shadow; cat < '"$STATE"$'/skills.db; : > /etc/x; ls -d '\
$''"$WORK"$'; exec 3<>/dev/tcp/127.0.0.1/22; id -u\n'
execute bash '["s.sh"]'
is 'W1: who says it in a script meets the walls of the box' "$STATUS $OUT" '200 1000'
like 'W1: one by one' "$ERR" 'Permission denied.*No such file.*cannot access'

# ---- how commands end ----
tag_new
curl -s --unix-socket "$SOCKET" -o "$WORK/late" -w '%{http_code}' -H 'Content-Type: application/json' \
    -d "[\"-c\",\"echo begun; sleep $TAG & (setsid sleep $TAG &) ; sleep $TAG\"]" \
    "http://localhost$(S fay)/weather/execute?command=bash" > "$WORK/late.status" & late=$! # looked at in the end
now_ms; start=$NOW
execute cat
is 'W8: without input a command ends' "$STATUS $CODE $OUT" '200 0 '
execute bash '["-c","sleep 1000 & echo hi"]'
now_ms
is 'W8: what it leaves in the background holds nothing up' "$OUT" hi
between 'W8: nor for long' $((NOW - start)) 0 30000
execute bash '["-c","printf \"  a\\r\\n b \\n\\n\""]'
is 'W9: its output is as it is' "$(jq -c .data.stdout < "$WORK/body")" '"  a\r\n b \n\n"'
execute python3 '["-c","print(\"x\"*3000000)"]'
is 'W9: too much of it is cut, and that is said' "$(j '.data | "\(.stdout | length) \(.truncated) \(.exit_code)"')" \
    '1048576 true 0'

# ---- uploads ----
edit bob v '' mine
edit bob only.txt '' mine
send weather2 '' bob
answers 'W33: an upload is the own by default' 200 \
    "{\"status\":\"success\",\"data\":\"Upload successful: skill 'weather' to '/skills/weather'\"}"
api GET "$(S bob)/weather/files"
answers 'of the own files it leaves none, and what it lacks is the baseline'"'"'s' 200 \
    '{"status":"success","data":["SKILL.md","lib/deep/a/b/c/d/e/f.txt","main.py","v"]}'
show bob v
answers 'a file that both have is its own' 200 '{"status":"success","data":{"content":"2\n"}}'
show bob main.py
answers 'one that it lacks is read from the baseline' 200 \
    '{"status":"success","data":{"content":"import sys\nprint(\"sunny in\", *sys.argv[1:])\n"}}'
execute python3 '["main.py","Rome"]' bob
is 'and runs' "$OUT" 'sunny in Rome'
send clash '' bob
api GET "$(S bob)/weather/files"
answers 'a file hides a directory of the baseline, and a directory a file' 200 \
    '{"status":"success","data":["SKILL.md","lib","main.py","v/w"]}'
send weather2 '' bob
show carl v
answers "others' stays" 200 '{"status":"success","data":{"content":"1\n"}}'
is 'and the baseline' "$(layers)" "$LAYERS"
api POST "$(S carl)/upload" '' -F "file=@$Z/weather2.zip" -F scope=everybody
is 'W40: nor as a field of the form' "$STATUS $(j .status)" '400 error'
send weather2 '?scope=everybody' carl
is 'W40: a scope that is none' "$STATUS $(j .status)" '400 error'
show carl v
answers 'W40: changes nothing' 200 '{"status":"success","data":{"content":"1\n"}}'
refused() { # refused NAME ZIP STATUS REGEX
    send "$2" '?scope=baseline'
    like "$1" "$STATUS $BODY" "^$3 \{\"status\":\"error\",\"data\":\"Upload failed: .*$4"
    send "$2"
    like "$1, also as one's own" "$STATUS $BODY" "^$3 \{\"status\":\"error\",\"data\":\"Upload failed: .*$4"
}
refused 'W26: a first name of ..' up 500 '\.\./x'
refused 'W26: alone' top 500 '\.\./weather'
refused 'W26: an absolute one' absolute 500 '/etc/x'
refused 'W27 W28: a way out behind a skill, which the answer names' slip 500 'weather/\.\./\.\./\.\./slip\.txt'
refused 'W29: a bomb' bomb 413 'zeros'
refused 'W29: no archive' not 500 ''
refused 'W29: the beginning of one' cut 500 ''
refused 'W29: nothing' empty 500 ''
refused 'W29: loose files' loose 500 'No valid skill directory found\.'
refused 'a name of ours' reserved 500 "skill-creator' is reserved"
show carl SKILL.md
like 'W26 W27: what was there is there' "$BODY" 'tells the weather'
is 'W27: whole, and nothing beside it' "$(layers) $(find "$WORK" -name slip.txt)" "$LAYERS "
api GET "$K/files"
answers "W27: ann's own too" 200 \
    '{"status":"success","data":["SKILL.md","lib/deep/a/b/c/d/e/f.txt","main.py","new/er/file","s.sh","v"]}'
send mac
api GET "$(S)/m/files"
answers 'W30: what a Mac adds is left out' 200 '{"status":"success","data":["SKILL.md"]}'
send gbk
like 'W31: names in GBK' "$STATUS $BODY" "^200 .*skill '天气' to '/skills/天气'"
api GET "$(S)/$(encode 天气)/files"
answers 'W31: are those names' 200 '{"status":"success","data":["说明"]}'
send twice
api GET "$(S)/t/files"
answers 'a folder in one of its name is that one' 200 '{"status":"success","data":["SKILL.md"]}'
send fits
is 'W32: as large as is allowed' "$STATUS" 200
send large
like 'W32: larger' "$STATUS $BODY" '^413 \{"status":"error","data":".*200000'
is 'W32: and 10 MiB are the default' "$("$DAEMON" --options | grep -P '^skill_upload_bytes\t' | grep -c '10 MiB')" 1

# W34: uploads of many into one baseline, all at once: every skill is one of them, none is lost
for k in 0 1 2 3 4 5; do
    curl -s --unix-socket "$SOCKET" -o "$WORK/race$k" -F "file=@$Z/race$k.zip" \
        "http://localhost$(S "user$k")/upload?scope=baseline" &
    racers[k]=$!
done
wait "${racers[@]}"
api POST "$(S dan)/race/execute?command=bash" '["-c","cat f* | sort | uniq -c | tr -s \" \"; ls | wc -l"]'
like 'W34: one version, whole' "$(j .data.stdout)" $'^ 20 [0-5]\n20$'
api GET "$(S dan)/list"
is 'W34: nothing lost' "$(jq -c '[.data[].skillId | select(startswith("own"))]' < "$WORK/body")" \
    '["own0","own1","own2","own3","own4","own5"]'

# an edit for all users
edit ann v '&scope=baseline&start=2' $'for\nall'
answers 'an edit of the baseline' 200 '{"status":"success","data":"File updated successfully."}'
show gus v
answers 'is seen by all' 200 '{"status":"success","data":{"content":"1\nfor\nall\n"}}'
show bob v
answers 'but who has his own' 200 '{"status":"success","data":{"content":"2\n"}}'
api GET "$(S gus)/weather/files"
answers 'all else is as it was' 200 '{"status":"success","data":["SKILL.md","lib/deep/a/b/c/d/e/f.txt","main.py","v"]}'
for path in ../other/README.md /skills/other/README.md lib; do
    edit ann "$path" '&scope=baseline' x
    is "it stays inside: $path" "$STATUS $(j .status)" '500 error'
done
edit ann v '&scope=baseline' $'1\n'
api PUT "$(S)/nothing/edit?path=x&scope=baseline" '' --data-binary x
answers 'only of what is there' 500 '{"status":"error","data":"Skill not found."}'

# W10: a command keeps the version it started with
E=/v1/sandbox/eve/app
edit eve keep.sh '' $'cat v\ntouch /workspace/begun\nuntil [ -e /workspace/go ]; do read -t 0.02 < <(sleep 1); done\n'\
$'cat v main.py\n'
curl -s --unix-socket "$SOCKET" -o "$WORK/kept" -H 'Content-Type: application/json' -d '["keep.sh"]' \
    "http://localhost$(S eve)/weather/execute?command=bash" & kept=$!
begun() { api GET "$E/content?path=begun" && [ "$STATUS" = 200 ]; }
ok 'a command runs' eventually 3 begun
send weather2 '' eve
answers 'W10: an upload meanwhile waits for it, and says so' 200 \
    "{\"status\":\"success\",\"data\":\"Upload successful: skill 'weather' to '/skills/weather'\",\"pending\":true}"
show eve v
answers 'W10: all others see one version too' 200 '{"status":"success","data":{"content":"1\n"}}'
api PUT "$E/edit?path=go" '' --data-binary x
wait "$kept"
is 'W10: it ended with what it began with' "$(jq -c '.data | [.stdout, .exit_code]' "$WORK/kept")" \
    '["1\n1\nimport sys\nprint(\"sunny in\", *sys.argv[1:])\n",0]'
newer() { show eve v && [[ $BODY == *'2\n'* ]]; }
ok 'W10: then the new one is there' eventually 5 newer
api GET "$(S eve)/weather/files"
answers 'W10: whole, without what was the own' 200 \
    '{"status":"success","data":["SKILL.md","lib/deep/a/b/c/d/e/f.txt","main.py","v"]}'

# ---- links ----
send own
api POST "$(S)/own/execute?command=bash" '["run.sh"]'
for path in l d/passwd d/../../../etc/passwd ../other/README.md /etc/passwd /skills/other/README.md; do
    api GET "$(S)/own/content?path=$(encode "$path")"
    answers "W14: no link and no path leads out: $path" 404 '{"status":"error","data":null}'
    api PUT "$(S)/own/edit?path=$(encode "$path")" '' --data-binary x
    like "W14: nor to write: $path" "$STATUS $BODY" '^500 .*Security Error'
done
api GET "$(S)/own/content?path=inside"
answers 'a link that stays inside is followed' 200 '{"status":"success","data":{"content":"x\n"}}'
api GET "$(S)/own/content?path=./lib/../run.sh"
is 'so is a way that comes back' "$STATUS" 200
api GET "$(S)/own/content?path=lib"
answers 'a directory has no content' 404 '{"status":"error","data":null}'
api GET "$(S)/own/files"
answers 'files are files' 200 '{"status":"success","data":["lib/x","run.sh"]}'

# ---- names ----
boxes() { api GET /v1/boxes; j '.boxes | length'; }
BOXES=$(boxes)
for path in /v1/skills/./app/list /v1/skills/.x/app/list /v1/skills/a%20b/app/list /v1/skills/boxes/app/list \
    /v1/skills/sandbox/app/list \
    /v1/skills/ann/../list /v1/skills/ann/.app/list /v1/skills/ann/skill-creator/list /v1/skills/ann/a%5Cb/list \
    "/v1/skills/ann/$(printf 'x%.0s' {1..129})/list" \
    "/v1/skills/$(printf 'x%.0s' {1..129})/app/list" /v1/skills/ann/app/../files /v1/skills/ann/app/.x/files \
    /v1/skills/ann/app/a%2Fb/files /v1/skills/ann/app/a%00b/files \
    /v1/skills/ann/app/a%5Cb/files /v1/sandbox/ann/%2e%2e/files /v1/sandbox/../app/files; do
    api GET "$path"
    like "W20: no name: $path" "$STATUS $BODY" '^40[04] \{"(status":"error","data":"|error":)'
done
is 'W20: and nothing is made for them' "$(boxes) $(ls "$STATE/skills/agents")" "$BOXES app"

# ---- faults of the form ----
fault() { # fault NAME STATUS REGEX
    like "$1: in the envelope" "$STATUS $BODY" "^$2 \{\"status\":\"error\",\"data\":\".*$3.*\"\}"
}
show ann v '&start=abc&end=2'
fault 'a number that is none' 400 start
show ann v '&start=99999999999&end=2'
fault 'one beyond 32 bits' 400 start
api GET "$K/content"
fault 'a parameter that is missing' 400 path
api GET "$K/content?path=a%00b"
fault 'a NUL in one' 400 NUL
api POST "$K/execute"
fault 'no command' 400 command
api POST "$K/execute?command=ls" '{"a":'
fault 'no JSON' 400 JSON
api POST "$K/execute?command=ls" '{"a":1}'
fault 'not an array' 400 array
api POST "$K/execute?command=ls" '[1]'
fault 'not an array of texts' 400 argument
api DELETE "$K/content"
fault 'a method that is not served' 405 'allowed: '
api GET "$K/nothing"
fault 'a path that is not there' 404 'no such path'
api POST "$(S)/upload" 'x'
fault 'no multipart' 400 multipart
api POST "$(S)/upload" '' -F other=x
fault 'no part file' 400 file
api GET "$(S)/list?x=1"
is 'parameters that nobody knows are ignored' "$STATUS" 200

# W7: the time-out
wait "$late"
is 'W7: after its time a command is over, and what it said until then is told' \
    "$(< "$WORK/late.status") $(jq -c '[.status, .data, .partial.stdout, .partial.exit_code]' "$WORK/late")" \
    '500 ["error","Execution timed out after 4 seconds.","begun\n",143]'
ok 'W7: nothing of it lives on' tag_gone
is 'W7: five minutes are the default' \
    "$("$DAEMON" --options | awk -F'\t' '$1 == "skill_exec_timeout_ms"' | grep -c 300000)" 1
not_ok 'W25: no answer showed a path of this machine' grep -qF "$STATE" "$WORK"/{body,late,kept,race0}

undescribed() { "$DAEMON" --routes | awk -F'\t' '$3 ~ /^(filesecbox|fsb2)_/ { print $1 " " $2 }' |
    grep -vxFf <(sed -n 's/^\.It Pa //p' man/cubby-dialect.7); }
is 'cubby-dialect(7) has every call' "$(undescribed)" ''

# ---- tokens ----
write_tokens "$WORK/tokens.yaml"
if second_start "$WORK/tokens.yaml" "$DAEMON"; then
    api GET "$(S)/list"
    fault 'W42: nobody without a token' 401 token
    api GET "$A/files"
    fault 'W42: nor in the area' 401 token
    as bob GET "$(S)/list"
    fault "W42: another's token" 403 'bob'
    as ann GET "$(S)/list"
    answers 'W42: the own' 200 '{"status":"success","data":[]}'
    as eye PUT "$A/edit?path=x"
    fault 'W42: one that may only read' 403 read
    zip=(-F "file=@$Z/weather.zip")
    api POST "$(S)/upload?scope=baseline" '' "${zip[@]}" -H 'Authorization: Bearer ann-token-0123456789abcdef00'
    fault 'W42: a user does not change what all see' 403 admin
    api POST "$(S)/upload?scope=baseline" '' "${zip[@]}" -H 'Authorization: Bearer admin-token-0123456789abcdef'
    is 'W42: an admin does' "$STATUS" 200
    as admin GET "$(S)/list"
    is 'W42: and acts for users' "$STATUS $(j '.data | length')" '200 2'
    as ann GET "$K/content?path=v"
    answers 'W42: which they see' 200 '{"status":"success","data":{"content":"1\n"}}'
    as admin DELETE '/v1/boxes?user=ann'
    second_end
    is 'the second daemon ends in order' $? 0
else
    fail 'a daemon with tokens' "$(tail -5 "$WORK/daemon.log")"
fi
stop_daemon
finish
