#!/bin/bash
# The test driver: runs every TAP program, six at a time (most of them wait much of the time), with a time limit each,
# shows what failed, and ends with one
# line of counts. One that says `# waits` (nearly all of the time, for time-outs) is run beside those six, one after
# another. usage: driver.sh BUILD [PATTERN]; PATTERN picks jobs whose name matches (a shell pattern inside).
# TEST_SLOW=N: on a machine that is N times slower than usual.
set -u
BUILD=$(realpath "$1") PATTERN=${2-}
cd "$(dirname "$0")/../.." || exit 1
LOGS=$BUILD/test-logs
mkdir -p "$LOGS"
rm -f "$LOGS"/*.log "$LOGS"/*.sum "$LOGS"/*.cpu "$LOGS"/*.name
export BUILD
PARALLEL=${TEST_JOBS:-6}
JOB_NAMES=() JOB_LIMITS=() JOB_COMMANDS=()

job() { # job NAME SECONDS COMMAND...
    local name=$1 seconds=$2
    shift 2
    [[ -z $PATTERN || $name == *$PATTERN* ]] || return 0
    JOB_NAMES+=("$name") JOB_LIMITS+=($((seconds * ${TEST_SLOW:-1}))) JOB_COMMANDS+=("$*")
}

# The cases of a directory, and what the head of a case says about backends:
#   # backends: jail docker     the only ones it is for
# # by default: jail          of those, the ones that `make test` runs it on; `make test BACKENDS="local docker"` runs
# it on all
# What nothing but the verbs of a box decides need not run on each backend, and each container takes a quarter of a
# second of processors.
cases() { find "test/$1" -maxdepth 1 -name '*.sh' ! -name run.sh | sort; } # cases DIRECTORY
runs_on() { # runs_on BACKEND FILE BACKENDS-OF-A-CASE-THAT-NAMES-NONE
    local line list=$3
    while IFS= read -r line && [[ $line == '#'* ]]; do
        case $line in
        '# backends: '*) list=${line#*: } ;;
        '# by default: '*) [ -n "${BACKENDS-}" ] || list=${line#*: } ;;
        esac
    done < "$2"
    [[ " $list " == *" $1 "* ]]
}

collect() {
    local file name backend
    [ ! -x tools/lint ] || job lint 1200 tools/lint quick # `make lint` has clang-tidy too
    for name in remote docker k8s; do
        for file in $(cases "$name"); do job "$name/$(basename "$file" .sh)" 600 "test/$name/run.sh" "$file"; done
    done
    for file in $(cases hostile); do
        name=$(basename "$file" .sh)
        job "hostile/$name" 600 test/hostile/run.sh "$file"
        [[ " ${BACKENDS:-docker} " == *' docker '* ]] && runs_on docker "$file" jail || continue
        job "hostile/docker/$name" 240 env BACKEND=docker test/hostile/run.sh "$file"
    done
    # Over workers the wire is that of machines and the box a jail: by default the cases where both meet. BACKENDS=fleet
    # runs all that a jail can do.
    [ -n "${BACKENDS-}" ] || for name in box exec file process box_concurrency; do
        job "run/fleet/$name" 600 env BACKEND=fleet test/run/run.sh "test/run/$name.sh"
    done
    for backend in ${BACKENDS:-jail local remote docker}; do
        for file in $(cases run); do
            runs_on "$backend" "$file" 'jail local remote docker' ||
                { [ "$backend" = fleet ] && runs_on jail "$file" jail; } || continue
            job "run/$backend/$(basename "$file" .sh)" 600 env BACKEND="$backend" test/run/run.sh "$file"
        done
    done
    for file in $(find test/unit -name '*_test.c' | sort); do
        name=${file#test/}
        name=${name%_test.c}
        [ ! -x "$BUILD/asan/${name}_test" ] || job "$name" 300 "$BUILD/asan/${name}_test"
    done
    for file in $(find test/front -name '*_test.sh' | sort); do
        name=${file#test/}
        job "${name%_test.sh}" 600 "$file"
    done
    for file in "$BUILD"/asan/fuzz/fuzz_*; do
        [ -f "$file" ] && [ -x "$file" ] || continue
        job "fuzz/$(basename "$file")" $((${FUZZ_SECONDS:-1} + 300)) test/lib/fuzz.sh "$file" "${FUZZ_SECONDS:-1}"
    done
    # Hostile cases that are races or floods: long, where there is time for it (make fuzz).
    [ -n "${FUZZ_SECONDS-}" ] || return 0
    job fuzz/swap_race 900 env RACE_SWAPS=1000000 RACE_SECONDS=90 test/hostile/run.sh test/hostile/path_swap_race.sh
    job fuzz/wide_directory 1500 env WIDE=1000000 test/hostile/run.sh test/hostile/tree_wide.sh
}

# Indices of JOB_NAMES, the longest first so that little is left to wait for at the end. test/lib/durations has how long
# each took
# ($LOGS/durations of a whole run, copied); one that is not in it comes first.
in_order() {
    local index
    for index in "${!JOB_NAMES[@]}"; do echo "$index ${JOB_NAMES[index]}"; done |
        awk 'NR == FNR { took[$2] = $1; next } { print ($2 in took ? took[$2] : 9999), $1 }' test/lib/durations - |
        sort -rn -s -k1,1 | cut -d' ' -f2
}

run_job() { # run_job INDEX: log and summary files
    local name=${JOB_NAMES[$1]} log="$LOGS/${JOB_NAMES[$1]//\//-}" start=$EPOCHSECONDS status
    local TIMEFORMAT='%U %S'
    local -x TMPDIR=$DISK TEST_SKELETON=$SKELETON/state/templates
    [ -z "$MEMORY" ] || says "$1" 'files: on disk' || TMPDIR=$MEMORY TEST_SKELETON=$MEMORY/skeleton
    { time timeout --kill-after=10 "${JOB_LIMITS[$1]}" ${JOB_COMMANDS[$1]} > "$log.log" 2>&1 < /dev/null; } \
        2> "$log.cpu"
    status=$?
    count "$log.log" "$status" $((EPOCHSECONDS - start)) > "$log.sum"
    echo "$name" > "$log.name"
    report "$name" "$log"
}

# Passed, failed, skipped of one log. A missing plan, a plan that does not fit, a time-out or a bad exit is a failure
# of its own unless a failed check explains the exit.
count() { # count LOG STATUS SECONDS
    awk -v status="$2" -v seconds="$3" '
        /^ok .*# SKIP/ { skipped++; next }
        /^ok / { passed++ }
        /^not ok / { failed++ }
        /^1\.\.[0-9]+/ { planned = substr($1, 4) + 0; plan = 1 }
        END {
            why = ""
            if (status == 124 || status == 137) why = "time-out"
            else if (!plan) why = "no plan, exit status " status
            else if (planned != passed + failed + skipped) why = "planned " planned ", ran " (passed + failed + skipped)
            else if (status != 0 && !failed) why = "exit status " status
            if (why != "") failed++
            printf "%d %d %d %d %s\n", passed, failed, skipped, seconds, why
        }' "$1"
}

report() { # report NAME LOG
    local passed failed skipped seconds why
    read -r passed failed skipped seconds why < "$2.sum"
    {
        flock 9
        printf '%-34s %4d passed' "$1" "$passed"
        [ "$failed" = 0 ] || printf ', %d FAILED' "$failed"
        [ "$skipped" = 0 ] || printf ', %d skipped' "$skipped"
        printf ' (%d s, %d of processors)\n' "$seconds" "$(awk '{ printf "%d", $1 + $2 + 0.5 }' "$2.cpu")"
        awk '/^not ok / { show = 1; print "    " $0; next } /^#/ && show { print "    " $0; next } { show = 0 }
             /# SKIP/ { print "    " $0 }' "$2.log"
        [ -z "$why" ] || { printf '    %s; the end of its output:\n' "$why"; tail -15 "$2.log" | sed 's/^/    | /'; }
    } 9>> "$LOGS/lock"
}

collect
# What tests make lies in memory where there is enough of it: a third of what they do is making and removing files. A
# file that says `# files: on disk` gets the machine's own file system.
DISK=${TMPDIR:-/tmp} MEMORY=
if [ -z "${TMPDIR-}" ] && awk '/^MemAvailable:/ { exit($2 < 6000000) }' /proc/meminfo; then
    MEMORY=$(mktemp -d /tmp/cubby-XXXXXX)
    mount -t tmpfs -o mode=1777,size=50%,nr_inodes=0 cubby-tests "$MEMORY" 2> /dev/null || { rmdir "$MEMORY"; MEMORY=; }
fi
# One container engine for all jobs that want one (test/lib/docker.sh): the first of them starts it.
TEST_ENGINE=$(mktemp -d "${MEMORY:-$DISK}/cubby-engine.XXXXXX")
export TEST_ENGINE
# And one skeleton of `host` for all daemons (state_new in test/lib/daemon.sh), made by one that serves nobody.
SKELETON=$(mktemp -d "$DISK/cubby-skeleton.XXXXXX")
"$BUILD/cubbyd" --listen "unix:$SKELETON/socket" --state "$SKELETON/state" --config /dev/null --backend jail \
    --pool-size 1 < /dev/null > "$LOGS/skeleton.log" 2>&1 & maker=$!
for ((i = 0; i < 600; i++)); do
    ! compgen -G "$SKELETON/state/templates/.host-*" > /dev/null && kill -0 "$maker" 2> /dev/null || break
    sleep 0.1
done
kill -TERM "$maker" 2> /dev/null
wait "$maker"
[ -z "$MEMORY" ] || cp -a "$SKELETON/state/templates" "$MEMORY/skeleton" # states link to its files
driver_end() {
    test/lib/docker.sh end "$TEST_ENGINE"
    rm -rf "$SKELETON"
    [ -z "$MEMORY" ] || { umount -l "$MEMORY" && rmdir "$MEMORY"; }
}
trap driver_end EXIT
trap 'exit 143' TERM INT
says() { # says INDEX LINE: the head of its file
    local word
    for word in ${JOB_COMMANDS[$1]}; do
        [[ $word == test/*/*.sh && $word != */run.sh ]] && grep -q "^# $2\$" "$word" && return
    done
    return 1
}
busy=() waiting=()
for index in $(in_order); do if says "$index" waits; then waiting+=("$index"); else busy+=("$index"); fi; done
for index in "${waiting[@]}"; do run_job "$index"; done & lane=$!
running=0
for index in "${busy[@]}"; do
    run_job "$index" &
    running=$((running + 1))
    [ "$running" -lt "$PARALLEL" ] || { wait -n -p ended; [ "$ended" = "$lane" ] || running=$((running - 1)); }
