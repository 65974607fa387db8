# Edits of all sizes and encodings, and many at once with writes, appends and programs on the same file.
# wall: the new version takes the place of the very version that was read, or of none

edit() { # edit PATH OLD NEW [MEMBERS]: OLD and NEW as base64
    api POST "$B/edit" "{\"encoding\":\"base64\",\"path\":\"$(printf %s "$1" |
        base64 -w0)\",\"old\":\"$2\",\"new\":\"$3\"${4:+,$4}}"
}
b() { printf "$1" | base64 -w0; }
bytes() { run "od -An -tx1 -v '$1' | tr -d ' \n'"; }

# exact bytes
run "printf 'a\r\nb\r\n' > crlf; printf '\357\273\277text' > bom; printf '\377\376h\0i\0' > utf16; printf 'end' > "\
"open; printf 'x\0y' > nul"
edit crlf "$(b 'a\r\nb')" "$(b 'c\r\nd')"; bytes crlf
is 'CRLF' "$OUT" 630d0a640d0a
edit crlf "$(b 'c\nd')" "$(b x)"
is_error 'LF does not match CRLF' 404 NOT_FOUND
edit bom "$(b 'text')" "$(b TEXT)"; bytes bom
is 'a BOM stays' "$OUT" efbbbf54455854
edit utf16 "$(b 'h\0i\0')" "$(b 'H\0I\0')"; bytes utf16
is 'UTF-16' "$OUT" fffe48004900
edit open "$(b end)" "$(b fin)"; bytes open
is 'no newline is added' "$OUT" 66696e
edit nul "$(b '\0')" "$(b '\0\0')"; bytes nul
is 'NUL' "$OUT" 78000079
edit open '' "$(b x)"
is_error 'nothing to replace' 400 INVALID 'old'
# sizes
run 'head -c 16000000 /dev/zero | tr "\0" a > big; head -c 17000000 /dev/zero > bigger; echo end >> big; sha256sum < '\
'big > sum'
edit big "$(b end)" "$(b END)"
is 'a file of 16 million bytes' "$STATUS $(j .size)" '200 16000004'
edit bigger "$(b x)" "$(b y)"
is_error 'a larger one' 413 TOO_LARGE
edit big "$(b aa)" "$(b aaaa)" '"all":true'
is_error 'a result that would be larger' 413 TOO_LARGE
head -c 15000000 /dev/zero | tr '\0' a > "$WORK/old"
{ printf '{"path":"big","old":"'; cat "$WORK/old"; printf '","new":"x"}'; } > "$WORK/request"
api POST "$B/edit" '' --data-binary "@$WORK/request" -H 'Content-Type: application/json'
is 'fifteen million bytes replaced' "$STATUS $(j .size)" '200 1000005'
{ printf '{"path":"big","old":"'; cat "$WORK/old" "$WORK/old"; printf '","new":"x"}'; } > "$WORK/request"
api POST "$B/edit" '' --data-binary "@$WORK/request" -H 'Content-Type: application/json'
is_error 'more than a text may have' 400 INVALID "'old' is longer"
# mode, owner, refusals
run 'echo secret > mine; chmod 640 mine; chgrp 1000 mine; ln mine hard; echo old > suid; chmod 4755 suid'
edit mine "$(b secret)" "$(b public)"
run 'stat -c "%a %u %g" mine; cat hard'
is 'mode and owner are kept, a second name keeps the old content' "$OUT" $'640 1000 1000\nsecret'
edit suid "$(b old)" "$(b new)"
run 'stat -c %a suid'
is 'set-user-ID goes, as with every write' "$OUT" 755
put flocked locked
api POST "$B/processes" '{"command":"exec flock -x flocked sleep 1000"}'
held() { run 'flock -n flocked true' && [ "$CODE" = 1 ]; }
ok 'a lock is held by somebody' eventually 10 held
now_ms; start=$NOW
edit flocked "$(b locked)" "$(b free)"
now_ms
is 'a lock in the box stops no edit' "$STATUS" 200
between 'at once' $((NOW - start)) 0 20000

# no lost update: edits of their own lines, while others write the whole file, by the API and by rename in the box
run 'for i in $(seq 60); do echo "line-$i-end"; done > many'
pids=()
for i in {1..60}; do
    curl -s --unix-socket "$SOCKET" -d "{\"path\":\"many\",\"old\":\"line-$i-end\",\"new\":\"done-$i-end\"}" \
        "http://localhost$B/edit" -o /dev/null -w '%{http_code}\n' >> "$WORK/codes" &
    pids+=($!)
    # a program that edits in the box, by rename, its own line: it looks whether it was overtaken
    [ $((i % 20)) != 0 ] || curl -s --unix-socket "$SOCKET" --data-binary "appended-$i"$'\n' -X PUT \
        "http://localhost$B/files?path=many&append=1" -o /dev/null -w '%{http_code}\n' >> "$WORK/codes"
done
wait "${pids[@]}"
is 'sixty edits and three appends all answer' "$(sort "$WORK/codes" | uniq -c | tr -d ' ')" 63200
run 'grep -c "^done-[0-9]*-end$" many; ls -A | grep -c cubby-tmp'
is 'no edit is lost, nothing hidden is left' "$OUT" $'60\n0'

# whole writes against edits: the file always is one of the versions, edited or not, and an edit that was answered is
# in what was there when it was made
run 'echo "version 0 count x" > v'
for i in {1..40}; do
    put v "version $i count x" > /dev/null
    curl -s --unix-socket "$SOCKET" -d '{"path":"v","old":"count x","new":"count xx"}' "http://localhost$B/edit" \
        -o /dev/null &
    edit_pid=$!
    put w "x" > /dev/null
    put v "version $i.5 count x"
    wait "$edit_pid"
    run 'cat v'
    [[ $OUT =~ ^version\ $i\.5\ count\ xx?$ ]] || { fail "write $i is there" "$OUT"; break; }
done
[ "$i" = 40 ] && pass 'a write is never undone by an edit that began before it'
# If-Match: of two writers with the same version one wins
lost=
for i in {1..15}; do
    pids=()
    put m "start $i"
    etag=$(header etag)
    for who in a b c; do
        curl -s --unix-socket "$SOCKET" -X PUT --data-binary "$who" -H "If-Match: $etag" \
            "http://localhost$B/files?path=m" -o /dev/null -w '%{http_code}\n' > "$WORK/m$who" &
        pids+=($!)
    done
    wait "${pids[@]}"
    [ "$(cat "$WORK"/m[abc] | sort | tr '\n' ' ')" = '200 412 412 ' ] ||
        lost+=" $i: $(cat "$WORK"/m[abc] | tr '\n' ' ')"
done
is 'of three writers with one ETag one wins' "$lost" ''
