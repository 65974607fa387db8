# Tools that write: write_file, str_replace, edit. Their texts are golden; what they do is compared with a second
# implementation (test/lib/edits.py), alone and many at once. EDITS_SEED, EDITS_STEPS: one again, or longer.
# backends: jail

run pwd
W=${OUT%$'\n'}
bytes() { # bytes FILE: its bytes, in hexadecimal
    run "od -An -v -tx1 '$1'"
    printf '%s' "$OUT" | tr -d ' \n'
}
unread() { # unread TOOL PATH [MORE]: the sentence for a version that was not read
    printf '%s' "Error: $1 blocked — $2 already exists and you have not read its current version.${3-} Call read_file "\
"on it (a ranged" \
        " read of the relevant section is enough, e.g. the last ~30 lines before an append), check what is already "\
"there, then retry."
}
CHANGED=' It has changed since you last read or wrote it.'

# ---- write_file ----

tool write_file '{"path":"new/deep/f.txt","content":"one\ntwo\nthree\n","description":"begin"}'
tool_is 'write_file makes the file and its directories' OK
is 'and says so as data' "$(j -c .structured)" "{\"path\":\"$W/new/deep/f.txt\",\"size\":14,\"created\":true}"
run 'cat new/deep/f.txt; stat -c "%a %U" new/deep new/deep/f.txt'
is 'it is there' "${OUT%%755*}" $'one\ntwo\nthree\n'
tool write_file '{"path":"new/deep/f.txt","content":"four\n","append":true}'
tool_is 'append: what one wrote one has read' OK
is 'append adds' "$(j -c '[.structured.size, .structured.created]')" '[19,false]'
tool write_file '{"path":"new/deep/f.txt","content":""}'
tool_is 'an empty content empties the file' OK
is 'it is empty' "$(j .structured.size)" 0
tool write_file '{"path":"nul","content":"a\u0000b"}'
is 'NUL is written as it is' "$IS_ERROR $(bytes nul)" 'false 610062'
tool write_file '{"path":"new/deep","content":"x"}'
tool_fails 'a directory is not written' "Error: Path is a directory, not a file: $W/new/deep"
tool write_file '{"path":"somewhere/","content":"x"}'
tool_fails 'nor what is named like one' "Error: Path is a directory, not a file: $W/somewhere"
run 'mkfifo fifo; printf x > readonly; chmod 444 readonly; mkdir shut; chmod 555 shut; printf "#!/bin/sh\n" > script; '\
'chmod 750 script'
API_SECONDS=10 tool write_file '{"path":"fifo","content":"x"}'
tool_fails 'a FIFO neither' "Error: Failed to write file '$W/fifo': '$W/fifo' is a FIFO, not a regular file"
tool read_file '{"path":"readonly"}'
run 'id -u'
if [ "$OUT" = 0 ] || [ "$OUT" = $'0\n' ]; then
    skip 'what may not be written is not' 'commands are root here'
else
    tool write_file '{"path":"readonly","content":"y"}'
    tool_fails 'what may not be written is not' "Error: Permission denied writing to file: $W/readonly"
    tool write_file '{"path":"readonly","content":"y","append":true}'
    tool_fails 'nor appended to' "Error: Permission denied writing to file: $W/readonly"
    tool write_file '{"path":"shut/f","content":"y"}'
    tool_fails 'nor made in a directory that may not be' "Error: Permission denied writing to file: $W/shut/f"
    tool str_replace '{"path":"readonly","old_str":"x","new_str":"y"}'
    tool_fails 'nor edited' "Error: Permission denied accessing file: $W/readonly"
fi
tool write_file '{"path":"readonly/below","content":"x"}'
like 'a file is no directory' "$IS_ERROR $TEXT" "^true Error: Failed to write file '$W/readonly/below': "
tool read_file '{"path":"script"}'
tool write_file '{"path":"script","content":"#!/bin/sh\necho ran\n"}'
run './script; stat -c %a script'
is 'the mode is kept' "$OUT" $'ran\n750'
tool write_file '{"path":"f"}'
tool_fails 'no content' \
    "Error: 'content' is missing: The new text of the file, or the text to append. It is written exactly as given."
