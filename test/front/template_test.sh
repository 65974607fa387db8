#!/bin/bash
# `cubby template`: a root of one's own from a directory and from a tar file, used by boxes of a daemon; on its files
# and
# through it.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
write_config
CUBBY=$BUILD/cubby
export CUBBY_URL=unix:$SOCKET

t() { c template --state "$STATE" "$@"; }

c template list
is 'no daemon: that is said, with the other way' \
    "$CODE $(grep -c -- '--state' <<< "$ERR") $(grep -c cubbyd <<< "$ERR")" '125 1 1'
c template --state "$WORK/never" list
is 'list makes no state directory' "$CODE $OUT $(ls -d "$WORK/never" 2> /dev/null)" $'0 NAME\nhost '
c template --state "$WORK/never" rm x
is 'nor does rm' "$CODE $(ls -d "$WORK/never" 2> /dev/null)" '125 '
mkdir -p "$WORK/root/bin" "$WORK/root/etc"
cp "$TOOL" "$WORK/root/bin/tool"
echo mine > "$WORK/root/etc/mark"
tar -C "$WORK/root" -czf "$WORK/root.tgz" .
t import small "$WORK/root"
is 'import of a directory' "$CODE $ERR" '0 '
t import packed "$WORK/root.tgz"
is 'import of a tar file' "$CODE $ERR" '0 '
t list
is 'list' "$OUT" $'NAME\nhost\npacked\nsmall'
t list --json
is 'list --json' "$(jq -r '[.templates[].name]|join(" ")' <<< "$OUT")" 'host packed small'
t import small "$WORK/root"
is 'a name that is taken' "$CODE" 125
t import ../x "$WORK/root"
is 'a name that is a path' "$CODE" 125
t import new "$WORK/none"
is 'no such file' "$CODE" 125
t import
is 'too few words' "$CODE" 2
t remove host
is 'host stays' "$CODE" 125

start_or_end "$BUILD/cubbyd"
for name in small packed; do
    c create --template "$name"
    box=$OUT
    c cat "$box:/etc/mark"
    is "$name: its files" "$OUT" mine
    c exec "$box" -- /bin/tool
    is "$name: its programs" "$CODE" 2
    c exec "$box" -- /bin/ls
    is "$name: and no others" "$CODE" 127
    t remove "$name"
    is "$name: removed" "$CODE" 0
    c cat "$box:/etc/mark"
    is "$name: the box keeps it" "$OUT" mine
done
c create --template small
is 'no box with a template that is gone' "$CODE" 125
like 'which is named' "$ERR" small

# through the daemon, which may be anywhere
c template import one "$WORK/root"
is 'upload of a directory' "$CODE $ERR" '0 '
gzip -dc "$WORK/root.tgz" > "$WORK/root.tar"
kinds=('gzip:tgz' 'plain:tar')
for kind in xz zstd bzip2; do
    if command -v "$kind" > /dev/null; then
        "$kind" -c < "$WORK/root.tar" > "$WORK/root.$kind" && kinds+=("$kind:$kind")
    else skip "upload of $kind" "no $kind here"; fi
done
for kind in "${kinds[@]}"; do
    c template import "two-${kind%%:*}" "$WORK/root.${kind##*:}"
    is "upload of a tar: ${kind%%:*}" "$CODE $ERR" '0 '
    c create --template "two-${kind%%:*}"
    c cat "$OUT:/etc/mark"
    is "and a box of it: ${kind%%:*}" "$OUT" mine
done
c template list
is 'list' "$(head -2 <<< "$OUT" | xargs) $(grep -c . <<< "$OUT")" "NAME host $((3 + ${#kinds[@]}))"
is 'it is the daemon that has it' "$(ls "$STATE/templates" | grep -x one)" one
c template import one "$WORK/root"
like 'a name that is taken' "$CODE $ERR" "^125 .*there is a template 'one' already"
c template import host "$WORK/root"
like 'host is not for uploads' "$CODE $ERR" "^125 .*not 'host'"
c template import Bad/name "$WORK/root"
is 'a name that cannot be one' "$CODE" 2
echo 'no archive at all' > "$WORK/none"
c template import none "$WORK/none"
like 'what is not an archive' "$CODE $ERR" '^125 .*not a tar archive'
: > "$WORK/none"
c template import none "$WORK/none"
like 'nothing' "$CODE $ERR" '^125 .*empty'
head -c 3000 "$WORK/root.tgz" > "$WORK/none"
c template import none "$WORK/none"
like 'half an archive' "$CODE $ERR" '^125 .*not a tar archive'
api PUT /v1/templates/none '' -H 'Content-Length: 99999999999999'
is_error 'more than a template may have is refused before it is sent' 413 TOO_LARGE
api PUT /v1/templates/.hidden x
is_error 'a name with a dot first' 400 INVALID
mkfifo "$WORK/slow"
curl -s --unix-socket "$SOCKET" -T "$WORK/slow" http://localhost/v1/templates/slow > /dev/null 2>&1 &
slow=$!
exec 9> "$WORK/slow"
head -c 700 "$WORK/root.tar" >&9
importing() { ls -d "$STATE"/templates/.new-* > /dev/null 2>&1; }
ok 'an upload is under way' eventually 10 importing
api PUT /v1/templates/second x
is_error 'one at a time' 503 BUSY
kill "$slow"
wait "$slow" 2> /dev/null
exec 9>&-
given_up() { ! importing; }
ok 'an upload whose client is gone leaves nothing' eventually 20 given_up
is 'and no tar' "$(pgrep -f "tar --extract.*$STATE" | wc -l)" 0
is 'nothing of those that failed is there' "$(ls -A "$STATE/templates" | grep -E '^(none|slow|second|\.new-)')" ''
c template remove one
is 'remove' "$CODE $ERR" '0 '
c template rm one
like 'twice' "$CODE $ERR" "^125 .*no template 'one'"
for kind in "${kinds[@]}"; do c template rm "two-${kind%%:*}"; done
stop_daemon
finish
