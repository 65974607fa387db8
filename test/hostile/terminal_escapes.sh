# Terminal sequences, direction overrides and carriage returns that a box or a client puts into names, commands and
# paths, where
# somebody looks at them later: the daemon's log, cubby audit, cubby ps, cubby ls, error texts.
# wall: everything shown goes through one function that escapes control characters (C0, C1), direction overrides and
# bytes that are not UTF-8

CUBBY=$BUILD/asan/cubby
[ -x "$CUBBY" ] || CUBBY=$BUILD/cubby
PTYRUN=$BUILD/test/ptyrun
export CUBBY_URL=unix:$SOCKET ASAN_OPTIONS=detect_leaks=0

# Title, clipboard (OSC 52), hyperlink, colour, line overwritten by \r, CSI as one C1 character, DEL, a right-to-left
# override,
# a tag character nobody sees, HTML.
evil=$'\e]0;title\a\e]52;c;ZXZpbA==\a\e]8;;http:evil\e\\\e[31mred\e[2K\roverwritten\xc2\x9b31m\x7f\xe2\x80\xaegnp.ex'\
$'e\xf3\xa0\x81\x81<b>\b'
coded=$(encode "$evil")
json_evil='\u001b]0;title\u0007\u001b]52;c;ZXZpbA==\u0007\u001b[31mred\u001b[2K\roverwritten\u009b31m\u007f\u202egnp.'\
'exe<b>\b\n'
raw=$'\xff\x9b31m\e[35m' # not UTF-8: an 8-bit terminal takes 0x9b for ESC [

# What no log viewer and no terminal may get: any control character but a line's end, C1 controls also as UTF-8,
# overrides.
harmful=$'[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]|\xf3\xa0'
harmless() { # harmless NAME FILE WORD: nothing harmful in it, though WORD, which stood beside it, is
    if ! grep -qa -- "$3" "$2"; then fail "control: $1" "'$3' is not there: $(head -c 600 "$2" | cat -v)"; return; fi
    if LC_ALL=C grep -qaP "$harmful" "$2"; then
        fail "$1" "$(LC_ALL=C grep -aP -m2 "$harmful" "$2" | cat -v | cut -c1-400)"
    else pass "$1"; fi
}

printf '%s\n' "x$evil" > "$WORK/control"
if LC_ALL=C grep -qaP "$harmful" "$WORK/control"; then pass 'control: the pattern sees them'; else fail \
    'control: the pattern sees them'; fi

# ---- planted ----

api POST /v1/boxes "{\"user\":\"mallory\",\"thread\":\"planted-thread$json_evil\",\"labels\":{\"l\":\"$json_evil\"}}"
is 'a thread full of them' "$STATUS" 201
other=$(j .id)
api POST "$B/exec" "{\"command\":\"echo planted-command; : '$json_evil'\"}"
is 'a command' "$STATUS $(j .exit_code)" '200 0'
api POST "$B/exec" "{\"argv\":[\"planted-program$json_evil\"]}"
for name in "planted-file$coded" "planted-raw$(encode "$raw")"; do
    api PUT "$B/files?path=$name" '' --data-binary x -H 'Content-Type: application/octet-stream'
    is 'a file name' "$STATUS" 201
    api GET "$B/files?path=missing-$name"
    is_error 'a missing one' 404 NOT_FOUND
done
api GET "/v1/planted-path$coded"
is 'a path that is no route' "$STATUS" 404
api GET "$B/planted-path$coded" '' -H "X-Request-Id: planted$(printf '%s' "$evil" | tr -d '\r\n\000-\037')"
api GET "/v1/boxes/planted-id$coded"
is_error 'an id' 404 NOT_FOUND
api GET "$B/processes/planted-pid$coded"
audited() { api GET "/v1/audit?box=$BOX&limit=1000" && [[ $BODY = *planted-command* &&
    $BODY = *missing-planted-file* ]]; }
eventually 5 audited

# ---- looked at ----

harmless 'the log of the daemon' "$WORK/daemon.log" planted-path
harmless 'JSON has no raw control characters' \
    <(sed $'s/\xc2\x9b//g;s/\xe2\x80\xae//g;s/\xf3\xa0\x81\x81//g' "$WORK/body") planted-command
is 'the log keeps what it was: data is data' \
    "$(j '[.events[]|select(.detail//""|startswith("echo planted"))][0].detail')" \
    "$(jq -rn "\"echo planted-command; : '$json_evil'\"")"

shown() { # shown NAME WORD ARGUMENTS...: cubby on a terminal
    local name=$1 word=$2
    shift 2
    NO_COLOR=1 timeout 60 "$PTYRUN" 2000x50 -- "$CUBBY" "$@" < /dev/null > "$WORK/shown" 2>&1
    harmless "$name, on a terminal" "$WORK/shown" "$word"
    timeout 60 "$PTYRUN" 2000x50 -- "$CUBBY" "$@" < /dev/null 2>&1 | sed -E $'s/\x1b\\[[0-9]{0,2}m//g' > "$WORK/shown"
    harmless "$name, in colours" "$WORK/shown" "$word"
    "$CUBBY" "$@" < /dev/null > "$WORK/shown" 2>&1
    harmless "$name, in a file" "$WORK/shown" "$word"
}
shown 'cubby audit' planted-command audit --box "$BOX"
shown 'cubby audit, paths' missing-planted-file audit --box "$BOX" --outcome failed
shown 'cubby audit, raw bytes' planted-raw audit --box "$BOX"
like 'they can be read' "$(< "$WORK/shown")" 'planted-raw\\xff\\x9b31m\\x1b\[35m'
shown 'cubby ps' planted-thread ps -a
shown 'cubby ls -l' planted-file ls -l "$BOX"
shown 'an error text' "planted-none" cat "$BOX:planted-none$evil"
shown 'another' "planted-id" rm "planted-id$evil"
shown 'an option that is none' planted-word audit "planted-word$evil"
timeout 60 "$PTYRUN" 2000x50 -- "$CUBBY" audit --json --box "$BOX" < /dev/null > "$WORK/shown" 2>&1
harmless 'cubby audit --json on a terminal' "$WORK/shown" planted-command
timeout 60 "$PTYRUN" 2000x50 -- "$CUBBY" ps --json < /dev/null > "$WORK/shown" 2>&1
harmless 'cubby ps --json on a terminal' "$WORK/shown" planted-thread
timeout 60 "$PTYRUN" 2000x50 -- "$CUBBY" ls "$BOX" < /dev/null > "$WORK/shown" 2>&1
harmless 'cubby ls on a terminal' "$WORK/shown" planted-file

# A browser that opens a file of a box gets bytes, never a page.
get "planted-file$evil"
is 'a file is bytes' "$(header content-type)" application/octet-stream
api DELETE "/v1/boxes/$other"