tool write_file '{"path":"","content":"x"}'
like 'an empty path' "$IS_ERROR $TEXT" "^true Error: 'path' "
tool write_file '{"path":"f","content":7}'
tool_fails 'content that is none' "Error: 'content' must be a string, not an integer"

# ---- read before write ----

run 'echo theirs > other; ln -s other link'
tool write_file '{"path":"other","content":"mine"}'
tool_fails 'a file that was never read is not overwritten' "$(unread write_file "$W/other")"
tool write_file '{"path":"other","content":"mine","append":true}'
tool_fails 'nor appended to' "$(unread write_file "$W/other")"
tool str_replace '{"path":"other","old_str":"theirs","new_str":"mine"}'
tool_fails 'nor edited' "$(unread str_replace "$W/other")"
tool edit '{"path":"other","mode":"insert","content":"mine"}'
tool_fails 'in no mode' "$(unread edit "$W/other")"
tool edit '{"path":"other","mode":"create","content":"mine","overwrite":true}'
tool_fails 'not even in that one' "$(unread edit "$W/other")"
run 'cat other'
is 'it is as it was' "$OUT" theirs
tool read_file '{"path":"other","start_line":1,"end_line":1}'
tool str_replace '{"path":"other","old_str":"theirs","new_str":"ours"}'
tool_is 'a range of it that was read is enough' OK
tool str_replace '{"path":"link","old_str":"ours","new_str":"yours"}'
tool_is 'one that was written may be edited by another name, too' OK
run 'test -L link && echo more >> other'
tool str_replace '{"path":"other","old_str":"yours","new_str":"x"}'
tool_fails 'what changed since is refused, and why' "$(unread str_replace "$W/other" "$CHANGED")"
tool read_file '{"path":"other"}'
tool str_replace '{"path":"other","old_str":"yours","new_str":"x"}'
tool_is 'read again it may' OK
run 'rm other'
tool write_file '{"path":"other","content":"x"}'
tool_is 'what is gone may be written' OK
tool read_file '{"path":"other"}' '' -H 'Cubby-Thread: helper'
run 'echo again > other'
tool read_file '{"path":"other"}'
tool write_file '{"path":"other","content":"y"}' '' -H 'Cubby-Thread: helper'
tool_fails 'a reading is of its thread alone' "$(unread write_file "$W/other" "$CHANGED")"
tool write_file '{"path":"other","content":"y"}'
tool_is 'the thread that read it may' OK

# A change that hides behind a time of change that does not move: whoever read the file when it was that young.
run 'printf aaaa > tick; touch -d "+1 hour" tick; touch -r tick stamp'
tool read_file '{"path":"tick"}'
run 'inode=$(stat -c %i tick); printf bbbb > tick; touch -r stamp tick; test "$inode" = "$(stat -c %i tick)" && stat '\
'-c %s tick'
is '(the same inode, size and time)' "$OUT" 4
tool str_replace '{"path":"tick","old_str":"bbbb","new_str":"cccc"}'
tool_fails 'a change within one tick is seen' "$(unread str_replace "$W/tick" "$CHANGED")"

# Notes survive the daemon.
tool read_file '{"path":"other"}'
run 'cp other kept'
tool read_file '{"path":"kept"}'
kill -TERM "$DAEMON_PID"
wait "$DAEMON_PID"
start_daemon "$program"
tool str_replace '{"path":"kept","old_str":"y","new_str":"z"}'
tool_is 'what was read is remembered by the next daemon' OK
run 'echo unread > kept'
tool write_file '{"path":"kept","content":"z"}'
tool_fails 'and so is that it was another version' "$(unread write_file "$W/kept" "$CHANGED")"

