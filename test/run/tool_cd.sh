# cd: the working directory of a thread: kept, shown, checked, its own for every thread and sub-agent.
# by default: jail local

where() { # where [THREAD] [CURL OPTION...]: the directory that a command starts in
    tool bash '{"command":"pwd"}' "$@"
    WHERE=${TEXT%$'\n'}
}

run 'mkdir -p proj/src proj/docs proj/.git proj/.hidden && cd proj && echo module x > go.mod && touch Makefile '\
'.gitignore .secret && head -c 1234 /dev/zero > data && head -c 5242880 /dev/zero > big && ln -s src link'
tool cd '{"path":"proj"}'
tool_is 'what is there' 'Changed directory to /workspace/proj

📁 Project context:
   Type: Go / Make / Git
   Files: .git, Makefile, go.mod

📂 Directory structure of proj:
   📁 docs/
   📁 src/
   📄 .gitignore (0 B)
   📄 Makefile (0 B)
   📄 big (5.0 MB)
   📄 data (1.2 KB)
   📄 go.mod (9 B)
   🔗 link
'
is 'also structured' "$(j -c .structured)" '{"cwd":"/workspace/proj","project":["Go","Make","Git"]}'
where
is 'commands start there' "$WHERE" /workspace/proj
tool ls '{}'
like 'and paths count from there' "$TEXT" '^/workspace/proj/'
tool cd '{"path":"../proj/./src//"}'
like 'relative, with dots' "$TEXT" \
    $'^Changed directory to /workspace/proj/src\n\n📂 Directory structure of src:\n   \\(empty\\)\n$'
tool cd '{"path":".."}'
where
is 'and back' "$WHERE" /workspace/proj
tool cd '{"path":"link"}'
like 'a link to a directory' "$TEXT" '^Changed directory to /workspace/proj/link'
tool cd '{}'
where
is 'without a path: the workspace' "$WHERE" /workspace

tool cd '{"path":"nowhere"}'
tool_fails 'a directory that is not there' 'Error: directory not found: /workspace/nowhere'
tool cd '{"path":"proj/go.mod"}'
tool_fails 'a file' 'Error: not a directory: /workspace/proj/go.mod'
where
is 'both change nothing' "$WHERE" /workspace

run 'mkdir many && cd many && for i in $(seq 10 69); do mkdir d$i; touch f$i; done'
tool cd '{"path":"many"}'
is 'thirty entries, directories first' "$(grep -c '📁' <<< "$TEXT") $(grep -c '📄' <<< "$TEXT")" '30 0'
like 'and how many more' "$TEXT" $'\n   \\.\\.\\. and 90 more \\(use ls or glob\\)\n$'
run 'mkdir marks && cd marks && touch go.mod go.work Cargo.toml package.json tsconfig.json setup.py setup.cfg Pipfile '\
'pom.xml Gemfile mix.exs Makefile README.md justfile'
tool cd '{"path":"/workspace/marks"}'
like 'twelve files of the project, and the number of others' "$TEXT" \
    $'Files: Cargo.toml, Gemfile, Makefile, Pipfile, README.md, go.mod, go.work, justfile, mix.exs, package.json, '\
$'pom.xml, setup.cfg \\(\\+2 more\\)\n'
run 'mkdir odd && touch "odd/$(printf "a\nb\033[31m")"'
tool cd '{"path":"/workspace/odd"}'
like 'a name cannot draw' "$TEXT" '📄 a\\nb\\x1b\[31m \(0 B\)'

# ---- it vanishes ----

tool cd '{"path":"/workspace/proj/docs"}'
run 'rm -r proj/docs'
tool bash '{"command":"touch here"}'
tool_fails 'nothing is run in another directory' \
    "Error: the working directory '/workspace/proj/docs' is no longer there, so nothing was run. It is "\
"now '/workspace': repeat the call to run it there"
run 'test -e here'
is 'indeed' "$CODE" 1
where
is 'the next command runs in the workspace' "$WHERE" /workspace

# ---- whose it is ----

tool cd '{"path":"proj"}' '' -H 'Cubby-Thread: other'
where
is 'another thread has its own' "$WHERE" /workspace
where '' -H 'Cubby-Thread: other'
is 'which it keeps' "$WHERE" /workspace/proj

[ "$BACKEND" != remote ] || { first=$BOX; box_new '"thread":"lead"'; box_use "$first"; } # its thread is on a machine
tool bash '{"command":"mkdir -p deep/er; echo parent > note"}' lead
tool cd '{"path":"deep"}' lead
PARENT=$(j .structured.cwd)
tool bash '{"command":"cat note; pwd"}' helper -H 'Cubby-Parent: lead'
tool_is 'a sub-agent works in its parents box, from the workspace' $'parent\n/workspace\n'
tool cd '{"path":"deep/er"}' helper -H 'Cubby-Parent: lead'
where helper -H 'Cubby-Parent: lead'
is 'with a directory of its own' "$WHERE" /workspace/deep/er
where lead
is 'its parents stays' "$WHERE" "$PARENT"
api GET '/v1/boxes'
is 'and no box was made for it' "$(j -c '[.boxes[].thread | select(. == "helper")]')" '[]'

kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
start_daemon "$program"
where lead
is 'it outlives a killed daemon' "$WHERE" "$PARENT"
