# Makes empty files, directories, links and FIFOs for ever: names, not bytes.
# wall: the disk quota of the box's files, which bounds their number
# box: "limits":{"disk_mb":16}
# files: on disk

took() { set -- $OUT; echo "${2-}"; }
attack_put disk
for kind in files dirs links fifos attributes; do
    run 'mkdir many'
    attack disk "$kind many 400000"
    like "$kind: refused" "$OUT" "^$kind [0-9]+ (ENOSPC|EDQUOT)\$"
    between "$kind: near the limit" "$(took)" 200 100000
    run 'echo alive'
    is "$kind: commands still run" "$OUT" alive
    [ "$kind" != files ] || neighbour_check 'while its names are used up'
    run 'rm -rf many; echo $?; : > one; echo $?'
    is "$kind: names can be given back" "$OUT" $'0\n0'
done

# A large box full of files: deleting it waits for nothing and nobody waits for it.
attacked=$BOX
box_new '"limits":{"disk_mb":2048}'
attack_put disk
run 'mkdir many'
attack disk 'files many 100000' '"timeout_ms":60000'
is 'a hundred thousand files' "$OUT" 'files 100000 none'
now_ms
before=$NOW
api DELETE "$B"
now_ms
is 'such a box is deleted' "$STATUS" 204
between 'at once' $((NOW - before)) 0 $((8000 * ${TEST_SLOW:-1}))
box_use "$attacked"
now_ms
before=$NOW
run 'echo prompt'
now_ms
is 'others are served meanwhile' "$OUT" prompt
between 'at once too' $((NOW - before)) 0 $((${PROMPT_MS:-15000} * ${TEST_SLOW:-1}))