# ---- str_replace ----

tool write_file '{"path":"s","content":"def one():\n    return 1\n\ndef two():\n\treturn 2\n\ndef three():\n    '\
'return 3\n"}'
tool str_replace '{"path":"s","old_str":"return 1","new_str":"return 10"}'
tool_is 'str_replace' OK
is 'and as data' "$(j -c .structured)" \
    "{\"path\":\"$W/s\",\"size\":$(j .structured.size),\"replacements\":1,\"line\":2}"
tool str_replace '{"path":"s","old_str":"def two():\n    return 2","new_str":"x"}'
tool_fails 'white space that differs is shown' "Error: String to replace not found in file: $W/s
These lines differ only in white space:
4: def two():
5: 	return 2"
tool str_replace '{"path":"s","old_str":"def three():\n    return 4\n","new_str":"x"}'
tool_fails 'the nearest lines are shown' "Error: String to replace not found in file: $W/s
The closest lines are:
7: def three():
8:     return 3"
tool str_replace '{"path":"s","old_str":"def threes():","new_str":"x"}'
tool_fails 'by what they have in common, if no line is the same' "Error: String to replace not found in file: $W/s
The closest lines are:
7: def three():"
tool str_replace '{"path":"s","old_str":"nothing of the kind","new_str":"x"}'
tool_fails 'and none, if none is near' "Error: String to replace not found in file: $W/s"
tool str_replace '{"path":"s","old_str":"def ","new_str":"x"}'
tool_fails 'more than one place is an error that shows them' "Error: String to replace is in the file 3 times: $W/s
Give more of the text around it, or set replace_all.
It is here:
1: def one():
4: def two():
7: def three():"
tool str_replace '{"path":"s","old_str":"e","new_str":"e"}'
like 'of many the first' "$TEXT" "^Error: String to replace is in the file 9 times: .*
8:     return 3
\(9 places in all\)$"
tool str_replace '{"path":"s","old_str":"def ","new_str":"fn ","replace_all":true}'
tool_is 'unless all of them are meant' OK
is 'counted' "$(j -c '[.structured.replacements, .structured.line]')" '[3,1]'
tool str_replace '{"path":"s","old_str":"","new_str":"x"}'
tool_fails 'an empty string is nowhere' "Error: 'old_str' may not be empty"
tool str_replace '{"path":"s","old_str":"x"}'
tool_fails 'no new one' "Error: 'new_str' is missing: The new text; may be empty."
tool str_replace '{"path":"nowhere/s","old_str":"x","new_str":"y"}'
tool_fails 'no file' "Error: File not found: $W/nowhere/s"
tool str_replace '{"path":"new","old_str":"x","new_str":"y"}'
tool_fails 'a directory' "Error: Path is a directory, not a file: $W/new"
run 'cat s'
is 'what failed changed nothing' "$OUT" \
    $'fn one():\n    return 10\n\nfn two():\n\treturn 2\n\nfn three():\n    return 3'

# ---- edit ----

tool edit '{"path":"e/f","mode":"create","content":"a\nb\nc\n"}'
tool_is 'create' "File created successfully: $W/e/f"
is 'create as data' "$(j -c .structured)" "{\"path\":\"$W/e/f\",\"size\":6,\"created\":true}"
tool edit '{"path":"e/f","mode":"create","content":"x"}'
tool_fails 'create does not overwrite' \
    "Error: file already exists: $W/e/f (use mode replace to modify existing files, or set overwrite=true)"
tool edit '{"path":"e/f","mode":"replace","old_str":"b","new_str":"B"}'
tool_is 'replace' "Successfully replaced 1 occurrence(s) in $W/e/f"
is 'replace as data' "$(j -c .structured)" \
    "{\"path\":\"$W/e/f\",\"size\":6,\"created\":false,\"replacements\":1,\"line\":2,\"lines\":3}"
