# Helpers of the test scripts: TAP checks, requests to the daemon, boxes. Sourced by test/run/run.sh and the *_test.sh
# files. A check names what is promised; the last line of a script is `finish`.

LIB_COUNT=0 LIB_FAILED=0
STATUS='' BODY='' BOX='' B='' DAEMON_PID=''
exec {LIB_NEVER}<> <(:) # a pipe nobody writes to: a pause without a process

# ---- checks ----

pass() {
    LIB_COUNT=$((LIB_COUNT + 1))
    printf 'ok %d - %s\n' "$LIB_COUNT" "$1"
}

fail() { # fail NAME [DIAGNOSTIC]
    LIB_COUNT=$((LIB_COUNT + 1)) LIB_FAILED=$((LIB_FAILED + 1))
    printf 'not ok %d - %s\n' "$LIB_COUNT" "$1"
    local text=${2-}
    local at=$((${#BASH_SOURCE[@]} > 2 ? 1 : 0)) # called by a check, or as one itself
    printf '# %s:%s\n' "${BASH_SOURCE[at + 1]##*/}" "${BASH_LINENO[at]}"
    [ -z "$text" ] || printf '%.1500s\n' "$text" | sed 's/^/# /'
    return 0
}

skip() { # skip NAME REASON
    LIB_COUNT=$((LIB_COUNT + 1))
    printf 'ok %d - %s # SKIP %s\n' "$LIB_COUNT" "$1" "$2"
}

diag() { printf '# %s\n' "$*"; }

is() { # is NAME GOT WANT
    if [ "$2" = "$3" ]; then pass "$1"; else fail "$1" "got:  $2
want: $3
status $STATUS, body ${BODY:0:600}"; fi
}

isnt() { # isnt NAME GOT UNWANTED
    if [ "$2" != "$3" ]; then pass "$1"; else fail "$1" "got the unwanted: $2"; fi
}

like() { # like NAME GOT REGEX
    if [[ $2 =~ $3 ]]; then pass "$1"; else fail "$1" "got:  $2
want: /$3/
status $STATUS"; fi
}

unlike() { # unlike NAME GOT REGEX
    if [[ $2 =~ $3 ]]; then fail "$1" "got:  $2
unwanted: /$3/"; else pass "$1"; fi
}

between() { # between NAME GOT LOW HIGH: whole numbers
    if [[ $2 =~ ^-?[0-9]+$ ]] && [ "$2" -ge "$3" ] && [ "$2" -le "$4" ]; then pass "$1"; else
        fail "$1" "got: $2
want: $3 to $4
status $STATUS, body ${BODY:0:300}"; fi
}

ok() { # ok NAME COMMAND...: passes when the command does
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then pass "$name"; else fail "$name" "$* failed: $output"; fi
}

not_ok() { # not_ok NAME COMMAND...: passes when the command fails
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then fail "$name" "$* succeeded: $output"; else pass "$name"; fi
}

# A program whose lines `ok - NAME` and `not ok - NAME` are checks.
program() { # program NAME COMMAND...
    local name=$1 line last='' checked=0
    shift
    while IFS= read -r line; do
        last=$line
        case $line in
        'ok - '*) pass "${line#ok - }" && checked=$((checked + 1)) ;;
        'not ok - '*) fail "${line#not ok - }" ;;
        *) diag "$line" ;;
        esac
    done < <("$@" 2>&1; echo "status $?")
    like "$name ran to its end" "$checked $last" '^[1-9][0-9]* status 0$'
}

finish() {
    printf '1..%d\n' "$LIB_COUNT"
    [ "$LIB_FAILED" = 0 ]
}

now_ms() { # into NOW, without a process
    local t=${EPOCHREALTIME/[.,]/}
    NOW=$((t / 1000))
}

# Polls COMMAND until it succeeds; for events that nothing announces. At most SECONDS, but a minute at least: that costs
# nothing where they happen, and a machine may be slow. What is not to happen is not waited for with this.
eventually() { # eventually SECONDS COMMAND...
    local begin end pause
    now_ms
    begin=$NOW end=$((NOW + ($1 < 60 ? 60 : $1) * 1000 * ${TEST_SLOW:-1}))
    shift
    until "$@" >/dev/null 2>&1; do
        now_ms
        [ "$NOW" -lt "$end" ] || return 1
        pause=$(((NOW - begin) / 16)) # each look takes a processor from what is waited for
        printf -v pause 0.%03d $((pause < 20 ? 20 : pause > 100 ? 100 : pause))
        read -r -t "$pause" -u "$LIB_NEVER" || :
    done
}

# ---- requests ----

