# Memory beyond the limit by swapping it out.
# wall: memory.swap.max 0 (v2), memory.memsw.limit_in_bytes equal to the limit (v1)
# box: "limits":{"memory_mb":77}

# the number of this box's group is that of its uid range; looked for by the limit, which nobody else has
knobs=$(for dir in /sys/fs/cgroup/cubby/* /sys/fs/cgroup/memory/cubby/*; do
    case $(cat "$dir/memory.max" "$dir/memory.limit_in_bytes" 2> /dev/null) in $((77 << 20))) echo "$dir" ;; esac
done)
if [ -z "$knobs" ]; then fail 'the box has a limit of memory' "no group with $((77 << 20))"; fi
for dir in $knobs; do
    if [ -e "$dir/memory.swap.max" ]; then is 'no swap at all' "$(< "$dir/memory.swap.max")" 0
    elif [ -e "$dir/memory.memsw.limit_in_bytes" ]; then
        is 'memory and swap together have the limit of memory' "$(< "$dir/memory.memsw.limit_in_bytes")" $((77 << 20))
    else skip 'swap is limited' 'this kernel does not account swap'; fi
done
if [ "$(wc -l < /proc/swaps)" -gt 1 ]; then
    attack memory 'anon 200'
    is 'with swap at hand the bomb still ends at the limit' "$(j .oom_killed)" true
    run 'grep VmSwap /proc/1/status'
    diag "$OUT"
else skip 'a bomb with swap at hand' 'this machine has no swap'; fi
