#!/bin/bash
# `cubby template`: a root of one's own from a directory and from a tar file, used by boxes of a daemon.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
write_config
CUBBY=$BUILD/cubby
export CUBBY_URL=unix:$SOCKET

t() { c template --state "$STATE" "$@"; }

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
stop_daemon
finish
