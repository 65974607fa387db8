# Names that are now a directory or file of the box, now a link to the outside, exchanged under every file call.
# wall: openat2 RESOLVE_IN_ROOT | NO_MAGICLINKS below the box's root; below a resolved directory no link is followed
# RACE_SWAPS and RACE_SECONDS: at least so many exchanges, calls for so long, on each backend (make fuzz: a million).
# backends: jail docker
# by default: jail

# What must not be seen: a tree on the host with the names the calls use, and a file in the host's own temporary
# directory.
outside() { # outside DIR WORD
    mkdir -p "$1/sub/deep"
    printf '%7777s' "$2" | tee "$1/f" "$1/e" "$1/sub/f" "$1/sub/deep/f" > "$1/w"
    touch "$1/$2-name" "$1/sub/$2-name"
}
outside_state() { (cd "$CANARY" && find . -printf '%p %y %s %m %T@ %i\n' | sort &&
    find . -type f -exec sha256sum {} + | sort); }

swap_race() { # swap_race: on the current box, BACKEND
    local swaps=${RACE_SWAPS:-20000} seconds=${RACE_SECONDS:-3} before op calls fine refused busy other leaks line \
        swapper
    local targets=("$CANARY" "@$CANARY" / /etc "$OUTER" "/proc/1/root$CANARY" "/proc/self/root$CANARY" \
        "../../../../../../../../..$CANARY")
    before=$(outside_state)
    upload attack_swap "$BUILD/test/attack_swap" '&mode=0755'
    json_string "./attack_swap race $swaps ${targets[*]}"
    api POST "$B/processes" "{\"command\":$JSON_STRING}"
    swapper=$(j .pid)
    eventually 20 race_ready || fail "$BACKEND: names are being exchanged" "$BODY"
    "$BUILD/test/race" "$SOCKET" "$BOX" /workspace/race "$CANARY" ${#targets[@]} "$seconds" "$WORD" "$SUM" \
        '"size":7777' \
        > "$WORK/race" 2>&1 || fail "$BACKEND: the calls are made" "$(< "$WORK/race")"
    put race/stop ''
    eventually 120 race_over || fail "$BACKEND: the exchanges end" "$BODY"
    api GET "$B/processes/$swapper/output"
    SWAPS=$(sed -n 's/^swaps //p' <<< "$BODY")
    between "$BACKEND: at least $swaps exchanges were made" "${SWAPS:-0}" "$swaps" 100000000000
    while read -r op calls fine refused busy other leaks; do
        [[ $op != '#' ]] || continue
        line="$calls calls, $fine done, $refused refused, $busy busy, $other other"
        diag "$BACKEND $op: $line"
        is "$BACKEND $op: nothing of the outside is answered" "${leaks:-none}" 0
        case $op in
            *-never) is "$BACKEND $op: it is never done" "${fine:-0}" 0 ;;
            *) between "$BACKEND $op: it is done at times" "${fine:-0}" 1 100000000 ;;
        esac
        case $op in *-above) ;; *) between "$BACKEND $op: and meets the link at others" "${refused:-0}" 1 100000000 ;; \
            esac
        is "$BACKEND $op: every answer is one or the other" "${other:-none}" 0
        total=$((total + calls))
    done < <(grep -v '^#' "$WORK/race")
    [ "$LIB_FAILED" = 0 ] || diag "$(grep '^#' "$WORK/race")"
    is "$BACKEND: the outside is as it was" "$(outside_state)" "$before"
    diag "$BACKEND: $SWAPS exchanges, $total calls"
}
race_ready() { api GET "$B/stat?path=race/ready" && [ "$STATUS" = 200 ]; }
race_over() { api GET "$B/processes/$swapper" && [ "$(j .state)" = exited ]; }

total=0
WORD=OUTSIDE-$SRANDOM
# Open to everybody: nothing but the way paths are resolved keeps a box from it.
OUTER=$(mktemp -d "${TMPDIR:-/tmp}/cubby-race.XXXXXX")
CANARY=$OUTER/dir
touch "$OUTER/$WORD-name"
outside "$CANARY" "$WORD"
chmod -R a+rwX "$OUTER"
SUM=$(sha256sum < "$CANARY/f")
SUM=${SUM%% *}
swap_race
is 'the links lead to the outside, for whoever is not confined' "$(head -c 7777 "$CANARY/sub/../f" | tr -d ' ')" "$WORD"

# `local` has no walls for commands, but the file API stays below what is mapped.
box_jail=$BOX
if BACKEND=local box_new; then
    total=0
    BACKEND=local swap_race
    run 'for i in 1 2 3 4 5 6 7 8 9; do cat race/d0/f race/l0/f; done 2> /dev/null | tr -d " \n"'
    like 'local: a command does follow them' "$OUT" "$WORD"
    api DELETE "$B"
else fail 'a local box' "$STATUS $BODY"; fi
box_use "$box_jail"
rm -rf "$OUTER"