tool edit '{"path":"e/f","mode":"replace","start_line":1,"end_line":2,"new_str":"1\n2"}'
tool_is 'replace lines' "Successfully replaced lines 1-2 in $W/e/f"
tool edit '{"path":"e/f","mode":"insert","line":2,"content":"between"}'
tool_is 'insert' "Successfully inserted 1 line(s) at line 2 in $W/e/f"
tool edit '{"path":"e/f","mode":"insert","content":"d\ne\n"}'
tool_is 'insert at the end' "Successfully inserted 2 line(s) at line 5 in $W/e/f"
tool edit '{"path":"e/f","mode":"delete_lines","start_line":2}'
tool_is 'delete a line' "Successfully deleted 1 line(s) from $W/e/f"
tool edit '{"path":"e/f","mode":"regex","pattern":"^(\\w)$","new_str":"<$1>","replace_all":true}'
tool_is 'regex' "Successfully replaced 5 match(es) in $W/e/f"
run 'cat e/f'
is 'all of that' "$OUT" $'<1>\n<2>\n<c>\n<d>\n<e>'
tool edit '{"path":"e/f","mode":"replace","old_str":"<","new_str":"[","start_line":2,"end_line":3}'
tool_fails 'in a range of lines' "Error: String to replace is in the file 2 times in lines 2-3: $W/e/f
Give more of the text around it, or set replace_all.
It is here:
2: <2>
3: <c>"
tool edit '{"path":"e/f","mode":"replace","old_str":"<1>","new_str":"x","start_line":2}'
tool_fails 'not in that range' "Error: String to replace not found in file in lines 2-end: $W/e/f
It occurs outside these lines:
1: <1>"
tool edit '{"path":"e/f","mode":"regex","pattern":"\\d","new_str":"x"}'
tool_fails 'a pattern with more than one match' "Error: pattern matches 2 times: $W/e/f
Give more of the text around it, or set replace_all.
It is here:
1: <1>
2: <2>"
tool edit '{"path":"e/f","mode":"regex","pattern":"z+","new_str":"x","start_line":1,"end_line":3}'
tool_fails 'a pattern without one' 'Error: no match found for pattern in lines 1-3: z+'
tool edit '{"path":"e/f","mode":"regex","pattern":"(","new_str":"x"}'
tool_fails 'no pattern at all' \
    "Error: Failed to edit file '$W/e/f': invalid regex pattern at byte 1: missing closing parenthesis"
tool edit '{"path":"e/f","mode":"regex","pattern":"1","new_str":"$9"}'
tool_fails 'a group that is not there' "Error: Failed to edit file '$W/e/f': invalid replacement: unknown substring"
tool edit '{"path":"e/f","mode":"delete_lines","start_line":4,"end_line":9}'
tool_fails 'beyond the end' "Error: Failed to edit file '$W/e/f': end_line 9 exceeds total lines 5"
tool edit '{"path":"e/f","mode":"delete_lines","start_line":4,"end_line":2}'
tool_fails 'the wrong way round' "Error: Failed to edit file '$W/e/f': start_line 4 is greater than end_line 2"
tool edit '{"path":"e/f","mode":"replace","old_str":"<","new_str":"x","start_line":6}'
tool_fails 'a begin beyond the end' "Error: Failed to edit file '$W/e/f': start_line 6 exceeds total lines 5"
for what in 'insert content' 'create content' 'delete_lines start_line' 'regex pattern' 'replace new_str'; do
    tool edit "{\"path\":\"e/f\",\"mode\":\"${what% *}\"}"
    tool_fails "mode ${what% *} says what it needs" "Error: mode ${what% *} needs ${what#* }"
