# edit: replace a string in a file.
# by default: jail local remote

edit() { # edit PATH OLD NEW [MEMBERS]
    local old new
    json_string "$2"; old=$JSON_STRING
    json_string "$3"; new=$JSON_STRING
    json_string "$1"
    api POST "$B/edit" "{\"path\":$JSON_STRING,\"old\":$old,\"new\":$new${4:+,$4}}"
}

put f 'one two two three' '&mode=0750'
edit f one 1
is 'edit' "$STATUS" 200
get f
is 'replaced' "$BODY" '1 two two three'
edit f four 4
is_error 'not found' 404 NOT_FOUND
edit f two 2
is_error 'not unique' 400 INVALID
get f
is 'unchanged' "$BODY" '1 two two three'
edit f two 2 '"all":true'
get f
is 'all' "$BODY" '1 2 2 three'
run 'stat -c %a f'
is 'the mode is kept' "$OUT" 750
edit f ' three' ''
get f
is 'replaced by nothing' "$BODY" '1 2 2'
edit f '' x
is_error 'an empty old' 400 INVALID old
edit nowhere a b
is_error 'no file' 404 NOT_FOUND nowhere
run 'mkdir d; mkfifo p; ln -s f l; printf "a\r\nb\r\n\357\273\277\000z" > bytes'
API_SECONDS=5 edit d a b
is_error 'a directory' 400 INVALID
API_SECONDS=5 edit p a b
is_error 'a FIFO' 400 INVALID
edit l '1 2' 'x'
run 'test -L l && cat f'
is 'through a link' "$OUT" 'x 2'
edit bytes $'a\r\nb' $'c\r\nd'
run 'od -An -tx1 bytes'
is 'CRLF, BOM and NUL are kept' "${OUT// /}" '630d0a640d0aefbbbf007a'
put aaa aaaa
edit aaa aa b '"all":true'
get aaa
is 'matches do not overlap' "$BODY" bb
run 'chmod 444 f; ls -A > before'
run 'head -c 17000000 /dev/zero > big'
edit big a b
is_error 'a file too large' 413 TOO_LARGE

# many at once: none is lost
run 'for i in $(seq 40); do echo "line-$i-end"; done > many'
pids=()
for i in {1..40}; do
    curl -s --unix-socket "$SOCKET" -d "{\"path\":\"many\",\"old\":\"line-$i-end\",\"new\":\"done-$i-end\"}" \
        "http://localhost$B/edit" -o /dev/null -w '%{http_code}\n' >> "$WORK/codes" &
    pids+=($!)
done
wait "${pids[@]}"
is 'forty edits at once all answer' "$(sort "$WORK/codes" | uniq -c | tr -d ' ')" 40200
run 'grep -c "^done-[0-9]*-end$" many; wc -l < many'
is 'and none is lost' "$OUT" $'40\n40'
api GET "$B/list?path=/workspace"
is 'no rubbish is left' "$(j '[.entries[].name]|sort|tostring')" '["aaa","before","big","bytes","d","f","l","many","p"]'
