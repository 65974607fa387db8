#!/bin/bash
# `cubby cp`, `cat`, `ls`: files and trees both ways, odd names, and what is refused.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
write_config
use_cubby

start_or_end "$BUILD/cubbyd"
c create
box=$OUT
here=$WORK/here
mkdir -p "$here"
head -c 3000000 /dev/urandom > "$here/bytes"

c cp "$here/bytes" "$box:"
is 'into the workspace, under its own name' "$CODE $ERR" '0 '
c cp "$box:bytes" "$here/back"
ok 'and back' cmp "$here/bytes" "$here/back"
chmod 750 "$here/bytes"
c cp "$here/bytes" "$box:/workspace/mode"
c ls -l "$box"
like 'the mode goes with it' "$OUT" '-rwxr-x---.*3000000.*mode'
c exec "$box" -- mkdir d
c cp "$here/bytes" "$box:d"
c ls "$box:d"
is 'into a directory' "$OUT" bytes
c cp "$here/bytes" "$box:none/bytes"
is 'no parent directories are made' "$CODE" 125
c cp "$here/none" "$box:"
is 'no such file here' "$CODE" 125
like 'is named' "$ERR" 'here/none'
c cp "$box:none" "$here/x"
is 'no such file there' "$CODE $(ls "$here" | tr '\n' ' ')" '125 back bytes '
mkfifo "$here/fifo"
c cp "$here/fifo" "$box:"
is 'a FIFO is refused at once' "$CODE" 125
rm "$here/fifo"
printf 'from a pipe' > "$WORK/in"
INPUT=$WORK/in c cp - "$box:piped"
c cp "$box:piped" -
is 'standard input and output' "$OUT" 'from a pipe'
c cat "$box:piped" "$box:piped"
is 'cat, twice' "$OUT" 'from a pipefrom a pipe'

# trees
mkdir -p "$here/tree/a/b" "$here/tree/empty"
echo deep > "$here/tree/a/b/deep"
ln -s a/b/deep "$here/tree/link"
ln -s /etc/hostname "$here/tree/out"
printf odd > "$here/tree/$(printf 'new\nline \033[31m \xff')"
c cp "$here/tree" "$box:copied"
is 'a tree' "$CODE $ERR" '0 '
c exec "$box" -- find copied -printf '%y\n'
is 'has everything' "$(sort <<< "$OUT" | tr -d '\n')" ddddffll
c cp "$here/tree" "$box:copied"
c ls "$box:copied/tree/a/b"
is 'again: into it' "$OUT" deep
c cp "$box:copied/tree" "$here/tree2"
is 'and back' "$CODE" 0
ok 'the same' diff -r --no-dereference "$here/tree" "$here/tree2"
c cp "$box:copied/tree" "$here"
is 'an existing directory is not merged into' "$CODE" 125
like 'says what to do' "$ERR" force
ok 'and untouched' test -f "$here/tree/a/b/deep"
c exec "$box" -c 'echo new > copied/tree/new; chmod 4755 copied/tree/new; mkfifo copied/tree/fifo'
c cp --force "$box:copied/tree" "$here"
is 'but replaced by force' "$CODE $(cat "$here/tree/new")" '0 new'
is 'without set-user-ID bit' "$(stat -c %a "$here/tree/new")" 755
not_ok 'without FIFO' test -e "$here/tree/fifo"
is 'owned by us' "$(stat -c %u "$here/tree/new")" "$(id -u)"
is 'nothing half done is left' "$(ls -A "$here" | tr '\n' ' ')" 'back bytes tree tree2 '

# names
c exec "$box" -c 'mkdir n; touch "n/$(printf "a\nb")" "n/$(printf "\033]0;title\007")" n/é'
c ls "$box:n"
is 'ls in a pipe: names as they are' "$OUT" "$(printf '\033]0;title\007\na\nb\né' | sort)"
c ls -l "$box:n"
unlike 'ls -l: no control characters' "$OUT" $'\033'
like 'ls -l: escaped' "$OUT" 'a\\nb'
c ls --json "$box:n"
is 'ls --json' "$(jq '.entries|length' <<< "$OUT")" 3
c ls "$box:piped"
is 'ls of a file' "$CODE" 125

# usage
for words in 'cp a b' "cp $box:a $box:b" "cp $box:a" 'cat x' 'ls' 'ls zz' 'rm' 'rm --all x' "exec $box" 'exec' \
    'create x'; do
    c $words
    is "usage: cubby $words" "$CODE" 2
    like "usage: cubby $words: names the usage" "$ERR" 'usage: cubby'
done
c rm --all
is 'rm --all' "$CODE $OUT" "0 $box"
stop_daemon
finish
