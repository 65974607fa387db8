# Fills its disk by every way there is: write, write and sync, fallocate bit by bit and at once, memory that is a file,
# uploads through the API; as agent and as the box's root.
# wall: the disk quota of the box's files
# box: "limits":{"disk_mb":64,"memory_mb":512}
# files: on disk

mib=$((1 << 20)) limit=$((64 << 20))
disk_bytes() { api GET "$B" && j .usage.disk_bytes; }
took() { set -- $OUT; echo "${2-}"; }
clear_disk() { run 'rm -rf full && mkdir full' '"user":"root"'; }
filled() { # filled KIND: refused by the quota, and near it
    attack disk "$1 full $((1 << 30))"
    like "$AS, $1: the writer is refused" "$OUT" "^$1 [0-9]+ (ENOSPC|EDQUOT|SIGBUS)\$"
    between "$AS, $1: at the limit" "$(took)" $((limit - 4 * mib)) "$limit"
}

api GET "$B"
between 'an empty box is nearly empty' "$(disk_bytes)" 0 $mib
attack_put disk # now: there will be no room for it
for AS in agent root; do
    for kind in write sync allocate map; do
        run 'mkdir -p full && chmod 777 full' '"user":"root"'
        filled "$kind"
        clear_disk
    done
done
AS=agent
run 'mkdir -p full && chmod 777 full' '"user":"root"'
attack disk "whole full $((1 << 30))"
like 'fallocate of more than there is takes nothing' "$OUT" '^whole 0 (ENOSPC|EDQUOT)$'
attack disk "whole full $((32 << 20))"
is 'and of less takes it' "$OUT" "whole $((32 << 20)) none"
attack disk "sparse full $((1 << 33))"
is 'a hole costs nothing' "$OUT" "sparse $((1 << 33)) none"
clear_disk

run 'chmod 777 full' '"user":"root"'
filled write
between 'the usage says so' "$(disk_bytes)" $((limit - 4 * mib)) "$limit"
AS=root attack disk "write / $mib"
like "the box's root has no reserve" "$OUT$ERR" '^write [0-9]+ (ENOSPC|EDQUOT)$|^//written: Disk quota exceeded'
between 'nor more than what is left' "$(x=$(took) && echo "${x:-0}")" 0 $((mib - 1))
run 'echo alive; id -u'
is 'commands run in a full box' "$OUT" $'alive\n1000'
head -c $((4 << 20)) /dev/zero > "$WORK/four"
upload /workspace/uploaded "$WORK/four"
is_error 'an upload is refused' 507 FULL '(No space left|[Qq]uota exceeded)'
put /workspace/small "$(printf %040000d 1)"
is_error 'so is a small one' 507 FULL '(No space left|[Qq]uota exceeded)'
tar -c -f "$WORK/four.tar" -C "$WORK" four
api PUT "$B/archive?path=/workspace" '' -T "$WORK/four.tar" -H 'Content-Type: application/x-tar'
is_error 'and an archive' 507 FULL '(No space left|[Qq]uota exceeded)'
run 'ls -a /workspace'
is 'and leaves nothing' "$OUT" $'.\n..\nfull'

# Meanwhile the others go on.
full=$BOX
box_use "$NEIGHBOUR"
run 'head -c 100000000 /dev/zero > large && rm large && echo written'
is 'the neighbour writes on' "$OUT" written
if box_new '"limits":{"disk_mb":64}'; then
    run 'head -c 50000000 /dev/zero > large && echo written'
    is 'a new box is made and writes' "$OUT" written
    api DELETE "$B"
else fail 'a new box is made' "$STATUS $BODY"; fi
box_use "$full"

held() { du -s --block-size=1 "$STATE/boxes/$full" | cut -f1; }
between 'on the host it takes no more than that' "$(held)" 0 $((limit + 2 * mib))
run 'rm full/written && echo gone && head -c 1000000 /dev/zero > again && wc -c < again'
is 'a full box can delete, and then write' "$OUT" $'gone\n1000000'
given_back() { [ "$(held)" -lt $((8 * mib)) ]; }
if eventually 10 given_back; then pass 'what it deleted is given back to the host'; else
    fail 'what it deleted is given back to the host' "$(held)"
fi
