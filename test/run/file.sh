# Files: get, put, ranges, conditions, and everything that is not a file.

put a.txt 'hello'
is 'put a new file: 201' "$STATUS" 201
get a.txt
is 'get it' "$STATUS $BODY" '200 hello'
is 'its length' "$(header content-length)" 5
etag=$(header etag)
like 'an ETag' "$etag" '^".+"$'
is 'a browser is not to guess what it is' "$(header content-type) $(header x-content-type-options)" \
    'application/octet-stream nosniff'
get /workspace/a.txt
is 'by its absolute path' "$BODY" hello
put a.txt 'hello two'
is 'replace: 200' "$STATUS" 200
get a.txt
is 'replaced' "$BODY" 'hello two'
isnt 'a new ETag' "$(header etag)" "$etag"
run 'cat a.txt'
is 'commands see it' "$OUT" 'hello two'
run 'echo from inside > inside.txt'
get inside.txt
is 'and what commands write is seen' "$BODY" 'from inside'
get nowhere.txt
is_error 'no such file' 404 NOT_FOUND nowhere.txt
put dir/none/x.txt 'x'
is_error 'no parents unless asked' 404 NOT_FOUND
put dir/none/x.txt 'x' '&parents=1'
is 'parents=1' "$STATUS" 201
put a.txt ' more' '&append=1'
like 'append' "$STATUS" '^20[01]$'
get a.txt
is 'appended' "$BODY" 'hello two more'
put new-by-append.txt 'x' '&append=1'
is 'append makes the file' "$STATUS" 201
put script.sh 'exit 9' '&mode=0755'
run './script.sh'
is 'mode' "$CODE" 9
put script.sh 'exit 8'
run './script.sh'
is 'replacing keeps the mode' "$CODE" 8
put a.txt x '&mode=9'
is_error 'a mode that is not octal' 400 INVALID mode
put a.txt x '&nonsense=1'
is_error 'an unknown parameter' 400 INVALID nonsense
if [[ $BACKEND = jail || $BACKEND = docker ]]; then
    run 'stat -c %u:%g a.txt dir dir/none dir/none/x.txt | sort -u'
    is 'files belong to the agent' "$OUT" 1000:1000
else skip 'files belong to the agent' 'local: there is no agent'; fi
put empty.txt ''
get empty.txt
is 'an empty file' "$STATUS $(header content-length) [$BODY]" '200 0 []'
head -c 3000001 /dev/urandom > "$WORK/random"
upload random.bin "$WORK/random"
get random.bin
ok 'three random megabytes round' cmp "$WORK/random" "$WORK/body"
upload chunked.bin "$WORK/random" '' -H 'Transfer-Encoding: chunked'
is 'a chunked upload' "$STATUS" 201
get chunked.bin
ok 'is exact' cmp "$WORK/random" "$WORK/body"
upload expected.bin "$WORK/random" '' -H 'Expect: 100-continue'
is 'an upload with Expect' "$STATUS" 201
name=$'tab\tnew\nline "quote" \xc3\xbc'
put "$name" odd
is 'an odd name' "$STATUS" 201
get "$name"
is 'an odd name again' "$BODY" odd
put $'\xff\xfe.bin' bytes
is 'a name that is not UTF-8' "$STATUS" 201
run "cat \$'\\xff\\xfe.bin'"
is 'has just these bytes' "$OUT" bytes

# ranges and conditions
put range.txt '0123456789'
get range.txt -H 'Range: bytes=2-4'
is 'a range' "$STATUS $BODY $(header content-range)" '206 234 bytes 2-4/10'
get range.txt -H 'Range: bytes=7-'
is 'an open range' "$STATUS $BODY" '206 789'
get range.txt -H 'Range: bytes=-3'
is 'the last bytes' "$STATUS $BODY" '206 789'
get range.txt -H 'Range: bytes=10-'
is 'beyond the end' "$STATUS $(header content-range)" '416 bytes */10'
get range.txt -H 'Range: bytes=5-99'
is 'an end too far is cut' "$STATUS $BODY" '206 56789'
get range.txt -H 'Range: lines=1-2'
is 'another unit is ignored' "$STATUS $BODY" '200 0123456789'
api HEAD "$B/files?path=range.txt"
is 'HEAD' "$STATUS $(header content-length)" '200 10'
etag=$(header etag)
put range.txt new '' -H "If-Match: $etag"
is 'If-Match that fits' "$STATUS" 200
put range.txt newer '' -H "If-Match: $etag"
like 'If-Match that does not' "$STATUS" '^(409|412)$'
get range.txt
is 'the file is as it was' "$BODY" new
get range.txt -H "If-None-Match: $(header etag)"
like 'If-None-Match' "$STATUS" '^(304|200)$'

# atomic: a half upload changes nothing
put atomic.txt 'old content'
printf 'PUT %s/files?path=atomic.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf' "$B" |
    "$TOOL" raw "$SOCKET" 3000 half > "$WORK/raw"
