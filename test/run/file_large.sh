# Large files: five gigabytes down with flat memory, a reader that stops, a full disk.
# daemon: plain
# backends: jail
# files: on disk

run 'true'
run 'truncate -s 5G sparse && stat -c %s sparse'
is 'a sparse file of five gigabytes' "$OUT" 5368709120
before=$(daemon_memory_kb VmHWM)
coproc HOLD { "$TOOL" hold "$SOCKET" 1000000 "GET $B/files?path=sparse HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n" \
    2>&1; }
holder=$HOLD_PID # bash forgets it when the process ends
read -r -t 60 line <&"${HOLD[0]}"
is 'a client takes a megabyte and stops reading' "$line" holding
run 'echo still here'
is 'the box goes on' "$OUT" 'still here'
is 'five gigabytes arrive' \
    "$(curl -s --max-time 400 --unix-socket "$SOCKET" "http://localhost$B/files?path=sparse" -o /dev/null \
    -w '%{size_download}')" 5368709120
between 'growth of the daemon in KB' $(($(daemon_memory_kb VmHWM) - before)) 0 8000
eval "exec ${HOLD[1]}>&-"
wait "$holder"
get sparse -H 'Range: bytes=5368709118-5368709119'
is 'a range at its far end' "$STATUS $(stat -c %s "$WORK/body")" '206 2'
api GET "$B/hash?path=sparse" '' --max-time 1
run 'echo still here'
is 'a hang-up in a long hash' "$OUT" 'still here'
run 'rm sparse'

before=$(daemon_memory_kb VmHWM)
truncate -s 300M "$WORK/large"
upload up.bin "$WORK/large"
is '300 MB up' "$STATUS" 201
between 'growth of the daemon in KB' $(($(daemon_memory_kb VmHWM) - before)) 0 8000
run 'stat -c %s up.bin; rm up.bin'
is 'its size' "$OUT" 314572800
rm "$WORK/large"
before=$(daemon_memory_kb VmHWM)
truncate -s 600M "$WORK/large"
upload too-large.bin "$WORK/large"
is_error 'above the limit' 413 TOO_LARGE
upload too-large.bin "$WORK/large" '' -H 'Transfer-Encoding: chunked'
is_error 'above the limit, chunked' 413 TOO_LARGE
get too-large.bin
is 'nothing is left of it' "$STATUS" 404
api GET "$B/list?path=/workspace"
is 'not even under another name' "$(j '.entries|length')" 0
rm "$WORK/large"

# A full disk: the write fails whole, the old file stays.
mkdir -p "$WORK/shared/small"
if mount -t tmpfs -o size=4m,mode=755 small "$WORK/shared/small" 2> /dev/null; then
    box_new "\"mounts\":[{\"source\":\"$WORK/shared/small\",\"target\":\"/mnt/small\"}]"
    put /mnt/small/f old
    is 'a file on a small disk' "$STATUS" 201
    truncate -s 9M "$WORK/large"
    upload /mnt/small/f "$WORK/large"
    is_error 'a full disk is an error' 507 FULL
    upload /mnt/small/f "$WORK/large" '' -H 'Transfer-Encoding: chunked'
    is_error 'a full disk is an error, chunked' 507 FULL
    get /mnt/small/f
    is 'and the old file stays' "$BODY" old
    run 'ls -A /mnt/small'
    is 'and nothing else' "$OUT" f
    run 'head -c 9000000 /dev/zero > /mnt/small/full; echo $?'
    isnt 'commands are told, too' "$OUT" 0
    api POST "$B/edit" '{"path":"/mnt/small/f","old":"old","new":"'"$(head -c 200000 /dev/zero | tr '\0' x)"'"}'
    isnt 'an edit on it fails' "$STATUS" 200
    get /mnt/small/f
    is 'whole' "$BODY" old
    api DELETE "$B"
    umount "$WORK/shared/small"
else skip 'a full disk is an error' 'no right to mount a small one here'; fi
