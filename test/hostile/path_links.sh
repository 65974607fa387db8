# Links to secrets, to the root, through /proc, in chains and in loops.
# wall: openat2 RESOLVE_IN_ROOT | NO_MAGICLINKS; what names a thing rather than its content does not follow at all
# backends: jail docker

outside=$WORK/forbidden/dir
mkdir -p "$outside"
echo outside > "$outside/f"
outside_is() { find "$outside" -printf '%P %y %s\n' | sort; }
before=$(outside_is)
run "ln -s /etc/shadow shadow; ln -s / root; ln -s /proc/1/root proc1; ln -s /proc/self/root self; ln -s '$outside/f' "\
"out
    ln -s '../../../../../../../../..$outside/f' up; ln -s a2 a1; ln -s d/../a3 a2; mkdir d; ln "\
"-s 'd/../../..$outside' a3
    ln -s loop loop; ln -s ping pong; ln -s pong ping; ln -s /proc/self/fd/0 fd; ln -s /proc/self/cwd cwd; ln -s "\
"/proc/self/exe exe
    echo inside > file; ln -s file good; ln -s /workspace/./file absolute; ln -s nothing dangling
    for i in \$(seq 45); do ln -s c\$((i - 1)) c\$i; done; echo end > c0"
leaked=
# The daemon is in no /proc of a box, and PID 1's is closed to the agent: which of these it is depends on who looks.
MAGIC='(400 INVALID|403 DENIED|404 NOT_FOUND)'
reads() { # reads NAME PATH REGEX of status and code
    local way
    for way in "GET files?path=$2" "GET hash?path=$2" "GET archive?path=$2" \
        "POST grep {\"path\":\"$2\",\"pattern\":\"outside\"}" \
        "POST edit {\"path\":\"$2\",\"old\":\"outside\",\"new\":\"x\"}"; do
        read -r method rest <<< "$way"
        if [ "$method" = GET ]; then api GET "$B/$rest"; else api POST "$B/${rest%% *}" "${rest#* }"; fi
        like "$1 by ${rest%%[ ?]*}" "$STATUS $(j .error.code)" "^$3\$"
        [[ $BODY != *outside$'\n'* ]] || leaked+=" $1"
    done
}
reads 'a link to a file of the host' out '404 NOT_FOUND'
reads 'a link that climbs' up '404 NOT_FOUND'
reads 'a chain that climbs' a1/f '404 NOT_FOUND'
reads 'through the root of PID 1' "proc1$outside/f" "$MAGIC"
reads 'through the own root' "self$outside/f" "$MAGIC"
reads 'an own descriptor' fd "$MAGIC"
reads 'the own program' exe "$MAGIC"
reads 'a loop' loop '400 INVALID'
reads 'a loop of two' ping '400 INVALID'
reads 'a chain of forty-five' c45 '400 INVALID'
is 'nothing of the outside was answered' "$leaked" ''
get shadow
like "the box's own shadow file is not readable" "$STATUS" '^40[34]$'
get root/workspace/file
is 'a link to / leads to the root of the box' "$STATUS $BODY" '200 inside'
get c40
is 'forty links are followed' "$STATUS $BODY" '200 end'
for link in good absolute; do
    get $link
    is "$link is followed" "$STATUS $BODY" '200 inside'
done

# writing
for link in out up a1/new proc1/new self/new loop fd; do
    put "$link" bad
    like "writing to $link fails" "$STATUS" '^4[0-9][0-9]$'
    put "$link" bad '&append=1'
    like "appending to $link fails" "$STATUS" '^4[0-9][0-9]$'
done
put good changed
run 'cat file; test -L good && echo link'
is 'a write goes where a link of the box points' "$OUT" 'changedlink'
put dangling made
run 'cat nothing; test -L dangling && echo link'
is 'also where nothing is yet' "$OUT" 'madelink'
api POST "$B/mkdir" '{"path":"a3/x/y","parents":true}'
made=$STATUS
run "ls -A d; find / -xdev -path '*/x/y' -type d 2> /dev/null"
is 'directories are made through no link that leads nowhere, neither there nor here' "$made $OUT" '409 '
is 'the outside is as it was' "$(outside_is)" "$before"

# what names a thing does not follow
for link in out root loop dangling; do
    api GET "$B/stat?path=$link"
    is "stat of $link" "$STATUS $(j .type)" '200 symlink'
done
api POST "$B/move" '{"from":"out","to":"moved"}'
run 'readlink moved'
is 'a moved link is the link' "$OUT" "$outside/f"
api DELETE "$B/files?path=root&recursive=1"
is 'a link to / removed with all below it' "$STATUS" 204
run 'ls / > /dev/null && cat file; test -L root || echo gone'
is 'is the link removed' "$OUT" 'changedgone'
api GET "$B/list?path=/workspace&depth=5"
is 'a list does not walk through links' "$(j '[.entries[].path|select(contains("self/"))]|length')" 0
