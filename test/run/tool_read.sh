# Tools that read: ls, glob, grep, read_file. Their texts are what models rely on: golden, to the last byte.
# by default: jail local

run pwd
W=${OUT%$'\n'}

# ---- ls ----

run 'mkdir -p tree/a/deep tree/build/inner tree/node_modules/x tree/none && cd tree && echo 1 > a/one.txt && echo 2 > '\
'a/deep/two.txt &&
    echo 3 > top.txt && echo 4 > .hidden && echo 5 > build/five && ln -s top.txt link && touch a/run.log'
tool ls '{"path":"tree"}'
tool_is 'ls: two levels, sorted, directories marked; what is generated is named and not entered' "$W/tree/.hidden
$W/tree/a/
$W/tree/a/deep/
$W/tree/a/one.txt
$W/tree/a/run.log
$W/tree/build/
$W/tree/link
$W/tree/node_modules/
$W/tree/none/
$W/tree/top.txt"
is 'and the same as data' "$(j -c '.structured | [.path, .truncated, (.entries | length), .entries[2]]')" \
    "[\"$W/tree\",false,10,\"$W/tree/a/deep/\"]"
tool ls "{\"path\":\"$W/tree/build\",\"description\":\"look\"}"
tool_is 'a directory with such a name is listed when it is asked for' "$W/tree/build/five
$W/tree/build/inner/"
tool ls '{"path":"tree/none"}'
tool_is 'an empty directory' '(empty)'
tool ls '{"path":"tree/missing"}'
tool_fails 'no such directory' "Error: Directory not found: $W/tree/missing"
tool ls '{"path":"tree/top.txt"}'
tool_fails 'a file is none' "Error: Path is not a directory: $W/tree/top.txt"
tool ls '{"path":7}'
tool_fails 'arguments of the wrong type' "Error: 'path' must be a string, not an integer"
tool ls '{"paht":"x"}'
like 'unknown arguments' "$IS_ERROR $TEXT" "^true Error: unknown .*'paht'"
run 'mkdir secret && touch secret/x && chmod 000 secret'
tool ls '{"path":"secret"}'
case $IS_ERROR in
true) tool_fails 'a directory that may not be read' "Error: Permission denied: $W/secret" ;;
*) skip 'a directory that may not be read' 'commands are root here' ;;
esac
run $'mkdir odd && cd odd && touch "a\nb" $\'bad\\xff\''
tool ls '{"path":"odd"}'
tool_is 'one line a name, whatever it holds' "$W/odd/a\\nb
$W/odd/bad\\xff"

# ---- limits of characters: the middle or the end goes, with the marker within the limit ----

