"""A TLS socket that one thread may read while another one writes, which Python's own is not safe for."""
import ssl, threading


class Tls:
    def __init__(self, raw, context, server_side=False, name=None):
        self.raw, self.lock, self.out_lock = raw, threading.Lock(), threading.Lock()
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=server_side, server_hostname=name)
        self.step(self.tls.do_handshake)
        self.flush()

    def flush(self):
        with self.out_lock:
            with self.lock:
                data = self.outgoing.read()
            if data:
                self.raw.sendall(data)

    def step(self, act):
        while True:
            with self.lock:
                try:
                    return act()
                except ssl.SSLWantReadError:
                    pass
            self.flush()
            data = self.raw.recv(1 << 16)
            with self.lock:
                self.incoming.write(data) if data else self.incoming.write_eof()

    def recv(self, count):
        try:
            return self.step(lambda: self.tls.read(count))
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return b''

    def sendall(self, data):
        with self.lock:
            self.tls.write(data)
        self.flush()

    def shutdown(self, how):
        self.raw.shutdown(how)

    def close(self):
        self.raw.close()

    def settimeout(self, seconds):
        self.raw.settimeout(seconds)
