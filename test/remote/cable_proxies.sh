# waits
# What stands between machines and servers: an HTTP proxy from the environment, with and without a password; a proxy
# that passes
# text alone; certificates that do not verify.
machine_end "$MACHINE_PID"
proxy() { # proxy WHERE KIND LISTEN [OPTION...]: its port
    local where=$1
    shift
    if [ "$where" = left ]; then "${LEFT[@]}" python3 test/lib/proxy.py "$@" > "$WORK/proxy.out" & else "${RIGHT[@]}" \
        python3 test/lib/proxy.py "$@" > "$WORK/proxy.out" & fi
    PROXY_PID=$!
    eventually 10 grep -q ready "$WORK/proxy.out"
}
log() { tail -3 "$WORK/join-$1.log"; }
ended() { # ended PID: within ten seconds
    eventually 10 test ! -d "/proc/$1" && wait "$1"
}

proxy right connect 127.0.0.1:3128 --log "$WORK/connect.log"
https_proxy=http://127.0.0.1:3128 machine_join laptop "$MACHINE_DIR"
ok 'through an HTTP proxy' machine_is laptop ready
is 'by CONNECT' "$(head -1 "$WORK/connect.log")" "CONNECT $SERVER:$SERVER_PORT HTTP/1.1"
run 'echo through'
is 'commands run' "$OUT" through
machine_end "$MACHINE_PID"
no_proxy=$SERVER https_proxy=http://127.0.0.1:1 machine_join laptop "$MACHINE_DIR"
ok 'no_proxy leads past it' machine_is laptop ready
machine_end "$MACHINE_PID"
kill "$PROXY_PID"

proxy right connect 127.0.0.1:3129 --user 'ann:s cret'
https_proxy=http://127.0.0.1:3129 machine_join laptop "$MACHINE_DIR"
ok 'a proxy that wants a password is named' eventually 10 grep -q 407 "$WORK/join-laptop.log"
machine_end "$MACHINE_PID"
https_proxy=http://ann:s%20cret@127.0.0.1:3129 machine_join laptop "$MACHINE_DIR"
ok 'with the password it leads through' machine_is laptop ready
unlike 'which is not told' "$(cat "$WORK/join-laptop.log")" 's.?cret'
machine_end "$MACHINE_PID"
kill "$PROXY_PID"

# text alone
proxy left text "$SERVER:7444" --to "$SOCKET" --cert "$WORK/server.pem" --key "$WORK/server.key" --log "$WORK/frames"
head -c 1000000 /dev/urandom > "$WORK/some"
for option in --text ''; do
    : > "$WORK/frames"
    MACHINE_SERVER=wss://$SERVER:7444 machine_join laptop "$MACHINE_DIR" $option
    ok "through a proxy that passes text alone${option:+ ($option)}" machine_is laptop ready 60
    run 'printf "\377\0\1" | od -An -tx1'
    is 'a command runs' "$OUT" ' ff 00 01'
    upload some "$WORK/some"
    get some
    is 'a file goes there and back' "$STATUS $(sha256sum < "$WORK/body")" "200 $(sha256sum < "$WORK/some")"
    [ -z "$option" ] || not_ok 'no binary frame was tried' grep -q binary "$WORK/frames"
    [ -n "$option" ] || ok 'found by itself, after binary frames did not get through' grep -q binary "$WORK/frames"
    machine_end "$MACHINE_PID"
done
kill "$PROXY_PID"
ok 'offline' machine_is laptop offline

# certificates
refused() { # refused NAME PATTERN: the last one ended by itself, with a sentence
    ended "$MACHINE_PID"
    is "$1: it does not join" $? 125
    like "$1: and says why" "$(log laptop)" "$2"
    api GET "$B"
    is "$1: nobody is online" "$(j .state)" offline
}
mv "$WORK/ca.pem" "$WORK/right.pem"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj '/CN=another' -keyout "$WORK/x.key" \
    -out "$WORK/ca.pem" 2> /dev/null
machine_join laptop "$MACHINE_DIR"
refused 'an authority that it does not know' '[Cc]ertificate'
mv "$WORK/right.pem" "$WORK/ca.pem"
"${RIGHT[@]}" sh -c : # the name is what the certificate is for, not the address
MACHINE_SERVER=wss://wrong.invalid:$SERVER_PORT
printf '%s wrong.invalid\n' "$SERVER" > "$WORK/hosts"
RIGHT_PLAIN=("${RIGHT[@]}")
RIGHT+=(unshare --mount sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$WORK/hosts")
machine_join laptop "$MACHINE_DIR"
RIGHT=("${RIGHT_PLAIN[@]}")
refused 'a certificate for another name' '[Cc]ertificate|name'
unset MACHINE_SERVER
MACHINE_SERVER=ws://$SERVER:$SERVER_PORT machine_join laptop "$MACHINE_DIR"
ok 'without TLS nothing is said to a server with TLS' eventually 10 grep -q 'does it want https' "$WORK/join-laptop.log"
machine_end "$MACHINE_PID" TERM