# json_string TEXT -> JSON_STRING, quoted; for texts without control characters other than tab, newline, CR.
json_string() {
    local s=$1
    s=${s//\\/\\\\} s=${s//\"/\\\"} s=${s//$'\n'/\\n} s=${s//$'\t'/\\t} s=${s//$'\r'/\\r}
    JSON_STRING="\"$s\""
}

# api METHOD PATH [BODY] [CURL OPTION...]: STATUS, BODY (text of the answer), $WORK/body and $WORK/head (bytes). Who
# does not
# answer at all is given up after a minute or more (API_SECONDS); how soon an answer comes is asserted where it is
# promised.
api() {
    local method=$1 path=$2 body=${3-} seconds=$((${API_SECONDS:-0} > 60 ? API_SECONDS : 60))
    shift $(($# > 3 ? 3 : $#))
    seconds=$((seconds * 2 * ${TEST_SLOW:-1}))
    local data=$body headers=() code=99
    if ask_can "$@" && [[ $path != *[#\ ]* ]]; then
        STATUS=$("$BUILD/test/ask" "$SOCKET" "$method" "$path" "$WORK/body" "$WORK/head" "$seconds" "$data" \
            "${headers[@]}" 2> "$WORK/curl")
        code=$?
    fi
    if [ "$code" = 99 ]; then
        local options=(-sS --globoff --path-as-is --max-time "$seconds" --unix-socket "$SOCKET" -X "$method"
            -o "$WORK/body" -D "$WORK/head" -w '%{http_code}' "$@")
        [ -z "$body" ] || options+=(-H 'Content-Type: application/json' --data-binary "$body")
        [ "$method" != HEAD ] || options+=(-I)
        : > "$WORK/body" > "$WORK/head"
        STATUS=$(curl "${options[@]}" "http://localhost$path" 2> "$WORK/curl")
        code=$?
    fi
    [ "$code" = 0 ] || STATUS="curl-$code $(< "$WORK/curl")"
    { BODY=$(< "$WORK/body"); } 2> /dev/null # bash leaves NUL out, and says so
    [[ $STATUS != curl-* || -z $DAEMON_PID || -d /proc/$DAEMON_PID ]] || daemon_died "$method $path"
}

# Plain requests need no curl: ask takes a tenth of its processor time. An argument of a program has a limit.
ask_can() { # ask_can [CURL OPTION...]: what api is called with, as data and headers, if ask can do it
    local own='^(host|user-agent|connection|upgrade|expect|te|transfer-encoding|content-length):' type=$body
    while [ $# -gt 1 ]; do
        case $1 in
        -H) [[ $2 =~ ^[A-Za-z-]+:\ . && ! ${2,,} =~ $own ]] || return 1
            [[ ${2,,} != content-type:* ]] || type=$2
            headers+=("$2") ;;
        --data-binary) [[ -z $data && -n $2 && $2 != @- ]] || return 1
            data=$2 ;;
        *) return 1 ;;
        esac
        shift 2
    done
    [[ $# == 0 && (-z $data || -n $type) && ${#data} -lt 100000 && -x $BUILD/test/ask ]]
}

# The daemon is gone: nothing after this means anything.
daemon_died() { # daemon_died REQUEST
    fail 'the daemon survives' "it died at: $1
$(grep -m1 -A25 -E 'Sanitizer|runtime error:|Assertion' "$WORK/daemon.log" || tail -5 "$WORK/daemon.log" | cut -c1-200)"
    DAEMON_PID='' DAEMON_DIED=1
    finish
    exit 1
}

# upload PATH FILE|- [QUERY] [CURL OPTION...]: PUT of a file's bytes
upload() {
    local path=$1 file=$2 query=${3-}
    shift $(($# > 3 ? 3 : $#))
    api PUT "$B/files?path=$(encode "$path")$query" '' --data-binary "@$file" \
        -H 'Content-Type: application/octet-stream' "$@"
}

# put PATH TEXT [QUERY] [CURL OPTION...]
put() {
    local text=$2
    printf '%s' "$text" > "$WORK/put"
    upload "$1" "$WORK/put" "${@:3}"
}

get() { # get PATH [CURL OPTION...]
    local path=$1
    shift
    api GET "$B/files?path=$(encode "$path")" '' "$@"
}

encode() { # percent-encodes for a query value
    local LC_ALL=C s=$1 i c
    for ((i = 0; i < ${#s}; i++)); do
        c=${s:i:1}
        case $c in [A-Za-z0-9._~/-]) printf %s "$c" ;; *) printf '%%%02X' "'$c" ;; esac
    done
}

jq() { "$BUILD/test/pick" "$@"; } # which asks jq itself where it must
j() { jq -r "$@" < "$WORK/body" 2> /dev/null; } # j FILTER: of the last answer
header() { # header NAME: of the last answer
    local line name found= any=
    while IFS= read -r line; do
        line=${line%$'\r'}
        name=${line%%:*}
        [[ $line == *:* && ${name,,} == "${1,,}" ]] || continue
        found=${line#*:} any=1
        found=${found#"${found%%[! ]*}"}
    done < "$WORK/head"
    [ -z "$any" ] || printf '%s\n' "$found"
}

is_error() { # is_error NAME STATUS CODE [REGEX of the message]
    if [ "$STATUS" != "$2" ] || [ "$(j .error.code)" != "$3" ]; then
        fail "$1" "got:  $STATUS ${BODY:0:400}
want: $2 $3"
    elif [ $# -gt 3 ] && ! [[ $(j .error.message) =~ $4 ]]; then
        fail "$1" "message: $(j .error.message)
want: /$4/"
    else pass "$1"; fi
}

# run COMMAND [MORE JSON MEMBERS]: exec in the current box; STATUS and BODY, OUT, ERR, CODE of the answer
run() {
    json_string "$1"
    local more=${2-}
    [[ $more = *timeout_ms* ]] || more+=${more:+,}\"timeout_ms\":${RUN_TIMEOUT_MS:-90000}
    api POST "$B/exec" "{\"command\":$JSON_STRING,$more}"
    OUT= ERR= CODE= # a process for each would be most of what this costs, unless there is much of it
    if [ ${#BODY} -gt 100000 ]; then
        OUT=$(j .stdout) ERR=$(j .stderr) CODE=$(j .exit_code)
        return
    fi
    eval "$(j '@sh "OUT=\(.stdout) ERR=\(.stderr) CODE=\(.exit_code)"')"
    OUT=${OUT%$'\n'} ERR=${ERR%$'\n'}
    [[ $OUT != *$'\n' ]] || OUT=$(printf %s "$OUT")
    [[ $ERR != *$'\n' ]] || ERR=$(printf %s "$ERR")
}

# tool NAME [JSON ARGUMENTS] [THREAD] [CURL OPTION...]: an agent tool in the current box, or in the box of THREAD.
# STATUS and
# BODY, TEXT (newlines at its end included), IS_ERROR (true, false) of the answer; `j .structured` has the rest.
tool() {
    local name=$1 arguments=${2:-"{}"} at=$B
    [ -z "${3-}" ] || at=/v1/threads/$(encode "$3")
    api POST "$at/tools/$name" "$arguments" "${@:4}"
    IS_ERROR= TEXT=
    eval "$(j '@sh "IS_ERROR=\(.is_error) TEXT=\(.text)"')"
    [[ $BODY == *'"text":'* ]] || TEXT=
}

tool_is() { # tool_is NAME TEXT: the last call succeeded with exactly this
    is "$1" "$IS_ERROR $TEXT" "false $2"
}

tool_fails() { # tool_fails NAME TEXT: the last call answered exactly this as an error
    is "$1" "$IS_ERROR $TEXT" "true $2"
}

# ---- boxes ----

# acquire_body [MORE JSON MEMBERS]: ACQUIRE, the body of a request for a box that somebody else sends
acquire_body() {
    ACQUIRE="{\"backend\":\"$BACKEND\"${1:+,$1}}"
    [ "$BACKEND" != remote ] || suite_body "$ACQUIRE"
}

# box_new [MORE JSON MEMBERS]: a new box, which becomes the current one (BOX, B)
box_new() {
    api POST /v1/boxes "{\"backend\":\"$BACKEND\"${1:+,$1}}"
    BOX=$(j .id)
    B=/v1/boxes/$BOX
    [[ $STATUS = 20[01] ]] || { diag "no box: $STATUS $BODY"; return 1; }
}

box_use() { BOX=$1 B=/v1/boxes/$1; }

# A number that no other process of this machine has as an argument: to find again what a command left behind.
tag_new() { TAG=$((1000000 + SRANDOM % 8000000)).$((SRANDOM % 900 + 100)); }
# True while a process with the argument TAG lives, in whatever box, seen from the host.
# -q: a process that ends meanwhile is no failure
tag_alive() { grep -sqzx "[${TAG:0:1}]${TAG:1}" /proc/[0-9]*/cmdline; }
tag_gone() { ! tag_alive; }

# daemon_fds [PID]: open descriptors without the eventfds of its threads and the usage files of boxes, which are bounded
daemon_fds() { ls -l "/proc/${1-$DAEMON_PID}/fd" | grep -vc -e 'eventfd\]' -e ' /sys/fs/cgroup/'; }
daemon_memory_kb() { sed -n "s/^$1:[^0-9]*\([0-9]*\).*/\1/p" "/proc/$DAEMON_PID/status"; } # VmRSS, VmHWM
