#!/bin/bash
# One libFuzzer program as one TAP check. usage: fuzz.sh PROGRAM SECONDS
# New inputs are kept in PROGRAM.corpus; test/fuzz/NAME.corpus, where there is one, gives the first inputs.
program=$1 seconds=$2
name=$(basename "$program")
corpus=$program.corpus
mkdir -p "$corpus"
seeds=()
[ ! -d "test/fuzz/$name.corpus" ] || seeds=("test/fuzz/$name.corpus")
if "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$program.found-" "$corpus" "${seeds[@]}" > "$program.log" 2>&1; then
    printf 'ok 1 - %s: %s runs\n' "$name" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$program.log")"
else
    printf 'not ok 1 - %s\n' "$name"
    tail -40 "$program.log" | sed 's/^/# /'
fi
echo 1..1
