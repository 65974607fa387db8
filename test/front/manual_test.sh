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
for file in man/*.[1578]; do
    is "$file renders without warnings" "$(man --warnings -l "$file" 2>&1 > /dev/null)" ''
done

is 'no page is older than the tables of the programs' "$(tools/manual --check "$BUILD")" ''
# a page that lost a row is found, and mended
stale=$(mktemp -d "${TMPDIR:-/tmp}/cubby-stale.XXXXXX")
cp -r man tools "$stale"
sed -i '/^listen  /d' "$stale/man/cubby.yaml.5"
is 'a page that lacks a row of its table is named' "$("$stale/tools/manual" --check "$BUILD")" \
    'man/cubby.yaml.5 is stale: run `make manual`'
"$stale/tools/manual" "$BUILD" > /dev/null
ok 'and written as it should be' cmp -s "$stale/man/cubby.yaml.5" man/cubby.yaml.5
rm -r "$stale"

# ---- the configuration ----

source=man/cubby.yaml.5
options=$("$BUILD/cubbyd" --options)
section() { # section NAME: lines of the page's source from that head to the next
    awk -v head=".Sh $1" '$0 == head { on = 1; next } /^\.Sh / { on = 0 } on' "$source"
}
is 'the table of cubby.yaml(5) is that of cubbyd --options' \
    "$(section 'THE TABLE' | sed -n '/^\.Bd/,/^\.Ed/{/^\.[BE]d/d;/^\.\\"/d;p}' | tr -s ' ')" \
    "$(cut -f1-6 <<< "$options" | tr '\t' ' ' | tr -s ' ')"
# every option has a paragraph, and every paragraph is about one (inner lists are deeper)
described=$(section DESCRIPTION | awk '/^\.Bl/ { depth++ } /^\.El/ { depth-- } depth == 1 && /^\.It Cm/' |
    sed 's/^\.It Cm//; s/,//g' | tr -s ' ' '\n' |
    grep -vx 'limits' | sed '/^$/d' | sort)
is 'cubby.yaml(5) describes every option, and nothing else' "$described" "$(cut -f1 <<< "$options" | sort)"

# every key of the other product's section, as our notes of it have them
for key in use allow_host_bash image port replicas overflow_policy acquire_timeout burst_limit container_prefix \
    idle_timeout \
    health_check_skip_seconds ownership renewal_interval_seconds ttl_multiplier redis_url key_prefix mounts host_path \
    container_path \
    read_only thread_data_mounts environment bash_output_max_chars read_file_output_max_chars ls_output_max_chars \
    bash_command_timeout \
    provisioner_url provisioner_api_key network.mode; do
    ok "its key $key has its counterpart" grep -qE "^\.(It Cm|Cm|Pq no Cm) (.* )?$key( |\$)" \
        <(section 'COMING FROM DEERFLOW')
done
for option in $(section 'COMING FROM DEERFLOW' | awk '/^\.Cm / { print $2 } /^\.Pq Cm/ { print $3 }'); do
    case $option in source | target | read_only | host_path | container_path) continue ;; esac
    case $option in timeout_ms | output_limit_bytes | local | none) continue ;; esac
    ok "which is an option: $option" grep -qP "^$option\t" <<< "$options"
done

# examples load, on a machine that has what they name
work=$(mktemp -d "${TMPDIR:-/tmp}/cubby-manual.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/srv/datasets" "$work/srv/cubby/users" "$work/srv/templates" "$work/etc"
: > "$work/srv/templates/python.tar"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost \
    -keyout "$work/etc/key.pem" \
    -out "$work/etc/cert.pem" 2> /dev/null
chmod 600 "$work/etc/key.pem"
section EXAMPLES | sed "s#/srv/#$work/srv/#; s#/etc/cubby/#$work/etc/#" |
    awk -v dir="$work" '/^\.Bd/ { n++; on = 1; next } /^\.Ed/ { on = 0 } on { print > dir "/example" n }'
examples=$(ls "$work" | grep -c '^example')
[ "$examples" -ge 3 ] || fail 'the examples' "only $examples"
for example in "$work"/example*; do
    is "${example##*/} of cubby.yaml(5) is fine" \
        "$(ALICE_TOKEN=0123456789abcdef0123 API_KEY=x "$BUILD/cubbyd" --config "$example" --check 2>&1)" \
    "the configuration $example is fine"
