# Searches that would never end: catastrophic patterns, globs of stars, files of holes, trees without a bottom.
# wall: a time budget for each search, ended by the worker's own clock; what was found so far is the answer and says so

took() { now_ms; TOOK=$((NOW - start)); }
begin() { now_ms; start=$NOW; }
run 'mkdir re; for i in 1 2 3 4 5 6 7 8; do head -c 200000 /dev/zero | tr "\0" a > re/f$i; echo b >> re/f$i; done; '\
'echo needle > re/0first'
for pattern in '(a+)+$' '(a|a)*$' '(a|aa)+$' '(.*)*x' '^(([a-z])+.)+[A-Z]([a-z])+$' '(?:(?:(?:a*)*)*)*c' '(a*)*\\1c' \
    '(?R)?a(?R)?c'; do
    begin
    json_string "$pattern"
    API_SECONDS=30 api POST "$B/grep" "{\"path\":\"re\",\"pattern\":\"${pattern//\\\\/\\\\}\",\"timeout_ms\":2000}"
    took
    like "the pattern $pattern" "$STATUS" '^(200|400)$'
    between "$pattern ends with its time" "$TOOK" 0 8000
done
begin
API_SECONDS=30 api POST "$B/grep" '{"path":"re","pattern":"needle|(a|aa)+$","timeout_ms":1500}'
took
is 'what was found before is in the answer' "$STATUS $(j '.matches[0].text')" '200 needle'
like 'a pattern that gave up, or a search that did, says so' "$(j '"\(.timed_out) \(.files_searched)"')" \
    '^(true [0-9]+|false 9)$'
begin
api POST "$B/grep" "{\"path\":\"re\",\"pattern\":\"$(printf '(%.0s' {1..2000})\"}"
is_error 'two thousand brackets' 400 INVALID
api POST "$B/grep" '{"path":"re","pattern":"a{65000}{65000}"}'
is_error 'a count of counts' 400 INVALID
took
between 'at once' "$TOOK" 0 5000

# a file of ten gigabytes of nothing, and one that says it is text first
run 'truncate -s 10G holes; { head -c 10000 /dev/zero | tr "\0" t; echo needle; } > text; truncate -s 10G text; ls -l '\
'holes text | wc -l'
begin
API_SECONDS=30 api POST "$B/grep" '{"path":"holes","pattern":"x"}'
took
is 'a binary file is not searched' "$STATUS $(j '"\(.matches|length) \(.files_searched) \(.timed_out)"')" \
    '200 0 0 false'
between 'its size does not matter' "$TOOK" 0 3000
begin
API_SECONDS=30 api POST "$B/grep" '{"path":"text","pattern":"needle","timeout_ms":1000,"literal":true}'
took
is 'ten gigabytes of text' "$STATUS $(j '.matches|length')" '200 1'
is 'are searched for so long as the time goes' "$(j .timed_out)" true
between 'and no longer' "$TOOK" 900 5000
run 'rm holes text'

# stars
upload tool "$TOOL" '&mode=0755'
run 'mkdir stars; cd stars; for a in 1 2 3 4 5 6; do for b in 1 2 3 4 5 6; do mkdir -p $a/$b/x/y/z; done; done; mkdir '\
'deep && ../tool deep deep 1500 && ../tool many 1/1 3000'
is 'a tree of many ways' "$CODE" 0
for pattern in '**/**/**/**/**/**/**/**/**/**/none' '**/*/**/*/**/*/**/*/none' '*a*a*a*a*a*a*a*a*a*a*a*b' \
    '**/{a,b,{c,d}}{e,f}*/**' '[!a]*[!b]*[!c]*[!d]*none' "$(printf '**/%.0s' {1..200})none"; do
    begin
    API_SECONDS=60 api POST "$B/glob" "{\"path\":\"stars\",\"pattern\":\"$pattern\"}"
    took
    like "the glob ${pattern:0:60}" "$STATUS $(j '.paths|length')" '^(200 0|400 0)$'
    between 'ends' "$TOOK" 0 20000
done
api POST "$B/glob" "{\"path\":\"stars\",\"pattern\":\"$(printf '{a,b}%.0s' {1..40})\"}"
is_error 'alternatives of alternatives' 400 INVALID
begin
API_SECONDS=30 api POST "$B/glob" '{"path":"/","pattern":"**/none/**/none","timeout_ms":1}'
took
is 'a glob without time' "$STATUS $(j '"\(.timed_out) \(.truncated)"')" '200 true true'
between 'ends at once' "$TOOK" 0 3000
