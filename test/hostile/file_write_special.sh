# Writing onto what is no file, may not be written, or is being run.
# wall: a new file is filled beside the target and renamed over it only where a regular file or nothing is
# backends: jail docker
# by default: jail

upload tool "$TOOL" '&mode=0755'
run 'mkdir work; cd work; mkfifo fifo; ../tool socket sock; mkdir dir full; echo x > full/x; echo kept > ro; chmod '\
'444 ro; mkdir locked; echo kept > locked/f; chmod 555 locked
    cp /bin/sleep running; chmod 755 running; ln -s fifo link'
api POST "$B/processes" '{"command":"exec work/running 1000"}'
BEFORE='dir fifo full link locked ro running sock '
try() { # try PATH STATUS CODE [REGEX]: write, append and edit
    put "$1" new
    is_error "write to $1" "${@:2}"
    API_SECONDS=10 put "$1" new '&append=1'
    like "append to $1" "$STATUS" "^($2|40[034])$"
    printf 'y%.0s' {1..300000} > "$WORK/large"
    upload "$1" "$WORK/large"
    is_error "a large write to $1" "${@:2}"
}
try work/fifo 400 INVALID FIFO
try work/link 400 INVALID FIFO
try work/sock 400 INVALID socket
try work/dir 400 INVALID directory
try work/full 400 INVALID directory
try work/ro 403 DENIED
put work/locked/f new
is_error 'write where no new file may be' 403 DENIED
try work/locked/new 403 DENIED
try /dev/null 400 INVALID device
try /dev/zero 400 INVALID device
try /proc/sys/kernel/hostname 403 DENIED
try /proc/self/mem 403 DENIED
try /etc/passwd 403 DENIED
try work/none/f 404 NOT_FOUND
put work/running new '&append=1'
is_error 'appending to a program that runs' 503 BUSY
put work/running new
is 'it is replaced as a whole' "$STATUS" 200
run 'cat work/running; pgrep -c running'
is 'and what runs, runs on' "$OUT" 'new1'
run 'cat work/ro work/locked/f; ls -A work | tr "\n" " "; ls -A work/locked work/dir; ls -A /dev | grep -c cubby-tmp'
is 'nothing changed, nothing hidden is left' "$OUT" $'kept\nkept\n'"$BEFORE"$'work/dir:\n\nwork/locked:\nf\n0'

# set-user-ID bits are not for the file API to give
for mode in 4755 2755 6755; do
    put suid x "&mode=$mode"
    is_error "a file with mode $mode" 400 INVALID 'set-user-ID'
    api POST "$B/mkdir" "{\"path\":\"sdir\",\"mode\":\"$mode\"}"
    is_error "a directory with mode $mode" 400 INVALID 'set-user-ID'
done
api POST "$B/mkdir" '{"path":"sticky","mode":"1777"}'
run 'stat -c %a sticky; ls -d suid sdir 2> /dev/null'
is 'the sticky bit is' "$OUT" 1777

# mounts: one read-only, one to write to
chown 12345:12345 "$WORK/shared" "$WORK/shared/sub"
echo host > "$WORK/shared/f"
chown 12345:12345 "$WORK/shared/f"
if box_new "\"mounts\":[{\"source\":\"$WORK/shared\",\"target\":\"/ro\",\"read_only\":true},"\
"{\"source\":\"$WORK/shared/sub\",\"target\":\"/rw\"}]"; then
    for path in /ro/f /ro/new; do
        put "$path" x
        is_error "write to $path" 403 DENIED
        put "$path" x '&append=1'
        is_error "append to $path" 403 DENIED
    done
    api DELETE "$B/files?path=/ro/f"
    is_error 'remove from a read-only mount' 403 DENIED
    api POST "$B/mkdir" '{"path":"/ro/d"}'
    is_error 'mkdir in it' 403 DENIED
    api POST "$B/move" '{"from":"/ro/f","to":"/workspace/f"}'
    isnt 'move out of it' "$STATUS" 204
    "$BUILD/test/attack_tar" f:new=x e > "$WORK/one.tar"
    api PUT "$B/archive?path=/ro" '' -T "$WORK/one.tar"
    is_error 'unpack into it' 403 DENIED
    is 'the host sees nothing new in it' "$(ls -A "$WORK/shared" | tr '\n' ' ')$(cat "$WORK/shared/f")" 'f sub host'
    "$BUILD/test/attack_tar" m:6755:suid=x d:d m:4755:d/suid=x e > "$WORK/one.tar"
    api PUT "$B/archive?path=/rw" '' -T "$WORK/one.tar"
    is 'set-user-ID bits of an archive' "$STATUS $(j '.skipped|length')" '200 2'
    put /rw/put x '&mode=4755'
    is_error 'and of a write' 400 INVALID
    run 'cp /bin/true suid && chmod 4755 suid; stat -c %a suid'
    api POST "$B/move" '{"from":"/workspace/suid","to":"/rw/moved"}'
    is 'a file with such bits is moved' "$STATUS" 204
    is 'without them, as all that reached the host' \
        "$(find "$WORK/shared" -perm /6000; find "$WORK/shared/sub" -type f | wc -l)" 3
    is "and it is its owner's" "$(find "$WORK/shared/sub" -type f -printf '%U\n' | sort -u)" 12345
    api DELETE "$B"
else fail 'a box with mounts' "$STATUS $BODY"; fi
box_use "$ATTACKED"
