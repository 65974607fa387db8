# For the cases 70 and on: daemons on a machine that lacks something (test/lib/lack.c). Sourced by them.
# The case's own daemon, its neighbour and its box go on beside them, and are checked at the end as always.

LACK=$BUILD/test/lack

# A daemon that lacks WHAT, with these lines as its configuration. Afterwards LOG is what it has said so far.
lacking_start() { # lacking_start WHAT [LINE...]
    local what=$1
    shift
    printf '%s\n' "$@" > "$WORK/lacking.yaml"
    LACKING_FROM=$(stat -c %s "$WORK/daemon.log")
    second_start "$WORK/lacking.yaml" "$LACK" "$what" -- "${LACKING_AS[@]}" "$BUILD/cubbyd"
    LACKING=$?
    lacking_log
    return "$LACKING"
}
LACKING_AS=()
lacking_log() { LOG=$(tail -c +$((LACKING_FROM + 1)) "$WORK/daemon.log"); }

lacking_end() {
    delete_boxes
    second_end
}

# No daemon without WHAT: it ends at once, with status 125 (STATUS_WANTED) and a sentence that fits REGEX: the missing
# thing and the fix.
lacking_refuses() { # lacking_refuses NAME WHAT REGEX [LINE...]
    local name=$1 what=$2 regex=$3 status
    shift 3
    if lacking_start "$what" "$@"; then fail "$name: the daemon does not start" "$LOG"; fi
    second_end
    status=$?
    [ "$LACKING" = 0 ] || is "$name: the daemon does not start" "$status" "${STATUS_WANTED:-125}"
    like "$name: and says what is missing and how to get it" "$(tail -1 <<< "$LOG")" "$regex"
}

# A box on it, which becomes the current one.
lacking_box() { # lacking_box NAME [MORE JSON MEMBERS]
    if box_new "${2-}"; then pass "$1"; else fail "$1" "$STATUS $BODY"; fi
}

# `cubby doctor` without WHAT has the row CHECK, not ok, with a fix that fits REGEX; REQUIRED: true, false.
lacking_doctor() { # lacking_doctor WHAT CHECK REQUIRED REGEX
    local row
    row=$("$LACK" "$1" -- "${LACKING_AS[@]}" "$BUILD/cubby" doctor --json |
        jq -c --arg name "$2" '.checks[] | select(.name == $name)')
    is "doctor without $1: $2" "$(jq -c '[.ok, .required]' <<< "$row")" "[false,$3]"
    like "doctor without $1: the fix" "$(jq -r .fix <<< "$row")" "$4"
}

# The member of what /v1/info says of jails, by a jq filter.
jail_info() { # jail_info FILTER
    api GET /v1/info
    jq -c ".backends[] | select(.name == \"jail\") | $1" <<< "$BODY"
}
