# Skills and sub-agents that users share: published from a box, found, installed into others, taken back; on every
# backend.
# by default: jail

skill_make() { # skill_make NAME TEXT [FRONT MATTER LINE...]: in the current box
    local name=$1 text=$2 line front=
    shift 2
    for line in "$@"; do front+="$line\n"; done
    run "rm -rf skills/$name; mkdir -p skills/$name/scripts; printf -- '---\nname: Shown $name\ndescription: does "\
"$text\n$front---\nbody $text\n' > skills/$name/SKILL.md; printf '#!/bin/sh\necho $text\n' > "\
"skills/$name/scripts/go.sh; chmod 755 skills/$name/scripts/go.sh"
}
publish() { # publish NAME [MORE JSON MEMBERS] [TOKEN]
    local body="{\"box\":\"$BOX\",\"name\":\"$1\"${2:+,$2}}"
    if [ -n "${3-}" ]; then as "$3" POST /v1/registry "$body"; else api POST /v1/registry "$body"; fi
}
install() { # install ENTRY [MORE JSON MEMBERS] [TOKEN]
    local body="{\"entry\":\"$1\"${2:+,$2}}"
    if [ -n "${3-}" ]; then as "$3" POST "$B/skills" "$body"; else api POST "$B/skills" "$body"; fi
}
shown() { j '[.author,.name,.version,.sharing,.description,.tags]|join(" ")'; }
blobs() { ls "$STATE/skills/blobs" 2> /dev/null | wc -l; }

# ---- publish, install ----
skill_make pdf one 'tags: [paper, print]'
publish pdf
is 'published, as its own file says' "$STATUS $(shown)" '201 default pdf 1 public does one paper,print'
is 'with its size, its files and where it is from' "$(j '[.type,.files]|join(" ")') $(j .bytes)" \
    "skill 2 $(printf \
    -- '---\nname: Shown pdf\ndescription: does one\ntags: [paper, print]\n---\nbody one\n#!/bin/sh\necho one\n' |
    wc -c)"
first=$(j .id) first_sha=$(j .sha256)
like 'and a SHA-256' "$first_sha" '^[0-9a-f]{64}$'
is 'which is that of what is kept' "$(sha256sum < "$STATE/skills/blobs/$first_sha.tar" | cut -d' ' -f1)" "$first_sha"
is 'closed to others' "$(stat -c %a "$STATE/registry.db" "$STATE/skills/blobs/$first_sha.tar" | tr '\n' ' ')" '600 600 '
publisher=$BOX
box_new '"user":"other"'
install pdf
is 'installed into another box' "$STATUS $(j .path) $(j .version)" "201 $(api GET "$B"; j .workspace)/skills/pdf 1"
run 'cat skills/pdf/SKILL.md | head -2 | tail -1; skills/pdf/scripts/go.sh; ls -A skills; stat -c "%a %U" skills/pdf '\
'skills/pdf/SKILL.md skills/pdf/scripts/go.sh | cut -d" " -f1 | tr "\n" " "'
is 'whole, with its modes, and nothing beside it' "$OUT" $'name: Shown pdf\none\npdf\n755 644 755 '
install pdf
is_error 'a second time: it is there' 409 EXISTS "skill 'pdf' is already installed"
run 'echo mine > skills/pdf/extra; echo changed > skills/pdf/SKILL.md'
install pdf
is_error 'also when it was changed since' 409 EXISTS
run 'cat skills/pdf/SKILL.md skills/pdf/extra'
is 'and nothing of it is touched' "$OUT" $'changed\nmine'
install pdf '"replace":true'
run 'cat skills/pdf/SKILL.md | tail -1; ls -A skills/pdf skills | tr "\n" " "'
is 'replaced whole: what was added is gone, nothing else is there' "$STATUS $OUT" \
    $'200 body one\nskills: pdf  skills/pdf: SKILL.md scripts '
installer=$BOX
# its name was not looked at, and '..' removed what lies above
for name in .. . '' 'a%2Fb' .hidden '..%2Fagents' 'a%5Cb' 'x%00'; do
    api DELETE "$B/skills/$name"
    like "uninstall of '$name' is refused" "$STATUS" '^(400|404|405)$'