done
rm "$work/etc/cert.pem"
like 'a certificate that is missing is found by --check' \
    "$(ALICE_TOKEN=0123456789abcdef0123 "$BUILD/cubbyd" --config "$work/example1" --check 2>&1)" 'cert.pem'
rm -r "$work/srv/datasets"
like 'and a mount' "$(API_KEY=x "$BUILD/cubbyd" --config "$work/example2" --check 2>&1)" \
    "mounts: source '$work/srv/datasets'"
like 'and a variable' "$(env -u API_KEY "$BUILD/cubbyd" --config "$work/example2" --check 2>&1)" \
    'line [0-9]+: API_KEY: \$API_KEY is not set'
"$BUILD/cubbyd" --config "$work/example2" --check > /dev/null 2>&1
is 'with status 2' $? 2

# the file that is read where none is named: seen in a mount namespace of its own
if [ "$(id -u)" = 0 ] && unshare -m true 2> /dev/null; then
    default() { # default COMMAND...: with $work/default as /etc/cubby
        unshare -m bash -c 'mkdir -p "$0/up" "$0/w" && mount -t tmpfs none "$0/w" && mkdir "$0/w/u" "$0/w/w" &&
            mount -t overlay none -o "lowerdir=/etc,upperdir=$0/w/u,workdir=$0/w/w" /etc && mkdir -p /etc/cubby &&
            cp -p "$0/default" /etc/cubby/cubby.yaml && exec "$@"' "$work" "$@"
    }
    echo 'pids: 100' > "$work/default"
    is 'the default file is read' "$(default "$BUILD/cubbyd" --check 2>&1)" \
        'the configuration /etc/cubby/cubby.yaml is fine'
    echo 'pids: many' > "$work/default"
    like 'and looked at as any other' "$(default "$BUILD/cubbyd" --check 2>&1)" \
        '^cubbyd: /etc/cubby/cubby.yaml line 1: pids'
    is '--config goes before it' "$(default "$BUILD/cubbyd" --config /dev/null --check 2>&1)" \
        'the configuration /dev/null is fine'
    ok '--help needs no configuration' default "$BUILD/cubbyd" --help
    chmod 600 "$work/default"
    if setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$BUILD/cubbyd"; then
        is 'one that is closed to an ordinary user is not his' \
            "$(HOME=/tmp default setpriv --reuid=65534 --regid=65534 --clear-groups "$BUILD/cubbyd" --check 2>&1)" \
    'the configuration is fine'
    else skip 'one that is closed to an ordinary user' 'he cannot reach the build'; fi
else skip 'the default file' 'needs root and mount namespaces'; fi

# ---- the command line ----

cubby=$(page cubby.1)
for command in $("$BUILD/cubby" help | awk '/^  [a-z]/ { print $1 }'); do
    like "cubby(1) has the command $command" "$cubby" "cubby $command"
    own=$cubby # or a page of its own
    [ ! -e "man/cubby-$command.1" ] || own=$(page "cubby-$command.1")
    for option in $("$BUILD/cubby" help "$command" | grep -oE '^ +(-[a-z], )?--[a-z-]+' | grep -oE -- '--[a-z-]+'); do
        like "the manual has $command $option" "$own" "$option"
    done
    is "cubby $command --help" "$("$BUILD/cubby" "$command" --help | head -1 | cut -c1-$((13 + ${#command})))" \
        "usage: cubby $command"
done

# ---- the agent tools ----

source=man/cubby-tools.7
tools=$("$BUILD/cubbyd" --tools)
# a line an argument, as the page has them: tool, argument, "required" where it is
written() {
    section TOOLS | awk '$1 == ".Ss" { tool = $2 }
        /^\.It Fa/ { required = sub(/ Pq required/, "") ? " required" : ""; gsub(/[,]/, "")
            for (i = 3; i <= NF; i++) print tool, $i required }' | sort
}
is 'cubby-tools(7) has every tool, in the order of the list' "$(section TOOLS | awk '$1 == ".Ss" { print $2 }')" \
    "$(jq -r '.[].name' <<< "$tools")"
