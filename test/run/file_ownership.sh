# Whose files are: those the daemon puts into a box are the agent's, those made in it are handed out with the agent's
# rights, and on the host a mounted directory's owner keeps it. Also after a restart, a new start, a snapshot and a
# fork.
# not remote: files are the machine's user's

if [ "$BACKEND" != jail ] && [ "$BACKEND" != docker ]; then
    skip 'ownership' "$BACKEND: no ids of its own"
    return 0
fi
# What root did in its workspace: of a jail its own; in a container whose user is another nobody is, so the host's.
as_root() { # as_root COMMAND: OUT
    if [ "$BACKEND" = jail ]; then run "$1" '"user":"root"'; else \
        OUT=$(cd "$STATE/boxes/$BOX/workspace" && sh -c "$1"); fi
}
box_new '"user":"ann","thread":"files"'
owner() { api GET "$B/stat?path=$(encode "$1")" && j '"\(.uid):\(.gid) \(.mode)"'; } # owner PATH

# ---- from the daemon into the box ----
put up.txt one
put deep/er/up.txt two '&parents=1'
api POST "$B/mkdir" '{"path":"made/by/api","parents":true}'
mkdir "$WORK/tree"
echo three > "$WORK/tree/packed.txt"
chmod 0640 "$WORK/tree/packed.txt"
tar -C "$WORK" --owner=0 --group=0 --numeric-owner -cf "$WORK/in.tar" tree
api PUT "$B/archive" '' --data-binary "@$WORK/in.tar" -H 'Content-Type: application/x-tar'
is 'an archive of root comes in' "$STATUS" 200
head -c 1000000 /dev/zero > "$WORK/large" # another way of writing: into a passed descriptor
upload large.bin "$WORK/large"
names='up.txt deep deep/er deep/er/up.txt made made/by made/by/api tree tree/packed.txt large.bin'
run "stat -c %u:%g $names | sort -u"
is 'what the daemon puts into a box is the agent'"'"'s, seen inside' "$OUT" 1000:1000
whose=
for name in $names; do whose+="$(owner "$name" | cut -d' ' -f1) "; done
is 'and by the file API' "$(tr ' ' '\n' <<< "$whose" | sort -u | xargs)" 1000:1000
run 'echo more >> up.txt && echo more >> deep/er/up.txt && echo more >> tree/packed.txt && echo x > made/by/api/x && '\
'mv large.bin l && rm -r l made && cat up.txt'
is 'the agent writes to it, moves it, removes it' "$CODE $OUT" $'0 onemore'
is 'the mode of an archive stays' "$(owner tree/packed.txt)" '1000:1000 0640'
as_root 'chown 0:0 up.txt; chmod 0644 up.txt'
put up.txt 'again'
is "a file of the box's root is not replaced: the agent could not write to it either" "$STATUS $(owner up.txt)" \
    '403 0:0 0644'
as_root 'chown 1000:1000 up.txt'
put up.txt 'again'
is 'given back it is' "$STATUS $(owner up.txt)" '200 1000:1000 0644'

# ---- out of the box ----
run 'umask 077; echo secret > mine; mkdir closed; echo x > closed/in; : > none; chmod 000 none; echo y > shut; chmod '\
'000 shut; chmod 000 closed; mkdir -m 0311 blind; echo z > blind/z'
get mine
is "the agent's 0600" "$STATUS $BODY" '200 secret'
for path in none shut; do
    get "$path"
    is_error "the agent's own $path without any bit: as for the agent" 403 DENIED
    is 'but it can be looked at' "$(owner "$path")" '1000:1000 0000'
done
get closed/in
is_error 'below a directory without any bit' 403 DENIED
api GET "$B/list?path=closed"
is_error 'which cannot be listed' 403 DENIED
get blind/z
is 'one that can be entered, not listed' "$STATUS $BODY" '200 z'
api GET "$B/list?path=blind"
is_error 'is not listed' 403 DENIED
as_root 'umask 022; echo root > roots; echo root > roots-own; chmod 600 roots-own; mkdir -m 700 roots-dir; echo x > '\
'roots-dir/x; install -d -m 1777 free; echo f > free/roots'
get roots
is "a file of the box's root" "$STATUS $BODY $(owner roots)" '200 root 0:0 0644'
get roots-own
is_error 'its 0600 is not for the agent, nor for the API' 403 DENIED
as_root 'cat roots-own'
is 'a command of root reads it' "$OUT" root
api GET "$B/list?path=roots-dir"
is_error 'its closed directory' 403 DENIED
put roots-dir/new x
is_error 'nor is anything put there' 403 DENIED
api DELETE "$B/files?path=free/roots"
is_error 'the sticky bit holds' 403 DENIED
api DELETE "$B/files?path=roots"
is "from the agent's own directory it is removed" "$STATUS" 204
run 'chmod 755 closed; chmod 600 shut; rm -rf none blind'
get closed/in
is 'opened again' "$STATUS $BODY" '200 x'
api GET "$B/archive?path=tree"
tar -tvf "$WORK/body" --numeric-owner > "$WORK/listing" 2>&1
is 'an archive has the ids of the box' "$(awk '{ print $2 }' "$WORK/listing" | sort -u)" 1000/1000
find "$STATE" -name mine -exec stat -c '%u:%g %a' {} + > "$WORK/listing"
is 'on the disk ids are as in the box' "$(sort -u "$WORK/listing")" '1000:1000 600'
is 'and the state is closed to others' "$(stat -c %a "$STATE" "$STATE/boxes" | sort -u)" 700

