# The working directory: replaced, removed, a descriptor of the runner's, above the root (CVE-2024-21626).
# wall: openat2 below the box's root without magic links, by the command's own ids; getcwd is asked afterwards
for user in agent root; do
    U="\"user\":\"$user\""
    for fd in $(seq 0 20); do
        run 'pwd; ls -A ..; cat etc/hostname' "\"cwd\":\"/proc/self/fd/$fd\",$U"
        [ "$STATUS" = 200 ] && fail "$user: cwd /proc/self/fd/$fd is refused" "$BODY"
    done
    like "$user: descriptors as cwd are refused" "$STATUS $(j .error.code)" '^(403 DENIED|404 NOT_FOUND|400 INVALID)$'
    for cwd in /proc/1/root /proc/1/cwd /proc/self/root /proc/self/cwd/.. /proc/thread-self/root; do
        run 'pwd' "\"cwd\":\"$cwd\",$U"
        like "$user: cwd $cwd" "$STATUS $(j .error.code)" '^(403 DENIED|404 NOT_FOUND|400 INVALID)$'
    done
    run 'pwd; ls -d usr' "\"cwd\":\"../../../../../..\",$U"
    is "$user: above the root is the root" "$OUT" $'/\nusr'
done
run 'mkdir dir; ln -s /proc/1/root link; ln -s /etc/passwd file'
for cwd in link file nowhere dir/../nowhere; do
    run 'pwd' "\"cwd\":\"$cwd\""
    like "cwd $cwd" "$STATUS $(j .error.code)" '^(403 DENIED|404 NOT_FOUND|400 INVALID)$'
done
run 'cd dir && rmdir ../dir && (pwd -P 2>&1; ls; echo still)'
like 'a directory removed under a command' "$OUT" 'still$'
run 'rm -rf /workspace; ls -d /workspace; true'
run 'pwd'
like 'the workspace cannot be taken away by agent' "$STATUS $OUT" '^200 /workspace$'
run 'rm -rf /workspace && ln -s /etc /workspace' '"user":"root"'
run 'pwd -P; cat hostname'
is 'replaced by root it leads into the box and no further' "$OUT" $'/etc\ncubby'
run 'rm /workspace' '"user":"root"'
run 'pwd'
is_error 'taken away by root: an error that names it' 404 NOT_FOUND '/workspace'
run 'pwd' '"cwd":"/"'
is 'and the box goes on elsewhere' "$OUT" /
