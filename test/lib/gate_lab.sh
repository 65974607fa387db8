# The gate with a box of its own and the world around it, without a daemon (gate_lab.py): for what the gate alone
# decides. Needs world.sh.
#   lab_start                         starts both; LAB_POLICY is the policy of the hostile cases
#   lab JSON                          an order; the answer is in LAB_ANSWER
#   in_box COMMAND...                 in the box's namespaces
#   lab_rows FILTER                   rows since the last time, through jq, one a line
#   lab_end
LAB_POLICY='{"allow": ["pypi.test", "*.hub.test", "git.test:22", "db.test:5432", "10.7.0.0/16:8443",
 "time.test:123/udp", "inner.test", "six.test"], "deny": ["bad.hub.test"]}'
LAB_POLICY=${LAB_POLICY//$'\n'/}

lab_start() {
    local first program=$BUILD/asan/cubby-gate
    [ -x "$program" ] || program=$BUILD/cubby-gate
    LAB_DIR=$WORK/lab
    mkdir -p "$LAB_DIR/root"
    world_start
    printf '{"resolvers":["93.184.0.53"],"open_networks":["10.7.0.0/16"],"host_ports":["7777"],"uid":%u,"root":"%s"}' \
        "${LAB_UID-300000000}" "$LAB_DIR/root" > "$LAB_DIR/hello.json"
    chmod 755 "$WORK" "$LAB_DIR" "$LAB_DIR/root"
    mkfifo "$LAB_DIR/in" "$LAB_DIR/out"
    LSAN_OPTIONS=detect_leaks=0 unshare -n -m python3 test/lib/gate_lab.py "$program" "$LAB_DIR" \
        < "$LAB_DIR/in" > "$LAB_DIR/out" 2> "$LAB_DIR/errors" &
    LAB_PID=$!
    exec 7> "$LAB_DIR/in" 8< "$LAB_DIR/out"
    read -r -t 20 first <&8 || { diag "$(cat "$LAB_DIR/errors")"; return 1; }
    LAB_BOX=$(jq .box <<< "$first") LAB_GATE=$(jq .gate <<< "$first")
    world_join "$LAB_PID" && lab "{\"put\": $LAB_POLICY}" && [ "$(jq .fine <<< "$LAB_ANSWER")" = true ]
}

lab() {
    printf '%s\n' "$1" >&7
    read -r -t 10 LAB_ANSWER <&8
}

in_box() { nsenter -t "$LAB_BOX" -n -m --wd="$PWD" "$@"; }

lab_rows() {
    lab '{"rows": true}'
    jq -r ".rows[] | $1" <<< "$LAB_ANSWER"
}

lab_end() {
    exec 7>&- 8<&-
    wait "$LAB_PID"
    ! grep -q 'ERROR: AddressSanitizer\|runtime error' "$LAB_DIR/errors" ||
        fail 'the sanitizers of the gate are silent' "$(cat "$LAB_DIR/errors")"
    world_end
}
