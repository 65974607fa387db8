# Programs that attack from inside a box (test/hostile/attack_NAME.c, static). Sourced after lib.sh by
# test/hostile/run.sh and
# test/docker/run.sh.

# Runs build/test/attack_NAME in the current box: OUT, ERR, CODE. AS=root: as the box's root.
attack() { # attack NAME [ARGUMENTS [MORE JSON MEMBERS]]
    attack_put "$1"
    run "/tmp/attack_$1 ${2-}" "\"user\":\"${AS:-agent}\"${3:+,$3}"
}
attack_put() { # attack_put NAME: /tmp/attack_NAME in the current box
    [[ " ${ATTACKS[*]-} " = *" $BOX/$1 "* ]] && return
    upload "/tmp/attack_$1" "$BUILD/test/attack_$1" '&mode=0755'
    [[ $STATUS = 20[01] ]] || fail "attack_$1 is in the box" "$STATUS $BODY"
    ATTACKS+=("$BOX/$1")
}