done
wait
# A few that failed beside others, one in forty at most, are run once more, alone: what a loaded machine does to a time
# limit is not a defect, and what fails again is one. Both outcomes are shown. Many failures are not the machine's.
failed_jobs=()
for index in "${!JOB_NAMES[@]}"; do
    read -r _ failed _ < "$LOGS/${JOB_NAMES[index]//\//-}.sum"
    [ "$failed" = 0 ] || failed_jobs+=("$index")
done
AGAIN=()
if [ "${#JOB_NAMES[@]}" -gt 1 ] && [ $((${#failed_jobs[@]} * 40)) -le $((${#JOB_NAMES[@]} + 160)) ]; then
    for index in "${failed_jobs[@]}"; do
        log="$LOGS/${JOB_NAMES[index]//\//-}.log"
        cp "$log" "$LOGS/../${JOB_NAMES[index]//\//-}.first-log"
        AGAIN+=("${JOB_NAMES[index]}: beside others failed: $(sed -n 's/^not ok [0-9]* - //p' "$log" | head -5 |
            paste -sd ';')")
        echo "once more, alone: ${JOB_NAMES[index]}"
        run_job "$index"
    done
fi
[ "${#AGAIN[@]}" = 0 ] || { echo 'Run twice, the second time counts:' && printf '    %s\n' "${AGAIN[@]}"; }
for sum in "$LOGS"/*.sum; do read -r _ _ _ seconds _ < "$sum" && echo "$seconds $(< "${sum%.sum}.name")"; done |
    sort -rn > "$LOGS/durations"
# Again at the end, where whoever sees only the last lines finds it.
for sum in "$LOGS"/*.sum; do
    read -r _ failed _ _ why < "$sum"
    [ "$failed" = 0 ] || {
        printf 'FAILED %s: %s\n' "$(basename "$sum" .sum)" "${why:-$failed checks}"
        grep -h -A4 '^not ok ' "${sum%.sum}.log" | head -12
        [ -z "$why" ] || grep -h -E 'ERROR: |SUMMARY: |runtime error: ' "${sum%.sum}.log" | head -4
    }
done
cat "$LOGS"/*.sum 2> /dev/null | awk '{ p += $1; f += $2; s += $3 }
    END { printf "%d passed, %d failed, %d skipped\n", p, f, s; exit(f > 0 || p == 0) }'
