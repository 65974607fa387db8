# Leaves set-user-ID programs of root in its files, for a user of the host to find and run.
# wall: box directories are 0700, and a box's mounts are nosuid
program=/usr/bin/id
# The shell between: setpriv itself still has its capabilities when it execs.
nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups -- sh -c '"$@"' sh "$@" 2>&1; }
pid_of() { sed 's/ .*//' "$STATE/boxes/$1/jail"; }

try() { # try NAME: the current box
    run "cp $program trap && chmod 6755 trap && stat -c '%a %u' trap && ./trap -u" '"user":"root"'
    is "$1: the program has its bits" "$OUT" $'6755 0\n0'
    run './trap -u; ./trap -g'
    is "$1: in the box they give the agent nothing" "$OUT" $'1000\n1000'
    local pid file
    pid=$(pid_of "$BOX")
    is "$1: the directories are root's alone" "$(stat -c '%a %u' "$STATE" "$STATE/boxes" "$STATE/boxes/$BOX" | uniq)" \
        '700 0'
    like "$1: a user of the host does not get in" "$(nobody ls "$STATE/boxes/$BOX")" 'Permission denied'
    like "$1: nor through the box's process" "$(nobody ls "/proc/$pid/root/workspace")" 'Permission denied'
    # Somebody hands the user the open file: the bits still count for nothing.
    exec {file}< "/proc/$pid/root/workspace/trap"
    is "$1: nor does the program work for him" "$(nobody /proc/self/fd/$file -u)" 65534
    exec {file}<&-
    file=$(find "$STATE/boxes/$BOX" -name trap)
    if [ -n "$file" ]; then
        like "$1: nor where it lies" "$(nobody "$file" -u)" 'Permission denied|No such file'
    else pass "$1: it lies nowhere on the host"; fi
}

# Positive control: the same program, owned and marked so outside of a box, does change who one is.
mkdir -m 755 "$WORK/open"
chmod 755 "$WORK"
cp $program "$WORK/open/trap"
chmod 6755 "$WORK/open/trap"
is 'outside of a box the bits do count' "$(nobody "$WORK/open/trap" -u)" 0
rm -r "$WORK/open"
try 'without a quota'
attacked=$BOX
box_new '"limits":{"disk_mb":64}' && try 'with a quota'
api DELETE "$B"
box_use "$attacked"
