# A kernel without Landlock: a second wall is missing.
# wall: no jail without it, unless the configuration asks for that by name
. test/lib/lacking.sh

lacking_refuses 'without Landlock' landlock \
    'Landlock: not in this kernel; boot with lsm=landlock.*allow_weaker: \[landlock\]'
lacking_refuses 'with Landlock switched off' landlock-off \
    'Landlock: in the kernel, not switched on; boot with lsm=landlock'
STATUS_WANTED=2 lacking_refuses 'an unknown word' landlock \
    'allow_weaker must be words of landlock\|limits, not .walls.' 'allow_weaker: [walls]'
lacking_doctor landlock Landlock true 'boot with lsm=landlock'
"$LACK" landlock -- "$BUILD/cubby" run -- true > "$WORK/out" 2>&1
is 'cubby run refuses' $? 125
like 'and says why' "$(< "$WORK/out")" 'Landlock: not in this kernel'
is 'cubby run does without it when told to' \
    "$("$LACK" landlock -- "$BUILD/cubby" run --allow-weaker landlock -- id -u 2>&1)" 1000

if lacking_start landlock 'allow_weaker: [landlock]'; then pass 'a daemon that may do without it starts'; else
    fail 'a daemon that may do without it starts' "$LOG"
fi
like 'and says so in its log' "$LOG" 'this machine lacks: Landlock: not in this kernel'
is 'and in /v1/info' "$(jail_info '[.available, .weaker, (.missing[] | select(.what == "Landlock") | .detail)]')" \
    '[true,["landlock"],"not in this kernel"]'
lacking_box 'its boxes work'
run 'id -u; mknod /tmp/device c 1 3; echo $?'
like 'and the first wall holds: no devices' "$OUT" $'^1000\n1$'
lacking_end


# What is there and allowed to be missing is used, and nothing is reported as weaker.
lacking_start nft 'allow_weaker: [landlock, limits]' || fail 'a daemon on a whole machine' "$LOG"
is 'allowed and there: not weaker' "$(jail_info '[.weaker, (.can | index("landlock") != null)]')" '[[],true]'
unlike 'and not in the log' "$LOG" 'lacks: (Landlock|memory|process)'
lacking_end
