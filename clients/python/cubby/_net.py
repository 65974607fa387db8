"""Where a daemon is, and a connection to it for threads: blocking, with a time limit for silence."""
from __future__ import annotations

import os
import select
import socket

from .errors import BadCertificate, Invalid, Timeout, Unreachable
from ._wire import PIECE


class Place:
    """The address of a daemon: unix:/path, http://host:port or https://host:port, perhaps with a path before ours."""

    def __init__(self, url: str, ca: str | None) -> None:
        self.url, self.ca = url.rstrip("/"), ca
        self.unix = self.host = self.prefix = ""
        self.tls = False
        self.port = 0
        self._context = None
        if url.startswith("unix:"):
            self.unix, self.authority = url[5:], "localhost"
            return
        scheme, found, rest = self.url.partition("://")
        if not found or scheme not in ("http", "https"):
            raise Invalid(f"{url!r} is not the URL of a daemon: write http://HOST:PORT, https://HOST or unix:/PATH")
        self.authority, slash, path = rest.partition("/")
        self.prefix, self.tls = slash + path, scheme == "https"
        host, colon, port = self.authority.rpartition(":")
        if not colon or self.authority.endswith("]"):
            host, port = self.authority, "443" if self.tls else "80"
        if not port.isdigit() or not 0 < int(port) < 65536 or not host:
            raise Invalid(f"{url!r} has no host, or a port that is not a number")
        self.host, self.port = host.strip("[]"), int(port)

    def context(self):
        """What certificates are trusted; made once, since that is slow."""
        if self._context is None:
            import ssl
            try:
                self._context = ssl.create_default_context(cafile=self.ca)
            except OSError as error:
                raise BadCertificate(f"cannot read the certificates in {self.ca!r}: {error}") from None
        return self._context

    def failure(self, error: Exception) -> Unreachable:
        """Why there is no connection, as our own exception."""
        where = self.unix or f"{self.host}:{self.port}"
        if type(error).__name__ == "SSLCertVerificationError":
            return BadCertificate(f"the certificate of {where} is not trusted: {error.verify_message}")  # type: ignore
        if isinstance(error, TimeoutError):
            return Unreachable(f"{where} does not answer")
        return Unreachable(f"cannot connect to {where}: {getattr(error, 'strerror', None) or error}")


class Socket:
    """A connection that blocks."""

    def __init__(self, place: Place) -> None:
        self._place, self._pid = place, os.getpid()

    def connect(self, seconds: float) -> None:
        place = self._place
        try:
            if place.unix:
                self._socket = socket.socket(socket.AF_UNIX)
                self._socket.settimeout(seconds)
                self._socket.connect(place.unix)
            else:
                self._socket = socket.create_connection((place.host, place.port), seconds)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if place.tls:
                    self._socket = place.context().wrap_socket(self._socket, server_hostname=place.host)
        except OSError as error:
            self.close()
            raise (error if isinstance(error, Unreachable) else place.failure(error)) from None

    def send(self, data: bytes, seconds: float) -> None:
        self._socket.settimeout(seconds)
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise Timeout(f"the daemon took no data for {seconds:g} s") from None
        except OSError as error:
            raise Unreachable(f"the connection ended: {error}", sent=True) from None

    def recv(self, seconds: float | None) -> bytes:
        """Some bytes; none at the end of the connection."""
        self._socket.settimeout(seconds)
        try:
            return self._socket.recv(PIECE)
        except TimeoutError:
            raise Timeout(f"the daemon sent nothing for {seconds:g} s") from None
        except OSError as error:
            raise Unreachable(f"the connection ended: {error}", sent=True) from None

    def recv_within(self, seconds: float | None) -> bytes | None:
        """The same; None when nothing came in that time, and the connection stays good."""
        if not getattr(self._socket, "pending", int)():
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            if not poll.poll(None if seconds is None else seconds * 1000):
                return None
        return self.recv(None)

    def stale(self) -> bool:
        """Whether an idle connection cannot be used again: it has ended, or belongs to the parent of this process."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return self._pid != os.getpid() or bool(poll.poll(0))

    def close(self) -> None:
        if hasattr(self, "_socket"):
            self._socket.close()
