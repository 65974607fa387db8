# Trees as tar, both ways; hostile archives.
# by default: jail local remote

run 'mkdir -p t/a/b t/empty; echo one > t/1.txt; echo two > t/a/b/2.txt; chmod 750 t/a/b/2.txt; ln -s ../1.txt '\
't/a/link; head -c 200000 /dev/urandom > t/random; printf x > "t/odd name ü"; long=t/$(printf "n%.0s" $(seq '\
'120))/$(printf "m%.0s" $(seq 120)); mkdir -p $long; echo long > $long/f'
api GET "$B/archive?path=t"
is 'archive out' "$STATUS" 200
like 'content type' "$(header content-type)" 'tar'
cp "$WORK/body" "$WORK/t.tar"
mkdir "$WORK/x"
ok 'tar reads it' tar -xf "$WORK/t.tar" -C "$WORK/x" --no-same-owner
run 'cd t && find . -type f | sort | xargs -d "\n" sha256sum'
is 'files are exact' "$(cd "$WORK"/x && { [ ! -d t ] || cd t; } && find . -type f | sort | xargs -d '\n' sha256sum)" \
    "$OUT"
is 'links' "$(find "$WORK/x" -name link -printf '%l')" ../1.txt
is 'modes' "$(find "$WORK/x" -name 2.txt -printf '%m')" 750
is 'empty directories' "$(find "$WORK/x" -name empty -type d | wc -l)" 1

run 'mkdir back'
api PUT "$B/archive?path=back" '' -T "$WORK/t.tar" -H 'Content-Type: application/x-tar'
like 'archive in' "$STATUS" '^20[01]$'
run 'cd back && { [ ! -d t ] || cd t; } && find . -type f | sort | xargs -d "\n" sha256sum; readlink a/link; stat -c '\
'%a a/b/2.txt'
want=$OUT
run 'cd t && find . -type f | sort | xargs -d "\n" sha256sum; readlink a/link; stat -c %a a/b/2.txt'
is 'round trip' "$want" "$OUT"
for format in gnu pax ustar; do
    mkdir -p "$WORK/f/d" && echo "$format" > "$WORK/f/d/file"
    tar -C "$WORK/f" --format=$format -cf "$WORK/f.tar" .
    run "rm -rf in; mkdir in"
    api PUT "$B/archive?path=in" '' -T "$WORK/f.tar"
    run 'cat in/d/file'
    is "format $format" "$OUT" "$format"
done
run 'rm -rf in; mkdir in'
dd if="$WORK/f.tar" of="$WORK/cut.tar" bs=700 count=1 2> /dev/null
api PUT "$B/archive?path=in" '' -T "$WORK/cut.tar"
is_error 'a cut archive' 400 INVALID
head -c 4096 /dev/urandom > "$WORK/noise"
api PUT "$B/archive?path=in" '' -T "$WORK/noise"
is_error 'noise is no archive' 400 INVALID
api GET "$B/archive?path=nowhere"
is_error 'archive of nothing' 404 NOT_FOUND
api PUT "$B/archive?path=nowhere" '' -T "$WORK/f.tar"
like 'into nothing' "$STATUS" '^(404|20[01])$'

# hostile: each is refused, or lands inside the directory, and nothing outside changes
evil() { # evil NAME: builds $WORK/evil.tar from the current directory by its arguments to tar
    rm -rf "$WORK/e"; mkdir -p "$WORK/e/d"
    run 'rm -rf in outside; mkdir in outside; echo safe > outside/f; echo safe > top'
}
send() { api PUT "$B/archive?path=in" '' -T "$WORK/evil.tar"; }
safe() { # safe NAME: nothing outside `in` changed
    run 'cat outside/f top; ls -A outside; ls -A /workspace | tr "\n" " "'
    is "$1" "$OUT" $'safe\nsafe\nf\nback in outside t top '
}
evil; echo bad > "$WORK/e/f"
tar -C "$WORK/e" -cPf "$WORK/evil.tar" --transform 's|.*|../outside/f|' f; send; safe 'names with ..'
evil; echo bad > "$WORK/e/f"
tar -C "$WORK/e" -cPf "$WORK/evil.tar" --transform 's|.*|/workspace/outside/f|' f; send; safe 'absolute names'
evil; ln -s /workspace/outside "$WORK/e/d/l"; tar -C "$WORK/e" -cf "$WORK/evil.tar" d/l
rm "$WORK/e/d/l"; mkdir "$WORK/e/d/l"; echo bad > "$WORK/e/d/l/f"; tar -C "$WORK/e" -rf "$WORK/evil.tar" d/l/f
send; safe 'a link, then a file through it'
evil; ln -s ../../outside/f "$WORK/e/d/l"; tar -C "$WORK/e" -cf "$WORK/evil.tar" d/l
rm "$WORK/e/d/l"; echo bad > "$WORK/e/d/l"; tar -C "$WORK/e" -rf "$WORK/evil.tar" d/l
send; safe 'a link, then a file of its name'
evil; echo x > "$WORK/e/f"; ln "$WORK/e/f" "$WORK/e/g"
tar -C "$WORK/e" -cPf "$WORK/evil.tar" --transform 'flags=h;s|.*|../outside/f|' f g
rm "$WORK/e/g"; echo bad > "$WORK/e/g"; tar -C "$WORK/e" -rf "$WORK/evil.tar" g
send; safe 'a hard link to outside, then written'
evil
mknod "$WORK/e/null" c 1 3 && mkfifo "$WORK/e/fifo" && tar -C "$WORK/e" -cf "$WORK/evil.tar" null fifo
send
run 'find in -type c -o -type b'
is 'no devices are made' "$OUT" ''
evil; cp /bin/true "$WORK/e/suid"; chmod 6755 "$WORK/e/suid"; tar -C "$WORK/e" -cf "$WORK/evil.tar" suid
send
run 'find in -perm /6000'
is 'no setuid bits are taken over' "$OUT" ''
run 'echo fine'
is 'the box goes on' "$OUT" fine
