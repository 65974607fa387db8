# A runner that was taken over: every way to break the wire's rules, against a daemon with good boxes beside it.
# wall: frames bounded, credit, grammar, calls by id, descriptors checked; anything else ends that wire and nothing more

cat > "$WORK/evil.yaml" << END
allow_local: true
runner: $BUILD/test/attack_runner
END
EVIL_TRIED=

# A box with such a runner, and a call on it: what comes of it is in STATUS and BODY; BOX is empty where none was made.
evil() { # evil MODE [CALL...]: the default call is an exec
    local mode=$1
    shift
    EVIL_TRIED+=" $mode"
    api POST /v1/boxes "{\"backend\":\"local\",\"thread\":\"$mode-$SRANDOM\",\"env\":{\"EVIL\":\"$mode\"}}"
    [ "$STATUS" = 201 ] || { BOX=''; return; }
    box_use "$(j .id)"
    if [ $# = 0 ]; then set -- POST /exec '{"command":"true","timeout_ms":1000}'; fi
    API_SECONDS=90 api "$1" "$B$2" "${@:3}"
}
evil_end() { # the box goes, and with it all it held
    [ -z "$BOX" ] || api DELETE "/v1/boxes/$BOX"
    [ -z "$BOX" ] || [ "$STATUS" = 204 ] || fail "the box of $1 goes" "$STATUS $BODY"
}
evil_gone() { api POST "$B/exec" '{"command":"true"}' && [ "$STATUS" = 410 ]; }
broken() { # broken MODE MESSAGE [CALL...]: the call fails with PROTOCOL, the box is gone, its files are not
    local mode=$1 message=$2
    shift 2
    evil "$mode" "$@"
    is_error "$mode: the call fails" 502 PROTOCOL "$message"
    [ -z "$BOX" ] || eventually 5 evil_gone || :
    [ -z "$BOX" ] || is_error "$mode: and the box with it" 410 GONE
    evil_end "$mode"
}
refused() { # refused MODE STATUS CODE MESSAGE: there is no box
    evil "$1"
    is_error "$1: no box" "$2" "$3" "${4-}"
    is "$1: none at all" "$BOX" ''
}
# But for those by which threads are woken: a thread that waited once keeps one, and how many threads wait is chance.
descriptors_back() { [ "$(daemon_fds)" -le "$DESCRIPTORS" ]; }
good() { # good WHEN: the box beside it answers
    local box=$BOX status=$STATUS body=$BODY
    box_use "$GOOD"
    API_SECONDS=10 run 'echo good'
    is "the good box answers $1" "$OUT" good
    box_use "$box"
    STATUS=$status BODY=$body
}

if second_start "$WORK/evil.yaml" "$program"; then
    api POST /v1/boxes '{"backend":"jail"}'
    GOOD=$(j .id)
    api POST /v1/boxes '{"backend":"local"}'
    LOCAL=$(j .id)
    box_use "$LOCAL"
    run 'echo "$0"'
    is 'without EVIL it is the real runner' "$STATUS $CODE" '200 0'
    evil hello_bytes # once, so that what is made at first use is made
    is 'a HELLO byte by byte is a HELLO' "$STATUS" 200
    evil_end hello_bytes
    good 'before'
    DESCRIPTORS=$(daemon_fds)
    MEMORY=$(daemon_memory_kb VmRSS)

    # the slow ones, beside the rest
    slow() { # slow FILE MODE CALL...
        local file=$1
        shift
        WORK=$WORK/$file
        mkdir -p "$WORK"
        evil "$@"
        printf '%s %s %s\n' "$STATUS" "$(j .error.code)" "$(j .error.message)" > "$WORK/result"
        [ -z "$BOX" ] || api DELETE "$B"
    }
    slow none hello_none & SLOW=$!
    slow drops hello_drops & SLOW+=" $!"
    slow silent silent POST /exec '{"command":"true","timeout_ms":1}' & SLOW+=" $!"
    slow stream stream POST /exec '{"command":"true","timeout_ms":1}' & SLOW+=" $!"
    slow quiet silent GET '/stat?path=x' & SLOW+=" $!"
    slow list silent GET '/list?path=.' & SLOW+=" $!"
    slow glob silent POST /glob '{"pattern":"*"}' & SLOW+=" $!"
    slow grep silent POST /grep '{"pattern":"x","timeout_ms":1}' & SLOW+=" $!"
    slow hash silent GET '/hash?path=x' & SLOW+=" $!"
    slow remove silent DELETE '/files?path=x&recursive=1' & SLOW+=" $!"
    slow tar silent GET '/archive?path=.' & SLOW+=" $!"
    slow archive silent PUT '/archive?path=.' '' --data-binary x & SLOW+=" $!"
    EVIL_TRIED+=' hello_none hello_drops silent stream'

    refused hello_version 502 PROTOCOL 'version 2'
    refused hello_long 502 PROTOCOL
    refused hello_late 502 PROTOCOL 'not HELLO'
    refused hello_root 502 PROTOCOL "which only a jail may do"
    refused hello_foreign_root 502 PROTOCOL "which only a jail may do"
    refused hello_relative 502 PROTOCOL 'absolute path'
    evil hello_twice
    like 'hello_twice: no box, or one that ends' "$STATUS $(j .error.code)" '^(502 PROTOCOL|410 GONE)$'
    evil_end hello_twice
    evil early
    like 'early: no box, or one that ends' "$STATUS $(j .error.code)" '^(502 PROTOCOL|410 GONE)$'
    evil_end early
    broken length 'too long|larger|4294967295'
    broken length_one_more '65537'
    broken foreign 'not open'
    broken zero 'not open'
    broken stat_twice 'out of order'
    broken stat_after_data 'out of order'
    broken item 'stream it does not have'
    broken item_cut '' GET '/list?path=.'
    broken items 'more than was asked for' POST /glob '{"pattern":"*","limit":10}'
    broken empty_data '0 bytes'
    broken wrong_stream 'flags'
    broken wrong_type ''
    broken wrong_fields ''
    broken call_back 'which only a daemon may send'
    broken credit_nothing 'CREDIT of 0'
    broken credit_much 'CREDIT of 262144'
    for mode in directory path socket fifo device; do broken "fd_$mode" 'wrong kind' GET '/files?path=x'; done
    broken fd_proc procfs GET '/files?path=x'
    broken fd_two 'several descriptors' GET '/files?path=x'
    broken fd_many 'several descriptors' GET '/files?path=x'
    broken fd_silent 'without a frame|nobody asked' GET '/files?path=x'
    broken fd_announced 'passed none' GET '/files?path=x'
    good 'in between'

    for mode in end_twice data_after_end; do # the answer was whole; what follows is not
        evil "$mode"
        like "$mode: the call has its answer or an error" "$STATUS" '^(200|502)$'
        api POST "$B/exec" '{"command":"true"}'
        like "$mode: the box has ended" "$STATUS $(j .error.code)" '^(410 GONE|502 PROTOCOL)$'
        evil_end "$mode"
    done
    evil half
    is_error 'half: hung up in the middle of a frame' 410 GONE 'hung up|ended'
    evil_end half
    evil drops
    is 'drops: an answer byte by byte is an answer' "$STATUS $(j .exit_code)" '200 0'
    evil_end drops
    evil fd_unasked
    is 'fd_unasked: a descriptor nobody wants is closed' "$STATUS" 200
    for i in {1..20}; do api POST "$B/exec" '{"command":"true"}'; done
    is 'fd_unasked: each time' "$STATUS" 200
    evil_end fd_unasked
    evil numbers
    is 'numbers: absurd ones are still numbers' "$STATUS $(j '.duration_ms|type') $(j '.exit_code|type')" \
        '200 number number'
    evil_end numbers
    evil fail_text
    is_error 'fail_text: an unknown code' 502 PROTOCOL
    unlike 'fail_text: nothing raw for a terminal in the answer' "$BODY" $'[\x01-\x09\x0b-\x1f\x7f]'
    unlike 'fail_text: nor in the log' "$(< "$WORK/daemon.log")" $'[\x01-\x08\x0b-\x1f\x7f]'
    evil_end fail_text

    # A client that does not read: nobody gives credit back, and the runner sends on.
    api POST /v1/boxes '{"backend":"local","thread":"beyond_credit","env":{"EVIL":"beyond_credit"}}'
    EVIL_TRIED+=' beyond_credit'
    box_use "$(j .id)"
    body='{"command":"true"}'
    "$TOOL" hold "$SOCKET" 4096 \
        "POST $B/exec HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nContent-Length: ${#body}\r\n\r\n$body" \
        < <(read -r -t 60 -u "$LIB_NEVER") > "$WORK/held" &
    holder=$!
    eventually 10 grep -q holding "$WORK/held"
    good 'while a flood is held back'
    overrun() { API_SECONDS=20 api GET "$B/stat?path=x" && [[ $STATUS = 502 || $STATUS = 410 ]]; }
    if eventually 30 overrun; then pass 'beyond_credit: ends the box'; else fail 'beyond_credit: ends the box' \
        "$STATUS $BODY"; fi
    kill "$holder" 2> /dev/null
    wait "$holder" 2> /dev/null
    evil_end beyond_credit

    # One that takes nothing any more holds its own caller, not the box's end.
    api POST /v1/boxes '{"backend":"local","env":{"EVIL":"deaf"}}'
    EVIL_TRIED+=' deaf'
    box_use "$(j .id)"
    (WORK=$WORK/deaf && mkdir -p "$WORK" && upload x "$BUILD/cubbyd" '' -v && echo "$STATUS" > "$WORK/result") &
    deaf=$!
    eventually 5 grep -q '^> PUT' "$WORK/deaf/curl"
    now_ms
    before=$NOW
    api DELETE "$B"
    now_ms
    is 'deaf: the box is deleted all the same' "$STATUS" 204
    between 'deaf: at once' $((NOW - before)) 0 20000
    wait "$deaf"
    like 'deaf: the caller hears that it is gone' "$(< "$WORK/deaf/result")" '^4(10|04)$'

    wait $SLOW
    like 'hello_none: the start times out and says so' "$(< "$WORK/none/result")" '^504 TIMEOUT .*did not answer within'
    like 'hello_drops: the same' "$(< "$WORK/drops/result")" '^504 TIMEOUT .*did not answer within'
    like 'silent: a command times out' "$(< "$WORK/silent/result")" '^504 TIMEOUT'
    like 'silent: so does a short call' "$(< "$WORK/quiet/result")" '^504 TIMEOUT'
    for call in list glob grep hash remove tar archive; do
        like "silent: so does $call" "$(< "$WORK/$call/result")" '^504 TIMEOUT .*did not answer in time'
    done
    like 'stream: an endless one ends at its time' "$(< "$WORK/stream/result")" '^504 TIMEOUT'
    good 'after all'
    for mode in $("$BUILD/test/attack_runner" --modes); do
        [[ " $EVIL_TRIED " = *" $mode "* ]] || fail "the mode $mode is tried"
    done
    box_use "$LOCAL"
    run 'echo fine'
    is 'and so does the one beside it' "$OUT" fine
    if eventually 10 descriptors_back; then pass 'no descriptor is left'; else
        fail 'no descriptor is left' \
            "$DESCRIPTORS before, $(daemon_fds) now: $(ls -l "/proc/$DAEMON_PID/fd" | tail -20)"
    fi
    [[ $program = */asan/* ]] || between 'memory is flat' $(($(daemon_memory_kb VmRSS) - MEMORY)) -100000 30000
    for box in $GOOD $LOCAL; do api DELETE "/v1/boxes/$box"; done
    second_end
    is 'the daemon ends in order' $? 0
else
    fail 'a daemon with such a runner' "$(tail -5 "$WORK/daemon.log")"
    second_end
fi
