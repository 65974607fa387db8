"""What can go wrong. Every class is a CubbyError, and also the built-in exception that people catch for it."""
from __future__ import annotations

import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class CubbyError(Exception):
    """A request that failed. str() is the daemon's own sentence, which says what is wrong and how to fix it."""

    code = "INTERNAL"  # the API's word for it
    errno: Any = None

    def __init__(self, message: str, *, code: str | None = None, status: int | None = None,
                 request_id: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message, self.status, self.request_id, self.retry_after = message, status, request_id, retry_after
        if code:
            self.code = code

    def __str__(self) -> str:
        return self.message


class Invalid(CubbyError, ValueError):
    """The request does not make sense."""
    code = "INVALID"


class Unauthorized(CubbyError, PermissionError):
    """No token, an unknown one, or one that was revoked or has expired."""
    code, errno = "UNAUTHORIZED", errno.EACCES


class Denied(CubbyError, PermissionError):
    """Not allowed to this user, or not to this token."""
    code, errno = "DENIED", errno.EACCES


class NotFound(CubbyError, LookupError):
    """A box, process, session, snapshot ... that does not exist."""
    code = "NOT_FOUND"


class FileNotFound(NotFound, FileNotFoundError):
    """A file of a box that does not exist."""
    errno = errno.ENOENT


class Gone(NotFound):
    """It existed, and does not any more."""
    code = "GONE"


class Exists(CubbyError, FileExistsError):
    """The name is taken, or the file changed in the meantime (if_match)."""
    code, errno = "EXISTS", errno.EEXIST


class TooLarge(CubbyError, ValueError):
    """Larger than the daemon accepts."""
    code = "TOO_LARGE"


class Limit(CubbyError):
    """A limit of the user or of the box is reached; `retry_after` is in seconds."""
    code = "LIMIT"


class Busy(CubbyError):
    """Somebody else works on it, or the daemon has too much to do; `retry_after` is in seconds."""
    code = "BUSY"


class Paused(CubbyError):
    """The box is paused: resume it first."""
    code = "PAUSED"


class Full(CubbyError, OSError):
    """No space left."""
    code, errno = "FULL", errno.ENOSPC


class InputOutput(CubbyError, OSError):
    """The daemon or the box could not read or write."""
    code, errno = "IO", errno.EIO


class Unsupported(CubbyError, NotImplementedError):
    """This daemon or this machine cannot do that."""
    code = "UNSUPPORTED"


class Timeout(CubbyError, TimeoutError):
    """It took longer than allowed."""
    code, errno = "TIMEOUT", errno.ETIMEDOUT


class Unreachable(CubbyError, ConnectionError):
    """No connection to the daemon, or it ended in the middle. `sent`: whether the daemon may have seen the request."""
    code = "UNREACHABLE"

    def __init__(self, message: str, sent: bool = False) -> None:
        super().__init__(message)
        self.sent = sent


class BadCertificate(Unreachable):
    """The daemon's TLS certificate is not one to trust."""
    code = "CERTIFICATE"


class Protocol(CubbyError):
    """What came back is not what a cubby daemon answers."""
    code = "PROTOCOL"


class Internal(CubbyError, RuntimeError):
    """A defect of the daemon."""


class CommandFailed(CubbyError):
    """A command with check=True that did not succeed; `result` has everything about it."""
    code = "COMMAND"

    def __init__(self, result) -> None:
        how = ("timed out" if result.timed_out else f"was ended by {result.signal}" if result.signal
               else f"exited with status {result.exit_code}")
        tail = result.stderr.strip()[-400:]
        super().__init__(f"the command {how}" + (f": {tail}" if tail else ""))
        self.result = result


CLASSES = {kind.code: kind for kind in (
    Invalid, Unauthorized, Denied, NotFound, Gone, Exists, TooLarge, Limit, Busy, Paused, Full, InputOutput, Unsupported,
    Timeout, Protocol, Internal)}


def of_answer(status: int, error: dict, headers: dict[str, str], files: bool) -> CubbyError:
    """The exception for an answer that is an error. `files`: the request named a file."""
    code, message = str(error.get("code", "")), str(error.get("message", ""))
    kind = CLASSES.get(code, Internal if status >= 500 else CubbyError)
    if kind is NotFound and files and not message.startswith("no box "):
        kind = FileNotFound
    after = headers.get("retry-after", "")
    return kind(message or f"the daemon answered with status {status}", code=code or None, status=status,
                request_id=headers.get("x-request-id"), retry_after=float(after) if after.isdigit() else None)
