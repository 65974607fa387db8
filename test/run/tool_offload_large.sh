# A kept result of 100 MB: parts of it are found at once, all of it is searched, and neither takes memory.
# daemon: plain
# backends: jail

line='a line with an é in it' # with its newline 23 characters, 24 bytes
tool bash "{\"command\":\"yes '$line' | head -n 4369000; echo needle\"}"
[[ $TEXT =~ \[offload:(ol_[0-9a-f]{16})\] ]] && ID=${BASH_REMATCH[1]} || ID=none
is 'a result of 100 MB is kept' "$(sed -n 2p <<< "$TEXT")" \
    '100487007 characters, 4369001 lines, 104856007 bytes, ~25121751 tokens'
is 'whole' "$(stat -c %s "$STATE/offload/$ID")" 104856007

recall() { # recall MEMBERS: PEAK: memory in KB at the peak beyond what there was before
    echo 5 > "/proc/$DAEMON_PID/clear_refs"
    local before
    before=$(daemon_memory_kb VmRSS)
    tool recall "{\"id\":\"$ID\",$1}"
    PEAK=$(($(daemon_memory_kb VmHWM) - before))
}
# search MEMBERS: the same for all of it. A call has a time limit, which a busy machine may reach: the next one goes on
# in line FROM.
search() {
    FROM=1
    recall "$1"
    while [[ $TEXT =~ ^\[$ID\]\ 0\ matching.*\;\ out\ of\ time\;\ next:\ start_line=([0-9]+) ]]; do
        FROM=${BASH_REMATCH[1]}
        recall "$1,\"start_line\":$FROM"
    done
}
recall '"offset":69000000,"limit":46'
tool_is 'a range of it' \
    "[$ID] characters 69000000-69000046 of 100487007; next: offset=69000046; previous: offset=68999954
$line
$line
"
between 'takes no memory' "$PEAK" 0 1024
recall '"start_line":4369000'
tool_is 'the last lines' "[$ID] lines 4369000-4369001 of 4369001
$line
needle
"
between 'take none either' "$PEAK" 0 1024
now_ms
start=$NOW
search '"pattern":"^needle$","literal":true'
tool_is 'a text that is not in it' "[$ID] 0 matching lines in lines $FROM-4369001 of 4369001
"
search '"pattern":"need.e$"'
tool_is 'one that is, at its end' "[$ID] 1 matching lines in lines $FROM-4369001 of 4369001
4369001: needle
"
now_ms
between 'searching takes a window' "$PEAK" 0 2048
diag "two searches of 100 MB: $((NOW - start)) ms"
