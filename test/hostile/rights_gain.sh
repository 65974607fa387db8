# Gaining rights: set-user-ID, file capabilities, ambient capabilities, su, sudo.
# wall: no_new_privs, an empty bounding set, nosuid on every mount, a user namespace
. test/lib/calls.sh
calls right '
setresuid EPERM OK
back_to_root EPERM
ambient EPERM
capset EPERM
file_capability EPERM
trusted_xattr EPERM
core_limit EPERM
no_new_privs_off EINVAL'
run 'grep -E "^(Cap|NoNewPrivs|Seccomp:)" /proc/self/status | tr -d "\t" | tr "\n" " "'
is 'agent has nothing' "$OUT" \
    'CapInh:0000000000000000 CapPrm:0000000000000000 CapEff:0000000000000000 CapBnd:0000000000000000 '\
'CapAmb:0000000000000000 NoNewPrivs:1 Seccomp:2 '
run 'grep -E "^(Cap|NoNewPrivs|Seccomp:)" /proc/self/status | tr -d "\t" | tr "\n" " "' '"user":"root"'
is 'root has eight, in the box, and cannot get more' "$OUT" \
    'CapInh:00000000000004fb CapPrm:00000000000004fb CapEff:00000000000004fb CapBnd:0000000000000000 '\
'CapAmb:0000000000000000 NoNewPrivs:1 Seccomp:2 '
attack_put isolation
run 'cp /tmp/attack_isolation /usr/bin/suid; chown root:root /usr/bin/suid; chmod 6755 /usr/bin/suid; stat -c "%a %u" '\
'/usr/bin/suid' '"user":"root"'
is 'a set-user-ID program of root' "$OUT" '6755 0'
run '/usr/bin/suid ids; su -c id 2>&1 < /dev/null; sudo -n id 2>&1; passwd -S root 2>&1; true'
like 'gives agent nothing' "$OUT" '^1000 1000 1000 1000'
unlike 'nor do the usual programs' "$OUT" 'uid=0'
run 'cp /tmp/attack_isolation /tmp/suid; chown 1000 /tmp/suid; chmod 4755 /tmp/suid; /tmp/suid ids' '"user":"root"'
is 'and takes nothing from root' "$OUT" '0 0 0 0'