done
tool edit '{"path":"e/f","mode":"replace","new_str":"x"}'
tool_fails 'which text, or which lines' 'Error: mode replace needs old_str, or start_line'
tool edit '{"path":"e/f","mode":"append","content":"x"}'
tool_fails 'no such mode' "Error: 'mode' must be one of create|replace|insert|delete_lines|regex, not 'append'"
run 'cat e/f'
is 'what failed changed nothing' "$OUT" $'<1>\n<2>\n<c>\n<d>\n<e>'

# ---- what a file can be made of ----

see() { run "$1"; tool read_file "{\"path\":\"$2\"}"; }
see 'printf "a\r\nb\r\nc" > crlf' crlf
tool str_replace '{"path":"crlf","old_str":"a\nb","new_str":"x\ny\nz"}'
is 'CRLF: LF in the texts means the line end of the file' "$TEXT $(bytes crlf)" 'OK 780d0a790d0a7a0d0a63'
tool edit '{"path":"crlf","mode":"insert","content":"end"}'
is 'CRLF, no last newline: both stay' "$(bytes crlf)" '780d0a790d0a7a0d0a630d0a656e64'
see 'printf "a\nb\r\nc\n" > mixed' mixed
tool str_replace '{"path":"mixed","old_str":"a\nb\r\n","new_str":"x\ny\r\n"}'
is 'mixed line ends: bytes are bytes' "$TEXT $(bytes mixed)" 'OK 780a790d0a630a'
see 'printf "\357\273\277first\nsecond\n" > mark' mark
tool edit '{"path":"mark","mode":"regex","pattern":"^first","new_str":"1"}'
tool edit '{"path":"mark","mode":"delete_lines","start_line":1}'
is 'a byte order mark stays in front' "$(bytes mark)" 'efbbbf7365636f6e640a'
see 'printf "caf\351\nb\n" > latin' latin
tool write_file '{"path":"latin2","content":"x"}'
run 'cat latin > latin2'
tool edit '{"path":"latin2","mode":"insert","line":1,"content":"x"}'
tool_fails 'a file in another encoding that was not read' "$(unread edit "$W/latin2" "$CHANGED")"
tool read_file '{"path":"latin2","encoding":"latin-1"}'
tool edit '{"path":"latin2","mode":"regex","pattern":"b","new_str":"ü"}'
is 'bytes that are not UTF-8 stay' "$(bytes latin2)" '636166e90ac3bc0a'
see 'printf "\377\376a\000\n\000" > wide' wide
tool str_replace '{"path":"wide","old_str":"a","new_str":"b"}'
tool_fails 'UTF-16 is not edited' \
    "Error: Unexpected error replacing string in '$W/wide': '$W/wide' is UTF-16 text: convert it first, e.g. with iconv"
tool write_file '{"path":"binary","content":"a\u0000b"}'
tool edit '{"path":"binary","mode":"regex","pattern":"a","new_str":"b"}'
tool_fails 'nor is what is binary' "Error: Failed to edit file '$W/binary': '$W/binary' is binary"
run 'head -c 100000000 /dev/zero | tr "\0" a > long; echo >> long'
tool read_file '{"path":"long"}'
tool str_replace '{"path":"long","old_str":"aa","new_str":"b"}'
tool_fails 'a line of 100 MB is too much' \
    "Error: Unexpected error replacing string in '$W/long': '$W/long' is larger than 16777216 bytes"
tool write_file '{"path":"long","content":"end\n","append":true}'
tool_is 'but can be appended to' OK
is 'at its end' "$(j .structured.size)" 100000005
run 'tail -c 6 long; rm long'
is 'exactly' "$OUT" $'a\nend'

# ---- patterns that are too much ----

tool write_file '{"path":"hard","content":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"}'
API_SECONDS=20 tool edit '{"path":"hard","mode":"regex","pattern":"^(a+)+[bc]$","new_str":"x"}'
tool_fails 'a catastrophic pattern is given up' \
    "Error: Failed to edit file '$W/hard': the pattern takes too many steps on this text: make it more specific, "\
