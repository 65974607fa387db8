# stat, list, mkdir, move, remove; deep and wide trees.

put f.txt 12345 '&mode=0640'
api GET "$B/stat?path=f.txt"
is 'stat of a file' "$STATUS $(j '[.name,.path,.type,.size,.mode]|tostring')" \
    '200 ["f.txt","/workspace/f.txt","file",5,"0640"]'
like 'mtime' "$(j .mtime)" '^20[0-9-]+T[0-9:.]+Z$'
like 'owner' "$(j '"\(.uid):\(.gid)"')" '^[0-9]+:[0-9]+$'
run 'ln -s f.txt l; ln -s nowhere dangling; mkdir d; mkfifo p'
api GET "$B/stat?path=l"
is 'stat does not follow' "$(j '[.type,.link_target]|tostring')" '["symlink","f.txt"]'
api GET "$B/stat?path=dangling"
is 'not even nowhere' "$STATUS $(j .type)" '200 symlink'
api GET "$B/stat?path=d"
is 'a directory' "$(j .type)" dir
api GET "$B/stat?path=p"
is 'something else' "$(j .type)" other
api GET "$B/stat?path=nowhere"
is_error 'nothing' 404 NOT_FOUND nowhere
api GET "$B/stat?path=/"
if [ "$BACKEND" = local ]; then is_error 'the root' 403 DENIED; else is 'the root' "$STATUS $(j .type)" '200 dir'; fi
run "touch \$'\\xff'"
api GET "$B/list?path=/workspace"
is 'a name that is not UTF-8 is base64' "$(j '[.entries[]|select(.encoding=="base64")|.name]|tostring')" '["/w=="]'
run "rm \$'\\xff'"

# list
api GET "$B/list?path=/workspace"
is 'list: names' "$(j '[.entries[].name]|sort|tostring')" '["d","dangling","f.txt","l","p"]'
is 'list: not truncated' "$(j .truncated)" false
is 'list: entries are stats' "$(j '.entries[]|select(.name=="f.txt")|[.type,.size,.mode,.path]|tostring')" \
    '["file",5,"0640","/workspace/f.txt"]'
run 'mkdir -p d/e/f; touch d/1 d/e/2 d/e/f/3'
api GET "$B/list?path=d"
is 'depth 1' "$(j '[.entries[].path]|sort|tostring')" '["/workspace/d/1","/workspace/d/e"]'
api GET "$B/list?path=d&depth=2"
is 'depth 2' "$(j '[.entries[].path]|sort|tostring')" \
    '["/workspace/d/1","/workspace/d/e","/workspace/d/e/2","/workspace/d/e/f"]'
api GET "$B/list?path=d&depth=3&limit=2"
is 'limit' "$(j '[(.entries|length),.truncated]|tostring')" '[2,true]'
api GET "$B/list?path=d/e/f&limit=1"
is 'a limit just met' "$(j '[(.entries|length),.truncated]|tostring')" '[1,false]'
api GET "$B/list?path=f.txt"
is_error 'list of a file' 400 INVALID
api GET "$B/list?path=nowhere"
is_error 'list of nothing' 404 NOT_FOUND
api GET "$B/list?path=d&depth=0"
is_error 'depth 0' 400 INVALID depth
api GET "$B/list?path=d&limit=x"
is_error 'a limit that is no number' 400 INVALID limit
run 'ln -s .. d/up'
api GET "$B/list?path=d&depth=60"
is 'links are not walked' "$(j '.entries|length')" 6

# mkdir
api POST "$B/mkdir" '{"path":"m"}'
like 'mkdir' "$STATUS" '^20[014]$'
api POST "$B/mkdir" '{"path":"m"}'
is_error 'mkdir again' 409 EXISTS m
api POST "$B/mkdir" '{"path":"m","parents":true}'
like 'mkdir again with parents' "$STATUS" '^20[014]$'
api POST "$B/mkdir" '{"path":"m/a/b"}'
is_error 'mkdir without a parent' 404 NOT_FOUND
api POST "$B/mkdir" '{"path":"m/a/b","parents":true,"mode":"0700"}'
run 'stat -c %a m/a/b'
is 'mkdir with parents and mode' "$OUT" 700
api POST "$B/mkdir" '{"path":"f.txt"}'
is_error 'mkdir on a file' 409 EXISTS
api POST "$B/mkdir" '{"path":"f.txt/x","parents":true}'
like 'mkdir below a file' "$STATUS" '^(400|404|409)$'

