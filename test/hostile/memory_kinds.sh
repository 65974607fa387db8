# Memory that is not a program's heap: files in memory, segments, message queues, pipes, sockets, page tables,
# descriptors.
# wall: kernel memory is charged to the box's memory cgroup
# box: "limits":{"memory_mb":128,"open_files":20000}

used() { api GET "$B" && USED=$(j .usage.memory_bytes); }
# Nothing of what was taken before is still being given back.
settled() {
    used
    local before=$USED
    read -r -t 0.1 -u "$LIB_NEVER"
    used
    [ $(((USED - before) >> 20)) = 0 ] && [ $(((before - USED) >> 20)) = 0 ]
}
let_go() { # the process goes, and what it held
    api POST "$B/processes/$pid/signal" '{"signal":"KILL"}'
    eventually 10 ended
    eventually 10 settled
}
ended() { api GET "$B/processes/$pid" && [ "$(j .state)" = exited ]; }
# charged KIND MIB LEAST: the box's usage grows by at least LEAST MiB while somebody holds MIB of it
charged() {
    used
    local before=$USED
    api POST "$B/processes" "{\"command\":\"exec /tmp/attack_memory $1 $2 hold\"}"
    pid=$(j .pid)
    api GET "$B/processes/$pid/output?stream=stdout&wait_ms=30000"
    like "$1: it got what it wanted" "$BODY" "^$1 $2 0\$"
    used
    between "$1: and the box is charged" $(((USED - before) >> 20)) "$3" 100
    let_go
}
# ends KIND: asked for more than there is, it ends by an error or by the kernel's hand, and the box stays within its
# limit
ends() {
    attack memory "$1 1024" '"timeout_ms":60000'
    like "$1: more than there is ends" "$(j -c '[.signal,.oom_killed]') $OUT" "$2"
    used
    between "$1: and the box is within its limit" "$USED" 1 $((128 << 20))
    run 'echo fine'
    is "$1: and goes on" "$OUT" fine
}

attack_put memory
charged anon 20 19
charged memfd 20 19
charged pipe 20 19
charged unix 20 19
charged tables 20 19
charged files 4 3
ends anon '^\["SIGKILL",true\]'
ends memfd '^\["SIGKILL",true\]'
ends pipe '^\["SIGKILL",true\]|pipe [0-9]+ E(NOMEM|MFILE|NFILE)'
ends unix '^\["SIGKILL",true\]|unix [0-9]+ E(NOMEM|NOBUFS|MFILE)'
ends tables '^\["SIGKILL",true\]'
ends files '^\["SIGKILL",true\]|files [0-9]+ E'

# v1 counts network sockets beside the rest; both layouts bound them
if [ -d /sys/fs/cgroup/memory ]; then
    limits=$(cat /sys/fs/cgroup/memory/cubby/*/memory.kmem.tcp.limit_in_bytes)
    like 'tcp: has a limit of its own on v1' "$limits" $((32 << 20))
    api POST "$B/processes" '{"command":"exec /tmp/attack_memory tcp 1024 hold"}'
    pid=$(j .pid)
    api GET "$B/processes/$pid/output?stream=stdout&wait_ms=30000"
    diag "$BODY"
    skip 'tcp: the limit holds' \
        'v1 lets every socket have its least buffers beyond it; the number of sockets is what bounds them'
    let_go
else charged tcp 8 7; fi

# what stays when its maker is gone is still the box's
for kind in shm sysv; do
    eventually 10 settled
    before=$USED
    attack memory "$kind 8"
    is "$kind: taken" "$OUT" "$kind 8 0"
    used
    between "$kind: charged to the box though nobody holds it" $(((USED - before) >> 20)) 7 60
done
run 'df -k --output=size /dev/shm | tail -1; df --output=itotal /dev/shm | tail -1; findmnt -no FSTYPE,OPTIONS /tmp '\
'|| echo no mount on /tmp'
like '/dev/shm has half of the memory, /tmp is on the disk' "$OUT" $'^ *65536\n *4096\nno mount on /tmp'
