# The README's lines about images, one by one, with an image that is there.
# box: none
awk '/^## / { on = $0 == "## Any image is a box" } !on { next } /^```sh/ { block = 1; next } block && /^```/ { exit } '\
'block' README.md > "$WORK/lines"
like 'the README has them' "$(wc -l < "$WORK/lines")" '^[5-9]$'
sed -i "s|build/cubby|$CUBBY|g; s|debian:stable-slim|$IMAGE_DEBIAN|" "$WORK/lines"
OUT=$(bash -e "$WORK/lines" 2>&1)
CODE=$?
is 'every line of them succeeds' "$CODE" 0
like 'they show what they promise' "$OUT" \
    'uid=1000.*PRETTY_NAME="Debian.*added .*/tmp/made.*added .*/workspace/here.txt'
is 'and leave no box' "$(api GET /v1/boxes; j '.boxes|length')" 0