# ---- mounted directories ----
mounted=$WORK/shared/owned
mkdir -p "$mounted"
echo host > "$mounted/host.txt"
echo hidden > "$mounted/hidden.txt"
echo other > "$mounted/other.txt"
chmod 0600 "$mounted/hidden.txt"
chown -R 23456:23457 "$mounted"
chown 34567:34567 "$mounted/other.txt"
chmod 0644 "$mounted/other.txt"
first=$BOX
box_new "\"mounts\":[{\"source\":\"$mounted\",\"target\":\"/mnt/owned\"}]"
is "the directory's owner is agent inside" "$(owner /mnt/owned)" '1000:1000 0755'
get /mnt/owned/hidden.txt
is 'whose files he can read' "$STATUS $BODY $(owner /mnt/owned/hidden.txt)" '200 hidden 1000:1000 0600'
put /mnt/owned/api.txt api
is 'the API writes there' "$STATUS $(stat -c '%u:%g' "$mounted/api.txt")" '201 23456:23457'
run 'cd /mnt/owned && umask 022 && echo in > in.txt && mkdir d && echo more >> host.txt && echo more >> api.txt && '\
'cat hidden.txt'
is 'so do commands' "$CODE $OUT" '0 hidden'
is 'on the host all is the owner'"'"'s' \
    "$(stat -c '%u:%g' "$mounted"/{in.txt,d,host.txt,api.txt,hidden.txt} | sort -u)" 23456:23457
run 'echo x >> /mnt/owned/other.txt'
isnt "somebody else's file there is not his" "$CODE" 0
run 'cat /mnt/owned/other.txt; stat -c %u /mnt/owned/other.txt'
is 'only as its mode says, and as nobody'"'"'s' "$OUT" $'other\n65534'
[ "$BACKEND" != jail ] || run \
    'echo r > /mnt/owned/roots.txt; chown 1000:1000 /mnt/owned/roots.txt; echo $?; stat -c %u /mnt/owned/roots.txt' \
    '"user":"root"'
uid=$(stat -c %u "$mounted/roots.txt" 2> /dev/null || echo none)
like "the box's root makes no file of the host's root there" "$uid" '^(none|23456)$'
tar -C "$WORK" --owner=0 --group=0 -cf "$WORK/in.tar" tree
api PUT "$B/archive?path=/mnt/owned" '' --data-binary "@$WORK/in.tar" -H 'Content-Type: application/x-tar'
is 'an archive unpacked there' "$STATUS $(stat -c '%u:%g %a' "$mounted/tree/packed.txt")" '200 23456:23457 640'
api DELETE "$B"

# ---- later ----
box_use "$first"
kept() { # kept WHEN: all is as it was
    run 'stat -c "%u:%g %a %n" up.txt mine closed/in tree/packed.txt roots-own; echo more >> mine; tail -1 mine' ''
    is "$1: seen inside" "$OUT" \
        $'1000:1000 644 up.txt\n1000:1000 600 mine\n1000:1000 600 closed/in\n1000:1000 640 tree/packed.txt\n0:0 600 '\
$'roots-own\nmore'
    get mine
    is "$1: the API reads the agent's" "$STATUS" 200
    get roots-own
    is_error "$1: and not root's" 403 DENIED
    put up.txt 'and again'
    is "$1: and writes" "$STATUS $(owner up.txt)" '200 1000:1000 0644'
}
kept 'as it is'
kill -TERM "$DAEMON_PID"
wait "$DAEMON_PID"
start_daemon "$program" || fail 'a new daemon' "$(tail -3 "$WORK/daemon.log")"
kept 'after a restart of the daemon'
# Its runner gone, its owner gets it again: another range of ids on the host, the same files.
runner() { if [ "$BACKEND" = jail ]; then cut -d' ' -f1 "$STATE/boxes/$BOX/jail"; else cut -d' ' -f2 \
    "$STATE/boxes/$BOX/docker"; fi; }
inside() { awk '{ print $2 }' "/proc/$(runner)/uid_map" | head -1; }
before=$(inside)
kill -KILL "$(runner)"
dead() { api GET "$B" && [ "$(j .state)" != ready ]; }
eventually 10 dead
box_new '"user":"ann","thread":"whose"' # takes the range that is free now
other=$BOX
box_new '"user":"ann","thread":"files"'
is 'the box is started again' "$STATUS $BOX" "200 $first"
diag "its ids began at $before, now at $(inside)"
kept 'after another start'
if "$program" --routes | grep -q '/snapshots'; then
    api POST "$B/snapshots" '{"name":"one"}'
    is 'a snapshot is taken' "$STATUS" 201
    kept 'after a snapshot'
    as_root 'rm -rf mine closed tree; chown 1000:1000 roots-own'
    api POST "$B/fork" '{"snapshot":"one","user":"bob","thread":"forked"}'
    is 'somebody else gets a fork of it' "$STATUS" 201
    forked=$(j .id)
    api POST "$B/rollback" '{"snapshot":"one"}'
    is 'and it goes back' "$STATUS" 200
    kept 'after a rollback'
    box_use "$forked"
    kept 'in the fork'
    api DELETE "$B"
else skip 'snapshots and forks' 'this daemon has none'; fi
api DELETE "/v1/boxes/$other"
box_use "$first"
rm -rf "$mounted"
