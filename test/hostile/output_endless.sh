# A gigabyte of output, and output without end.
# wall: credit per call: what nobody takes is not read; head and tail kept within output_limit_bytes
# box: "limits":{"memory_mb":64,"output_bytes":2000000}
# daemon: plain
# backends: jail docker
# by default: jail

before=$(daemon_memory_kb VmHWM)
run 'head -c 1000000000 /dev/zero | tr "\0" x; echo; echo end; exit 7' '"output_limit_bytes":1000'
is 'a gigabyte: counted, cut, its exit status kept' \
    "$(j -c '[.stdout_bytes,.stdout_truncated,.exit_code,.oom_killed]')" '[1000000005,true,7,false]'
like 'head and tail are there' "$OUT" '^xxxxxxxx.*xxx.end$'
between 'within the limit' "${#OUT}" 900 1100
run 'yes' '"timeout_ms":2000,"output_limit_bytes":1000'
is 'yes for the whole time-out' "$(j -c '[.timed_out,.stdout_truncated]')" '[true,true]'
between 'and it was read all the time' "$(j .stdout_bytes)" 10000000 100000000000
run 'yes >&2 & yes; wait' '"timeout_ms":1000'
is 'both streams at once' "$(j -c '[.timed_out,.stdout_truncated,.stderr_truncated]')" '[true,true,true]'
between 'the daemon did not grow with it (KiB)' $(($(daemon_memory_kb VmHWM) - before)) 0 40000
run 'true' '"output_limit_bytes":2000001'
is_error 'no more is kept than the box allows' 400 INVALID 'at most 2000000 bytes \(limits.output_bytes\)'
run 'head -c 3000000 /dev/zero | tr "\0" x' '"output_limit_bytes":2000000'
is 'up to that it is' "$(j -c '[.stdout_bytes,.stdout_truncated]') ${#OUT}" '[3000000,true] 2000000'

# a background process that nobody reads
api POST "$B/processes" '{"command":"yes"}'
pid=$(j .pid)
flowing() { api GET "$B/processes/$pid" && [ "$(j .stdout_bytes)" -gt 100000000 ]; }
ok 'a flood in the background flows into its ring' eventually 30 flowing
api GET "$B/processes/$pid/output?offset=0&limit=10"
between 'of which the last part is kept' "$(header X-First-Offset)" 1000000 100000000000
api GET "$B"
between 'and the box keeps its memory' "$(j .usage.memory_bytes)" 1 $((64 << 20))
