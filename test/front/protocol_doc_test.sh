#!/bin/sh
# PROTOCOL.md and src/wire/proto.h say the same: every frame, op and field with its number, every flag, feature and
# value.
cd "$(dirname "$0")/../.." || exit 1
header=src/wire/proto.h
document=PROTOCOL.md
count=0
failed=0

result() { # STATUS NAME
    count=$((count + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $count - $2"
    else
        echo "not ok $count - $2"
        failed=1
    fi
}

# The rows of one X-macro list: "NAME NUMBER" a line. Comments go first: they hold names too.
rows() { # LIST
    sed -e ':a' -e 's:/\*[^*]*\*/::g' -e 't' "$header" |
        awk -v list="#define $1(X)" 'index($0, list) { on = 1 } on { print } on && !/\\$/ { exit }' |
        grep -o 'X([A-Z_0-9]*, *[0-9]*' | tr -d ' ' | sed -e 's/X(//' -e 's/,/ /'
}

# Whether a table row of the document has the number and the name side by side.
in_table() { # NUMBER NAME
    grep -q "| *$1 *| *\`$2\` *|" "$document"
}

for list in FRAME_LIST OP_LIST FIELD_LIST; do
    missing=""
    found=0
    while read -r name number; do
        found=$((found + 1))
        in_table "$number" "$name" || missing="$missing $name=$number"
    done <<EOF
$(rows $list)
EOF
    [ -z "$missing" ] || echo "# missing:$missing"
    [ -z "$missing" ] && [ "$found" -ge 10 ]
    result $? "every row of $list ($found) is in $document with its number"
done

missing=""
for name in $(grep -o '^#define \(FLAG\|CALL\|FEATURE\|STREAM\)_[A-Z_]*' "$header" | sed 's/#define //') \
    $(awk '/^enum (file_type|process_state|watch_event|session_state|search_sort) / { on = 1 } on { print } /};/ { on '\
'= 0 }' "$header" | grep -o '[A-Z][A-Z_]* =' | tr -d ' =') PROTO_VERSION; do
    grep -q "\`$name\`" "$document" || missing="$missing $name"
done
[ -z "$missing" ] || echo "# missing:$missing"
[ -z "$missing" ]
result $? "every flag, feature and value is in $document"

missing=""
for word in $(grep -o 'X([A-Z_]*, [0-9]*' src/base/err.h | sed -e 's/X(//' -e 's/, /=/'); do
    grep -q "${word%=*} ${word#*=}" "$document" || missing="$missing $word"
done
[ -z "$missing" ]
result $? "every failure code is in $document with its number"

version=$(sed -n 's/#define PROTO_VERSION //p' "$header")
grep -q "^# The wire, version $version$" "$document"
result $? "the version is the same"
echo "1..$count"
exit $failed
