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
    awk -F'\t' '{ sub(/\.\.\.}/, "}", $2) } # ANY: one operation stands for all methods
        { print ($1 == "ANY" ? "GET" : $1) " " $2 }' "$work/routes" | sort > "$work/served"
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
contract_of() { # contract_of SCHEMA FILE: every member of the answer is known, every required one there and of its type
    jq -e --slurpfile doc "$work/openapi.json" --arg name "$1" '
        def resolve: if has("$ref") then $doc[0].components.schemas[.["$ref"] / "/" | last] else . end;
        def kind: type as $t | if $t == "number" and . == floor then ["number", "integer"] else [$t] end;
        def fits($schema): . as $value | ($schema | resolve) as $s |
            if $s | has("anyOf") then any($s.anyOf[]; . as $one | $value | (try fits($one) catch false))
            elif $s | has("type") then
                ([$s.type] | flatten) as $types |
                if (($value | kind) - $types | length) == ($value | kind | length) then error("\($value | tojson | '\
'.[:80]) is not \($types)")
                elif ($value | type) == "object" and ($s | has("properties")) then
                    (($s.required // []) - ($value | keys)) as $missing | (($value | keys) - ($s.properties | keys)) '\
'as $unknown |
                    if $missing + $unknown != [] then error("missing \($missing), unknown \($unknown)")
                    else all($value | to_entries[]; . as $e | $e.value | fits($s.properties[$e.key])) end
                elif ($value | type) == "array" then all($value[]; . as $item | $item | fits($s.items))
                else true end
            else true end;
        fits({"$ref": ("#/components/schemas/" + $name)})' "$2" || { echo "$1"; cut -c1-300 "$2"; return 1; }
}
live_answers() {
    local box
    "$DAEMON" --listen "unix:$work/socket" --state "$work/state" --allow-weaker limits --pool-size 0 > "$work/log" \
        2>&1 < /dev/null &
    daemon=$!
    ask() { # ask SCHEMA METHOD PATH [BODY]
        curl -sS --unix-socket "$work/socket" -X "$2" ${4:+-d "$4"} "http://localhost$3" -o "$work/answer" || return 1
        ! jq -e 'has("error") and (.error | type) == "object"' "$work/answer" > /dev/null ||
            { cat "$work/answer"; return 1; }
        contract_of "$1" "$work/answer" > "$work/said" || { cat "$work/said"; return 1; }
    }
    curl -sf --retry 100 --retry-delay 0 --retry-max-time 20 --retry-all-errors --unix-socket "$work/socket" \
        http://localhost/healthz > /dev/null &&
        ask Box POST /v1/boxes '{"thread":null,"user":"ann","labels":{"a":"b"},"limits":{"memory_mb":null}}' &&
        box=$(jq -r .id "$work/answer") &&
        ask Boxes GET /v1/boxes && ask Box GET "/v1/boxes/$box" && ask Info GET /v1/info && ask Health GET /healthz &&
        ask ExecResult POST "/v1/boxes/$box/exec" \
        '{"command":"echo hi > f; (sleep 1000 &) ; mkdir d; ln -s f l","cwd":null,"env":null,"timeout_ms":null}' &&
        ask ProcessStarted POST "/v1/boxes/$box/processes" '{"command":"sleep 1000"}' &&
        ask Processes GET "/v1/boxes/$box/processes" &&
        ask Session POST "/v1/boxes/$box/sessions" '{"name":"s"}' &&
        ask SessionExecResult POST "/v1/boxes/$box/sessions/s/exec" '{"command":"pwd"}' &&
        ask Sessions GET "/v1/boxes/$box/sessions" && ask SessionResult POST "/v1/boxes/$box/sessions/s/stop" &&
        ask File GET "/v1/boxes/$box/stat?path=l" && ask Files GET "/v1/boxes/$box/list" &&
        ask Hash GET "/v1/boxes/$box/hash?path=f" &&
        ask GlobResult POST "/v1/boxes/$box/glob" '{"pattern":"*"}' &&
        ask GrepResult POST "/v1/boxes/$box/grep" '{"pattern":"h"}' &&
        ask EditResult POST "/v1/boxes/$box/edit" '{"path":"f","old":"hi","new":"ho","all":null}' &&
        ask Diff GET "/v1/boxes/$box/diff" && ask Snapshot POST "/v1/boxes/$box/snapshots" '{"name":null}' &&
        ask Snapshots GET "/v1/boxes/$box/snapshots" &&
        ask Box POST "/v1/boxes/$box/fork" '{}' && ask Tools GET "/v1/tools" &&
        ask ToolResult POST "/v1/boxes/$box/tools/bash" '{"command":"echo"}' &&
        ask NewToken POST /v1/tokens '{"scope":"user","user":"ann"}' && ask Tokens GET /v1/tokens &&
        ask AuditEvents GET /v1/audit &&
        ask AuditVerified GET /v1/audit/verify && ask Machines GET /v1/machines && ask McpServers GET /v1/mcp/servers &&
        ask Ended DELETE '/v1/boxes?user=ann'
    box=$?
    [ "$box" = 0 ] || { cat "$work/answer"; tail -3 "$work/log"; }
    kill "$daemon"
    wait "$daemon"
    return "$box"
}
schemas_used() {
    jq -e '([.. | objects | select(has("$ref")) | .["$ref"] | select(startswith("#/components/schemas/")) | '\
'ltrimstr("#/components/schemas/")] | unique) ==
        (.components.schemas | keys)' "$work/openapi.json" &&
        [ "$(grep -o '"Box":{' "$work/openapi.json" | wc -l)" = 1 ]
}
native_required() {
    jq -e '.components.schemas | [.Box, .ExecResult, .Session, .Snapshot | (.required | sort) == (.properties | '\
'keys)] | all' "$work/openapi.json"
}
contract() { # what api.md promises by name
    jq -e '.paths["/v1/boxes/{id}/exec"].post.requestBody.content["application/json"].schema["$ref"] '\
'== "#/components/schemas/ExecRequest" and
        (.components.schemas.ExecRequest.properties | '\
'[has("command", "argv", "cwd", "env", "stdin", "stdin_base64", "user", "timeout_ms", "output_limit_bytes")] |
        all)' "$work/openapi.json"
}

check 'there are routes to compare' test "$(wc -l < "$work/routes")" -gt 50
check 'the document is JSON' jq -e '.openapi == "3.1.0"' "$work/openapi.json"
check 'its operations are the routes' same_operations
check 'every path parameter is declared' documented_parameters
check 'references resolve' resolved_references
check 'names of operations are unique' jq -e '[.paths[][].operationId] | length == (unique | length)' \
    "$work/openapi.json"
check 'every operation has a summary and answers' \
    jq -e '[.paths[][] | (.summary | length > 5) and (.responses | length >= 2)] | all' "$work/openapi.json"
check 'required fields are declared' \
    jq -e '[.. | objects | select(has("required") and has("properties")) | (.required - (.properties | keys)) == []] '\
'| all' \
    "$work/openapi.json"
check 'the exec body has its fields' contract
check 'every operation has one tag, and an answer of success' \
    jq -e '[.paths[][] | (.tags | length == 1 and (.[0] | length > 1)) and (.responses | keys | '\
'map(test("^(101|2..|302)$|^501$")) | any)] | all' \
    "$work/openapi.json"
check 'a server is named' jq -e '.servers[0].url == "/"' "$work/openapi.json"
check 'what clients need by name has a schema' \
    jq -e '.components.schemas | '\
'has("Box", "ExecResult", "Error", "Snapshot", "Process", "Session", "File", "Machine", "Token")' "$work/openapi.json"
check 'every schema is used, and none twice' schemas_used
check 'members of our answers are required' native_required
check 'exec answers JSON or events' \
    jq -e '[.paths | .["/v1/boxes/{id}/exec"], .["/v1/boxes/{id}/sessions/{name}/exec"] | '\
'.post.responses["200"].content |
        has("application/json") and has("text/event-stream")] | all' "$work/openapi.json"
check 'a file that was written has an ETag' \
    jq -e '.paths["/v1/boxes/{id}/files"].put.responses | [.["200"], .["201"] | .headers.ETag.schema.type '\
'== "string"] | all' "$work/openapi.json"
check 'answers of a daemon are as their schemas say' live_answers
check 'every option has seven columns' awk -F'\t' 'NF != 7 || $7 == "" { exit 1 }' "$work/options"
echo "1..$checks"
exit $((failures > 0))
