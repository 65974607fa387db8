# config: remote_grace_s: 2
# config: machine: active
# waits
# A user's machine is where the user's threads run: a request that names neither a machine nor a backend, also a tool's
# and a chat's, gets a box on it; while it is away nothing is made on the server instead.
api POST /v1/boxes '{"thread":"chat"}'
is 'a thread without a machine is on the active one' "$STATUS $(j .backend) $(j .machine) $(j .workspace)" \
    "201 remote laptop $MACHINE_DIR"
api POST /v1/boxes '{"thread":"named","backend":"remote"}'
is 'as is backend remote without a machine' "$STATUS $(j .machine)" '201 laptop'
tool bash '{"command":"pwd"}' work
is 'a tool of a new thread runs there' "${TEXT%$'\n'}" "$MACHINE_DIR"
api POST /v1/threads/chat/bang '{"text":"!seq 1 20000"}'
like 'so does a chat' "$STATUS $(j .file)" "^200 $MACHINE_DIR/cmd-output-[0-9]+\.txt$"
is 'whose long output is a file of the machine' "$(sha256sum < "$(j .file)")" "$(seq 1 20000 | sha256sum)"
api POST /v1/threads/chat/bang '{"text":"!cd /"}'
api POST /v1/threads/chat/bang '{"text":"!cd"}'
is 'and its workspace is the one that the machine has' "$(j .cwd)" "$MACHINE_DIR"
api POST /v1/boxes '{"thread":"other","user":"eve"}'
is_error 'a user without a machine has no box on the server instead' 503 BUSY "user 'eve' has no machine"

cable cut
ok 'without a cable it is offline' machine_is laptop offline 60
api POST /v1/boxes '{"thread":"new"}'
is_error 'then nothing new is made on the server' 503 BUSY 'no machine that is online'
api POST /v1/threads/chat/bang '{"text":"!ls"}'
is_error 'and the chat is answered why' 503 BUSY laptop
api GET /v1/boxes
is 'no box is anywhere else' "$(j '[.boxes[]|select(.backend != "remote")]|length')" 0
