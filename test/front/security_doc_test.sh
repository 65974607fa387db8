#!/bin/bash
# SECURITY.md and the tests say the same: every hostile case stands behind a promise, every test named there exists, and
# every row of a table of promises names one.
cd "$(dirname "$0")/../.." || exit 1
. test/lib/lib.sh
document=SECURITY.md

unnamed=
for file in $(find test/hostile -name '*.sh' ! -name run.sh | sort); do
    name=$(basename "$file" .sh)
    grep -q "\`hostile/$name\`" "$document" || unnamed+=" $name"
done
is 'every hostile case stands behind a promise' "$unnamed" ''

missing=
for name in $(grep -o '`hostile/[a-z0-9_]*`' "$document" | tr -d '`' | sort -u); do
    [ -e "test/$name.sh" ] || missing+=" $name"
done
for path in $(grep -o '`test/[^`]*`' "$document" | tr -d '`' | sort -u); do
    [ -e "$path" ] || missing+=" $path"
done
is 'every test that is named exists' "$missing" ''

# A row of a table whose head ends in "test" ends in a name.
bare=$(awk -F'|' '/^\|/ { if (!in_table) { in_table = 1; wants = $(NF - 1) ~ /test/; next } if (/^\|---/) next
                          if (wants && $(NF - 1) !~ /`/) print $2 } !/^\|/ { in_table = 0 }' "$document")
is 'every promise names its test' "$bare" ''
between 'there are promises' "$(grep -c '^| .*`hostile/' "$document")" 30 200
finish
