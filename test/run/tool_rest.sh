# Agent tools over REST: when a box is made and whose, what a call may not be, and what the answer is made of.
# backends: jail

boxes_of() { # boxes_of THREAD -> how many
    api GET /v1/boxes
    j "[.boxes[] | select(.thread == \"$1\")] | length"
}

# ---- the list ----

api GET /v1/tools
is 'the tools are listed' "$STATUS" 200
tools=$BODY
is 'as cubbyd --tools has them' "$(jq -S .tools <<< "$tools")" "$("$BUILD/cubbyd" --tools | jq -S .)"
is 'each says what it takes, what it is for, and what it does to the box' \
    "$(jq -r '.tools[] | select((.input_schema.type != "object") or (.input_schema.additionalProperties != false) or
        (.description | length < 20) or (.title | length < 2) or (.annotations | has("readOnlyHint") | not)) | .name' \
    <<< "$tools")" ''
is 'each argument is described' \
    "$(jq -r '.tools[] | .name as $t | .input_schema.properties | to_entries[] | select(.value.description | length < '\
'8) | "\($t).\(.key)"' <<< "$tools")" ''
for name in bash ls glob grep read_file write_file str_replace edit cd download bash_background bash_output bash_kill \
    recall skill agent; do
    ok "there is $name" jq -e --arg name "$name" 'any(.tools[]; .name == $name)' <<< "$tools"
done

# ---- no box before it is needed ----

is 'a thread that nobody used has no box' "$(boxes_of lazy)" 0
tool nonsense '{}' lazy
is_error 'an unknown tool' 404 NOT_FOUND "there is no tool 'nonsense'; GET /v1/tools lists them"
is 'makes none' "$(boxes_of lazy)" 0
tool ls '{"path":7}' lazy
tool_fails 'arguments that are refused' "Error: 'path' must be a string, not an integer"
is 'make none' "$(boxes_of lazy)" 0
tool ls '{}' lazy
tool_is 'the first call that needs one' '(empty)'
is 'makes one' "$(boxes_of lazy)" 1
tool ls '{}' lazy
is 'and the next finds it' "$STATUS $(boxes_of lazy)" '200 1'
tool bash '{"command":"echo made > mark"}' lazy
tool bash '{"command":"cat mark"}' 'another thread'
like 'another thread has its own' "$TEXT $(boxes_of 'another thread')" 'No such file or directory.* 1$'
tool bash '{"command":"cat mark"}' lazy
tool_is 'the first one is as it was' 'made'$'\n'

# ---- a box by its id ----

tool bash '{"command":"pwd"}'
workspace=${TEXT%$'\n'}
tool cd '{"path":"/tmp"}'
is 'a box without a thread has a working directory' "$IS_ERROR" false
tool bash '{"command":"pwd"}'
tool_is 'which stays' '/tmp'$'\n'
tool bash '{"command":"pwd"}' '' -H 'Cubby-Thread: one'
tool_is 'and each thread in it its own' "$workspace"$'\n'
api POST /v1/boxes/0123456789abcdef/tools/ls '{}'
is_error 'a box that is not there' 404 NOT_FOUND

# ---- sub-agents ----

tool cd '{"path":"/usr"}' parent
tool bash '{"command":"echo shared > /workspace/note; pwd"}' parent
tool_is 'the parent works somewhere' '/usr'$'\n'
tool bash '{"command":"cat note; pwd"}' child -H 'Cubby-Parent: parent'
tool_is 'a sub-agent has its box and a directory of its own' 'shared
/workspace
'
tool cd '{"path":"/tmp"}' child -H 'Cubby-Parent: parent'
tool bash '{"command":"pwd"}' child -H 'Cubby-Parent: parent'
tool_is 'which it changes for itself' '/tmp'$'\n'
tool bash '{"command":"pwd"}' parent
tool_is 'and for nobody else' '/usr'$'\n'
is 'no box was made for it' "$(boxes_of child)" 0

# ---- what a call may not be: which field, and what was expected ----

