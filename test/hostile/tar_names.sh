# Archives whose entries lead out, lie, or bring what a box may not have.
# wall: names are checked, directories opened below the destination with no link allowed, files made new in a hidden
# directory

TAR=$BUILD/test/attack_tar
send() { # send ENTRY...: unpacked into in/
    "$TAR" "$@" > "$WORK/evil.tar"
    api PUT "$B/archive?path=in" '' -T "$WORK/evil.tar"
}
fresh() { run 'rm -rf in outside; mkdir in outside; echo safe > outside/f; echo safe > top; echo old > in/old'; }
SAFE=$'safe\nsafe\nf\nattack in outside top \nold\nold '
untouched() { # untouched NAME: nothing outside of in/ changed, and in/ is as it was, hidden names included
    run 'cat outside/f top; ls -A outside; ls -A | tr "\n" " "; echo; cat in/old; ls -A in | tr "\n" " "'
    is "$1: nothing is left of it" "$OUT" "$SAFE"
}
refused() { # refused NAME REGEX ENTRY...
    local name=$1 why=$2
    shift 2
    fresh
    send "$@" e
    is_error "$name" 400 INVALID "$why"
    untouched "$name"
}

run 'mkdir attack'
refused 'an absolute name' "archive entry '/workspace/outside/f': its name is absolute" f:good=x \
    f:/workspace/outside/f=bad
refused 'a name with ..' "its name contains '..'" f:good=x f:../outside/f=bad
refused '.. in the middle' "its name contains '..'" f:d/../../outside/f=bad
refused '.. at the end' "its name contains '..'" d:d/..
refused 'an absolute name in a pax record' 'its name is absolute' x:path=/workspace/outside/f f:f=bad
refused 'a link, then a file through it' "'d/l/f': a part of its path is a link or a file" l:d/l=/workspace/outside \
    f:d/l/f=bad
refused 'a relative link, then a file through it' 'a link or a file' l:l=../outside f:l/f=bad
refused 'a link to .., then a directory through it' 'a link or a file' l:l=.. d:l/outside/new
refused 'a hard link to the outside' 'a hard link out of the archive' h:g=../outside/f f:g=bad
refused 'an absolute hard link' 'a hard link out of the archive' h:g=/workspace/outside/f
refused 'a hard link through a link' 'a link or a file' l:l=../outside h:g=l/f
refused 'a hard link to a link' 'a hard link to something that is not a file' l:l=../outside/f h:g=l
refused 'a hard link to nothing' "'g': it is a hard link to a file that does not exist" h:g=none
refused 'a link to nothing' 'it is a link without a target' l:l=
refused 'a file without a name' 'no name' f:.=x
refused 'a name of 256 bytes' 'longer than 255 bytes' 'f:%256{n}=x'
refused 'a directory in place of a file' 'a link or a file' f:a=x f:a/b=x
refused 'a file in place of a directory' 'a directory of the archive has the same name' f:a/b=x f:a=x
refused 'sparse, as GNU had it' 'neither a file, a directory nor a link' s:sparse
refused 'sparse, in pax' 'sparse' x:GNU.sparse.realsize=1099511627776 f:f=x
refused 'a pax head of 100,000 bytes' 'too large' X:100000 f:f=x
refused 'a pax size that is no number' 'malformed' x:size=99999999999999999999 f:f=x
refused 'a head that promises more than comes' 'ends inside it' z:8000000000:f

# what is there already and stands in the way
fresh
run 'ln -s /workspace/outside in/l; mkdir in/d; echo keep > in/d/keep'
send f:new=x f:l/f=bad e
is_error 'a link of the destination' 400 INVALID "'l': a part of its path is a link or a file"
send f:new=x f:d=bad e
is_error 'a directory of the destination' 400 INVALID 'there is a directory of that name'
run 'cat outside/f in/d/keep; ls -A in | tr "\n" " "'
is 'and nothing came in' "$OUT" $'safe\nkeep\nd l old '

# neutralised and listed
fresh
send c:null p:fifo m:6755:suid='#!/bin/sh' m:2755:sgid=x f:twice=one f:twice=two d:d f:d/f=x l:l=/etc/passwd \
    h:hard=d/f 'f:n\xff=x' 'p:p\xff' e
is 'the rest of such an archive is unpacked' "$STATUS" 200
is 'what was left out is listed' "$(j '.skipped[]|"\(.name) \(.reason)"' | sort)" "$(sort << 'END'
null devices are not created
fifo FIFOs are not created
suid its set-user-ID and set-group-ID bits were dropped
sgid its set-user-ID and set-group-ID bits were dropped
twice it replaced an earlier entry of the same name
cP8= FIFOs are not created
END
)"
is 'names that are not UTF-8 as base64' "$(j '[.skipped[].encoding]|unique|tostring')" '["base64","utf-8"]'
is 'and counted' "$(j '"\(.files) \(.truncated)"')" '9 false'
run 'cd in; stat -c "%n %a %F" suid sgid; cat twice; echo; readlink l; stat -c %h hard; find . -type c -o -type p; ls '\
'-A | od -An -c | tr -d " \n"'
is 'as it should be' "$OUT" \
    $'suid 755 regular file\nsgid 755 regular file\ntwo\n/etc/passwd\n2\n'\
$'d\\nhard\\nl\\nn377\\nold\\nsgid\\nsuid\\ntwice\\n'
entries=()
for i in {1..150}; do entries+=("p:fifo$i"); done
fresh
send "${entries[@]}" e
is 'at most a hundred are listed' "$(j '"\(.skipped|length) \(.truncated) \(.files)"')" '100 true 0'

# as the box's root looks at it: files made belong to the agent
run 'stat -c "%u %U" in/old' '"user":"root"'
is 'who owns it' "$OUT" '1000 agent'