run 'mkdir many && cd many && for i in $(seq 1000 1999); do : > "file-with-a-long-enough-name-$i"; done'
long() { # long TEXT: what of it is left, and how long it is
    KEPT=${1%%$'\n... ['*} MARK=$'\n... ['${1#*$'\n... ['} LENGTH=${#1}
}
tool ls '{"path":"many"}'
like 'what has more than 20,000 characters is kept for recall' "$IS_ERROR $TEXT" '^false .*recall'
is 'its data holds what can be shown' "$(j -c '[.structured.truncated, (.structured.entries | length < 1000)]')" \
    '[true,true]'

# ---- glob ----

run 'mkdir -p g/src/sub/deeper g/x/src g/build/x g/.git && cd g &&
    touch a.py src/b.py src/sub/c.py src/sub/deeper/d.py x/src/e.py build/x/f.py .git/g.py src/h.txt src/sub/.env'
tool glob '{"pattern":"*.py","path":"g"}'
tool_is 'a name matches at any depth, what is generated is left out' "Found 5 paths under $W/g
1. $W/g/a.py
2. $W/g/src/b.py
3. $W/g/src/sub/c.py
4. $W/g/src/sub/deeper/d.py
5. $W/g/x/src/e.py"
is 'and the same as data' "$(j -c '.structured | [.path, (.paths | length), .truncated]')" "[\"$W/g\",5,false]"
tool glob '{"pattern":"*.py","path":"g","include_ignored":true}'
like 'or not left out' "$TEXT" "^Found 7 paths under $W/g"
tool glob '{"pattern":"*.py","path":"g/build"}'
tool_is 'names above the root do not count: the root may have any' "Found 1 paths under $W/g/build
1. $W/g/build/x/f.py"
tool glob '{"pattern":"src/**/*.py","path":"g"}'
tool_is '** is any number of directories, also none; the pattern may begin anywhere' "Found 4 paths under $W/g
1. $W/g/src/b.py
2. $W/g/src/sub/c.py
3. $W/g/src/sub/deeper/d.py
4. $W/g/x/src/e.py"
tool glob '{"pattern":"src/*","path":"g","include_dirs":true}'
tool_is 'directories when asked for' "Found 4 paths under $W/g
1. $W/g/src/b.py
2. $W/g/src/h.txt
3. $W/g/src/sub
4. $W/g/x/src/e.py"
tool glob '{"pattern":"./src/*.py","path":"g"}'
tool_is './ holds it to the root' "Found 1 paths under $W/g
1. $W/g/src/b.py"
tool glob "{\"pattern\":\"$W/g/src/*/c.{py,txt}\"}"
tool_is 'an absolute pattern says where by itself' "Found 1 paths under $W/g/src
1. $W/g/src/sub/c.py"
tool glob '{"pattern":"*.rs","path":"g"}'
tool_is 'nothing' "No files matched under $W/g"
tool glob '{"pattern":"*.py","path":"g","max_results":2}'
tool_is 'more than asked for' "Found 2 paths under $W/g (showing first 2)
1. $W/g/a.py
2. $W/g/src/b.py
Results truncated. Narrow the path or pattern to see fewer matches."
tool glob '{"pattern":"*.py","path":"g","max_results":5}'
unlike 'exactly as many as asked for is not truncated' "$TEXT" truncated
tool glob '{"pattern":"*","path":"many"}'
is 'unless said, 200' "${TEXT%%$'\n'*}" "Found 200 paths under $W/many (showing first 200)"
tool glob '{"pattern":"*","path":"many","max_results":0}'
is '0 is the same' "${TEXT%%$'\n'*}" "Found 200 paths under $W/many (showing first 200)"
run 'cd many && for i in $(seq 2000 2100); do : > "f-$i"; done'
tool glob '{"pattern":"*","path":"many","max_results":5000}'
is 'at most 1000' "${TEXT%%$'\n'*}" "Found 1000 paths under $W/many (showing first 1000)"
tool glob '{"pattern":"*.py","path":"nowhere"}'
tool_fails 'no such directory' "Error: Directory not found: $W/nowhere"
tool glob '{"pattern":"*.py","path":"g/a.py"}'
tool_fails 'a file is none' "Error: Path is not a directory: $W/g/a.py"
tool glob '{"pattern":"../*"}'
like 'a pattern that cannot be' "$IS_ERROR $TEXT" "^true Error: .*the pattern contains '\.\.'"
tool glob '{}'
like 'the pattern is missing' "$IS_ERROR $TEXT" "^true Error: .*'pattern'"

# ---- grep ----

run 'mkdir -p s/src s/out s/logs && cd s && printf "alpha\r\nBeta one\ngamma\nbeta two" > src/a.txt && '\
'printf "x\nBETA\n" > src/b.md &&
    echo beta > out/c.txt && echo beta > logs/d.txt && printf "beta\0beta\n" > bin.dat && echo "f(x) = a.b" > src/m.c'
tool grep '{"pattern":"beta","path":"s"}'
tool_is 'lines that match, in any case; what is generated and what is binary is left out' "Found 3 matches under $W/s
$W/s/src/a.txt:2: Beta one
$W/s/src/a.txt:4: beta two
$W/s/src/b.md:2: BETA"
is 'and the same as data' "$(j -c '.structured.matches[1]')" \
    "{\"path\":\"$W/s/src/a.txt\",\"line\":4,\"text\":\"beta two\"}"
tool grep '{"pattern":"beta","path":"s","case_sensitive":true,"include_ignored":true}'
tool_is 'with regard to case, everywhere' "Found 3 matches under $W/s
$W/s/logs/d.txt:1: beta
$W/s/out/c.txt:1: beta
$W/s/src/a.txt:4: beta two"
tool grep '{"pattern":"beta","path":"s/out"}'
tool_is 'names above the root do not count' "Found 1 matches under $W/s/out
$W/s/out/c.txt:1: beta"
tool grep '{"pattern":"alpha","path":"s/src/a.txt"}'
tool_is 'one file; CR at the end of a line is not shown' "Found 1 matches under $W/s/src/a.txt
$W/s/src/a.txt:1: alpha"
tool grep '{"pattern":"beta","path":"s","glob":"*.md"}'
tool_is 'files by a pattern' "Found 1 matches under $W/s
$W/s/src/b.md:2: BETA"
tool grep '{"pattern":"beta","path":"s/src/a.txt","glob":"*.md"}'
tool_is 'also when one file is asked for' "No matches found under $W/s/src/a.txt"
tool grep '{"pattern":"f(x) = a.b","path":"s","literal":true}'
tool_is 'plain text' "Found 1 matches under $W/s
$W/s/src/m.c:1: f(x) = a.b"
tool grep '{"pattern":"gamma","path":"s","context":1}'
tool_is 'lines around it' "Found 1 matches under $W/s
$W/s/src/a.txt-2- Beta one
$W/s/src/a.txt:3: gamma
$W/s/src/a.txt-4- beta two"
tool grep '{"pattern":"beta","path":"s","max_results":2}'
tool_is 'more than asked for' "Found 2 matches under $W/s (showing first 2)
$W/s/src/a.txt:2: Beta one
$W/s/src/a.txt:4: beta two
Results truncated. Narrow the path or add a glob filter."
tool grep '{"pattern":"delta","path":"s"}'
tool_is 'nothing' "No matches found under $W/s"
tool grep '{"pattern":"a(b","path":"s"}'
tool_fails 'a pattern that is none' 'Error: Invalid regex pattern: the pattern at byte 3: missing closing parenthesis'
tool grep '{"pattern":"x","path":"nowhere"}'
tool_fails 'no such path' "Error: Directory not found: $W/nowhere"
run 'mkdir l && cd l && printf "%0300d hit\n" 0 > long && seq 1 700 > numbers && printf "%s\n" "$(printf "é%.0s" '\
'$(seq 250)) hit" > wide'
tool grep '{"pattern":"hit","path":"l/long"}'
is 'a long line is cut to 200 characters' "$TEXT" "Found 1 matches under $W/l/long
$W/l/long:1: $(printf '%0197d' 0)..."
tool grep '{"pattern":"hit","path":"l/wide"}'
is 'characters, not bytes' "$TEXT" "Found 1 matches under $W/l/wide
$W/l/wide:1: $(printf 'é%.0s' $(seq 197))..."
tool grep '{"pattern":"[0-9]","path":"l/numbers"}'
is 'unless said, 100' "${TEXT%%$'\n'*}" "Found 100 matches under $W/l/numbers (showing first 100)"
tool grep '{"pattern":"[0-9]","path":"l/numbers","max_results":9999}'
is 'at most 500' "${TEXT%%$'\n'*}" "Found 500 matches under $W/l/numbers (showing first 500)"
run 'mkdir re && printf "%05000d\nb\n" 0 > re/zeros'
tool grep '{"pattern":"^(0|00)+[c-e]","path":"re/zeros"}'
tool_is 'a pattern that would search for ever says on how many lines' "No matches found under $W/re/zeros
The pattern was too expensive for 1 lines, which may or may not match. Simplify it."
printf '{"pattern":"%05000d"}' 0 > "$WORK/huge"
tool grep "$(< "$WORK/huge")"
like 'a huge pattern' "$IS_ERROR $TEXT" "^true Error: 'pattern' is longer than 4096 bytes"

# ---- read_file ----

run 'mkdir r && cd r && printf "one\ntwo\nthree\n" > plain && printf "one\r\ntwo" > crlf && : > empty && '\
'printf "\357\273\277bom\n" > bom && printf "\n\n\n" > blank'
tool read_file '{"path":"r/plain"}'
tool_is 'the whole file' $'one\ntwo\nthree\n'
tool read_file '{"path":"r/plain","start_line":2,"end_line":2}'
tool_is 'a line' two
tool read_file '{"path":"r/plain","start_line":2}'
tool_is 'from a line on' $'two\nthree'
tool read_file '{"path":"r/plain","end_line":9}'
tool_is 'up to a line behind the end' $'one\ntwo\nthree'
tool read_file '{"path":"r/plain","line_numbers":true}'
tool_is 'with numbers' $'     1\tone\n     2\ttwo\n     3\tthree\n'
tool read_file '{"path":"r/plain","line_numbers":true,"start_line":3,"end_line":3}'
tool_is 'with numbers, of a range' $'     3\tthree'
tool read_file '{"path":"r/blank","start_line":2,"end_line":3}'
tool_is 'blank lines are lines' $'\n'
tool read_file '{"path":"r/plain","start_line":4}'
tool_is 'behind the end' '(start_line exceeds file length)'
tool read_file '{"path":"r/plain","start_line":0}'
tool_fails 'lines count from 1' '(start_line must be >= 1)'
tool read_file '{"path":"r/plain","end_line":0}'
tool_fails 'lines count from 1, the last too' '(end_line must be >= 1)'
tool read_file '{"path":"r/plain","start_line":3,"end_line":2}'
tool_fails 'a range that is none' '(start_line > end_line — no lines in range)'
tool read_file '{"path":"r/empty"}'
tool_is 'an empty file' '(empty)'
tool read_file '{"path":"r/crlf"}'
tool_is 'CRLF and a missing newline stay as they are' $'one\r\ntwo'
tool read_file '{"path":"r/bom"}'
tool_is 'so does a byte order mark' $'\xef\xbb\xbfbom\n'
tool read_file '{"path":"r/missing"}'
tool_fails 'no such file' "Error: File not found: $W/r/missing"
tool read_file '{"path":"r"}'
tool_fails 'a directory' "Error: Path is a directory, not a file: $W/r"
tool read_file '{"path":"/proc/version"}'
like 'procfs is not for reading so' "$IS_ERROR $TEXT" \
    '^true Error: (.*procfs|Permission denied reading file: /proc/version)'
run 'cd r && mkfifo fifo && echo x > locked && chmod 000 locked'
tool read_file '{"path":"r/fifo"}'
like 'a FIFO does not block' "$IS_ERROR $TEXT" '^true Error: .*a FIFO, not a regular file'
tool read_file '{"path":"r/locked"}'
case $IS_ERROR in
true) tool_fails 'a file that may not be read' "Error: Permission denied reading file: $W/r/locked" ;;
*) skip 'a file that may not be read' 'commands are root here' ;;
esac
tool read_file '{}'
like 'the path is missing' "$IS_ERROR $TEXT" "^true Error: .*'path'"

