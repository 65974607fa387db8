"""A registry of images for tests, on loopback: the engine's own client talks to it as to any other.

usage: registry.py DIR BINARY      BINARY: the program of its images, /bin/sh of them too
DIR/open, DIR/private: the ports (private wants robot:s3cret, or what DIR/password says), once both listen
DIR/log: a line a request; DIR/version: what ENV VERSION of its images is (read each time); DIR/go: slow/ goes on when it is there
Repositories, any tag: any/... usual; slow/... its layer stops halfway; foreign/... for another architecture; list/... a list of
platforms without ours; gone/... a layer that is not there; else: unknown."""
import base64, gzip, hashlib, io, json, os, sys, tarfile, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

where, binary = sys.argv[1:3]
lock = threading.Lock()


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def read(name, otherwise=""):
    try:
        return open(os.path.join(where, name)).read().strip()
    except FileNotFoundError:
        return otherwise


def make_layer():
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name in ("bin", "tmp"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(entry)
        tar.add(binary, "bin/busybox", filter=lambda entry: setattr(entry, "mode", 0o755) or entry)
        for name in ("sh", "cat", "uname", "id"):
            entry = tarfile.TarInfo("bin/" + name)
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    return plain.getvalue()


plain = make_layer()
layer = gzip.compress(plain, 1)
blobs = {digest(layer): layer}


def manifest(repository):
    kind = repository.split("/")[0]
    media = "application/vnd.docker.distribution.manifest.v2+json"
    own = {"aarch64": "arm64"}.get(os.uname().machine, "amd64")
    architecture = "s390x" if kind in ("foreign", "list") else own
    config = json.dumps({"architecture": architecture, "os": "linux", "rootfs": {"type": "layers", "diff_ids": [digest(plain)]},
                         "config": {"Env": ["PATH=/bin", "VERSION=" + read("version", "1")], "Cmd": ["sh"],
                                    "Labels": {"repository": repository}}}).encode()
    blobs[digest(config)] = config
    tail = layer
    if kind in ("gone", "slow"):  # a layer of its own: the engine keeps what it has
        tail = gzip.compress(plain + b"\0" * 512 * {"gone": 4, "slow": 6}[kind], 1)
        if kind == "slow":
            config = config.replace(digest(plain).encode(), digest(gzip.decompress(tail)).encode())
            blobs[digest(config)] = config
            blobs[digest(tail)] = tail
    body = json.dumps({"schemaVersion": 2, "mediaType": media,
                       "config": {"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(config), "digest": digest(config)},
                       "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": len(tail), "digest": digest(tail)}]}).encode()
    if kind != "list":
        return media, body
    media = "application/vnd.docker.distribution.manifest.list.v2+json"
    return media, json.dumps({"schemaVersion": 2, "mediaType": media, "manifests": [
        {"mediaType": "application/vnd.docker.distribution.manifest.v2+json", "size": len(body), "digest": digest(body),
         "platform": {"os": "linux", "architecture": "s390x"}}]}).encode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body=b"", media="application/json", size=None, **headers):
        self.send_response(status)
        for name, value in {"Content-Type": media, "Content-Length": len(body) if size is None else size, "Docker-Distribution-Api-Version": "registry/2.0", **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code, **headers):
        self.answer(status, json.dumps({"errors": [{"code": code, "message": code.lower().replace("_", " ")}]}).encode(), **headers)

    def slowly(self, body):
        self.answer(200, b"", "application/octet-stream", len(body))
        for at in range(0, len(body), len(body) // 8 + 1):
            while at > len(body) // 2 and not os.path.exists(os.path.join(where, "go")):
                time.sleep(0.02)
            self.wfile.write(body[at:at + len(body) // 8 + 1])
            self.wfile.flush()
            time.sleep(0.15)

    def do_GET(self):
        private = self.server.private
        given = self.headers.get("Authorization", "")
        with lock, open(os.path.join(where, "log"), "a") as log:
            log.write(f"{'private' if private else 'open'} {self.command} {self.path} {given.split(' ')[0] or '-'}\n")
        wanted = "Basic " + base64.b64encode(("robot:" + read("password", "s3cret")).encode()).decode()
        if private and given != wanted:
            return self.refuse(401, "UNAUTHORIZED", WWW_Authenticate='Basic realm="tests"')
        if self.path.rstrip("/") == "/v2":
            return self.answer(200, b"{}")
        parts = self.path.split("/")
        repository, kind, name = "/".join(parts[2:-2]), parts[-2], parts[-1]
        if kind == "manifests" and repository.split("/")[0] in ("any", "slow", "foreign", "list", "gone"):
            media, body = manifest(repository)
            return self.answer(200, body, media, Docker_Content_Digest=digest(body))
        if kind == "blobs" and name in blobs:
            body = blobs[name]
            return self.slowly(body) if repository.startswith("slow/") and len(body) > 65536 and self.command == "GET" else self.answer(200, body, "application/octet-stream")
        self.refuse(404, "BLOB_UNKNOWN" if kind == "blobs" else "MANIFEST_UNKNOWN")

    do_HEAD = do_GET

    def log_message(self, *ignored):
        pass


ThreadingHTTPServer.daemon_threads = True
servers = []
for name in ("open", "private"):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.private = name == "private"
    servers.append(server)
    with open(os.path.join(where, name + ".new"), "w") as file:
        file.write(str(server.server_port))
    os.rename(os.path.join(where, name + ".new"), os.path.join(where, name))
for server in servers:
    threading.Thread(target=server.serve_forever, daemon=True).start()
parent = os.getppid()
while os.getppid() == parent:
    time.sleep(0.5)
