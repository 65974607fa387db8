# Runners that break the rules of the text form: each loses its connection, with a reason on both sides, and nobody else
# notices.
refused() { # refused NAME PATTERN: registration was answered with it, and a close code
    ok "$1" eventually 10 grep -qE "^refused $2" "$WORK/join-bad.log"
    ok 'and closed' eventually 10 grep -qE '^closed 44' "$WORK/join-bad.log"
}
machine_token bad
GOOD=$TOKEN GOOD_ID=$TOKEN_ID LAPTOP=$(machine_box laptop)
neighbour() { # neighbour WHEN
    box_use "$LAPTOP"
    run 'echo fine'
    is "the other machine answers ($1)" "$OUT" fine
}

TOKEN=nonsense machine_stranger bad /runner/ws
refused 'a token that is none' AUTH_FAILED
TOKEN=$GOOD machine_stranger bad /ws/somebody
refused "another user's path" FORBIDDEN
api DELETE "/v1/tokens/$GOOD_ID"
TOKEN=$GOOD machine_stranger bad /runner/ws
refused 'a revoked token' AUTH_FAILED
c token create --user default --scope user
TOKEN=$OUT machine_stranger bad /runner/ws
refused "a user's token" 'AUTH_FAILED|FORBIDDEN'
neighbour 'after wrong tokens'

for habit in unasked garbage flood half bare; do
    machine_token "$habit"
    machine_stranger "$habit" /runner/ws --habit "$habit"
    case $habit in
        # an unfinished message alone breaks no rule: pings still go; silence of the message is bounded by the
        # connection's
        half)
            ok 'half: it registers' eventually 10 grep -q registered "$WORK/join-$habit.log" ;;
        *) ok "$habit: its connection is ended with a reason" eventually 20 grep \
            -qE '^closed (4400|1002|1009|1008)|^lost' "$WORK/join-$habit.log" ;;
    esac
done
neighbour 'after broken rules'
ok 'the reasons are in the log' grep -qE 'unasked' "$WORK/daemon.log"

# A runner that answers twice breaks the rules with its answer to our first question, so it may be gone before it has a
# box, and a command then finds none.
settled() { machine_state "$1" ready || grep -q '^closed' "$WORK/join-$1.log"; }
away() { api GET /v1/machines && [ "$(j ".machines[]|select(.name == \"$1\")|.online")" != true ]; }
for habit in silent large double vanish forge; do
    machine_token "$habit"
    lack=stdio_close # so that it is asked to run the command itself
    [ "$habit" != forge ] || lack=
    machine_stranger "$habit" /runner/ws --habit "$habit" --lack "$lack"
    if [ "$habit" = silent ]; then
        ok 'silent: it registers' eventually 10 grep -q registered "$WORK/join-silent.log"
        continue
    fi
    if [ "$habit" = forge ]; then
        ok 'forge: it registers' eventually 10 grep -q registered "$WORK/join-forge.log"
        api POST /v1/boxes '{"machine":"forge","thread":"forged"}'
        like 'forge: what our runner cannot have said is not believed' "$STATUS $(j .error.message)" \
            '^(410|502) .*machine forge: .*did not start'
        api GET /v1/machines
        is 'forge: and ends that box alone' "$(j '.machines[]|select(.name == "forge")|.online')" true
        continue
    fi
    eventually 10 settled "$habit"
    box_use "$(machine_box "$habit")"
    run 'echo x' '"timeout_ms":60000'
    case $habit in
        double) like 'double: answers nobody asked for end it' "$STATUS" '^(200|404|410|502|503)$'
            ok 'double: with a reason' eventually 10 grep -q '^closed 4400' "$WORK/join-double.log"
            ok 'double: it is offline' eventually 5 away double
            continue ;;
        *) like "$habit: the call fails" "$STATUS $(j .error.code)" '^(410 GONE|502 PROTOCOL|413 TOO_LARGE)$' ;;
    esac
    ok "$habit: it is offline" machine_is "$habit" offline 5
done
neighbour 'at the end'
between 'and the daemon has not grown' "$(daemon_memory_kb VmRSS)" 1 900000
