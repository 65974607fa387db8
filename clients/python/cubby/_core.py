"""What requests and answers mean, for both clients: results of commands, and small conversions."""
from __future__ import annotations

from ._wire import Answer, from_base64, to_base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Sequence

DEFAULT_URL = "http://127.0.0.1:7070"
SLACK = 30.0  # seconds that an answer may take beyond what the request itself may take
EXEC_SECONDS = 300.0  # the daemon's own limit for a command that has none
LIMITS = ("memory_mb", "cpus", "pids", "disk_mb", "open_files", "output_bytes")
E2B_WORDS = {"envs": "env", "metadata": "labels"}
KEPT = 1 << 20  # bytes of each stream that Process.wait() and callbacks keep


def milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else max(int(seconds * 1000), 0)


def command_of(command: str | Sequence[str]) -> dict[str, Any]:
    """A str is a line for the box's shell, a list is a program with its arguments."""
    return {"command": command} if isinstance(command, str) else {"argv": list(command)}


def input_of(data: str | bytes | None) -> dict[str, Any]:
    if data is None or isinstance(data, str):
        return {"stdin": data}
    return {"stdin_base64": to_base64(data)}


def box_request(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a new box: limits may stand beside the others, and times are seconds."""
    body = {E2B_WORDS.get(name, name): value for name, value in fields.items() if value is not None}
    limits = {name: body.pop(name) for name in LIMITS if name in body}
    if limits:
        body["limits"] = {**body.get("limits", {}), **limits}
    if "idle_timeout" in body:
        body["idle_timeout_ms"] = milliseconds(body.pop("idle_timeout"))
    return body


class Output:
    """A piece of what a command printed: `stream` is stdout or stderr, `data` the bytes, `text` the same as str."""

    __slots__ = ("stream", "data")

    def __init__(self, stream: str, data: bytes) -> None:
        self.stream, self.data = stream, data

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")

    def __repr__(self) -> str:
        return f"Output({self.stream!r}, {self.data[:60]!r})"


class Result(Answer):
    """How a command ended, and what it printed. A failing command is a result, not an exception.

    stdout, stderr: text; bytes that are not UTF-8 became U+FFFD, and then `lossy` is true
    stdout_bytes_raw, stderr_bytes_raw: the bytes themselves
    exit_code (None when a signal ended it), signal, timed_out, oom_killed, stuck, truncated, duration (seconds)
    """

    __slots__ = ("_raw",)

    def __init__(self, answer: dict[str, Any], raw: dict[str, bytes] | None = None) -> None:
        super().__init__(answer)
        if raw is None:  # an answer that has its output in it
            coded = answer.get("encoding") == "base64"
            words = {"stdout": answer.get("stdout", answer.get("output", "")), "stderr": answer.get("stderr", "")}
            raw = {name: from_base64(text) if coded else text.encode() for name, text in words.items()}
        self._raw = raw
        for name, data in raw.items():
            self[name] = data.decode("utf-8", "replace")

    @property
    def ok(self) -> bool:
        return self.get("exit_code") == 0 and not self.get("timed_out")

    @property
    def stdout_bytes_raw(self) -> bytes:
        return self._raw["stdout"]

    @property
    def stderr_bytes_raw(self) -> bytes:
        return self._raw["stderr"]

    @property
    def lossy(self) -> bool:
        return any(self[name].encode() != data for name, data in self._raw.items())

    @property
    def truncated(self) -> bool:
        return bool(self.get("stdout_truncated") or self.get("stderr_truncated") or self.get("output_truncated"))

    @property
    def duration(self) -> float:
        return self.get("duration_ms", 0) / 1000

    @property
    def signal(self) -> str | None:
        return self.get("signal")

    @property
    def output(self) -> str:
        """Both streams; a session has only one."""
        return self["stdout"] + self["stderr"]

    def __repr__(self) -> str:
        return f"Result(exit_code={self.get('exit_code')}, stdout={self['stdout'][:60]!r})"


class Exit:
    """The last item of a stream of output: `result` says how the command ended (without its output)."""

    __slots__ = ("result",)

    def __init__(self, result: Result) -> None:
        self.result = result

    def __repr__(self) -> str:
        return f"Exit({self.result!r})"


class Collected:
    """The last bytes of both streams of a command, up to a limit."""

    def __init__(self, limit: int = KEPT) -> None:
        self._limit, self._kept = limit, {"stdout": bytearray(), "stderr": bytearray()}

    def add(self, output: Output) -> None:
        kept = self._kept[output.stream]
        kept += output.data
        if len(kept) > 2 * self._limit:
            del kept[:-self._limit]

    def result(self, ended: Result) -> Result:
        raw = {name: bytes(kept[-self._limit:]) for name, kept in self._kept.items()}
        short = {f"{name}_truncated": ended.get(f"{name}_bytes", len(data)) > len(data) for name, data in raw.items()}
        return Result({**ended, **short}, raw)


def item_of(name: str, data: Any) -> Output | Exit | None:
    """An event of a command as what a loop over it sees; None for those that are only for us."""
    if name in ("stdout", "stderr"):
        raw = from_base64(data["data"]) if data["encoding"] == "base64" else data["data"].encode()
        return Output(name, raw)
    if name == "exit":
        return Exit(Result(data, {"stdout": b"", "stderr": b""}))
    return None