done
run 'ls -A skills'
is 'and nothing is gone' "$OUT" pdf
api DELETE "$B/skills/pdf"
is 'uninstalled' "$STATUS" 204
api DELETE "$B/skills/pdf"
is_error 'once' 404 NOT_FOUND "skill 'pdf' is not installed"

# ---- sub-agents ----
box_use "$publisher"
run 'mkdir -p agents; printf -- "---\nname: reviewer\ndescription: reads twice\ntools:\n  - Read\n---\nYou review.\n" '\
'> agents/reviewer.md; echo "no front matter" > agents/bad.md; printf -- "---\nname: big\n---\n" > agents/big.md; '\
'head -c 70000 /dev/zero | tr "\0" x >> agents/big.md; ln -s reviewer.md agents/linked.md'
publish reviewer '"type":"agent"'
is 'a sub-agent is published' "$STATUS $(j .type) $(j .files) $(shown)" \
    '201 agent 1 default reviewer 1 public reads twice '
publish bad '"type":"agent"'
is_error 'one that is none is not' 400 INVALID "not a sub-agent's file"
publish big '"type":"agent"'
is_error 'nor one that is too large' 413 TOO_LARGE
publish linked '"type":"agent"'
is_error 'nor a link' 400 INVALID
publish nobody '"type":"agent"'
is_error 'nor one that is not there' 404 NOT_FOUND "the box has no agent 'nobody'"
box_use "$installer"
api POST "$B/agents" '{"entry":"reviewer"}' # in a fresh workspace: its folder is made
run 'cat agents/reviewer.md; ls -A agents'
is 'and installed where no folder was' "$STATUS $OUT" \
    $'200 ---\nname: reviewer\ndescription: reads twice\ntools:\n  - Read\n---\nYou review.\nreviewer.md'
api POST "$B/agents" '{"entry":"reviewer"}'
is_error 'once' 409 EXISTS "agent 'reviewer' is already installed"
api POST "$B/skills" '{"entry":"reviewer"}'
is_error 'as what it is' 404 NOT_FOUND
api DELETE "$B/agents/reviewer"
is 'uninstalled' "$STATUS" 204
api DELETE "$B/agents/reviewer"
is_error 'a sub-agent that is not there' 404 NOT_FOUND "agent 'reviewer' is not installed"
box_use "$publisher"
skill_make reviewer r
publish reviewer
is 'a skill may have the same name' "$STATUS $(j .type)" '201 skill'
api GET /v1/registry/reviewer
is_error 'then a name alone does not tell' 400 INVALID 'the name is ambiguous'
api GET '/v1/registry/reviewer?type=agent'
is 'its type does' "$(j .type)" agent

# ---- what lies in a box is hostile ----
run 'mkdir -p skills/links/sub; echo "# L" > skills/links/SKILL.md; echo data > skills/links/sub/file; ln -s sub/file '\
'skills/links/inner; ln skills/links/sub/file skills/links/hard; ln -s sub skills/links/dir'
publish links
is 'links that stay inside are published as what they lead to' "$STATUS" 201
is 'as files of their own' "$(tar tvf "$STATE/skills/blobs/$(j .sha256).tar" | awk '{ print $1, $6 }' | tr '\n' ' ')" \
    'drwxr-xr-x links -rw-r--r-- links/SKILL.md drwxr-xr-x links/dir -rw-r--r-- links/dir/file -rw-r--r-- links/hard '\
'-rw-r--r-- links/inner drwxr-xr-x links/sub -rw-r--r-- links/sub/file '
is 'with their contents' "$(tar xOf "$STATE/skills/blobs/$(j .sha256).tar" links/inner links/hard links/dir/file)" \
    $'data\ndata\ndata'
for target in /etc/passwd ../pdf/SKILL.md ../../x sub/../../pdf/SKILL.md gone; do
    run "rm -rf skills/out; mkdir -p skills/out; echo '# O' > skills/out/SKILL.md; ln -s $target skills/out/leak"
    publish out
    is_error "a link to $target is refused by name" 400 INVALID leak
