# Reading what never ends, never begins, or belongs to the kernel.
# wall: O_NONBLOCK opens, the type is checked on the descriptor before a byte is read
# backends: jail docker

upload tool "$TOOL" '&mode=0755'
attack_put lease
run 'mkfifo fifo; ./tool socket sock; mkdir dir; ln -s fifo link'
api POST "$B/processes" '{"command":"exec /tmp/attack_lease leased"}'
holder=$(j .pid)
leased() { api GET "$B/processes/$holder/output" && [ "$BODY" = leased ]; }
ok 'a lease is held' eventually 10 leased
slow=
at_once() { # at_once NAME STATUS CODE [REGEX]: of the last answer, which began at $start
    now_ms
    [ $((NOW - start)) -lt 15000 ] || slow+=" $1:$((NOW - start))ms"
    is_error "$1" "${@:2}"
}
each() { # each PATH STATUS CODE [REGEX]
    local path=$1 call
    shift
    for call in files hash; do
        now_ms; start=$NOW
        API_SECONDS=20 api GET "$B/$call?path=$path"
        at_once "$call of $path" "$@"
    done
    now_ms; start=$NOW
    API_SECONDS=20 api POST "$B/edit" "{\"path\":\"$path\",\"old\":\"a\",\"new\":\"b\"}"
    like "edit of $path" "$STATUS $(j .error.code)" '^(40[034] (INVALID|NOT_FOUND|DENIED)|503 BUSY)$'
    now_ms
    [ $((NOW - start)) -lt 15000 ] || slow+=" edit $path"
}
each fifo 400 INVALID 'FIFO|not a regular file'
each link 400 INVALID
each sock 400 INVALID
each dir 400 INVALID directory
each /dev/zero 400 INVALID 'character device'
each /dev/null 400 INVALID
each /dev/urandom 400 INVALID
each /dev/full 400 INVALID
each /dev/ptmx 400 INVALID
for path in /dev/tty /dev/console /proc/kmsg /proc/kcore /proc/self/mem /proc/1/mem /proc/sysrq-trigger /dev/mem \
    /dev/kvm; do
    now_ms; start=$NOW
    API_SECONDS=20 get "$path"
    # what the machine has of them is covered by an empty file
    like "$path" "$STATUS ${#BODY}" '^(40[034] .*|200 0)$'
    now_ms
    [ $((NOW - start)) -lt 15000 ] || slow+=" $path"
done
for path in /proc/version /proc/1/status /proc/meminfo; do
    get "$path"
    is_error "$path is made up by the kernel" 400 INVALID 'procfs; read it with a command'
done
now_ms; start=$NOW
API_SECONDS=20 get leased
at_once 'a file under a lease' 503 BUSY
for path in fifo sock /dev/zero; do
    now_ms; start=$NOW
    API_SECONDS=20 api GET "$B/archive?path=$path"
    at_once "an archive of $path" 400 INVALID
    now_ms; start=$NOW
    API_SECONDS=20 api POST "$B/grep" "{\"path\":\"$path\",\"pattern\":\"x\"}"
    at_once "grep in $path" 400 INVALID
done
# trees that hold them: they are passed over
run 'mkdir tree; mkfifo tree/fifo; cp -a sock tree/ 2> /dev/null; echo needle > tree/f'
now_ms; start=$NOW
API_SECONDS=20 api POST "$B/grep" '{"path":"tree","pattern":"needle"}'
is 'grep passes over a FIFO' "$STATUS $(j '.matches|length')" '200 1'
API_SECONDS=20 api GET "$B/archive?path=tree"
is 'an archive leaves it out' "$STATUS $(tar tf "$WORK/body" | tr '\n' ' ')" '200 f '
now_ms
[ $((NOW - start)) -lt 20000 ] || slow+=' tree'
API_SECONDS=20 api POST "$B/grep" '{"path":"/proc","pattern":"nothing of the kind","timeout_ms":3000}'
is 'grep through /proc ends' "$STATUS" 200
is 'every answer came at once' "$slow" ''
