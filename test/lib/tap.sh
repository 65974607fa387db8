#!/bin/bash
# Makes one TAP check of a plain command. usage: tap.sh NAME COMMAND...
name=$1
shift
if output=$("$@" 2>&1); then printf 'ok 1 - %s\n' "$name"; else
    printf 'not ok 1 - %s\n' "$name"
    printf '%s\n' "$output" | tail -60 | sed 's/^/# /'
fi
echo 1..1