"without nested repetitions"
see 'head -c 4000000 /dev/zero | tr "\0" a > slow' slow
{ # it takes its 5 seconds while the rest goes on, with answers of its own
    main=$WORK WORK=$(mktemp -d -p "$WORK")
    API_SECONDS=60 tool edit '{"path":"slow","mode":"regex","pattern":"a*[bc]","new_str":"x"}'
    printf '%s' "$IS_ERROR $TEXT" > "$main/slow"
} &
slow=$!
printf -v pattern '%05000d' 0
tool edit "{\"path\":\"hard\",\"mode\":\"regex\",\"pattern\":\"$pattern\",\"new_str\":\"x\"}"
tool_fails 'a huge pattern' "Error: 'pattern' is longer than 4096 bytes"
tool edit '{"path":"hard","mode":"regex","pattern":"((a{1,999}){1,999}){1,999}","new_str":"x"}'
like 'and one that becomes huge' "$IS_ERROR $TEXT" "^true Error: Failed to edit file '$W/hard': invalid regex pattern"
run 'ls -A | grep -c cubby-tmp; ls -A e'
is 'nothing of all that is left beside the files' "$OUT" $'0\nf'

# ---- any sequence, and many at once ----

seed=${EDITS_SEED:-$RANDOM$RANDOM}
python3 test/lib/edits.py property "$SOCKET" "$BOX" "$seed" "${EDITS_STEPS:-150}" > "$WORK/edits" 2>&1
is "any sequence of edits does what the second implementation does (seed $seed)" "$(cat "$WORK/edits")" ''
python3 test/lib/edits.py parallel "$BOX" 64 "$SOCKET" > "$WORK/edits" 2>&1
is '64 str_replace at once are all applied' "$(cat "$WORK/edits")" ''
wait "$slow"
is 'a pattern that takes its time is given up as well' "$(< "$WORK/slow")" \
    "true Error: Failed to edit file '$W/slow': the pattern takes too long on this text: make it more specific, "\
"without nested repetitions"
run 'ls -A | grep -c cubby-tmp'
is 'it left nothing either' "$OUT" 0
# A client that goes in the middle of an append: what it sent is not there, and nobody waits for the rest.
run 'wc -c < edits.txt'
size=$OUT
python3 test/lib/edits.py broken "$BOX" 700000 "$SOCKET"
edit_again() {
    tool read_file '{"path":"edits.txt","end_line":1}'
    tool str_replace '{"path":"edits.txt","old_str":"done-7-end","new_str":"done-7-end"}'
    [ "$IS_ERROR" = false ]
}
eventually 20 edit_again
run 'wc -c < edits.txt; ls -A | grep -c cubby-tmp'
is 'half an append is none' "$IS_ERROR $OUT" "false $size"$'\n0'
first_pid=$DAEMON_PID first_socket=$SOCKET
SOCKET=$WORK/twin
start_daemon "$program" --tool-read-before-write=false
python3 test/lib/edits.py strangers "$BOX" 24 "$SOCKET" > "$WORK/edits" 2>&1
is 'without read before write others may append meanwhile: nothing is lost' "$(cat "$WORK/edits")" ''
tool write_file '{"path":"nul","content":"over"}'
tool_is 'and nothing needs to be read' OK
kill -TERM "$DAEMON_PID"
wait "$DAEMON_PID"
start_daemon "$program"
python3 test/lib/edits.py parallel "$BOX" 64 "$first_socket" "$SOCKET" > "$WORK/edits" 2>&1
is '64 through two daemons are, too' "$(cat "$WORK/edits")" ''
python3 test/lib/edits.py mixed "$BOX" 32 "$first_socket" "$SOCKET" > "$WORK/edits" 2>&1
is 'and appends among them' "$(cat "$WORK/edits")" ''
kill -TERM "$DAEMON_PID"
wait "$DAEMON_PID"
DAEMON_PID=$first_pid SOCKET=$first_socket
