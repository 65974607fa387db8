#!/usr/bin/env python3
"""Carries TCP connections to a unix socket, as an engine elsewhere would be reached. usage: forward.py SOCKET: prints its port."""
import socket
import sys
import threading


def pump(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    client, _ = listener.accept()
    engine = socket.socket(socket.AF_UNIX)
    engine.connect(sys.argv[1])
    for one, other in ((client, engine), (engine, client)):
        threading.Thread(target=pump, args=(one, other), daemon=True).start()
