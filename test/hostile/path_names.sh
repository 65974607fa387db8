# Paths that climb, repeat, end oddly, hold NUL or are too long, for every call that takes one.
# wall: openat2 RESOLVE_IN_ROOT below the box's root; lengths and NUL are checked before

outside=$WORK/forbidden/dir
mkdir -p "$outside"
echo outside > "$outside/f"
run 'mkdir -p d/e; echo inside > d/f; echo top > f'

# every call with one path: status and code. CALLS: name, method, query or body with PATH for the path
calls() { # calls PATH (as in a query) JSON_PATH (as in a JSON string): RESULT "name status code" lines
    local path=$1 json=$2 row name method rest
    RESULT=
    while read -r name method rest; do
        rest=${rest//QUERY/$path}
        rest=${rest//JSON/$json}
        if [ "$method" = POST ]; then api POST "$B/${rest%% *}" "${rest#* }"; else
            case $name in
                put | append) printf x > "$WORK/x"; api PUT "$B/$rest" '' --data-binary "@$WORK/x" ;;
                unpack) api PUT "$B/$rest" '' -T "$WORK/empty.tar" ;;
                *) API_SECONDS=10 api "$method" "$B/$rest" ;;
            esac
        fi
        RESULT+="$name $STATUS $(j '.error.code // empty')"$'\n'
        [[ $BODY != *outside$'\n'* ]] || leaked+=" $name"
    done << 'END'
read GET files?path=QUERY
put PUT files?path=QUERY
append PUT files?path=QUERY&append=1
stat GET stat?path=QUERY
list GET list?path=QUERY
hash GET hash?path=QUERY
remove DELETE files?path=QUERY
archive GET archive?path=QUERY
unpack PUT archive?path=QUERY
watch GET watch?path=QUERY
mkdir POST mkdir {"path":"JSON"}
move POST move {"from":"JSON","to":"moved"}
edit POST edit {"path":"JSON","old":"outside","new":"x"}
glob POST glob {"path":"JSON","pattern":"*"}
grep POST grep {"path":"JSON","pattern":"x"}
END
}
all_are() { # all_are NAME REGEX: every line of RESULT
    local bad
    bad=$(grep -v '^$' <<< "$RESULT" | grep -vE "^[a-z]+ $2\$")
    is "$1" "$bad" ''
}
head -c 1024 /dev/zero > "$WORK/empty.tar"
leaked=
for up in ../../../../../../../../../.. /../../.. /workspace/d/../../../../../.. //..//../.. d/e/../../../../../../..; \
    do
    calls "$up$outside/f" "$up$outside/f"
    all_are "$up" '(404 NOT_FOUND)'
done
calls "%2e%2e/%2e%2e/%2e%2e/..$outside/f" "\\u002e\\u002e/../..$outside/f"
all_are 'escaped dots' '404 NOT_FOUND'
is 'nothing of the outside was answered' "$leaked" ''
is 'nor changed' "$(ls -A "$outside"; cat "$outside/f")" $'f\noutside'
calls 'a%00b' 'a\u0000b'
all_are 'a NUL' '400 INVALID'
calls '' ''
all_are 'nothing' '400 INVALID'
name256=$(printf 'n%.0s' {1..256})
calls "$name256" "$name256"
all_are 'a name of 256 bytes' '400 INVALID'
long=$(printf 'd/../%.0s' {1..819})f # 4096 bytes
calls "$long" "$long"
all_are 'a path of 4096 bytes' '400 INVALID'
run 'find . | sort | tr "\n" " "; cat f d/f'
is 'the box is as it was' "$OUT" $'. ./d ./d/e ./d/f ./f top\ninside'

# what is odd and right
for path in d//f d/./f ./d/f d/e/../f /workspace/d/f //workspace///d//./f /../workspace/d/f \
    "$(printf './%.0s' {1..1500})d/f"; do
    get "$path"
    is "${path:0:40}" "$STATUS $BODY" '200 inside'
done
get d/f/
is_error 'a file with a slash behind it' 400 INVALID
put d/new/ x
is_error 'a file to be made, with a slash' 400 INVALID
get d/
is_error 'a directory' 400 INVALID 'is a directory'
api DELETE "$B/files?path=/"
is_error 'the root removed' 400 INVALID
api DELETE "$B/files?path=d/.&recursive=1"
is_error 'a directory by its dot' 400 INVALID
api DELETE "$B/files?path=d/e/..&recursive=1"
is_error 'a directory by its child' 400 INVALID
api POST "$B/move" '{"from":"d","to":"d/e/d"}'
is_error 'a directory into itself' 400 INVALID
run 'cat d/f'
is 'all of it is there' "$OUT" inside