# ---- what is no UTF-8 ----

run 'cd r && printf "caf\351\n" > latin && printf "\377\376h\0\351\0\n\0=\330\0\336" > wide && '\
'printf "\376\377\0h\0i" > big && printf "\377\376h\0=\330x\0" > half &&
    printf "\377\376h\0x" > odd && printf "a\0b" > nul && printf "PK\003\004\0\0" > book.xlsx && '\
'printf "%%PDF-1.7\nx" > doc.pdf && printf "h\0i\0" > nobom'
tool read_file '{"path":"r/latin"}'
tool_fails 'another encoding is refused with its place' \
    "Error: cannot read '$W/r/latin' as text — byte 0xe9 at offset 3 is not UTF-8. If you know its encoding, pass it "\
"(encoding: latin-1, utf-16le, utf-16be), or convert it with bash (iconv)."
tool read_file '{"path":"r/latin","encoding":"latin-1"}'
tool_is 'and read when it is named' $'café\n'
tool read_file '{"path":"r/wide"}'
tool_is 'UTF-16 with a mark is text' $'hé\n😀'
tool read_file '{"path":"r/big"}'
tool_is 'in both orders' hi
tool read_file '{"path":"r/nobom","encoding":"utf-16le"}'
tool_is 'and without one when it is named' hi
tool read_file '{"path":"r/half"}'
like 'half a pair is refused' "$IS_ERROR $TEXT" \
    "^true Error: cannot read '$W/r/half' as text — half a UTF-16 pair ends at offset 7\."