# A line a violation: tool, arguments, what the text must be (a regular expression).
violations() {
    jq -r '
    def good: if .enum then .enum[0] elif .type == "string" then "x" elif .type == "integer" or .type == "number" '\
'then (.minimum // 0)
        elif .type == "boolean" then false elif .type == "array" then [] else {} end;
    def base(schema): reduce (schema.required // [])[] as $name ({}; .[$name] = (schema.properties[$name] | good));
    .tools[] | .name as $tool | .input_schema as $schema | (base($schema)) as $base |
    (($schema.required // [])[] as $name | [$tool, ($base | del(.[$name])), "^Error: \u0027\($name)\u0027 is '\
'missing: "]),
    [$tool, ($base + {"no_such_field": 1}), "^Error: unknown field \u0027no_such_field\u0027; known: "],
    ($schema.properties | to_entries[] | .key as $name | .value as $field | "^Error: \u0027\($name)\u0027 " as $head |
        (if ($field.type | type) == "array" then [{"a": 1}, "must be a string or an integer, not an object$"], '\
'[true, "must be a string or an integer, not true$"]
         elif $field.type == "string" then [7, "must be a string, not an integer$"], [["x"], "must be a string, not '\
'an array$"],
             (if ($schema.required // []) | index($name) then [null, "must be a string, not null$"] else empty end)
         elif $field.type == "integer" then ["7", "must be an integer, not a string$"], [1.5, "must be an integer, '\
'not a number$"], [-1, "must be from [0-9]+ to [0-9]+$"]
         elif $field.type == "number" then ["7", "must be a number, not a string$"]
         elif $field.type == "boolean" then ["true", "must be true or false, not a string$"], [1, "must be true or '\
'false, not an integer$"]
         elif $field.type == "array" then ["x", "must be an array of [a-z]+, not a string$"]
         else ["x", "must be an object( of strings)?, not a string$"] end),
        (if $field.enum then ["no such word", "must be one of [a-z0-9|_-]+, not .no such word.$"] else empty end),
        (if $field.type == "integer" and ($field.maximum // 0) > 0 then [$field.maximum + 1, "must be from [0-9]+ to '\
'\($field.maximum)$"] else empty end),
        (if $field.type == "string" and ($field.minLength // 0) > 0 then ["", "may not be empty$"] else empty end),
        (if $field.type == "string" and ($field.maxLength // 0) > 0 and $field.maxLength < 100000
            then [([range($field.maxLength + 1) | "y"] | join("")), "is longer than \($field.maxLength) bytes$"] else '\
'empty end)
        | [$tool, ($base + {($name): .[0]}), $head + .[1]])
    | [.[0], (.[1] | tojson), .[2]] | @tsv' <<< "$tools"
}
violations > "$WORK/violations"
between 'there are violations to try' "$(wc -l < "$WORK/violations")" 100 2000
# one client for all of them
mkdir "$WORK/wrong"
tried=0
while IFS=$'\t' read -r name arguments wanted; do
    tried=$((tried + 1))
    printf '%b' "${arguments//\\\\/\\}" > "$WORK/wrong/$tried" # of @tsv
    printf '%s\n' "$wanted" > "$WORK/wrong/$tried.wanted"
    printf 'url = "http://localhost/v1/threads/violations/tools/%s"\nunix-socket = "%s"\ndata-binary = "@%s"\noutput '\
'= "%s"\nnext\n' \
        "$name" "$SOCKET" "$WORK/wrong/$tried" "$WORK/wrong/$tried.answer"
done < "$WORK/violations" > "$WORK/requests"
curl -sS -K "$WORK/requests" > /dev/null 2> "$WORK/curl"
mapfile -t answers < <(for ((i = 1; i <= tried; i++)); do cat "$WORK/wrong/$i.answer" && echo; done |
    jq -r '"\(.is_error) \(.text | gsub("\n"; " "))"')
wrong=0
for ((i = 1; i <= tried; i++)); do
    got=${answers[i - 1]-} wanted=$(< "$WORK/wrong/$i.wanted")
    [[ $got == 'true '* && ${got#true } =~ $wanted ]] && continue
    wrong=$((wrong + 1))
    [ "$wrong" -gt 5 ] || diag "$(head -c 200 "$WORK/wrong/$i"): got ${got:0:300}, want /$wanted/"
done
is 'each is an answer that names the field and what was expected' "$wrong of $tried" \
    "0 of $(wc -l < "$WORK/violations")"
is 'and none made a box' "$(boxes_of violations)" 0

for body in '[]' '"ls"' '7' 'null'; do
    tool ls "$body" lazy
    tool_fails "arguments that are no object: $body" 'Error: the body must be a JSON object'
done
tool ls '{"path":' lazy
like 'arguments that are no JSON' "$IS_ERROR $TEXT" '^true Error: the body is not JSON: .*line 1'
tool ls "$(printf '{"path":%s%s}' "$(printf '[%.0s' {1..40})" "$(printf ']%.0s' {1..40})")" lazy
tool_fails 'arguments that are nested too deep' 'Error: the JSON is nested deeper than 32 levels'
tool ls '{"path":"a\u0000b"}' lazy
tool_fails 'a NUL in a path' "Error: 'path' may not hold a NUL"
tool ls '{"path":".","path":"/"}' lazy
like 'a field that is there twice' "$IS_ERROR $TEXT" '^true Error: the body is not JSON: duplicate object key'
head -c 40000000 /dev/zero | tr '\0' ' ' > "$WORK/huge"
api POST /v1/threads/lazy/tools/ls '' -H 'Content-Type: application/json' --data-binary "@$WORK/huge"
is_error 'a body that is too large' 413 TOO_LARGE
rm "$WORK/huge"
tool ls '{}' "$(printf 'x%.0s' {1..20000})"
like 'a thread whose name is too long' "$STATUS" '^(400|414|431)$'
tool ls '{}' child -H "Cubby-Parent: $(printf 'x%.0s' {1..17000})"
like 'and a parent' "$STATUS" '^(400|431)$'
api GET /v1/threads/lazy/tools/ls
is 'a tool is called by POST' "$STATUS" 405

# ---- who may ----

write_tokens "$WORK/auth.yaml"
echo 'box_rate_per_user: 3' >> "$WORK/auth.yaml"
if second_start "$WORK/auth.yaml" "$program"; then
    api GET /v1/tools
    is_error 'without a token there is no list' 401 UNAUTHORIZED
    api POST /v1/threads/t/tools/ls '{}'
    is_error 'nor a call' 401 UNAUTHORIZED
    as eye GET /v1/tools
    is 'a token that reads sees the list' "$STATUS" 200
    as eye POST /v1/threads/t/tools/ls '{}'
    is_error 'and calls nothing' 403 DENIED
    as ann POST /v1/threads/t/tools/bash '{"command":"echo of ann > mine; cat mine"}'
    is 'a user calls' "$STATUS $(j .text)" '200 of ann'
    as ann GET /v1/boxes
    anns=$(j '.boxes[0].id')
    is "in a box of the user's" "$(j '.boxes | length') $(j '.boxes[0].user') $(j '.boxes[0].thread')" '1 ann t'
    as bob POST /v1/threads/t/tools/bash '{"command":"cat mine"}'
    like "the same thread of another user is another's" "$STATUS $(j .text)" '^200 .*No such file'
    as bob POST "/v1/boxes/$anns/tools/bash" '{"command":"cat mine"}'
    is_error 'a box of another user is not there' 404 NOT_FOUND
    api POST /v1/threads/u/tools/bash '{"command":"cat /workspace/mine"}' \
        -H 'Authorization: Bearer bob-token-0123456789abcdef00' -H 'Cubby-Parent: t'
    like "nor as a parent: that is one's own thread" "$STATUS $(j .text)" '^200 .*No such file'
    as admin POST "/v1/boxes/$anns/tools/bash" '{"command":"cat mine"}'
    is 'an admin calls in any box' "$STATUS $(j .text)" '200 of ann'
    for ((i = 0; i < 8; i++)); do as ann POST /v1/threads/t/tools/ls '{}'; done
    is 'calls in a box that is there do not count as making one' "$STATUS" 200
    for i in 2 3; do as ann POST "/v1/threads/t$i/tools/ls" '{}'; done
    is 'boxes that are made do' "$STATUS" 200
    as ann POST /v1/threads/t4/tools/ls '{}'
    is_error 'and no more than may be' 429 LIMIT 'box_rate_per_user'
    for user in ann bob; do as admin DELETE "/v1/boxes?user=$user"; done
    second_end
    is 'it ends in order' $? 0
else
    fail 'a daemon with tokens' "$(tail -5 "$WORK/daemon.log")"
    second_end
fi

# ---- a box that is away ----

tool bash '{"command":"echo kept > kept; sleep 1000 & echo $!"}' away
api GET /v1/boxes
away=$(j '.boxes[] | select(.thread == "away").id')
api POST "/v1/boxes/$away/release"
tool bash '{"command":"cat kept"}' away
tool_is 'a released box is used again' 'kept'$'\n'
api POST "/v1/boxes/$away/pause"
tool bash '{"command":"cat kept"}' away
is_error 'a paused one says so' 409 PAUSED "box $away is paused; resume it first"
api POST "/v1/boxes/$away/resume"
tool bash '{"command":"cat kept"}' away
tool_is 'and goes on' 'kept'$'\n'
api DELETE "/v1/boxes/$away"
tool bash '{"command":"cat kept"}' away
like 'a deleted one is made anew' "$STATUS $TEXT" '^200 .*No such file'

# ---- the answer ----

tool bash '{"command":"echo out; exit 3"}'
is 'a tool with an output schema answers by it too' "$(j '.structured | type')" object
is 'with its fields and no others' \
    "$(j '.structured | keys - ['"$(jq \
    -r '[.tools[] | select(.name == "bash").output_schema.properties | keys[] | "\"\(.)\""] | join(",")' \
    <<< "$tools")"'] | length')" 0
printf 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==' |
    base64 -d > "$WORK/dot.png"
upload dot.png "$WORK/dot.png"
tool read_file '{"path":"/workspace/dot.png"}'
is 'a picture is there as it is' \
    "$STATUS $(j .image.mime_type) $(j .image.data | base64 -d | cmp - "$WORK/dot.png" && echo same)" \
    '200 image/png same'
