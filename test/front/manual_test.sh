#!/bin/bash
# The manual against the programs: every option and command that exists is described, and nothing else.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
BUILD=$(realpath "${BUILD:-build}")
page() { man -l "man/$1" 2> /dev/null | col -b; }
if ! command -v man > /dev/null || ! command -v col > /dev/null; then
    skip 'the manual' 'no man(1) or col(1) here'
    finish
    exit 0
fi
for file in man/*.[158]; do
    is "$file renders without warnings" "$(man --warnings -l "$file" 2>&1 > /dev/null)" ''
done

yaml=$(page cubby.yaml.5)
while IFS=$'\t' read -r name _; do
    name=${name#--}
    like "cubby.yaml(5) has ${name//-/_}" "$yaml" "(^|[[:space:],])${name//-/_}([[:space:],]|\$)"
done < <("$BUILD/cubbyd" --options | awk '{ print $1 }' | grep -E '^-?-?[a-z]')

cubby=$(page cubby.1)
for command in $("$BUILD/cubby" help | awk '/^  [a-z]/ { print $1 }'); do
    like "cubby(1) has the command $command" "$cubby" "cubby $command"
    for option in $("$BUILD/cubby" help "$command" | grep -oE '^ +(-[a-z], )?--[a-z]+' | grep -oE -- '--[a-z]+'); do
        like "cubby(1) has $command $option" "$cubby" "$option"
    done
    is "cubby $command --help" "$("$BUILD/cubby" "$command" --help | head -1 | cut -c1-$((13 + ${#command})))" "usage: cubby $command"
done

ok 'the completion is bash' bash -n tools/completion/cubby.bash
finish