tool read_file '{"path":"r/odd"}'
like 'half a character too' "$IS_ERROR $TEXT" \
    "^true Error: cannot read '$W/r/odd' as text — it ends inside a UTF-16 character\."
tool read_file '{"path":"r/nul"}'
tool_fails 'binary' "Error: cannot read '$W/r/nul' as text — it is a binary file (3 bytes). read_file shows text, and "\
"PNG, JPEG, GIF and WebP images. Use bash with a suitable program or library instead."
tool read_file '{"path":"r/book.xlsx"}'
tool_fails 'binary that is known' \
    "Error: cannot read '$W/r/book.xlsx' as text — it is a ZIP archive (which .xlsx, .docx, .pptx and .jar files are "\
"too) (6 bytes). read_file shows text, and PNG, JPEG, GIF and WebP images. Use bash with unzip, or openpyxl and "\
"pandas for spreadsheets instead."
tool read_file '{"path":"r/doc.pdf"}'
like 'a PDF without a NUL' "$IS_ERROR $TEXT" '^true Error: .*it is a PDF document .*Use bash with pdftotext instead\.$'

# ---- pictures ----

run 'cd r && printf "\211PNG\r\n\032\n\0\0\0\rIHDR\0\0\002\200\0\0\001\340\010\006\0\0\0" > p.png && '\
'printf "GIF89a\020\0\040\0\0\0" > p.gif &&
    printf "\377\330\377\340\0\020JFIF\0\001\001\0\0\001\0\001\0\0\377\300\0\021\010\0\144\0\310\003" > p.jpg && '\
'printf "RIFF\0\0\0\0WEBPVP8X\012\0\0\0\0\0\0\0\017\0\0\037\0\0" > p.webp &&
    cp p.png large.png && truncate -s 6M large.png'
