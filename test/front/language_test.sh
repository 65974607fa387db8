#!/bin/bash
# What users read is plain English: no false friends (test/lib/language.py has the list) in texts of the programs,
# their help, the HTTP API's description, manual pages, README.md, SECURITY.md and docs/; and the list finds them.
cd "$(dirname "$0")/../.." || exit 1
. test/lib/lib.sh
: "${BUILD:=build}"
WORK=$(mktemp -d) || exit 1
trap 'rm -rf "$WORK"' EXIT

found=$(python3 test/lib/language.py)
is 'texts that users read have no false friends' "$found" ''

"$BUILD/cubbyd" --openapi > "$WORK/openapi.json"
"$BUILD/cubbyd" --tools | jq '[.[] | [.description, (.input_schema, .output_schema | .. | .description? // empty)]]' |
    jq -r '.. | strings' > "$WORK/tools.txt"
{
    "$BUILD/cubbyd" --help
    "$BUILD/cubbyd" --options
    "$BUILD/cubbyd" --routes
    "$BUILD/cubby" help
    for command in $("$BUILD/cubby" help | sed -n 's/^  \([a-z-]*\)  .*/\1/p'); do "$BUILD/cubby" help "$command"; done
    "$BUILD/cubby-runner" --help
} > "$WORK/help.txt" 2>&1
between 'texts were printed' "$(cat "$WORK"/*.txt | wc -l)" 500 5000
found=$(cd "$WORK" && python3 "$OLDPWD/test/lib/language.py" openapi.json tools.txt help.txt)
is 'nor have the help, the options, the tools and the description of the API' "$found" ''

cat > "$WORK/bad.c" << 'END'
/* whoever reads this comment is no user */
const char *a = "the box is no longer there", *b = "/etc/passwd is no directory", *c = "besides";
const char *d = "the user and his "
                "box", *e = "a box that stands still";
END
echo '{"info":{"title":"nobody"},"paths":{"/x":{"get":{"summary":"behind a proxy; nobody but admins"}}}}' \
    > "$WORK/bad.json"
echo '    meanwhile it waits for users behind it' > "$WORK/bad.txt"
words() { python3 test/lib/language.py "$1" | sed -E "s/^[^:]*:([0-9]+): '([^']*)'.*/\1 \2/"; }
is 'they are found in texts, also in parts of one, and not in comments or single words' "$(words "$WORK/bad.c")" \
    $'2 is no d\n3 his\n4 stands still'
is 'in the texts of a description of an API' "$(words "$WORK/bad.json")" '0 nobody'
is 'and in what a program prints' "$(words "$WORK/bad.txt")" $'1 behind\n1 meanwhile'
finish
