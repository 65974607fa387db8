# Sourced by the cases about system calls. The answers of attack_calls.c, tried as agent and as the box's root.

# calls GROUP TABLE: every row of the group answers as the table says. A row is "NAME ANSWER [ANSWER of root]".
calls() {
    local user column
    for user in agent root; do
        column=2
        [ "$user" = agent ] || column=3
        AS=$user attack calls "$1"
        is "$1, as $user: each is refused as it should be" "$OUT" \
            "$(awk -v c="$column" 'NF { print $1, (c <= NF ? $c : $2) }' <<< "$2")"
    done
}