for row in 'png|a PNG image|640 x 480' 'gif|a GIF image|16 x 32' 'jpg|a JPEG image|200 x 100' \
    'webp|a WebP image|16 x 32'; do
    IFS='|' read -r kind what size <<< "$row"
    get "$W/r/p.$kind"
    cp "$WORK/body" "$WORK/picture"
    tool read_file "{\"path\":\"r/p.$kind\"}"
    tool_is "$what is shown as one" "$W/r/p.$kind: $what, $size pixels, $(stat -c %s "$WORK/picture") bytes"
    is 'with its bytes' "$(j .image.mime_type) $(j .image.data)" "image/${kind/jpg/jpeg} $(base64 -w0 "$WORK/picture")"
done
tool read_file '{"path":"r/large.png"}'
tool_fails 'but not one that is too large' \
    "Error: '$W/r/large.png' is a PNG image of 6291456 bytes; at most 5242880 can be shown. Use bash to make a "\
"smaller copy."

# ---- long texts ----

run 'cd r && for i in $(seq 20000); do echo "line $i"; done > long && printf "%0300000d" 7 > oneline && yes é | head '\
'-60000 | tr -d "\n" > accents'
tool read_file '{"path":"r/long","start_line":1}'
long "$TEXT"
is 'a range is cut at 50,000 characters' "$LENGTH $MARK" \
    "49999 "$'\n... [truncated: showing first 49892 of 208893 chars. Use start_line/end_line to read a specific '\
$'range] ...'
is 'the head stays' "${KEPT:0:14} ${#KEPT}" $'line 1\nline 2\n 49892'
tool read_file '{"path":"r/oneline","end_line":1}'
long "$TEXT"
is 'so is one line' "$LENGTH $MARK" \
    "49999 "$'\n... [truncated: showing first 49892 of 300000 chars. Use start_line/end_line to read a specific '\
