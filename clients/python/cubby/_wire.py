"""HTTP/1.1 answers, event streams, WebSocket frames and tar headers as bytes. Nothing here reads or writes a socket, so
the clients for threads and for asyncio share it."""
from __future__ import annotations

import json
import os

from .errors import Protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

PIECE = 262144  # bytes read or written at once
_HEAD_MAX = 65536
_MESSAGE_MAX = 64 << 20  # an event, a WebSocket message
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_QUOTED = [chr(b) if b in _PLAIN else f"%{b:02X}" for b in range(256)]


def quote(value: Any) -> str:
    """A value for a path or a query. Names of files may be any bytes: str has them as os.fsdecode does."""
    if isinstance(value, bool):
        value = "true" if value else "false"
    raw = value if isinstance(value, bytes) else os.fsencode(str(value))
    return "".join([_QUOTED[b] for b in raw])


def request_head(method: str, target: str, headers: dict[str, str]) -> bytes:
    """The first lines of a request. A value that would end its line is refused."""
    lines = [f"{method} {target} HTTP/1.1"] + [f"{name}: {value}" for name, value in headers.items()]
    for line in lines:
        if "\r" in line or "\n" in line or "\0" in line:
            raise ValueError(f"a header must be one line: {line.split(':')[0]!r}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape")


class Parser:
    """One answer: feed() bytes, look at status and headers, take the body by data() until done."""

    def __init__(self, head_only: bool = False) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.done = False
        self.keep = True
        self.rest = bytearray()  # bytes that were not taken yet
        self._left: int | None = 0  # of the body or the chunk; None: until the connection ends
        self._chunked = self._trailer = self._ending = False  # _ending: at the line end after a chunk
        self._head_only = head_only

    def feed(self, data: bytes) -> None:
        self.rest += data
        while not self.status and self._head():
            pass

    def _head(self) -> bool:
        end = self.rest.find(b"\r\n\r\n")
        if end < 0:
            if len(self.rest) > _HEAD_MAX:
                raise Protocol("the head of an answer is too long")
            return False
        lines = bytes(self.rest[:end]).decode("latin-1").split("\r\n")
        del self.rest[:end + 4]
        words = lines[0].split(" ", 2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
            raise Protocol(f"not an HTTP answer: {lines[0][:60]!r}")
        status = int(words[1])
        if 100 <= status < 200 and status != 101:
            return True  # another head follows
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        self._framing(status, words[0] == "HTTP/1.1")
        self.status = status
        return True

    def _framing(self, status: int, newer: bool) -> None:
        connection = self.headers.get("connection", "").lower()
        self.keep = "close" not in connection if newer else "keep-alive" in connection
        length = self.headers.get("content-length", "")
        if self._head_only or status in (101, 204, 304):
            self.done = True
        elif "chunked" in self.headers.get("transfer-encoding", "").lower():
            self._chunked = True
        elif length.isdigit():
            self._left = int(length)
            self.done = not self._left
        else:
            self._left, self.keep = None, False

    def data(self) -> Any:
        """Bytes of the body that have come; none when more must be fed, or at the end (done)."""
        if self.done or not self.rest:
            return b""
        if self._chunked:
            return self._chunks()
        if self._left is None or len(self.rest) < self._left:
            out, self.rest = self.rest, bytearray()
            if self._left is not None:
                self._left -= len(out)
            return out
        out = bytes(self.rest[:self._left])
        del self.rest[:self._left]
        self.done = True
        return out

    def _chunks(self) -> bytes:
        out = []
        while self.rest and not self.done:
            if self._left:
                piece = bytes(self.rest[:self._left])
                del self.rest[:len(piece)]
                self._left -= len(piece)
                out.append(piece)
                self._ending = not self._left
                continue
            end = self.rest.find(b"\r\n")
            if end < 0:
                if len(self.rest) > _HEAD_MAX:
                    raise Protocol("a line of an answer is too long")
                break
            line = bytes(self.rest[:end])
            del self.rest[:end + 2]
            if self._trailer:
                self.done = not line
            elif self._ending:
                if line:
                    raise Protocol("a chunk of an answer has no end")
                self._ending = False
            else:
                try:
                    self._left = int(line.split(b";")[0], 16)
                except ValueError:
                    raise Protocol("a chunk of an answer has no length") from None
                self._trailer = not self._left
        return b"".join(out)

    def eof(self) -> bool:
        """The connection has ended: whether the answer is whole."""
        if self.status and self._left is None:
            self.done = True
        return self.done


class Events:
    """An event stream: feed() bytes, take [(name, id, data)]."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._name = self.last_id = ""
        self._data: list[str] = []

    def feed(self, data: bytes) -> list[tuple[str, str, Any]]:
        self._buffer += data
        if len(self._buffer) > _MESSAGE_MAX:
            raise Protocol("an event is too long")
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer = bytearray(rest)
        found = []
        for line in lines:
            text = line.rstrip(b"\r").decode("utf-8", "replace")
            if not text:
                if self._data:
                    found.append((self._name, self.last_id, parse("\n".join(self._data))))
                self._name, self._data = "", []
                continue
            field, _, value = text.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if field == "data":
                self._data.append(value)
            elif field == "event":
                self._name = value
            elif field == "id":
                self.last_id = value
        return found


# ---- JSON ----

class Answer(dict):
    """An object of the API: a dict whose members are attributes too."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no field {name!r}; there are {', '.join(self)}") from None