is 'and every argument, and whether it must be there' "$(written)" \
    "$(jq -r '.[] | .name as $tool | .input_schema | (.required // []) as $needed | .properties | keys[] | . as $name |
        select($name != "description") | "\($tool) \($name)\(if $needed | index($name) then " required" else "" end)"' \
    <<< "$tools" | sort)"
number() { sed ':a; s/\([0-9]\)\([0-9]\{3\}\)\($\|,\)/\1,\2\3/; ta' <<< "$1"; } # with commas
paragraph() { # paragraph TOOL ARGUMENT: what the page says about it
    section TOOLS | awk -v tool="$1" -v name="$2" '$1 == ".Ss" { on = $2 == tool } /^\.(It|El)/ { item = 0 }
        on && /^\.It Fa/ { for (i = 3; i <= NF; i++) item = item || $i == name } on && item'
}
while read -r tool name value; do
    like "cubby-tools(7) has the $value of $tool $name" "$(paragraph "$tool" "$name")" \
        "(^|[^0-9a-z,-])$(number "$value")([^0-9a-z-]|\$)"
done < <(jq -r '.[] | .name as $tool | .input_schema.properties | to_entries[] | .key as $name | .value |
    (select(.type == "integer") | .maximum // empty | select(. < 1000000000)), (.default // empty), ((.enum // [])[]) '\
'| "\($tool) \($name) \(.)"' <<< "$tools")
is 'tools without a description for people are named' \
    "$(jq -r '.[] | select(.input_schema.properties | has("description") | not).name' <<< "$tools")" \
    "$(grep -A1 'which is not used; only' $source | tail -1 | sed 's/^.Cm //')"

# Texts that the page quotes are in the sources, apart from what stands in braces.
strings=$(find src/tool src/box src/store -name "*.[ch]" -exec cat {} + | sed -e 's/" *PRI[a-z]*64 *"/llu/g' |
    tr '\n' ' ' | sed -e 's/" *"//g' -e 's/\\u2014/—/g' -e 's/\\"/"/g')
while IFS= read -r line; do
    while IFS= read -r part; do
        [ "${#part}" -lt 8 ] || case $strings in *"$part"*) ;; *) fail "the text '$line' is in the sources" \
            "not found: $part" ;; esac
    done < <(sed -e 's/^Error: //' -e 's/{[^}]*}/\n/g' <<< "$line" | sed 's/^[ :]*//; s/[ :]*$//')
done < <(awk '/^\.Sh (TOOLS|LONG RESULTS)$/ { on = 1 } /^\.Sh (WRITERS)/ { on = 0 } on && /^\.Bd -literal/ { text = '\
'1; next } /^\.Ed/ { text = 0 } on && text' $source |
    sed -e 's/^\\&//' -e 's/\\(em/—/g')
pass 'the texts of cubby-tools(7) were looked for'

# Every tool of the two systems has its row.
for name in bash ls glob grep read_file write_file str_replace; do
    ok "a row for DeerFlow's $name" grep -qx "\.It $name" \
        <(awk '$0 == ".Ss DeerFlow" { on = 1; next } /^\.S[hs] / { on = 0 } on' $source)
done
for name in Shell task_status task_read task_wait task_kill Read FileCreate FileReplace Edit Glob Grep Cd Skill \
    SubAgent DownloadFile offload_recall \
    recall_masked feishu_upload_file feishu_send_file feishu_download_file Bang Fetch WebSearch 'config runner'; do
    ok "a row for xbot's $name" grep -qE "^\.It (.*[ &])?$name( .*)?\$" \
        <(awk '$0 == ".Ss xbot" { on = 1; next } /^\.S[hs] / { on = 0 } on' $source)
done
for shell in bash zsh fish; do
    if command -v $shell > /dev/null; then ok "the completion for $shell is $shell" $shell \
        -n <("$BUILD/cubby" completion $shell)
    else skip "the completion for $shell" "no $shell here"; fi
done
finish
