# Large files: ten gigabytes down with flat memory, a reader that stops, a full disk.
# daemon: plain

run 'true'
run 'truncate -s 10G sparse && stat -c %s sparse'
is 'a sparse file of ten gigabytes' "$OUT" 10737418240
before=$(daemon_memory_kb VmHWM)
coproc HOLD { "$TOOL" hold "$SOCKET" 1000000 "GET $B/files?path=sparse HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n" 2>&1; }
read -r -t 20 line <&"${HOLD[0]}"
is 'a client takes a megabyte and stops reading' "$line" holding
run 'echo still here'
is 'the box goes on' "$OUT" 'still here'
is 'ten gigabytes arrive' \
    "$(curl -s --max-time 100 --unix-socket "$SOCKET" "http://localhost$B/files?path=sparse" -o /dev/null -w '%{size_download}')" 10737418240
between 'growth of the daemon in KB' $(($(daemon_memory_kb VmHWM) - before)) 0 8000
eval "exec ${HOLD[1]}>&-"
wait "$HOLD_PID"
get sparse -H 'Range: bytes=10737418238-10737418239'
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

# A full disk: the write fails whole, the old file stays. /dev/shm of a jail is small and its own.
if [ "$BACKEND" = jail ]; then
    size=$(run 'df -k --output=avail /dev/shm | tail -1' && echo $((OUT)))
    if [ "$size" -gt 0 ] && [ "$size" -lt 400000 ]; then
        put /dev/shm/f old
        truncate -s $((size + 1024))k "$WORK/large"
        upload /dev/shm/f "$WORK/large"
        like 'a full disk is an error' "$STATUS" '^(5|4)'
        get /dev/shm/f
        is 'and the old file stays' "$BODY" old
        run 'ls -A /dev/shm'
        is 'and nothing else' "$OUT" f
    else skip 'a full disk is an error' "no small file system in the box ($size KB)"; fi
else skip 'a full disk is an error' 'local: would fill the disk of the machine'; fi