# move
api POST "$B/move" '{"from":"f.txt","to":"g.txt"}'
like 'move' "$STATUS" '^20[04]$'
get g.txt
is 'moved' "$BODY" 12345
api POST "$B/move" '{"from":"f.txt","to":"h.txt"}'
is_error 'move of nothing' 404 NOT_FOUND f.txt
put h.txt other
api POST "$B/move" '{"from":"g.txt","to":"h.txt"}'
is_error 'move onto a file' 409 EXISTS h.txt
api POST "$B/move" '{"from":"g.txt","to":"h.txt","overwrite":true}'
get h.txt
is 'with overwrite' "$BODY" 12345
api POST "$B/move" '{"from":"l","to":"l2"}'
run 'readlink l2'
is 'a link moves as a link' "$OUT" f.txt
api POST "$B/move" '{"from":"m","to":"m/a/inside"}'
is_error 'a directory into itself' 400 INVALID
api POST "$B/move" '{"from":"m","to":"nowhere/m"}'
is_error 'to no directory' 404 NOT_FOUND
api POST "$B/move" '{"from":"d","to":"d2"}'
api GET "$B/stat?path=d2/e/f/3"
is 'a tree moves' "$STATUS" 200

# remove
api DELETE "$B/files?path=h.txt"
like 'remove' "$STATUS" '^20[04]$'
api DELETE "$B/files?path=h.txt"
is_error 'remove again' 404 NOT_FOUND h.txt
api DELETE "$B/files?path=d2"
is_error 'a full directory' 409 EXISTS d2
run 'mkdir target; echo keep > target/keep; ln -s ../target d2/link; ln -s target tlink'
api DELETE "$B/files?path=d2&recursive=1"
like 'recursive' "$STATUS" '^20[04]$'
run 'cat target/keep; ls d2 2>&1'
like 'links in it are not followed' "$OUT" '^keep'
api DELETE "$B/files?path=tlink&recursive=1"
run 'cat target/keep; ls tlink 2>/dev/null'
is 'a link is removed itself' "$OUT" keep
api DELETE "$B/files?path=/workspace&recursive=1"
like 'the workspace itself is not removed' "$STATUS" '^4'
api DELETE "$B/files?path=/&recursive=1"
like 'nor the root' "$STATUS" '^4'
run 'echo alive'
is 'the box lives' "$OUT" alive
if [[ $BACKEND = jail || $BACKEND = docker ]]; then
    api DELETE "$B/files?path=/usr/bin/env"
    is_error "what is not the agent's" 403 DENIED
else skip "what is not the agent's" 'local: there is no agent'; fi

# deep and wide
upload tool "$TOOL" '&mode=0755'
run 'mkdir deep && ./tool deep deep 3000 && echo made'
is 'three thousand levels' "$OUT" made
api GET "$B/list?path=deep&depth=64&limit=100000"
is 'list stops at its depth' "$STATUS $(j '.entries|length')" '200 64'
API_SECONDS=30 api POST "$B/glob" '{"pattern":"**/nothing","path":"deep"}'
is 'glob goes down without falling' "$STATUS $(j '.paths|length')" '200 0'
API_SECONDS=30 api POST "$B/grep" '{"pattern":"x","path":"deep"}'
is 'and grep' "$STATUS" 200
now_ms; start=$NOW
API_SECONDS=30 api DELETE "$B/files?path=deep&recursive=1"
now_ms
like 'remove of three thousand levels' "$STATUS" '^20[04]$'
between 'in time' $((NOW - start)) 0 60000
api GET "$B/stat?path=deep"
is 'gone' "$STATUS" 404
run 'mkdir wide && ./tool many wide 100000 .c && echo made'
is 'a hundred thousand files' "$OUT" made
now_ms; start=$NOW
api GET "$B/list?path=wide&limit=1000000"
now_ms
is 'list all' "$STATUS $(j '[(.entries|length),.truncated]|tostring')" '200 [100000,false]'
between 'in time' $((NOW - start)) 0 60000
api GET "$B/list?path=wide"
is 'a thousand by default' "$(j '[(.entries|length),.truncated]|tostring')" '[1000,true]'
API_SECONDS=30 api POST "$B/glob" '{"pattern":"**/*.c","limit":1000000}'
is 'glob all' "$(j '[(.paths|length),.truncated]|tostring')" '[100000,false]'
now_ms; start=$NOW
API_SECONDS=60 api DELETE "$B/files?path=wide&recursive=1"
now_ms
like 'remove all' "$STATUS" '^20[04]$'
between 'in time' $((NOW - start)) 0 110000

# ---- between directories ----
run 'mkdir -p m/from m/to && echo moved > m/from/a && echo linked > m/from/b &&
    perl -e "rename q(m/from/a), q(m/to/a) or die qq(rename: \$!); link q(m/from/b), q(m/to/b) or die qq(link: \$!)" '\
'2>&1 &&
    cat m/to/a m/to/b && stat -c %h m/to/b'
is 'a command renames and links files from one directory to another' "$OUT" $'moved\nlinked\n2'