done
run 'rm -rf skills/out; mkdir -p skills/out; echo "# O" > skills/out/SKILL.md; mkfifo skills/out/pipe'
publish out
is 'what is no file is left out' "$STATUS $(j .files)" '201 1'
api DELETE /v1/registry/out
run 'rm -rf skills/out; ln -s pdf skills/out'
publish out
is_error 'and a skill that is a link itself' 400 INVALID
run 'mkdir skills/empty; touch skills/file'
publish empty
is_error 'a folder that says nothing of itself is no skill' 400 INVALID 'no SKILL.md'
publish file
is_error 'nor is a file' 400 INVALID
for name in '../pdf' '..' 'a/b' '.hidden' 'a\\b' 'a\nb' 'x@1' 'a\u202eb' 'a\u200bb'; do
    publish "$name"
    is_error "no name: $name" 400 INVALID
done
is 'nothing of what was refused is kept' \
    "$(ls -A "$STATE/skills/blobs" | grep -c new) $(ls -A "$STATE/skills/staging" | wc -l)" '0 0'
run 'rm -rf skills/out'

# ---- what is kept ----
skill_make twin same
run 'cp -r skills/twin skills/twin2; sed -i s/twin/twin/ skills/twin2/SKILL.md; touch -d 2001-01-01 '\
'skills/twin2/SKILL.md; chmod 600 skills/twin2/SKILL.md'
publish twin
sum=$(j .sha256)
run 'rm -rf skills/keep; mv skills/twin skills/keep; mv skills/twin2 skills/twin'
publish twin
is 'the same files have the same SHA-256, whatever their times and rights' "$(j .sha256) $(j .version)" "$sum 1"
cp "$STATE/skills/blobs/$sum.tar" "$WORK/blob"
printf x | dd of="$STATE/skills/blobs/$sum.tar" bs=1 seek=1500 conv=notrunc status=none
box_use "$installer"
install twin
is_error 'a blob that was damaged is not installed' 500 IO 'damaged'
run 'ls -A skills | wc -l'
is 'nothing of it is in the box' "$OUT" 0
run 'mkdir skills/twin; echo old > skills/twin/SKILL.md'
install twin '"replace":true'
is_error 'nor does it take the place of what is there' 500 IO
run 'cat skills/twin/SKILL.md; ls -A skills'
is 'which stays' "$OUT" $'old\ntwin'
rm "$STATE/skills/blobs/$sum.tar"
install twin '"replace":true'
is_error 'nor one that is gone' 404 NOT_FOUND
box_use "$publisher"
publish twin
box_use "$installer"
install twin '"replace":true'
is 'published again, it is whole' "$STATUS $(cmp "$WORK/blob" "$STATE/skills/blobs/$sum.tar" && echo same)" '201 same'
api POST "$B/skills" '{"entry":"twin","replace":true,"extra":1}'
is_error 'unknown members are refused' 400 INVALID extra

# ---- at the same time ----
box_use "$publisher"
skill_make race r
together() { # together NUMBER METHOD PATH BODY: each answer's status, counted
    local i pids=()
    rm -f "$WORK"/together.*
    for ((i = 0; i < $1; i++)); do
        curl -s --max-time 60 --unix-socket "$SOCKET" -X "$2" -d "$4" -o /dev/null -w '%{http_code}\n' \
            "http://localhost$3" > "$WORK/together.$i" &
        pids+=($!)
    done
    wait "${pids[@]}"
    sort "$WORK"/together.* | uniq -c | tr -s ' \n' ' '
}
is 'many publish the same: all have it' "$(together 6 POST /v1/registry "{\"box\":\"$BOX\",\"name\":\"race\"}")" \
    ' 6 201 '
api GET '/v1/registry?versions=1&q=race'
is 'and it is one version' "$(j .total)" 1
box_use "$installer"
is 'many install the same: one does' "$(together 6 POST "$B/skills" '{"entry":"race"}')" ' 1 201 5 409 '
is 'many replace it: all do, in turn' "$(together 4 POST "$B/skills" '{"entry":"race","replace":true}')" ' 4 201 '
run 'ls -A skills; skills/race/scripts/go.sh'
is 'and it is whole, with nothing beside it' "$OUT" $'race\ntwin\nr'

