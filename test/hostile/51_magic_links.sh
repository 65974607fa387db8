# /proc's magic links: to a program, a root, mapped files; and the runner's own program (CVE-2019-5736).
# wall: what a link leads to is the box's own; the runner runs from a read-only mount that no box has, or a sealed copy
for user in agent root; do
    U="\"user\":\"$user\""
    run 'for p in /proc/[0-9]*; do ls -A $p/root/ 2> /dev/null; done | sort -u | tr "\n" " "; ls -A / | sort | tr "\n" " "' "$U"
    is "$user: /proc/N/root is the box's root" "$(wc -w <<< "$OUT")" "$(($(tr ' ' '\n' <<< "$OUT" | sort -u | grep -c .) * 2))"
    # the runner's program, run by its link and as an interpreter, as that attack does
    api POST "$B/exec" "{\"argv\":[\"/proc/self/exe\",\"--version\"],$U}"
    like "$user: the runner's program can be run as any other" "$(j .stdout)" '^cubby-runner '
    run 'printf "#!/proc/self/exe\n" > evil; chmod 755 evil; for i in $(seq 200); do for p in /proc/[0-9]*; do case $(readlink $p/exe) in *runner*|"/"|*memfd*) exec 9< $p/exe && { echo x >> /proc/self/fd/9 && echo WRITTEN; };; esac; done; done 2> /dev/null & for i in $(seq 40); do ./evil; done > /dev/null 2>&1; wait; echo end' "$U"
    is "$user: and not written" "$OUT" end
done
# from the host, as its root: even he cannot write to it through there
pid=$(awk '{ print $1 }' "$STATE/boxes/$BOX/jail")
like 'the record names the runner' "$(tr '\0' ' ' < "/proc/$pid/cmdline")" '^cubby-runner'
like 'nobody can write to the program it runs' "$( { : >> "/proc/$pid/exe"; } 2>&1)" 'Read-only file system|Text file busy'
like 'which lies on a read-only mount of its own' "$(chmod 755 "/proc/$pid/exe" 2>&1)" 'Read-only file system'
ok 'and the file is as it was built' cmp "/proc/$pid/exe" "$(dirname "$(readlink "/proc/$DAEMON_PID/exe")")/cubby-runner"