get atomic.txt
is 'half an upload leaves the old file' "$BODY" 'old content'
api GET "$B/list?path=/workspace"
is 'and no rubbish beside it' "$(j '[.entries[].name|select(test("atomic"))]|tostring')" '["atomic.txt"]'

# wrong kinds
run "mkfifo fifo; mkdir -p adir; ln -s /dev/zero zero; ln -s a.txt link; ln -s loop1 loop2; ln -s loop2 loop1"
upload tool "$TOOL" '&mode=0755'
run './tool socket sock'
for kind in fifo sock adir /dev/null zero /dev/full /dev/tty /dev/ptmx; do
    API_SECONDS=5 get "$kind"
    case $BACKEND:$kind in
        *:fifo | *:sock | *:adir | jail:/dev/null | jail:/dev/full | jail:zero | docker:/dev/null | docker:/dev/full | \
            docker:zero)
            is_error "get of $kind is refused at once" 400 INVALID ;;
        *) like "get of $kind is refused at once" "$STATUS" '^4' ;;
    esac
done
for kind in fifo sock adir /dev/null; do
    API_SECONDS=5 put "$kind" x
    like "put on $kind is refused" "$STATUS" '^(400|403|404|409)$'
    API_SECONDS=5 put "$kind" x '&append=1'
    like "append to $kind is refused" "$STATUS" '^(400|403|404|409)$'
done
run 'test -p fifo && test -S sock && test -d adir && test -c /dev/null && echo same'
is 'they are what they were' "$OUT" same
get link
is 'a link is followed' "$BODY" 'hello two more'
put link 'through'
get a.txt
is 'put follows the link' "$BODY" through
run 'test -L link && echo link'
is 'and the link stays' "$OUT" link
API_SECONDS=5 get loop1
like 'a loop of links' "$STATUS" '^(400|404)$'
get a.txt/x
like 'a file as a directory' "$STATUS" '^(400|404)$'
put a.txt/x y
like 'put below a file' "$STATUS" '^4'

# paths
api GET "$B/files"
is_error 'no path' 400 INVALID path
api GET "$B/files?path="
is_error 'an empty path' 400 INVALID path
api GET "$B/files?path=a%00b"
is_error 'a NUL in a path' 400 INVALID
api GET "$B/files?path=a&path=b"
is_error 'a path given twice' 400 INVALID
get "$(printf 'x%.0s' {1..300})"
like 'a name too long' "$STATUS" '^(400|404)$'
long=$(printf 'x/%.0s' {1..2100})
get "$long"
is_error 'a path too long' 400 INVALID
get './sub/../a.txt/'
like 'a trailing slash on a file' "$STATUS" '^(200|400|404)$'
run 'mkdir -p s1/s2'
get 's1/s2/../../a.txt'
is 'dots inside the root are resolved' "$BODY" through

# out of the root
run 'ln -s /etc/shadow shadow; ln -s /proc/1/root proot; ln -s / slash; ln -s ../../../../../../../../../.. up'
echo "secret $$" > "$WORK/forbidden/secret"
run "ln -s '$WORK/forbidden' host"
for path in host/secret "up$WORK/forbidden/secret" "slash$WORK/forbidden/secret" "proot$WORK/forbidden/secret" \
    "../../../../../..$WORK/forbidden/secret" "$WORK/forbidden/secret" "/proc/1/root$WORK/forbidden/secret" \
    "/proc/self/root$WORK/forbidden/secret" "/proc/self/cwd/../../..$WORK/forbidden/secret"; do
    get "$path"
    isnt "not readable: ${path//$WORK/…}" "$STATUS:$BODY" "200:secret $$"
    put "$path" overwritten
    is "not writable: ${path//$WORK/…}" "$(< "$WORK/forbidden/secret")" "secret $$"
done
get shadow
isnt "the host's /etc/shadow is not to be had" "$(head -c 4 "$WORK/body")" root
like 'a link to /etc/shadow' "$STATUS" '^4'
like 'and the daemon is well' "$(api GET /healthz && echo "$STATUS")" 200

# too large
printf 'PUT %s/files?path=huge HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\nxx' "$B" |
    "$TOOL" raw "$SOCKET" 3000 > "$WORK/raw"
like 'a declared size above the limit: 413 at once' "$(< "$WORK/raw")" '^413 '
get huge
is 'nothing was written' "$STATUS" 404

# a race against links
if [[ $BACKEND = jail || $BACKEND = docker ]]; then
    run 'mkdir -p race/real race/other; echo inside > race/real/f; ln -s /proc/1/root/etc race/link; cp /etc/hostname '\
'race/other/ 2>/dev/null; echo inside > race/real/passwd'
    tag_new
    api POST "$B/processes" '{"command":"./tool swap race/real race/link 2"}'
    seen=
    for _ in {1..40}; do
        get race/real/passwd
        case "$STATUS:$BODY" in 200:inside | 4*) ;; 200:*agent:x:1000*) ;; *) seen="$STATUS $BODY" ;; esac
    done
    is 'a link swapped under a read never leads out' "$seen" ''
else skip 'a link swapped under a read never leads out' 'local: the machine itself is the root of commands'; fi
