"""cubby-seal alone: this program is its daemon, its gate, the box's client and the host. TAP on standard output."""
import array, base64, json, os, socket, ssl, struct, subprocess, sys, tempfile, threading

SEAL, WORK = sys.argv[1], tempfile.mkdtemp()
HOST, OTHER = "api.hub.test", "other.hub.test"
VALUE, PLACEHOLDER = "ghp_0123456789abcdefghijklmnopqrstuvwxyz", "ghp_cubbyXabcdefghijklmnopqrstuvwxyzABCD"
assert len(VALUE) == len(PLACEHOLDER)
count = failed = 0


def ok(condition, name, got=""):
    global count, failed
    count += 1
    failed += not condition
    print(("ok -" if condition else "not ok -"), name)
    if not condition:
        print("# got:", repr(got)[:600])
    sys.stdout.flush()


def openssl(*words, data=None):
    return subprocess.run(("openssl",) + words, input=data, check=True, capture_output=True).stdout


def path(name):
    return os.path.join(WORK, name)


def authority(name):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
            path(name + ".key"), "-out", path(name + ".pem"), "-subj", "/CN=" + name, "-days", "30")


def leaf(by, host, public, days="7"):
    open(path("pub"), "wb").write(public)
    open(path("ext"), "w").write("subjectAltName=DNS:%s\nextendedKeyUsage=serverAuth\n" % host)
    return openssl("x509", "-new", "-force_pubkey", path("pub"), "-subj", "/CN=" + host, "-CA", path(by + ".pem"),
                   "-CAkey", path(by + ".key"), "-CAcreateserial", "-extfile", path("ext"), "-days", days)


for name in ("world", "ours", "liar"):
    authority(name)
openssl("ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", path("host.key"))
PUBLIC = openssl("ec", "-in", path("host.key"), "-pubout")


def server_context(by, host, days="7"):
    open(path("host.pem"), "wb").write(leaf(by, host, PUBLIC, days))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path("host.pem"), path("host.key"))
    return context


class Seal:
    def __init__(self, secrets, levels=(), bundle="world.pem"):
        self.rows, self.value, self.wants = [], VALUE, 0
        self.daemon, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.gate, gates = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        os.dup2(theirs.fileno(), 103), os.dup2(gates.fileno(), 104)
        self.process = subprocess.Popen(["bash", "-c", 'exec 3<&103 4<&104 103<&- 104<&-; exec "$0"', SEAL],
                                        pass_fds=(103, 104),  # leaks cannot be looked for below its filter
                                        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
        os.close(103), os.close(104), theirs.close(), gates.close()
        hello = {"bundle": path(bundle), "levels": list(levels), "secrets": secrets}
        self.daemon.send(b"H" + json.dumps(hello).encode())
        self.server = threading.Thread(target=self.serve, daemon=True)
        self.server.start()

    def serve(self):
        while True:
            try:
                message = self.daemon.recv(1 << 17)
            except OSError:
                return
            if not message:
                return
            words = message[1:].split(b"\0")
            if message[:1] == b"W":
                self.wants += 1
                if self.value is None:
                    self.daemon.send(b"E" + words[0] + b"\0no secret\0")
                else:
                    self.daemon.send(b"V" + words[0] + b"\0" + b"0\0" + self.value.encode() + b"\0")
            elif message[:1] == b"L":
                self.daemon.send(b"L" + words[0] + b"\0" + leaf("ours", words[0].decode(), words[1]) + b"\0")
            elif message[:1] == b"R":
                self.rows.append(json.loads(words[0]))

    def verbs(self):
        return [row["verb"] for row in self.rows]

    def connect(self, answer, context, host=HOST, port=443):
        """The box's end, plain; answer(bytes of the request) is called in the host."""
        box, client = socket.socketpair()
        out, upstream = socket.socketpair()
        seen = []

        def host_side():
            try:
                with context.wrap_socket(out, server_side=True) as tls:
                    answer(tls, seen)
            except (OSError, ssl.SSLError) as error:
                seen.append(error)
            out.close()
        thread = threading.Thread(target=host_side, daemon=True)
        thread.start()
        head = struct.pack("<HHHHQQ", 1, port, len(host), 0, 0, 1)
        self.gate.sendmsg([head + host.encode()],
                          [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [client.fileno(), upstream.fileno()]))])
        client.close(), upstream.close()
        box.settimeout(20)
        return box, seen, thread

    def end(self):
        self.daemon.shutdown(socket.SHUT_WR)
        self.gate.close()
        status = self.process.wait(20)
        self.server.join(10)  # it has every row then
        self.daemon.close()
        return status