_decode = json.JSONDecoder(object_hook=Answer).decode


def parse(text: str | bytes) -> Any:
    try:
        return _decode(text if isinstance(text, str) else text.decode())
    except ValueError:
        raise Protocol("the daemon's answer is not JSON") from None


def dump(value: dict[str, Any]) -> bytes:
    """A body without the members that are None."""
    return json.dumps({k: v for k, v in value.items() if v is not None}, ensure_ascii=False).encode()


def from_base64(text: str) -> bytes:
    import binascii
    return binascii.a2b_base64(text)


def to_base64(data: bytes) -> str:
    import binascii
    return binascii.b2a_base64(data, newline=False).decode()


def names(answer: Any, *keys: str) -> Any:
    """Undoes base64 of names that are not UTF-8; they become what os.fsdecode makes of them."""
    def one(value: Any) -> Any:
        return os.fsdecode(from_base64(value)) if isinstance(value, str) else value
    if answer.get("encoding") == "base64":
        for key in keys:
            value = answer.get(key)
            answer[key] = [one(item) for item in value] if isinstance(value, list) else one(value)
        answer["encoding"] = "utf-8"
    return answer


def named(body: dict[str, Any], *keys: str) -> dict[str, Any]:
    """A body with names and texts; as base64 where one of them is not UTF-8."""
    given = {key: os.fspath(body[key]) for key in keys if body.get(key) is not None}
    try:
        for value in given.values():
            (value if isinstance(value, str) else os.fsdecode(value)).encode()
        coded = {key: value if isinstance(value, str) else value.decode() for key, value in given.items()}
        return {**body, **coded}
    except UnicodeError:
        return {**body, **{key: to_base64(os.fsencode(value)) for key, value in given.items()}, "encoding": "base64"}