for entry in 'reviewer?type=agent' reviewer links twin race; do api DELETE "/v1/registry/$entry"; done
is 'unpublished' "$STATUS $(blobs)" '204 1'
if [ "$BACKEND" != jail ]; then
    skip 'versions, search, users' 'they are the same on every backend'
    api DELETE /v1/registry/pdf
    return
fi

# ---- versions ----
box_use "$publisher"
publish pdf
is 'the same content again is the same entry' "$STATUS $(j .id) $(j .version)" "201 $first 1"
publish pdf '"description":"better words","tags":"x"'
is 'what is said about it may change' "$(j .id) $(shown)" "$first default pdf 1 public better words x"
skill_make pdf two
publish pdf
is 'another content is the next version' "$STATUS $(j .version)" '201 2'
second=$(j .id)
skill_make pdf three
publish pdf '"version":"1"'
is_error 'a version never becomes another content' 409 EXISTS \
    'version 1 of skill .pdf. was published with other content'
publish pdf '"version":"2.0-rc+1"'
is 'versions have names' "$STATUS $(j .version)" '201 2.0-rc+1'
skill_make pdf four 'version: 2.1'
publish pdf
is "its own file's version counts" "$STATUS $(j .version)" '201 2.1'
skill_make pdf five
publish pdf
is 'the next number is above the numbers' "$STATUS $(j .version)" '201 3'
for version in 'a b' '../1' 'x@y' 'a/b' ''; do
    publish pdf "\"version\":\"$version\""
    is_error "no version: '$version'" 400 INVALID
done
api GET '/v1/registry'
is 'the list has the newest of each' "$(j '[.total,(.entries|length),.entries[0].version]|join(" ")')" '1 1 3'
api GET '/v1/registry?versions=1'
is 'or all versions' "$(j '[.entries[].version]|sort|join(" ")')" '1 2 2.0-rc+1 2.1 3'
api GET '/v1/registry?versions=1&limit=2&offset=1'
is 'page by page' "$(j '[.total,(.entries|length)]|join(" ")')" '5 2'
for entry in "$first" pdf@1 "pdf@1?author=default"; do
    api GET "/v1/registry/$entry"
    is "found by $entry" "$STATUS $(j .id)" "200 $first"
done
api GET '/v1/registry/pdf?author=default'
is 'without a version the newest' "$(j .version)" 3
for entry in nothing pdf@9 'pdf?author=ann' 999999 'pdf?type=agent'; do
    api GET "/v1/registry/$entry"
    is_error "not there: $entry" 404 NOT_FOUND
done
for entry in 'pdf@' '@1' 'pdf?author=a%2Fb' 'pdf?author='; do
    api GET "/v1/registry/$entry"
    is_error "no entry's name: $entry" 400 INVALID
done
box_use "$installer"
install pdf@2 '"replace":true'
run 'skills/pdf/scripts/go.sh'
is 'an older version is installed as it was' "$STATUS $OUT" '200 two'
api DELETE "$B/skills/pdf"

# ---- search ----
box_use "$publisher"
skill_make word w 'description: Writes 100%_letters' 
publish word '"description":"Writes 100%_letters, Größe"'
search() { api GET "/v1/registry?q=$(encode "$1")"; j '[.entries[].name]|join(" ")'; }
is 'search by name, in any case' "$(search PD)" pdf
is 'by description' "$(search letters)" word
is 'by tag' "$(publish pdf '"tags":"paper,print"'; search 'PRINT')" pdf
is 'what is asked for is no pattern' "$(search '%')|$(search '_')|$(search 'w%d')|$(search "x' OR 1=1 --")" \
    'word|word||'
is 'in other letters too' "$(search Größe)" word
is 'the newest first; nothing asked: all' "$(search '')" 'pdf word'
for query in 'limit=0' 'limit=1001' 'type=thing' 'what=1' 'offset=-1'; do
    api GET "/v1/registry?$query"
    is_error "refused: $query" 400 INVALID
done

