#!/bin/bash
# The published document, the route table and the manual pages tell the same: /openapi.json is valid JSON, its
# operations are those of `cubbyd --routes`, its references resolve, and every option has a row.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
DAEMON=$BUILD/cubbyd
checks=0 failures=0
check() { # check NAME COMMAND...: a TAP line
    local name=$1 output
    shift
    checks=$((checks + 1))
    if output=$("$@" 2>&1); then
        echo "ok $checks - $name"
    else
        failures=$((failures + 1))
        echo "not ok $checks - $name"
        printf '%s\n' "$output" | head -20 | sed 's/^/# /'
    fi
}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

"$DAEMON" --openapi > "$work/openapi.json"
"$DAEMON" --routes > "$work/routes"
"$DAEMON" --options > "$work/options"

same_operations() {
    jq -r '.paths | to_entries[] | .key as $path | .value | keys[] | ascii_upcase + " " + $path' "$work/openapi.json" |
        sort > "$work/documented"
    awk -F'\t' '{ sub(/\.\.\.}/, "}", $2) } # ANY: what OpenAPI has words for
        $1 != "ANY" { print $1 " " $2; next }
        { count = split("DELETE GET HEAD OPTIONS PATCH POST PUT", any, " "); for (i = 1; i <= count; i++) print any[i] " " $2 }' \
        "$work/routes" | sort > "$work/served"
    diff "$work/documented" "$work/served"
}
documented_parameters() { # every {x} of a path is declared, and nothing else is
    jq -e '[.paths | to_entries[] | .key as $path | .value[] |
        ([$path | scan("\\{([a-z_]+)\\}")[0]] | sort) == ([.parameters[] | select(.in == "path").name] | sort)] | all' \
        "$work/openapi.json"
}
resolved_references() {
    jq -e '. as $doc | [.. | objects | select(has("$ref")) | .["$ref"] | ltrimstr("#/") / "/"] |
        map(. as $at | $doc | getpath($at) != null) | all' "$work/openapi.json"
}
contract() { # what api.md promises by name
    jq -e '.paths["/v1/boxes/{id}/exec"].post.requestBody.content["application/json"].schema.properties |
        [has("command", "argv", "cwd", "env", "stdin", "stdin_base64", "user", "timeout_ms", "output_limit_bytes")] |
        all' "$work/openapi.json"
}

check 'there are routes to compare' test "$(wc -l < "$work/routes")" -gt 50
check 'the document is JSON' jq -e '.openapi == "3.1.0"' "$work/openapi.json"
check 'its operations are the routes' same_operations
check 'every path parameter is declared' documented_parameters
check 'references resolve' resolved_references
check 'names of operations are unique' jq -e '[.paths[][].operationId] | length == (unique | length)' "$work/openapi.json"
check 'every operation has a summary and answers' \
    jq -e '[.paths[][] | (.summary | length > 5) and (.responses | length >= 2)] | all' "$work/openapi.json"
check 'required fields are declared' \
    jq -e '[.. | objects | select(has("required") and has("properties")) | (.required - (.properties | keys)) == []] | all' \
    "$work/openapi.json"
check 'the exec body has its fields' contract
check 'every option has seven columns' awk -F'\t' 'NF != 7 || $7 == "" { exit 1 }' "$work/options"
echo "1..$checks"
exit $((failures > 0))
