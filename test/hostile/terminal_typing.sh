# Typing into terminals: TIOCSTI and TIOCLINUX (the upper half of the request set as well), line disciplines, the
# console;
# stealing a terminal of another command.
# wall: seccomp on ioctl; a session of its own for every command; a devpts of its own for every box
. test/lib/calls.sh
calls terminal '
winsize OK
sti EPERM
sti_high EPERM
linux EPERM
linux_high EPERM
setd EPERM
cons EPERM'
run 'ls /dev/pts; cat /proc/self/stat | cut -d" " -f7; python3 -c "
import os, fcntl, termios
try: os.open(\"/dev/tty\", os.O_RDWR)
except OSError as e: print(os.strerror(e.errno))"'
is 'a command without a terminal has none' "$OUT" $'ptmx\n0\nNo such device or address'
