# A directory of very many entries. WIDE: how many (make fuzz: a million).
# wall: of one directory only as many names are kept as are wanted

wide=${WIDE:-40000}
upload tool "$TOOL" '&mode=0755'
RUN_TIMEOUT_MS=300000 API_SECONDS=310 run "mkdir wide; ./tool many wide $wide .txt; ls -U wide | wc -l"
is "$wide entries" "$OUT" "$wide"
run 'ls wide | LC_ALL=C sort | head -1000 | sha256sum; ls wide | LC_ALL=C sort | sed -n 1000p'
want=$OUT
memory() { api GET "$B" && MEMORY=$(j .usage.memory_bytes); }
now_ms; start=$NOW
api GET "$B/list?path=wide"
now_ms
is 'a list has its thousand and says that there is more' "$STATUS $(j '"\(.entries|length) \(.truncated)"')" \
    '200 1000 true'
is 'the first by name' "$(j '.entries[].name' | sha256sum)"$'\n'"$(j '.entries[999].name')" "$want"
between 'in good time' $((NOW - start)) 0 60000
api POST "$B/glob" '{"path":"wide","pattern":"*.txt"}'
is 'a glob too' "$STATUS $(j '"\(.paths|length) \(.truncated)"')" '200 1000 true'
is 'the same' "$(j '.paths[]|sub("/workspace/wide/";"")' |
    sha256sum)"$'\n'"$(j '.paths[999]|sub("/workspace/wide/";"")')" "$want"
api POST "$B/glob" '{"path":"wide","pattern":"*7777.txt","limit":100}'
is 'a glob for few of them' "$STATUS $(j .truncated)" '200 false'
between 'finds them' "$(j '.paths|length')" $((wide / 10000)) $((wide / 10000))
api GET "$B/list?path=wide&limit=$((wide - 1))"
is 'all but one, asked for' "$STATUS $(j '"\(.entries|length) \(.truncated)"')" "200 $((wide - 1)) true"
api POST "$B/grep" '{"path":"wide","pattern":"x","timeout_ms":60000}'
is 'grep looks into each' "$STATUS $(j '.matches|length')" '200 0'
neighbour_check 'while one box is so full'
now_ms; start=$NOW
API_SECONDS=200 api DELETE "$B/files?path=wide&recursive=1" &
remover=$!
for _ in 1 2 3; do neighbour_check 'while it is emptied'; done
wait "$remover"
gone() { api GET "$B/stat?path=wide" && [ "$STATUS" = 404 ]; }
ok 'all of it is removed by a call' eventually 100 gone
# and by the deletion of a box that holds a hundred thousand
RUN_TIMEOUT_MS=300000 API_SECONDS=310 run "mkdir wide; ./tool many wide 100000 .txt"