# ---- unpublish ----
: > "$STATE/skills/blobs/$(printf '0%.0s' {1..64}).tar"
: > "$STATE/skills/blobs/.new-old"
: > "$STATE/skills/blobs/.new-now"
touch -d '2 hours ago' "$STATE/skills/blobs/.new-old"
api DELETE /v1/registry/word
is 'what a daemon that was killed left is swept' "$(cd "$STATE/skills/blobs" && ls -A | grep -e new -e 0000000000)" \
    .new-now
rm "$STATE/skills/blobs/.new-now"
before=$(blobs)
api DELETE /v1/registry/pdf@2
api GET '/v1/registry?versions=1'
is 'one version is taken back' "$(j '[.entries[].version]|sort|join(" ")') $(($(blobs) - before))" '1 2.0-rc+1 2.1 3 -1'
api DELETE /v1/registry/pdf
is 'or all of them' "$STATUS" 204
api GET '/v1/registry?versions=1'
is 'and nothing is kept of them' "$(j .total) $(blobs)" '0 0'
api DELETE /v1/registry/pdf
is_error 'what is not there' 404 NOT_FOUND
run 'cat skills/twin/SKILL.md | tail -1'
is 'what was installed stays' "$OUT" 'body same'
box_use "$publisher"
skill_make pdf again
publish pdf
third=$(j .id)
isnt 'an id is never used again' "$third" "$first"
kill -KILL "$DAEMON_PID"; wait "$DAEMON_PID" 2> /dev/null
start_daemon "$program" || fail 'the daemon comes back'
api GET /v1/registry/pdf
is 'entries outlive a daemon that was killed' "$STATUS $(j .id)" "200 $third"
mv "$STATE/registry.db" "$WORK/registry.db"
api GET /v1/registry
is 'a registry that was taken away is empty, and nothing kept goes with it' "$STATUS $(j .total) $(blobs)" '200 0 1'
mv "$WORK/registry.db" "$STATE/registry.db"
api GET /v1/registry
is 'put back, it has what it had' "$STATUS $(j .total) $(blobs)" '200 1 1'
api DELETE /v1/registry/pdf

# ---- users ----
write_tokens "$WORK/tokens.yaml"
printf 'skill_unpacked_bytes: 100000\nskill_upload_entries: 50\nskill_wait_ms: 200\n' >> "$WORK/tokens.yaml"
second_start "$WORK/tokens.yaml" "$program" || fail 'a daemon that demands tokens'
own_box() { as "$1" POST /v1/boxes "{\"backend\":\"$BACKEND\",\"thread\":\"$1\"}"; box_use "$(j .id)"; }
as_skill() { # as_skill USER NAME TEXT [FRONT]: made in his box
    as "$1" POST "$B/exec" \
        "{\"command\":\"mkdir -p skills/$2; printf -- '---\\\\ndescription: d\\\\n${4-}---\\\\n$3\\\\n' > "\
"skills/$2/SKILL.md\"}"
}
said() { as "$1" POST "$B/exec" '{"command":"tail -1 skills/*/SKILL.md"}'; j .stdout; }
own_box bob
as bob POST "$B/exec" \
    '{"command":"mkdir -p skills/large skills/many; echo x | tee skills/large/SKILL.md > skills/many/SKILL.md; head '\
'-c 100001 /dev/zero > skills/large/zeros; cd skills/many; for i in $(seq 50); do : > $i; done"}'
publish large '' bob
is_error 'what is too large is refused' 413 TOO_LARGE zeros
publish many '' bob
is_error 'and what has too many files' 413 TOO_LARGE 50
is 'and nothing of it is kept' \
    "$(ls -A "$STATE/skills/blobs" 2> /dev/null | wc -l) $(ls -A "$STATE/skills/staging" | wc -l)" '0 0'
