# Looking into and writing into the runner: ptrace, process_vm, its memory, descriptors, environment, root, program.
# wall: the runner is not dumpable and of the host's user namespace; seccomp on process_vm_* and pidfd_getfd
. test/lib/calls.sh
calls runner '
ptrace_attach EPERM
ptrace_seize EPERM
process_vm_readv EPERM
process_vm_writev EPERM
pidfd_getfd EPERM
process_madvise EPERM
mem EACCES
mem_read EACCES
environ EACCES
maps EACCES
root EACCES
cwd EACCES
fd EACCES
exe EACCES
exe_link EACCES
ns EACCES
map_files EACCES
oom_score_adj EACCES'
run 'strace -qq -e trace=none -e signal=none -o /dev/null sh -c "exit 7"; echo $?'
is 'a debugger still works on what is its own' "$OUT" 7
run 'cat /proc/1/cmdline | tr "\0" " "; cat /proc/1/comm'
unlike 'its command line tells nothing' "$OUT" "$WORK|/"