$'range] ...'
tool read_file '{"path":"r/accents","end_line":1}'
long "$TEXT"
is 'never inside a character' "$LENGTH ${#KEPT} ${KEPT:49880}" "50000 49894 éééééééééééééé"
tool read_file '{"path":"r/long","start_line":19999,"line_numbers":true}'
tool_is 'lines far inside' $' 19999\tline 19999\n 20000\tline 20000'
tool read_file '{"path":"r/long"}'
like 'the whole is kept for recall' "$TEXT" recall
run 'cd r && head -c 100000000 /dev/zero | tr "\0" x > hundred && printf "\nlast" >> hundred'
tool read_file '{"path":"r/hundred","start_line":2}'
tool_is 'a line behind one of 100 MB' last
tool read_file '{"path":"r/hundred","end_line":1}'
long "$TEXT"
is 'and that line' "$LENGTH $MARK" \
    "49996 "$'\n... [truncated: showing first 49886 of 100000000 chars. Use start_line/end_line to read a specific '\
$'range] ...'
run 'cd r && rm hundred && printf "%09000d\n" 0 > sparse && truncate -s 2G sparse'
tool read_file '{"path":"r/sparse","start_line":3}'
tool_fails 'a line is not looked for without end' \
    "Error: line 3 of $W/r/sparse is past its first 1073741824 bytes; use bash (sed -n, tail)"
run 'rm r/sparse'

# ---- without a store of results they are cut; the limits are the configuration's ----

configure() { # configure LINES: and wait until they hold
    cp "$CONFIG" "$WORK/config.before"
    printf '%s\n' "$1" >> "$CONFIG"
    kill -HUP "$DAEMON_PID"
    eventually 10 has_limits
}
has_limits() { api GET /v1/tools && [ "$(j '[.tools[].name] | index("recall")')" = null ]; }
if configure $'tool_offload: false\ntool_ls_chars: 300\ntool_read_file_chars: 300\ntool_glob_results: 3\n'\
$'tool_grep_results: 2'; then
    tool ls '{"path":"many"}'
    long "$TEXT"
    total=$((1101 * (${#W} + 7) - 1 + 1000 * 33 + 101 * 6))
    like 'ls is cut' "$LENGTH $MARK" \
        "^(300|299|298) "$'\n... \\[truncated: showing first [0-9]+ of '"$total"$' chars\\. Use a more specific path '\
$'to see fewer results\\] \\.\\.\\.$'
    tool read_file '{"path":"r/long"}'
    long "$TEXT"
    is 'a whole file too' "$LENGTH $MARK" \
        "297 "$'\n... [truncated: showing first 192 of 208894 chars. Use start_line/end_line to read a specific '\
$'range] ...'
    tool glob '{"pattern":"*","path":"many"}'
    is 'glob shows as many as configured' "${TEXT%%$'\n'*}" "Found 3 paths under $W/many (showing first 3)"
    tool grep '{"pattern":"1","path":"l/numbers"}'
    is 'grep too' "${TEXT%%$'\n'*}" "Found 2 matches under $W/l/numbers (showing first 2)"
    cp "$WORK/config.before" "$CONFIG"
    kill -HUP "$DAEMON_PID"
    has_recall() { ! has_limits; }
    ok 'and back' eventually 10 has_recall
else fail 'limits are configured' "$(tail -3 "$WORK/daemon.log")"; fi

# ---- a file that changes ----

run 'cd r && head -c 30000000 /dev/zero | tr "\0" x > spin && printf "\nlast\n" >> spin'
api POST "$B/processes" '{"command":"cd r; while [ ! -e stop ]; do echo more >> spin; done"}'
PID=$(j .pid)
changing() { tool read_file '{"path":"r/spin","start_line":2,"end_line":2}' && [ "$IS_ERROR" = true ]; }
eventually 20 changing
tool_fails 'what changes all the time is refused' \
    "Error: $W/r/spin kept changing while it was read. Wait until it is complete, or copy it with bash and read the "\
"copy."
run 'touch r/stop'
ended() { api GET "$B/processes/$PID" && [ "$(j .state)" = exited ]; }
eventually 20 ended
tool read_file '{"path":"r/spin","start_line":2,"end_line":2}'
tool_is 'and read when it is over' last