def head_of(tls):
    data = b""
    while b"\r\n\r\n" not in data:
        piece = tls.recv(65536)
        if not piece:
            return data
        data += piece
    head, body = data.split(b"\r\n\r\n", 1)
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            while len(body) < int(line.split(b":")[1]):
                body += tls.recv(65536)
    return head + b"\r\n\r\n" + body


def says(*pieces, times=1):
    def answer(tls, seen):
        for _ in range(times):
            request = head_of(tls)
            if not request:
                return
            seen.append(request)
            for piece in pieces:
                tls.sendall(piece)
        try:
            tls.unwrap()
        except (OSError, ssl.SSLError):
            pass
    return answer


PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
TRUST = ssl.create_default_context(cafile=path("ours.pem"))


def ask(seal, request, answer=None, context=None, host=HOST, port=443, sni=None):
    """What the box reads, and what the host saw."""
    box, seen, thread = seal.connect(answer or says(PLAIN), context or server_context("world", host), host, port)
    got = b""
    try:
        with TRUST.wrap_socket(box, server_hostname=sni or host) as tls:
            tls.sendall(request)
            while True:
                piece = tls.recv(65536)
                if not piece:
                    break
                got += piece
    except (OSError, ssl.SSLError) as error:
        got += b"!" + repr(error).encode()
    thread.join(10)
    return got, seen


def get(*headers, target="/", method="GET", host=HOST):
    lines = ["%s %s HTTP/1.1" % (method, target), "Host: " + host, "Connection: close"] + list(headers)
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


BOUND = {"name": "hub", "placeholder": PLACEHOLDER, "hosts": [HOST]}
good = server_context("world", HOST)


def swapped(name, header, want, bound=BOUND, **more):
    seal = Seal([bound])
    got, seen = ask(seal, get(header, **more), context=good)
    ok(got.startswith(b"HTTP/1.1 200") and seen and want.encode() in seen[0], name, (got, seen))
    ok(VALUE.encode() not in got, name + ": nothing of it comes back", got)
    seal.end()
    return seal


# ---- where it is swapped ----
seal = swapped("Bearer", "Authorization: Bearer " + PLACEHOLDER, "Bearer " + VALUE)
ok("secret_use" in seal.verbs() and "net_http" in seal.verbs(), "rows say so", seal.rows)
ok(VALUE not in json.dumps(seal.rows) and PLACEHOLDER not in json.dumps(seal.rows), "without value and placeholder", seal.rows)
swapped("token", "Authorization: token " + PLACEHOLDER, "token " + VALUE)
swapped("x-api-key", "X-Api-Key: " + PLACEHOLDER, "x-api-key: " + VALUE)
for pair in ("%s:x-oauth-basic", "x-access-token:%s"):
    swapped("Basic " + pair, "Authorization: Basic " + base64.b64encode((pair % PLACEHOLDER).encode()).decode(),
            "Basic " + base64.b64encode((pair % VALUE).encode()).decode())
swapped("a named header", "X-Own: " + PLACEHOLDER, "x-own: " + VALUE, dict(BOUND, slots=["header:X-Own"]))
swapped("a named parameter", "A: b", "?a=1&key=" + VALUE, dict(BOUND, slots=["query:key"]), target="/x?a=1&key=" + PLACEHOLDER)
swapped("a segment of the path", "A: b", "/bot" + VALUE + "/send", dict(BOUND, slots=["path"]),
        target="/bot" + PLACEHOLDER + "/send")
swapped("a star", "Authorization: Bearer " + PLACEHOLDER, "Bearer " + VALUE, dict(BOUND, hosts=["*.hub.test"]))

# ---- and where it is not ----
seal = Seal([BOUND])
for header, target in (("User-Agent: %s", "/"), ("Referer: https://x/%s", "/"), ("Cookie: a=%s", "/"),
                       ("X-Other: %s", "/"), ("A: b", "/%s"), ("A: b", "/?key=%s"),
                       ("Authorization: Bearer x%sx", "/"),
                       ("Authorization: Bearer none\r\nAuthorization: Bearer %s", "/")):
    header, target = (text.replace("%s", PLACEHOLDER) for text in (header, target))
    got, seen = ask(seal, get(header, target=target), context=good)
    ok(got.startswith(b"HTTP/1.1 200") and VALUE.encode() not in seen[0] and PLACEHOLDER.encode() in seen[0],
       "not swapped, not blocked: " + header.split(":")[0] + " " + target[:2], (got, seen))