# ---- WebSocket ----

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def websocket_accept(key: str) -> str:
    import hashlib
    return to_base64(hashlib.sha1(key.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())


def frame(kind: int, data: bytes) -> bytes:
    """A masked frame, as clients send them."""
    size, mask = len(data), os.urandom(4)
    head = bytes([0x80 | kind]) + (bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
                                   if size < 65536 else b"\xff" + size.to_bytes(8, "big"))
    masked = int.from_bytes(data, "big") ^ int.from_bytes((mask * (size // 4 + 1))[:size], "big")
    return head + mask + masked.to_bytes(size, "big")


class Frames:
    """Messages out of frames: feed() bytes, take [(kind, data)]."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._kind, self._parts = 0, bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        self._buffer += data
        found = []
        while (one := self._next()) is not None:
            final, kind, payload = one
            if kind >= CLOSE:
                found.append((kind, payload))
                continue
            self._kind = kind or self._kind
            self._parts += payload
            if len(self._parts) > _MESSAGE_MAX:
                raise Protocol("a message is too long")
            if final:
                found.append((self._kind, bytes(self._parts)))
                self._parts.clear()
        return found

    def _next(self) -> tuple[bool, int, bytes] | None:
        b = self._buffer
        if len(b) < 2:
            return None
        size, at = b[1], 2  # a server does not mask: the top bit is 0
        if size >= 126:
            at = 4 if size == 126 else 10
            size = int.from_bytes(b[2:at], "big")
        if size > _MESSAGE_MAX:
            raise Protocol("a message is too long")
        if len(b) < at + size:
            return None
        out = bool(b[0] & 0x80), b[0] & 0x0F, bytes(b[at:at + size])
        del b[:at + size]
        return out


# ---- tar ----

def tar(entries: Iterator[tuple[str, Any]]) -> Iterator[bytes]:
    """A tar archive as pieces. Entries are (name, bytes), or (name, path of a local file, link or directory)."""
    import stat
    import tarfile
    for name, source in entries:
        info = tarfile.TarInfo(name)
        if isinstance(source, (bytes, bytearray, memoryview)):
            info.size = len(source)
            yield info.tobuf(tarfile.PAX_FORMAT, errors="surrogateescape")
            yield bytes(source) + bytes(-info.size % 512)
            continue
        status = os.lstat(source)
        info.mode, info.mtime = status.st_mode & 0o777, int(status.st_mtime)
        if stat.S_ISDIR(status.st_mode):
            info.type = tarfile.DIRTYPE
        elif stat.S_ISLNK(status.st_mode):
            info.type, info.linkname = tarfile.SYMTYPE, os.readlink(source)
        elif stat.S_ISREG(status.st_mode):
            info.size = status.st_size
        else:
            continue  # sockets, pipes and devices do not travel
        yield info.tobuf(tarfile.PAX_FORMAT, errors="surrogateescape")
        if info.size:
            with open(source, "rb") as file:
                yield from exactly(file, info.size)
            yield bytes(-info.size % 512)
    yield bytes(1024)


def exactly(file: Any, size: int) -> Iterator[bytes]:
    """The next `size` bytes of a local file; a file that shrank meanwhile is an error."""
    while size:
        piece = file.read(min(size, PIECE))
        if not piece:
            raise EOFError(f"{getattr(file, 'name', 'the file')} became shorter while it was read")
        size -= len(piece)
        yield piece


def walk(top: str) -> Iterator[tuple[str, str]]:
    """(name in the archive, local path) of everything below a directory; links are not followed."""
    for base, directories, files in os.walk(top):
        below = os.path.relpath(base, top)
        for name in directories + files:
            yield os.path.normpath(os.path.join(below, name)), os.path.join(base, name)


def extract(file: Any, target: str) -> list[str]:
    """Unpacks a tar that came out of a box, which may lie: nothing outside of `target` is written, and no link leads out
    of it. Answers with the names that were left out for that, and those of devices and pipes."""
    import shutil
    import tarfile
    root, left_out = os.path.realpath(target), []

    def inside(path: str) -> bool:
        return os.path.commonpath([root, os.path.realpath(path)]) == root
    with tarfile.open(fileobj=file, mode="r:", errors="surrogateescape") as archive:
        for member in archive:
            path = os.path.normpath(os.path.join(root, member.name.rstrip("/")))
            parent = os.path.dirname(path)
            if path == root:
                continue
            if ".." in member.name.split("/") or not inside(parent):
                left_out.append(member.name)
                continue
            os.makedirs(parent, exist_ok=True)
            if os.path.lexists(path) and not (os.path.isdir(path) and not os.path.islink(path)):
                os.unlink(path)
            source = os.path.join(root, member.linkname)
            if member.isdir():
                os.makedirs(path, exist_ok=True)
            elif member.isreg():
                with open(path, "wb") as out:
                    shutil.copyfileobj(archive.extractfile(member), out, PIECE)  # type: ignore[arg-type]
                os.chmod(path, member.mode & 0o777)
            elif member.issym() and inside(os.path.join(parent, member.linkname)):
                os.symlink(member.linkname, path)
            elif member.islnk() and inside(source) and os.path.isfile(source):
                os.link(source, path, follow_symlinks=False)
            else:
                left_out.append(member.name)
    return left_out
