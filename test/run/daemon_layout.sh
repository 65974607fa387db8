# Where things lie on the host: a state directory that was used holds what cubby-layout(5) says, and nothing is wider.
# backends: jail

# layout_strays DIRECTORY SECTION: what lies there and is not in the manual, or has a wider mode than it says
layout_strays() {
    awk -v head=".Ss $2" '$0 == head { on = 1; next } /^\.S[sh] / { on = 0 } on && /^\.Bd -literal$/ { table = 1; next }
        /^\.Ed/ { table = 0 } on && table { print $1, $2 }' man/cubby-layout.5 > "$WORK/layout"
    find "$1" -mindepth 1 -printf '%m %y %P %l\n' 2> /dev/null | awk -v rows="$WORK/layout" '
        function octal(text,   n, i) { n = 0; for (i = 1; i <= length(text); i++) n = n * 8 + substr(text, i, 1); '\
'return n }
        function wider(mode, most,   i, bit) { # a bit of mode that most lacks
            mode = octal(mode); most = octal(most)
            for (bit = 1; bit <= mode; bit *= 2)
                if (int(mode / bit) % 2 && !(int(most / bit) % 2)) return 1
            return 0
        }
        BEGIN {
            for (i = 0; i < 16; i++) hex = hex "[0-9a-f]" # not every awk counts
            while ((getline line < rows) > 0) {
                split(line, part, " ")
                name = part[1]
                open = substr(name, length(name) - 3) == "/..."
                if (open) name = substr(name, 1, length(name) - 4)
                gsub(/[.]/, "[.]", name)
                gsub(/LAYER|ID/, hex, name)
                gsub(/NAME/, "[^/]+", name)
                gsub(/N/, "[0-9]+", name)
                if (open) name = name "/.*"
                regex[++count] = "^" name "$"
                mode[count] = part[2]
                inside[count] = open
            }
        }
        {
            for (i = 1; i <= count && $3 !~ regex[i]; i++) ;
            if (i > count) print "unknown: " $0
            else if ($2 == "l" && !inside[i]) { if ($4 != "store/" $3) print "a link: " $0 }
            else if (!inside[i] && wider($1, mode[i])) print "wider than " mode[i] ": " $0
        }'
}

run 'echo mine > file && mkdir -m 777 wide'
box_new '"thread":"kept"'
run 'echo x > y'
api POST "/v1/boxes/$BOX/release"
mkdir -p "$WORK/zip/weather" && echo '# weather' > "$WORK/zip/weather/SKILL.md" &&
    (cd "$WORK/zip" && zip -qr ../skills.zip weather)
form() { curl -s --unix-socket "$SOCKET" "http://localhost/v1/skills/ann/travel/upload?scope=$1" \
    -F "file=@$WORK/skills.zip"; }
like 'a public skill' "$(form baseline)" '"success"'
like 'a skill of a user' "$(form overlay)" '"success"'
api POST /v1/boxes '{"agent":"travel","user":"ann"}'
api POST /v1/registry "{\"type\":\"skill\",\"name\":\"weather\",\"box\":\"$(j .id)\"}"
is 'a shared skill' "$STATUS" 201
if [ "$BACKEND" = jail ]; then
    api POST "/v1/boxes/$BOX/snapshots" '{"name":"first"}'
    is 'a snapshot' "$STATUS" 201
    api POST "/v1/boxes/$BOX/fork" '{"thread":"forked"}'
    is 'a fork' "$STATUS" 201
    if box_new '"limits":{"disk_mb":20}'; then run 'echo x > y'; fi
    mkdir -p "$WORK/layout-template/usr/share"
    ok 'a template' "${program%/*}/cubby" template import --state "$STATE" roots "$WORK/layout-template"
fi
ok 'a token' "${program%/*}/cubby" token create --state "$STATE" --scope admin
is 'the state directory is closed' "$(stat -c %a "$STATE")" 700
is 'what lies in it is what the manual says, no wider' "$(layout_strays "$STATE" 'The state directory')" ''
[ "$BACKEND" != jail ] || for name in boxes layers templates trash; do ok "there is $name" test -e "$STATE/$name"; done
[ ! -d /run/cubby ] || is 'and what the machine shares' \
    "$(layout_strays /run/cubby 'The machine' | grep -vE '(ids|loops|run)/' | grep -v ' [0-9]* cannot ')" ''

# the check itself
touch "$STATE/stray"
mkdir -m 755 "$STATE/boxes/0123456789abcdef"
chmod 644 "$STATE/lock"
is 'a stray file and wide modes would be seen' \
    "$(layout_strays "$STATE" 'The state directory' | sed 's/ [0-7]* [df] / /' | sort)" \
    $'unknown: stray \nwider than 0600: lock \nwider than 1700: boxes/0123456789abcdef '
rm "$STATE/stray"
rmdir "$STATE/boxes/0123456789abcdef"
chmod 600 "$STATE/lock"

# closed again at the start
kill -TERM "$DAEMON_PID" && wait "$DAEMON_PID"
chmod 755 "$STATE"
start_daemon "$program" || fail 'a daemon on a state directory that was opened' "$(tail -3 "$WORK/daemon.log")"
is 'closes it' "$(stat -c %a "$STATE")" 700