ok(seal.verbs().count("secret_misuse") == 8, "each is a misuse", seal.verbs())
got, seen = ask(seal, get("Content-Length: 40", method="POST") + PLACEHOLDER.encode(), context=good)
ok(seen and seen[0].endswith(PLACEHOLDER.encode()), "a body passes as it is", seen)
got, seen = ask(seal, get("Authorization: Bearer " + PLACEHOLDER, host=OTHER), host=OTHER)
ok(PLACEHOLDER.encode() in seen[0] and VALUE.encode() not in seen[0], "another host sees the placeholder", seen)
got, seen = ask(seal, get("Authorization: Bearer " + PLACEHOLDER), context=good, port=8443)
ok(VALUE.encode() not in seen[0], "another port, too", seen)

# ---- names that do not agree ----
got, seen = ask(seal, get("Authorization: Bearer " + PLACEHOLDER, host=OTHER), context=good)
ok(got.startswith(b"HTTP/1.1 421") and not seen, "the name of another host is 421, and nothing is sent", (got, seen))
got, seen = ask(seal, get("Authorization: Bearer " + PLACEHOLDER), host=OTHER)
ok(got.startswith(b"HTTP/1.1 421") and not seen, "and the bound name at another host", (got, seen))
for name, request in (("two names", get("Host: " + HOST)), ("an address", get(target="https://%s/" % HOST)),
                      ("a proxy's method", get(method="CONNECT", target=HOST + ":443")),
                      ("two lengths", get("Content-Length: 1", "Content-Length: 2")),
                      ("length and chunks", get("Content-Length: 1", "Transfer-Encoding: chunked")),
                      ("another coding", get("Transfer-Encoding: xchunked")),
                      ("a folded header", get("A: b\r\n c")), ("a bare line feed", get("A: b\nC: d")),
                      ("a blank before the colon", get("A : b")), ("not HTTP", b"\x16\x03\x01" * 20 + b"\r\n\r\n")):
    got, seen = ask(seal, request, context=good)
    ok(got[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 405") and not [s for s in seen if isinstance(s, bytes)], name + " is refused", (got, seen))
seal.end()

# ---- hosts that do not prove their name ----
seal = Seal([BOUND])
liar, wrong, old = server_context("liar", HOST), server_context("world", OTHER), server_context("world", HOST, "-1")
for name, context in (("a self-made authority", liar), ("another host's certificate", wrong), ("an expired certificate", old)):
    got, seen = ask(seal, get("Authorization: Bearer " + PLACEHOLDER), context=context)
    ok(got.startswith(b"HTTP/1.1 502") and not [s for s in seen if isinstance(s, bytes)], name + ": 502, and no byte of HTTP", (got, seen))
seal.end()

# ---- bodies ----
def post(kind, body, *headers, length=None, seal=None):
    lines = ["Content-Type: " + kind] + (["Content-Length: %d" % (len(body) if length is None else length)]) + list(headers)
    return ask(seal, get(*lines, method="POST", target="/token") + body, context=good)


FORM, JSON = "application/x-www-form-urlencoded", "application/json; charset=utf-8"
seal = Seal([dict(BOUND, slots=["form:client_secret", "json:/auth/keys/1"])])
mark, odd = PLACEHOLDER.encode(), 'odd"v/a+l\\ue&=0123456789012345'
got, seen = post(FORM, b"a=1&client_secret=" + mark + b"&b=" + mark, seal=seal)
ok(seen and seen[0].endswith(b"a=1&client_secret=" + VALUE.encode() + b"&b=" + mark), "a field of a form, and no other", (got, seen))
body = b'{"x": 1.50, "auth" : {"keys":["%s", "%s"], "z": "%s"}}' % (mark, mark, mark)
got, seen = post(JSON, body, seal=seal)
ok(seen and seen[0].endswith(b'"x": 1.50, "auth" : {"keys":["%s", "%s"], "z": "%s"}}' % (mark, VALUE.encode(), mark)),
   "a member of JSON, and no other; all else stays as it is written", (got, seen))
ok(seal.verbs().count("secret_use") == 2, "both are rows", seal.verbs())
seal.value = odd
seal.daemon.send(b"F")
got, seen = post(FORM, b"client_secret=" + mark, seal=seal)
ok(seen and seen[0].endswith(b"client_secret=odd%22v%2Fa%2Bl%5Cue%26%3D0123456789012345") and
   b"content-length: %d\r\n" % len(seen[0].partition(b"\r\n\r\n")[2]) in seen[0], "another length, percent-encoded", (got, seen))
got, seen = post(JSON, b'{"auth":{"keys":[0,"%s"]}}' % mark, seal=seal)
ok(seen and json.loads(seen[0].partition(b"\r\n\r\n")[2])["auth"]["keys"][1] == odd, "quoted in JSON", (got, seen))
seal.value = VALUE
seal.daemon.send(b"F")
for name, kind, body in (("text", "text/plain", b"client_secret=" + mark), ("another field", FORM, b"xclient_secret=" + mark),
                         ("half a field", FORM, b"client_secret=" + mark + b"x"),
                         ("another member", JSON, b'{"auth":{"keys":["%s"]}}' % mark),
                         ("a member named twice", JSON, b'{"auth":{"keys":[0,"%s"]},"auth":1}' % mark),
                         ("not JSON", JSON, b'{"auth":{"keys":[0,"%s"]' % mark), ("an empty one", JSON, b"")):
    got, seen = post(kind, body, seal=seal)
    ok(got.startswith(b"HTTP/1.1 200") and seen and seen[0].endswith(b"\r\n\r\n" + body), "not swapped: " + name, (got, seen))
got, seen = post(FORM, b"", "Content-Encoding: gzip", length=10, seal=seal)
ok(got.startswith(b"HTTP/1.1 415") and not seen, "an encoded one is refused: 415", (got, seen))
got, seen = post(FORM, b"", length=65537, seal=seal)
ok(got.startswith(b"HTTP/1.1 413") and not seen, "a large one: 413", (got, seen))
got, seen = ask(seal, get("Content-Type: " + FORM, "Transfer-Encoding: chunked", method="POST") + b"0\r\n\r\n", context=good)
ok(got.startswith(b"HTTP/1.1 411") and not seen, "one in chunks: 411", (got, seen))
got, seen = post(FORM, b"client_secret=" + mark + b"&" + b"y" * (65535 - 54), "Expect: 100-continue", seal=seal)
ok(got.startswith(b"HTTP/1.1 100") and b"HTTP/1.1 200" in got and VALUE.encode() in seen[0] and b"expect" not in seen[0].lower(),
   "the largest one, for which a client waits", (got, [s[:200] for s in seen]))
got, seen = post("text/plain", b"z" * 200000, seal=seal)
ok(got.startswith(b"HTTP/1.1 200") and seen[0].endswith(b"z" * 200000), "other bodies stream", got)
seal.end()
seal = Seal([dict(BOUND, slots=["form:s"], paths=["/other"])])
got, seen = post(FORM, b"s=" + mark, seal=seal)
ok(seen and seen[0].endswith(b"s=" + mark), "not where the secret's rules do not fit", (got, seen))
seal.end()

# ---- headers that the policy sets ----
own = {"allow": ["*", {"host": HOST, "headers": {"X-Tenant": "acme", "Authorization": "Bearer ${secrets.hub}", "X-Top": "box"}},
                 {"host": HOST, "paths": ["/never"], "headers": {"X-Narrow": "1"}}, {"host": HOST, "methods": ["GET"]}]}
top = {"allow": ["*", {"host": "*.hub.test", "headers": {"X-Top": "machine", "X-Two": "${secrets.free}-${secrets.hub}"}}]}
FREE = {"name": "free", "placeholder": "", "hosts": []}
NAMED = dict(BOUND, placeholder="")
seal = Seal([NAMED, FREE], [top, own])
got, seen = ask(seal, get("authorization: Bearer mine", "X-TENANT: other", "X-Tenant: again", "Accept-Encoding: gzip"),
                says(b"HTTP/1.1 200 OK\r\nX-Back: %s\r\nContent-Length: 40\r\n\r\n%s" % ((VALUE.encode(),) * 2)), good)
head = seen[0].decode().lower() if seen else ""
ok(head.count("x-tenant:") == 1 and "x-tenant: acme\r\n" in head, "a literal replaces what the box sent", seen)
ok(head.count("authorization:") == 1 and "authorization: bearer " + VALUE.lower() in head, "a reference is the secret", seen)
ok("x-top: machine\r\n" in head and "x-top: box" not in head, "a level above wins", seen)
ok("x-two: %s-%s\r\n" % (VALUE, VALUE) in (seen[0].decode() if seen else ""), "two references, one of a secret without hosts", seen)
ok("x-narrow" not in head, "not on requests that its entry is not for", seen)
ok("accept-encoding: identity" in head and "gzip" not in head, "no coding is offered", seen)
ok(got.startswith(b"HTTP/1.1 200") and VALUE.encode() not in got and got.count(b"X" * 40) == 2, "the value does not come back", got)
ok("secret_use" in seal.verbs() and VALUE not in json.dumps(seal.rows), "a row says that it was used", seal.rows)
got, seen = ask(seal, get("Connection: x-tenant"), context=good)
ok(got.startswith(b"HTTP/1.1 403") and not seen, "Connection cannot take a header away", (got, seen))
got, seen = ask(seal, get(host=OTHER), host=OTHER)
ok(got.startswith(b"HTTP/1.1 403") and not seen, "a secret for another host is not sent: 403", (got, seen))
seal.value = None
seal.daemon.send(b"F")
got, seen = ask(seal, get(), context=good)
ok(got.startswith(b"HTTP/1.1 503") and not seen, "a secret that is gone: 503", (got, seen))
seal.end()
seal = Seal([], [{"allow": [{"host": HOST, "headers": {"X-A": "${secrets.gone}"}}]}])
got, seen = ask(seal, get(), context=good)
ok(got.startswith(b"HTTP/1.1 503") and not seen, "and one that never was", (got, seen))
seal.end()
seal = Seal([FREE], [{"allow": [{"host": HOST, "headers": {"X-A": "${secrets.free}"}}]}])
seal.value = "two\r\nlines: 1"
got, seen = ask(seal, get(), context=good)
ok(got.startswith(b"HTTP/1.1 503") and not seen, "a value with a line feed is not sent", (got, seen))
seal.end()

# ---- rules ----
level = {"allow": [{"host": HOST, "methods": ["GET"], "paths": ["/repos/acme/**"]}]}
seal = Seal([BOUND], [level])
for target, method, want in (("/repos/acme/x", "GET", 200), ("/repos/acme/x?y=/../z", "GET", 200), ("/repos/evil", "GET", 403),
                             ("/repos/acme/x", "POST", 403), ("/repos/acme/../evil", "GET", 403),
                             ("/repos/acme/%2e%2e/evil", "GET", 403), ("/repos/acme//x", "GET", 403),
                             ("/repos%2facme/x", "GET", 403)):
    got, seen = ask(seal, get("Authorization: Bearer " + PLACEHOLDER, target=target, method=method), context=good)
    ok(got.startswith(b"HTTP/1.1 %d" % want) and bool(seen) == (want == 200), "policy: %s %s" % (method, target), (got, seen))
seal.end()
seal = Seal([dict(BOUND, methods=["GET"], paths=["/v1/**"])])
for target, method, want in (("/v1/x", "GET", 200), ("/v1/x", "DELETE", 403), ("/v2/x", "GET", 403)):
    got, seen = ask(seal, get("Authorization: Bearer " + PLACEHOLDER, target=target, method=method), context=good)
    ok(got.startswith(b"HTTP/1.1 %d" % want) and bool(seen) == (want == 200), "secret: %s %s" % (method, target), (got, seen))
seal.end()

# ---- what comes back ----
seal = Seal([BOUND])
auth = "Authorization: Bearer " + PLACEHOLDER
forms = {"plain": VALUE, "JSON": json.dumps({"t": VALUE}), "base64": base64.b64encode(VALUE.encode()).decode(),
         "base64, one byte later": base64.b64encode(b"x" + VALUE.encode()).decode(),
         "base64, two bytes later": base64.b64encode(b"xy" + VALUE.encode()).decode(),
         "a Basic pair": base64.b64encode(b"user:" + VALUE.encode() + b"x").decode()}
core = [base64.b64encode(b"x" * shift + VALUE.encode())[4:-4] for shift in range(3)]
for name, text in forms.items():
    body = ("before " + text + " after").encode()
    got, seen = ask(seal, get(auth), says(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-Echo: %s\r\n\r\n" % (len(body), text.encode()) + body), good)
    head, _, rest = got.partition(b"\r\n\r\n")
    ok(len(rest) == len(body) and VALUE.encode() not in got and not [c for c in core if c in got] and
       rest.startswith(b"before ") and rest.endswith(b" after"), "echoed as " + name, got)
    if name == "plain":
        ok(rest == body.replace(VALUE.encode(), PLACEHOLDER.encode()), "the placeholder stands there", rest)
for cut in range(1, len(VALUE)):
    a, b = VALUE[:cut].encode(), VALUE[cut:].encode()
    body = b"%x\r\n%s\r\n%x\r\n%s\r\n0\r\nX-Trailer: %s\r\n\r\n" % (len(a), a, len(b), b, VALUE.encode())
    got, seen = ask(seal, get(auth), says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body), good)
    text, rest = b"", got.partition(b"\r\n\r\n")[2]
    while rest and not rest.startswith(b"0\r\n"):
        size, rest = rest.split(b"\r\n", 1)
        text, rest = text + rest[:int(size, 16)], rest[int(size, 16) + 2:]
    if text != PLACEHOLDER.encode() or VALUE.encode() in got:
        ok(False, "a chunk that ends at byte %d of the value" % cut, got)
        break
else:
    ok(True, "chunks that end at every byte of the value")
got, seen = ask(seal, get("Accept-Encoding: gzip", auth), context=good)
ok(b"accept-encoding: identity" in seen[0].lower() and b"gzip" not in seen[0], "no coding is offered", seen)
big = os.urandom(3 << 20)
got, seen = ask(seal, get(auth), says(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(big) + big), good)
ok(got.partition(b"\r\n\r\n")[2] == big, "three megabytes of noise are unchanged", len(got))
got, seen = ask(seal, get(auth), says(b"HTTP/1.1 200 OK\r\n\r\nuntil the end " + VALUE.encode()), good)
ok(got.endswith(b"until the end " + PLACEHOLDER.encode()), "a body that ends with the connection", got)
got, seen = ask(seal, get(auth), says(b"HTTP/1.1 302 Found\r\nLocation: https://evil.test/?t=%s\r\nSet-Cookie: t=%s\r\nContent-Length: 0\r\n\r\n" % (VALUE.encode(), VALUE.encode())), good)
ok(b"302" in got and VALUE.encode() not in got and got.count(PLACEHOLDER.encode()) == 2, "Location and Set-Cookie", got)
got, seen = ask(seal, get(auth), says(b"HTTP/1.1 100 Continue\r\n\r\n", PLAIN), good)
ok(b"100 Continue" in got and got.endswith(b"hi"), "interim answers pass", got)
got, seen = ask(seal, get("Upgrade: websocket", auth).replace(b"Connection: close", b"Connection: Upgrade"),
                says(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nframe " + VALUE.encode()), good)
ok(b"101" in got and got.endswith(b"frame " + PLACEHOLDER.encode()), "after an upgrade the answer is still scrubbed", got)
got, seen = ask(seal, get(auth), says(b"SSH-2.0-x\r\n"), good)
ok(got.startswith(b"HTTP/1.1 502"), "a host that does not speak HTTP", got)
seal.end()

# ---- rotation ----
seal = Seal([BOUND])
box, seen, thread = seal.connect(says(PLAIN, times=3), good)
with TRUST.wrap_socket(box, server_hostname=HOST) as tls:
    keep = get(auth).replace(b"Connection: close\r\n", b"")
    tls.sendall(keep)
    head_of(tls)
    seal.value = VALUE[::-1]
    seal.daemon.send(b"F")
    tls.sendall(keep)
    head_of(tls)
    ok(VALUE[::-1].encode() in seen[1], "a kept connection has the new value at its next request", seen)
    seal.value = None
    seal.daemon.send(b"F")
    tls.sendall(keep)
    got = head_of(tls)
    ok(got.startswith(b"HTTP/1.1 503") and len(seen) == 2, "a secret that is gone: 503, nothing is sent", (got, seen))
status = seal.end()
ok(status == 0, "it ends with its daemon", status)

# ---- the box's trust, and what the program may do ----
seal = Seal([BOUND])
box, seen, thread = seal.connect(says(PLAIN), good)
try:
    ssl.create_default_context(cafile=path("liar.pem")).wrap_socket(box, server_hostname=HOST)
    ok(False, "a client that does not trust us")
except ssl.SSLError as error:
    ok("CERTIFICATE_VERIFY_FAILED" in str(error), "a client that does not trust us", error)
box.close()
thread.join(5)
for _ in range(100):
    if "untrusted_ca" in seal.verbs():
        break
    threading.Event().wait(0.05)
ok("untrusted_ca" in seal.verbs(), "is a row that says so", seal.rows)
status = open("/proc/%d/status" % seal.process.pid).read()
ok("Seccomp:\t2" in status and "NoNewPrivs:\t1" in status, "it has a filter of system calls", status)
seal.end()
sys.exit(failed > 0)
