# glob, grep and hash.
# by default: jail local remote

run 'mkdir -p src/deep/er .hidden empty; cd src; echo "int main(void)" > a.c; echo "Int x; int y;" > b.h; echo int > '\
'deep/c.c; echo none > deep/er/d.c; ln -s ../src deep/loop; printf "int\0binary int\n" > bin.dat; echo int > '\
'../.hidden/h.c'

globs() { # globs PATTERN [MEMBERS] -> sorted paths
    json_string "$1"
    api POST "$B/glob" "{\"pattern\":$JSON_STRING${2:+,$2}}"
    j '.paths|sort|join(" ")'
}
is 'one star' "$(globs 'src/*.c')" '/workspace/src/a.c'
is 'stars across directories' "$(globs 'src/**/*.c')" \
    '/workspace/src/a.c /workspace/src/deep/c.c /workspace/src/deep/er/d.c'
is 'a question mark' "$(globs 'src/?.h')" '/workspace/src/b.h'
is 'a class' "$(globs 'src/[ab].[ch]')" '/workspace/src/a.c /workspace/src/b.h'
is 'a negated class' "$(globs 'src/[!a].?')" '/workspace/src/b.h'
is 'from a path' "$(globs '*.c' '"path":"src/deep"')" '/workspace/src/deep/c.c'
is 'directories are left out' "$(globs 'src/*e*')" ''
is 'unless asked for' "$(globs 'src/d*' '"include_dirs":true')" '/workspace/src/deep'
is 'nothing matches' "$(globs '*.none')" ''
is 'no match is 200' "$STATUS" 200
globs '**' '"limit":2' > /dev/null
is 'limit' "$(j '[(.paths|length),.truncated]|tostring')" '[2,true]'
globs '' > /dev/null
is_error 'an empty pattern' 400 INVALID pattern
globs '*' '"path":"nowhere"' > /dev/null
is_error 'from nowhere' 404 NOT_FOUND
globs "$(printf '**/%.0s' {1..60})x" > /dev/null
is 'many stars are quick' "$STATUS" 200
globs "$(printf 'x%.0s' {1..5000})" > /dev/null
is_error 'a pattern too long' 400 INVALID

greps() { # greps PATTERN [MEMBERS] -> path:line:text
    json_string "$1"
    api POST "$B/grep" "{\"pattern\":$JSON_STRING${2:+,$2}}"
    j '.matches|map("\(.path):\(.line):\(.text)")|sort|join("|")'
}
is 'a regular expression' "$(greps '^int$' '"path":"src"')" '/workspace/src/deep/c.c:1:int'
is 'a literal' "$(greps 'main(' '"literal":true')" '/workspace/src/a.c:1:int main(void)'
greps 'main(' > /dev/null
is_error 'a bad expression names its fault' 400 INVALID
is 'ignore case' "$(greps 'INT X' '"ignore_case":true,"path":"src"')" '/workspace/src/b.h:1:Int x; int y;'
is 'case counts' "$(greps 'INT X')" ''
is 'a glob chooses files' "$(greps 'int' '"glob":"*.h","path":"src"')" '/workspace/src/b.h:1:Int x; int y;'
is 'one file' "$(greps 'int' '"path":"src/a.c"')" '/workspace/src/a.c:1:int main(void)'
greps 'int' '"path":"src"' > /dev/null
unlike 'binary files are skipped' "$BODY" 'bin\.dat'
between 'files_searched' "$(j .files_searched)" 3 10
is 'complete' "$(j '[.truncated,.timed_out]|tostring')" '[false,false]'
run 'seq 1 20 > numbers.txt; printf "caf\303\251 \303\211t\303\251\n" > utf8.txt; printf "bad \377 bytes\n" > latin.txt'
greps '^10$' '"path":"numbers.txt","context":2' > /dev/null
is 'context' "$(j '.matches[0]|[.before,.text,.after]|tostring')" '[["8","9"],"10",["11","12"]]'
is 'limit' "$(greps '.' '"path":"numbers.txt","limit":3' | tr '|' '\n' | wc -l) $(j .truncated)" '3 true'
is 'letters beyond ASCII' "$(greps 'caf. ' '"path":"utf8.txt"')" $'/workspace/utf8.txt:1:caf\xc3\xa9 \xc3\x89t\xc3\xa9'
is 'letters are those of Unicode' "$(greps '^\w+ \w+$' '"path":"utf8.txt"')" \
    $'/workspace/utf8.txt:1:caf\xc3\xa9 \xc3\x89t\xc3\xa9'
is 'and can be named by number' "$(greps '[\u00c0-\u00ff]\x{20}\u00c9' '"path":"utf8.txt"')" \
    $'/workspace/utf8.txt:1:caf\xc3\xa9 \xc3\x89t\xc3\xa9'
greps 'bad' '"path":"latin.txt"' > /dev/null
is 'bytes that are not UTF-8 come as base64' "$(j '.matches[0]|[.encoding,.text]|tostring')" \
    '["base64","YmFkIP8gYnl0ZXM="]'
run 'head -c 100000 /dev/zero | tr "\0" y > longline.txt; echo needle >> longline.txt'
greps 'needle' '"path":"longline.txt"' > /dev/null
is 'a match in a long line' "$STATUS $(j '.matches|length')" '200 1'
between 'is cut' "$(j '.matches[0].text|length')" 1 4200
run "head -c 30000 /dev/zero | tr '\\0' a > evil.txt; echo ! >> evil.txt"
now_ms; start=$NOW
greps '(a+)+$' '"path":"evil.txt","timeout_ms":2000' > /dev/null
now_ms
like 'a catastrophic expression is bounded' "$STATUS" '^(200|400|504)$'
between 'in time' $((NOW - start)) 0 30000
run 'for i in $(seq 300); do cp evil.txt evil$i.txt; done'
now_ms; start=$NOW
greps '(a|aa)+$' '"timeout_ms":500' > /dev/null
now_ms
between 'over many files, too' $((NOW - start)) 0 30000
run 'rm evil*.txt; echo fine'
is 'the box goes on' "$OUT" fine
greps '' > /dev/null
is_error 'an empty pattern' 400 INVALID pattern
greps 'x' '"context":1000' > /dev/null
is_error 'too much context' 400 INVALID context
greps 'x' '"path":"nowhere"' > /dev/null
is_error 'grep of nothing' 404 NOT_FOUND
run 'mkfifo pipe'
API_SECONDS=5 greps 'int' '"path":"pipe"' > /dev/null
like 'grep of a FIFO does not wait' "$STATUS" '^(200|400)$'
is 'a FIFO in the tree is passed by' "$(API_SECONDS=10 greps 'main')" '/workspace/src/a.c:1:int main(void)'

put h.txt 'hash me'
api GET "$B/hash?path=h.txt"
is 'hash' "$(j '[.sha256,.size]|tostring')" "[\"$(printf 'hash me' | sha256sum | cut -d' ' -f1)\",7]"
put e.txt ''
api GET "$B/hash?path=e.txt"
is 'of nothing' "$(j .sha256)" "$(sha256sum < /dev/null | cut -d' ' -f1)"
api GET "$B/hash?path=src"
is_error 'of a directory' 400 INVALID
API_SECONDS=5 api GET "$B/hash?path=pipe"
is_error 'of a FIFO' 400 INVALID
api GET "$B/hash?path=nowhere"
is_error 'of nothing there' 404 NOT_FOUND