as bob POST "$B/exec" '{"command":"rm -r skills/large skills/many"}'
as_skill bob tool bobs
publish tool '"sharing":"private"' bob
is "bob's private entry" "$STATUS $(j .author) $(j .sharing)" '201 bob private'
hidden=$(j .id)
own_box ann
as_skill ann tool anns
publish tool '' ann
is 'a private entry of somebody else takes no name' "$STATUS $(j .author) $(j .sharing)" '201 ann public'
as ann GET /v1/registry
is 'nobody sees it' "$(j '[.entries[].author]|join(" ")')" ann
as admin GET /v1/registry
is 'but admins' "$(j '[.entries[].author]|sort|join(" ")')" 'ann bob'
own_box bob
as bob GET '/v1/registry'
is 'its author does, and what is shared' "$(j '[.entries[].author]|sort|join(" ")')" 'ann bob'
as bob GET '/v1/registry?mine=1'
is 'or only his own' "$(j '[.entries[].author]|join(" ")')" bob
own_box ann
for entry in "$hidden" bob/tool bob/tool@1; do
    install "$entry" '' ann
    is_error "sharing is looked at: a private entry cannot be installed by $entry" 404 NOT_FOUND
    as ann DELETE "/v1/registry/${entry#*/}$([[ $entry != */* ]] || echo "?author=bob")"
    is_error "nor unpublished" 404 NOT_FOUND
done
own_box bob
as bob POST "$B/exec" '{"command":"rm -rf skills"}'
install ann/tool '' bob
is "a name is one thing for each author: ann's" "$(said bob)" anns
install bob/tool '"replace":true' bob
is "and bob's" "$(said bob)" bobs
install tool '"replace":true' bob
is "a private one of one's own is meant before somebody else's" "$(said bob)" bobs
publish tool '"sharing":"public"' bob
is_error 'a name that is shared is its author'"'"'s' 409 EXISTS "published by 'ann'"
as_skill bob TooL bobs
publish TooL '' bob
is_error 'also in other letters' 409 EXISTS "published by 'ann'"
as bob POST "$B/exec" '{"command":"rm -r skills/TooL"}'
curl -s --unix-socket "$SOCKET" -H 'Authorization: Bearer bob-token-0123456789abcdef00' "http://localhost$B/exec" \
    -o "$WORK/command" \
    -d '{"command":"touch running; while [ ! -e stop ]; do sleep 0.05; done; tail -1 skills/tool/SKILL.md"}' &
command=$!
began() { curl -sf --unix-socket "$SOCKET" -H 'Authorization: Bearer bob-token-0123456789abcdef00' \
    "http://localhost$B/stat?path=running"; }
eventually 20 began
install ann/tool '"replace":true' bob
is_error 'nothing is replaced under a command' 503 BUSY
as bob DELETE "$B/skills/tool"
is_error 'or taken from it' 503 BUSY
as bob PUT "$B/files?path=stop"
wait "$command"
is 'which has what it began with' "$(jq -r .stdout "$WORK/command")" bobs
install ann/tool '"replace":true' bob
is 'afterwards it is replaced' "$(said bob)" anns
as bob DELETE '/v1/registry/tool?author=ann'
is_error "somebody else's is not unpublished" 403 DENIED "only that user or an admin"
as eye DELETE '/v1/registry/tool?author=ann'
is_error 'not by a token that may only read' 403 DENIED
publish tool '' eye
is_error 'which publishes nothing' 403 DENIED
publish tool '"version":"9"' ann
is_error "nobody publishes from a box that is not his" 404 NOT_FOUND
install tool '' ann
is_error 'or installs into it' 404 NOT_FOUND
as_skill bob signed x 'author: ann\\n'
publish signed '' bob
is_error 'what its file says is by somebody else is not published' 403 DENIED "names 'ann' as the author"
publish signed '' admin
is 'but by an admin, for the owner of the box' "$STATUS $(j .author)" '201 bob'
as_skill bob secret s 'sharing: private\\n'
publish secret '' bob
is 'a file may say that it is private' "$STATUS $(j .sharing)" '201 private'
as admin GET '/v1/registry/tool?author=ann'
is 'an admin sees all' "$STATUS" 200
as admin DELETE '/v1/registry/tool?author=ann'
is 'and may unpublish' "$STATUS" 204
publish tool '"sharing":"public"' bob
is 'then the name is free' "$STATUS $(j .author) $(j .sharing)" '201 bob public'
api GET /v1/registry
is_error 'nothing without a token' 401 UNAUTHORIZED
as admin GET '/v1/boxes'
for id in $(j '.boxes[].id'); do as admin DELETE "/v1/boxes/$id"; done
second_end
is 'the second daemon ends in order' $? 0
