# Names that look alike, run backwards, are not UTF-8 or steer a terminal: every byte comes back as it was.
# wall: names are bytes; what JSON cannot carry is base64 with "encoding" beside it, both ways

# name, as printf has it
NAMES=('cafe\314\201' 'caf\303\251' '\342\200\256txt.exe' '\320\260pple' 'apple' '\300\257etc' '\377\376' 'new\nline' \
    '\033]52;c;ZXZpbA==\007' '\033[2J' 'a\rb' 'quo"te' "apo'strophe" 'back\\slash' 'tab\there' ' blank ' '-rf' '*' \
    '$(id)' '\342\200\213' '\355\240\200')
run 'mkdir n; mkdir other'
for name in "${NAMES[@]}"; do
    printf -- "$name" > "$WORK/name"
    hex=$(od -An -tx1 -v "$WORK/name" | tr -d ' \n')
    path=n/$(printf -- "$name" | od -An -tx1 -v | tr -d '\n' | sed 's/ /%/g')
    base64=$( (printf n/; printf -- "$name") | base64 -w0)
    moved=$( (printf other/; printf -- "$name") | base64 -w0)
    printf -- "$name" > "$WORK/content"
    api PUT "$B/files?path=$path" '' --data-binary "@$WORK/content"
    is "made: $hex" "$STATUS" 201
    api GET "$B/files?path=$path"
    ok "read: $hex" cmp "$WORK/body" "$WORK/content"
    api GET "$B/stat?path=$path"
    is "stat: $hex" "$(if [ "$(j .encoding)" = base64 ]; then j .name |
        base64 -d; else jq -j .name < "$WORK/body"; fi | od -An -tx1 -v | tr -d ' \n')" "$hex"
    api POST "$B/edit" "{\"encoding\":\"base64\",\"path\":\"$base64\",\"old\":\"$(base64 -w0 \
        < "$WORK/content")\",\"new\":\"eA==\"}"
    is "edited: $hex" "$STATUS $(j .replacements)" '200 1'
    api POST "$B/move" "{\"encoding\":\"base64\",\"from\":\"$base64\",\"to\":\"$moved\"}"
    is "moved: $hex" "$STATUS" 204
    api POST "$B/move" "{\"encoding\":\"base64\",\"from\":\"$moved\",\"to\":\"$base64\"}"
    api POST "$B/grep" "{\"encoding\":\"base64\",\"path\":\"$base64\",\"pattern\":\"eA==\"}"
    is "grep: $hex" "$(if [ "$(j '.matches[0].encoding')" = base64 ]; then j '.matches[0].path' |
        base64 -d; else jq -j '.matches[0].path' < "$WORK/body"; fi | od -An -tx1 -v | tr -d ' \n')" \
        "$(printf /workspace/n/ | od -An -tx1 -v | tr -d ' \n')$hex"
    jq -e . < "$WORK/body" > /dev/null || fail "the answer is JSON: $hex"
done
want=$(for name in "${NAMES[@]}"; do printf -- "$name" | od -An -tx1 -v | tr -d ' \n'; echo; done | sort)
run 'cd n; for f in * ; do printf %s "$f" | od -An -tx1 -v | tr -d " \n"; echo; done'
is 'the box has these names and no others' "$(sort <<< "$OUT")" "$want"
hexes() { while IFS= read -r word; do base64 -d <<< "$word" | od -An -tx1 -v | tr -d ' \n'; echo; done | sort; }
api GET "$B/list?path=n"
is 'a list says each in its own encoding' \
    "$(j '.entries[]|if .encoding == "base64" then .name else .name|@base64 end' | hexes)" "$want"
is 'and only where it must' "$(j '[.entries[]|select(.encoding == "base64")]|length')" 3
api POST "$B/glob" '{"path":"n","pattern":"*"}'
is 'a glob in one for all' \
    "$(j .encoding) $(j '.paths[]' | while IFS= read -r word; do base64 -d <<< "$word" | tail -c +14 |
    od -An -tx1 -v | tr -d ' \n'; echo; done | sort | tr '\n' ' ')" \
    "base64 $(tr '\n' ' ' <<< "$want")"
api GET "$B/archive?path=n"
cp "$WORK/body" "$WORK/n.tar"
mkdir "$WORK/n"
tar -C "$WORK/n" -xf "$WORK/n.tar"
is 'an archive has them' \
    "$(cd "$WORK/n" && for f in *; do printf %s "$f" | od -An -tx1 -v | tr -d ' \n'; echo; done | sort)" "$want"
api POST "$B/mkdir" '{"encoding":"base64","path":"bv8="}' # n\xff
is 'a directory by base64' "$STATUS" 204
api PUT "$B/archive?path=n%ff" '' -T "$WORK/n.tar"
run 'cd n?; ls | wc -l; cd ..; rm -r n?'
like 'and an archive unpacked into it' "$OUT" '^2[0-9]'

# errors, events and refusals
get '%FF%1B]0;x%07'
api GET "$B/files?path=%FFnone%1B%0A"
is_error 'an error that names such a file' 404 NOT_FOUND
ok 'is JSON' jq -e . "$WORK/body"
for body in '{"encoding":"base64","path":"***"}' '{"encoding":"base64","path":"YQ"}' \
    '{"encoding":"utf-16","path":"x"}' '{"encoding":"base64","path":"YQBi"}' '{"encoding":"base64","path":""}'; do
    api POST "$B/mkdir" "$body"
    is_error "refused: $body" 400 INVALID
done
printf '{"path":"\xff"}' > "$WORK/bad"
api POST "$B/mkdir" '' --data-binary "@$WORK/bad" -H 'Content-Type: application/json'
is_error 'raw bytes in JSON are refused' 400 INVALID
ok 'the log keeps each request on its line' test "$(grep -c $'\033' "$WORK/daemon.log")" = 0
