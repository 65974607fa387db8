# Archives that grow: in bytes, in entries, in directories their names imply. What is stopped leaves nothing.
# wall: upload limit, count of what is made, a hidden directory that is removed
# config: max_upload_bytes: 3000000
# config: max_unpack_entries: 3000

TAR=$BUILD/test/attack_tar
run 'mkdir -p in/d; echo old > in/old; echo old > in/d/old'
clean() { run 'find in | sort | tr "\n" " "; cat in/old in/d/old' && [ "$OUT" = $'in in/d in/d/old in/old old\nold' ]; }
nothing_left() { if clean; then pass "$1: nothing is left"; else fail "$1: nothing is left" "$OUT"; fi; }
send() { api PUT "$B/archive?path=in" '' -T "$WORK/bomb.tar" "$@"; }

"$TAR" f:first=x f:d/{1..4}=%900000{x} e > "$WORK/bomb.tar"
send
is_error 'more bytes than an upload may have, said beforehand' 413 TOO_LARGE max_upload_bytes
nothing_left 'said beforehand'
send -H 'Transfer-Encoding: chunked'
is_error 'and not said' 413 TOO_LARGE max_upload_bytes
eventually 10 clean
nothing_left 'not said'

"$TAR" f:first=x 'n:4000:d/f' e > "$WORK/bomb.tar"
send
is_error 'more entries than an archive may make' 413 TOO_LARGE \
    'more than 3000 files and directories; see max_unpack_entries'
nothing_left 'entries'
"$TAR" f:first=x 'd:%2000{a/}' 'd:%2000{b/}' e > "$WORK/bomb.tar"
between 'a small archive' "$(stat -c %s "$WORK/bomb.tar")" 1 20000
send
is_error 'its names imply more directories than it may make' 413 TOO_LARGE 'more than 3000'
nothing_left 'directories'
"$TAR" 'n:3000:d/f' e > "$WORK/bomb.tar"
send
is_error 'one more than is allowed' 413 TOO_LARGE 'more than 3000'
"$TAR" 'n:2999:d/f' e > "$WORK/bomb.tar"
send
is 'as many as are allowed, with the directory' "$STATUS $(j .files)" '200 2999'
run 'ls in/d | wc -l; cat in/d/old; rm in/d/f*; ls -A in | tr "\n" " "'
is 'are merged into what is there' "$OUT" $'3000\nold\nd old '

# cut off, or left by its sender
"$TAR" 'n:2000:d/f' f:old=new > "$WORK/bomb.tar"
send
is_error 'an archive without its end' 400 INVALID 'cut off'
nothing_left 'cut off between entries'
"$TAR" f:old=new 'z:100000:big' > "$WORK/bomb.tar"
send
is_error 'an archive that ends in a file' 400 INVALID 'ends inside it'
nothing_left 'cut off in a file'
mkfifo "$WORK/pipe"
exec {pipe}<> "$WORK/pipe"
curl -s --unix-socket "$SOCKET" -T "$WORK/pipe" "http://localhost$B/archive?path=in" -o /dev/null &
sender=$!
"$TAR" f:old=new 'n:2500:d/f' >&"$pipe"
under_way() { run 'ls -d in/.cubby-tmp-*/d/f1000' && [ "$CODE" = 0 ]; }
ok 'an upload is under way, in a hidden directory' eventually 20 under_way
kill "$sender"
wait "$sender"
exec {pipe}>&-
eventually 10 clean
nothing_left 'its sender hung up'

# merging: whole or not at all
run 'mkdir in/e; echo stays > in/e/stays'
"$TAR" f:old=new f:e/new=new f:d/old=newer d:e e > "$WORK/bomb.tar"
send
run 'cat in/old in/e/stays in/e/new in/d/old; ls -A in in/e | tr "\n" " "'
is 'into directories that are there, over files that are' "$OUT" $'newstays\nnewnewerin: d e old  in/e: new stays '
run 'chmod 555 in/e; echo mine > in/old'
"$TAR" f:a/b/c=new f:old=new f:e/denied=new e > "$WORK/bomb.tar"
send
is_error 'where one directory may not be written to' 403 DENIED "'e/'"
run 'cat in/old; ls -A in in/e | tr "\n" " "; chmod 755 in/e'
is 'nothing of it comes in' "$OUT" $'mine\nin: d e old  in/e: new stays '
# the destination may not be written to, what is below it may
"$TAR" f:workspace/in/old=again f:tmp/unpacked=x e > "$WORK/bomb.tar"
api PUT "$B/archive?path=/" '' -T "$WORK/bomb.tar"
is 'an archive for the root' "$STATUS" 200
run 'cat in/old /tmp/unpacked; ls -A'
is 'lands in the directories below it' "$OUT" $'againxin'
"$TAR" f:workspace/in/old=bad f:etc/bad=x e > "$WORK/bomb.tar"
api PUT "$B/archive?path=/" '' -T "$WORK/bomb.tar"
is_error 'or not at all' 403 DENIED
run 'cat in/old; ls -A'
is 'as it was' "$OUT" 'againin'
