# A tree ten thousand levels deep, and paths of 4095 bytes: no call recurses to death, and deleting leaves nothing.
# wall: walks and removals keep a list instead of a stack of calls, and hold no descriptor for every level

upload tool "$TOOL" '&mode=0755'
run 'mkdir d e && ./tool deep d 10000 && echo x > e/f' '"timeout_ms":60000'
is 'ten thousand levels' "$CODE" 0
api GET "$B/list?path=d&depth=64"
is 'a list goes as deep as it may' "$STATUS $(j '"\(.entries|length) \(.truncated)"')" '200 64 false'
api POST "$B/glob" '{"path":"d","pattern":"**","include_dirs":true,"limit":100000}'
is 'a glob says what it left out' "$STATUS $(j .truncated)" '200 true'
between 'of what has a path' "$(j '.paths|length')" 1000 2100
api POST "$B/grep" '{"path":"d","pattern":"x"}'
is 'grep as well' "$STATUS $(j '"\(.matches|length) \(.truncated)"')" '200 0 true'
api GET "$B/archive?path=d"
like 'an archive of it fails, and does not pretend' "$STATUS" '^(413|curl-18.*)$'
api POST "$B/move" '{"from":"d","to":"e/d"}'
is 'it can be moved' "$STATUS" 204
curl -sN --max-time 100 --unix-socket "$SOCKET" "http://localhost$B/watch?path=e&recursive=1" > "$WORK/watched" &
watcher=$!
ok 'watched, as deep as paths go' eventually 60 grep -q '^event: ready' "$WORK/watched"
put e/new x
ok 'and what changes in it is told' eventually 20 grep -q 'e/new' "$WORK/watched"
kill "$watcher"
wait "$watcher" 2> /dev/null
now_ms; start=$NOW
api DELETE "$B/files?path=e&recursive=1"
now_ms
is 'and removed' "$STATUS" 204
between 'in good time' $((NOW - start)) 0 60000
run 'ls -A'
is 'with nothing left' "$OUT" tool

# 4095 bytes: a name at the very end of what a path may be
part=$(printf 'p%.0s' {1..199})
dir=/workspace
for _ in {1..20}; do dir+=/$part; done # 10 + 20 * 200 = 4010
file=$dir/$(printf 'f%.0s' {1..84})
is 'a path of 4095 bytes' ${#file} 4095
put "$file" 'at the end' '&parents=1'
is 'is written' "$STATUS" 201
get "$file"
is 'and read' "$STATUS $BODY" '200 at the end'
api GET "$B/stat?path=$file"
is 'looked at' "$STATUS $(j .size)" '200 10'
api GET "$B/hash?path=$file"
is 'hashed' "$STATUS" 200
api POST "$B/edit" "{\"path\":\"$file\",\"old\":\"end\",\"new\":\"END\"}"
is 'edited' "$STATUS" 200
api POST "$B/grep" '{"pattern":"END"}'
is 'found by grep' "$(j '.matches[0].path')" "$file"
api POST "$B/glob" '{"pattern":"**/fff*"}'
is 'and by glob' "$(j '.paths[0]')" "$file"
api GET "$B/list?path=$dir"
is 'listed' "$(j '.entries[0].path')" "$file"
api GET "$B/archive?path=/workspace"
is 'packed' "$STATUS" 200
cp "$WORK/body" "$WORK/long.tar"
run 'rm -rf ppp*; mkdir in'
api PUT "$B/archive?path=/workspace" '' -T "$WORK/long.tar"
is 'and unpacked' "$STATUS" 200
get "$file"
is 'as it was' "$STATUS $BODY" '200 at the END'
put "${file}f" x
is_error 'a byte more' 400 INVALID
api PUT "$B/archive?path=in" '' -T "$WORK/long.tar"
is 'unpacked where it is too long for a path' "$STATUS" 200
run 'cd in && find . -name "fff*" -execdir cat {} \;'
is 'it is there, whole' "$OUT" 'at the END'
api DELETE "$B/files?path=$file"
is 'removed' "$STATUS" 204

# and again for whoever deletes the box
run 'mkdir d d2 && ./tool deep d 10000 && ./tool deep d2 3000' '"timeout_ms":60000'
is 'once more' "$CODE" 0
