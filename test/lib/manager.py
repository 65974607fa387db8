#!/usr/bin/env python3
"""A service manager for one program, as systemd is to it: listens for it, waits until it is ready, notes what it reports.

usage: manager.py DIRECTORY WATCHDOG_USEC LISTEN|- PROGRAM [ARGUMENT...]
LISTEN is 127.0.0.1:PORT or a path; the socket stays open over restarts. Reports go to DIRECTORY/reports, a line each;
DIRECTORY/pid has the program's pid. A line on standard input starts it again after it has ended. Exits with its status at
the end of standard input.
"""
import os, select, socket, sys

directory, watchdog, listen, program = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
reports = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
reports.bind(directory + '/notify')
listener = None
if listen.startswith('/'):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(listen)
elif listen != '-':
    listener = socket.socket()
    listener.bind((listen.rsplit(':', 1)[0], int(listen.rsplit(':', 1)[1])))
if listener:
    listener.listen(64)


def start():
    pid = os.fork()
    if pid:
        with open(directory + '/pid', 'w') as file:
            file.write('%d\n' % pid)
        return pid
    if listener:
        os.dup2(listener.fileno(), 3, inheritable=True)
        os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1')
    os.environ.update(NOTIFY_SOCKET=directory + '/notify', WATCHDOG_USEC=watchdog, WATCHDOG_PID=str(os.getpid()))
    os.execv(program[0], program)


pid, status = start(), 0
while True:
    ready, _, _ = select.select([reports, sys.stdin], [], [])
    if reports in ready:
        with open(directory + '/reports', 'a') as file:
            file.write(reports.recv(4096).decode() + '\n')
    if sys.stdin in ready:
        line = sys.stdin.readline()
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if not line:
            sys.exit(status)
        pid = start()
