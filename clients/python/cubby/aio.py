"""cubby for asyncio: `async with cubby.aio.Box(thread="demo") as box: r = await box.run("id")`.

This file is the source of both clients. _sync.py is made from it by clients/generate, which takes the words async and
await away; a comment `# sync:` is code there.
"""
from __future__ import annotations

import asyncio
import os
import time

from . import errors
from ._core import (DEFAULT_URL, EXEC_SECONDS, SLACK, Collected, Exit, Output, Result, box_request, command_of,
                    input_of, item_of, milliseconds)
from ._net import Place
from ._net_aio import Socket
from ._routes import ROUTES
from ._wire import (BINARY, CLOSE, PIECE, PING, PONG, TEXT, Answer, Events, Frames, Parser, dump, exactly, extract, frame,
                    named, names, parse, quote, request_head, tar, to_base64, walk, websocket_accept)
from .errors import CommandFailed, FileNotFound, Invalid, NotFound, Protocol, Timeout, Unreachable, Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, AsyncIterator, Callable, Sequence

    from . import types

_IDLE = 64  # connections that are kept
_PATIENCE = 15.0  # seconds in which a daemon may start again without a stream that can go on noticing


class _Exchange:
    """One request and its answer. Whoever does not read the answer to its end drops the connection."""

    def __init__(self, client: Client, socket: Socket, silence: float | None) -> None:
        self._client, self.silence, self._parser = client, silence, Parser()
        self._socket: Any = socket  # None when the connection serves others, or is gone

    @property
    def status(self) -> int:
        return self._parser.status

    @property
    def headers(self) -> dict[str, str]:
        return self._parser.headers

    async def begin(self, head: bytes, body: Any, chunked: bool) -> None:
        """Sends the request and waits for the head of the answer."""
        limit = self._client.timeout
        try:
            try:
                if body is None or isinstance(body, bytes):
                    await self._socket.send(head + (body or b""), limit)
                else:
                    await self._socket.send(head, limit)
                    async for piece in _pieces(body):
                        if piece:
                            await self._socket.send(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece, limit)
                    if chunked:
                        await self._socket.send(b"0\r\n\r\n", limit)
            except Unreachable:  # the daemon may have answered before it had everything
                self._parser.keep = False
                await self._head(raising=False)
                if not self.status:
                    raise
            else:
                await self._head()
        except BaseException:
            self.drop()
            raise

    async def _head(self, raising: bool = True) -> None:
        while not self.status:
            try:
                data = await self._socket.recv(self.silence)
            except Unreachable:
                if raising:
                    raise
                return
            if not data:
                if raising:
                    raise Unreachable("the daemon ended the connection without an answer", sent=True)
                return
            self._parser.feed(data)

    async def read(self) -> bytes:
        """More of the body; no bytes at its end."""
        try:
            while not (data := self._parser.data()) and not self._parser.done:
                more = await self._socket.recv(self.silence)
                if more:
                    self._parser.feed(more)
                elif not self._parser.eof():
                    raise Unreachable("the connection ended in the middle of an answer", sent=True)
        except BaseException:
            self.drop()
            raise
        if self._parser.done and self._socket:
            self._client._keep(self._socket, self._parser.keep and not self._parser.rest)
            self._socket = None
        return data

    async def all(self) -> bytes:
        data = await self.read()
        if self._parser.done:
            return data
        parts = [data]
        while data := await self.read():
            parts.append(data)
        return b"".join(parts)

    def drop(self) -> None:
        """Ends the connection: the daemon then ends what the request began."""
        if self._socket:
            self._socket.close()
            self._socket = None

    def socket(self) -> tuple[Socket, bytes]:
        """The connection itself, after 101, and what came over it already."""
        socket, self._socket = self._socket, None
        return socket, bytes(self._parser.rest)

    def __del__(self) -> None:
        self.drop()


async def _pieces(source: Any) -> AsyncIterator[bytes]:
    """The bytes of an open file, or of an iterator."""
    if hasattr(source, "read"):
        while piece := source.read(PIECE):
            yield piece
    elif hasattr(source, "__aiter__"):
        async for piece in source:
            yield piece
    else:
        for piece in source:
            yield piece


class Client:
    """A daemon. Everything has a default: CUBBY_URL (http://127.0.0.1:7070), CUBBY_TOKEN, CUBBY_CA.

    timeout: seconds without a byte from the daemon, where the request itself may not take longer
    retries: how often a request is repeated that the daemon cannot have seen, or that only looks. A command is never
        sent twice.
    """

    def __init__(self, url: str | None = None, token: str | None = None, *, ca: str | None = None,
                 timeout: float = 60, retries: int = 3) -> None:
        self.place = Place(url or os.environ.get("CUBBY_URL") or DEFAULT_URL, ca or os.environ.get("CUBBY_CA") or None)
        self.token = token or os.environ.get("CUBBY_TOKEN") or None
        self.timeout, self.retries = timeout, retries
        self._idle: list[Socket] = []
        self._closed = False
        self.tokens, self.templates, self.secrets = Tokens(self), Templates(self), Secrets(self)
        self.machines, self.registry, self.mcp_servers = Machines(self), Registry(self), McpServers(self)
        self.workers = Workers(self)

    # ---- requests ----

    def _keep(self, socket: Socket, good: bool) -> None:
        if good and not self._closed and len(self._idle) < _IDLE:
            self._idle.append(socket)
        else:
            socket.close()

    async def _connect(self) -> Socket:
        while self._idle:
            socket = self._idle.pop()
            if not socket.stale():
                return socket
            socket.close()
        socket = Socket(self.place)
        await socket.connect(min(self.timeout, 10))
        return socket

    def _headers(self, more: dict[str, str] | None) -> dict[str, str]:
        out = {"Host": self.place.authority}
        if self.token:
            out["Authorization"] = f"Bearer {self.token}"
        return {**out, **more} if more else out

    async def send(self, method: str, target: str, *, headers: dict[str, str] | None = None, body: Any = None,
                   size: int | None = None, silence: float | None = None, failing: bool = True) -> _Exchange:
        """A request of any kind. `body`: bytes, an open file or an iterator. `failing`: an answer that is an error is
        raised."""
        fields = self._headers(headers)
        chunked = body is not None and not isinstance(body, bytes) and size is None
        if chunked:
            fields["Transfer-Encoding"] = "chunked"
        elif body is not None or method in ("POST", "PUT", "PATCH"):
            fields["Content-Length"] = str(len(body or b"") if size is None else size)
        head = request_head(method, self.place.prefix + target, fields)
        looks = method == "GET" and "Upgrade" not in fields
        for attempt in range(self.retries + 1):
            try:
                exchange = _Exchange(self, await self._connect(), silence or self.timeout)
                await exchange.begin(head, body, chunked)
            except Unreachable as error:
                again = looks or not error.sent
                if isinstance(error, errors.BadCertificate) or not again or attempt == self.retries:
                    raise
            else:
                if exchange.status < 400 or not failing:
                    return exchange
                failure = await self._failure(exchange, "path=" in target or "/files" in target)
                if not looks or exchange.status not in (429, 503) or attempt == self.retries:
                    raise failure
            await asyncio.sleep(0.1 * 3 ** attempt)
        raise AssertionError("not reached")

    async def _failure(self, exchange: _Exchange, files: bool) -> errors.CubbyError:
        text = await exchange.all()
        try:
            error = parse(text).get("error")
        except (Protocol, AttributeError):
            error = None  # somebody else's answer, such as a proxy's
        if not isinstance(error, dict):
            error = {"message": f"status {exchange.status} from {self.place.authority}, not from a cubby daemon"}
        return errors.of_answer(exchange.status, error, exchange.headers, files)

    async def call(self, operation: str, *path: Any, query: dict[str, Any] | None = None,
                   body: dict[str, Any] | None = None, raw: Any = None, size: int | None = None,
                   headers: dict[str, str] | None = None, silence: float | None = None) -> _Exchange:
        """An operation of the API by its operationId."""
        method, target = self._target(operation, path, query)
        if body is not None:
            raw, headers = dump(body), {"Content-Type": "application/json", **(headers or {})}
        return await self.send(method, target, headers=headers, body=raw, size=size, silence=silence)

    def _target(self, operation: str, path: Sequence[Any], query: dict[str, Any] | None) -> tuple[str, str]:
        method, parts = ROUTES[operation]
        target = "".join([part if isinstance(part, str) else quote(path[part]) for part in parts])
        asked = [f"{name}={quote(value)}" for name, value in (query or {}).items() if value is not None]
        return method, target + ("?" + "&".join(asked) if asked else "")

    async def json(self, operation: str, *path: Any, **more: Any) -> Any:
        """The same, and the answer as an object."""
        exchange = await self.call(operation, *path, **more)
        return parse(await exchange.all())

    async def none(self, operation: str, *path: Any, **more: Any) -> None:
        """The same, for an answer without content."""
        exchange = await self.call(operation, *path, **more)
        await exchange.all()

    async def aclose(self) -> None:
        """Ends the connections. Boxes stay."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()

    # ---- boxes ----

    def box(self, **fields: Any) -> Box:
        """A box of this daemon: Box(...) with the same fields."""
        return Box(client=self, **fields)

    def connect(self, id: str) -> Box:
        """The box of this id, which exists."""
        return Box(client=self, id=id)

    async def boxes(self, user: str | None = None, state: str | None = None, label: str | None = None, *,
                    q: str | None = None, fields: str | None = None, limit: int | None = None,
                    after: str | None = None) -> list[types.Box]:
        """All boxes that one may see, by their ids; q: with these words; fields: only these members, "id,state"."""
        return (await self.json("box_list", query={"user": user, "state": state, "label": label, "q": q,
                                                   "fields": fields, "limit": limit, "after": after})).boxes

    def usages(self, user: str | None = None) -> Watch:
        """What running boxes use, every two seconds: {at, boxes: [[id, cpu_ms, memory_bytes, pids], ...]}, first of all
        of them, then of those that changed."""
        return Watch(self, "box_usage_stream", (), {"user": user})

    async def users(self) -> list[types.User]:
        """Who has boxes; for admins."""
        return (await self.json("user_list")).users

    async def agents(self) -> list[types.AgentName]:
        """Which agents there are; for admins."""
        return (await self.json("agent_names")).agents

    async def delete_boxes(self, user: str) -> int:
        """Deletes all boxes of a user; how many there were."""
        return (await self.json("box_destroy_all", query={"user": user})).ended

    # ---- the daemon ----

    async def health(self) -> types.Health:
        return await self.json("health")

    async def info(self) -> types.Info:
        return await self.json("info")

    async def whoami(self) -> types.Whoami:
        """What this token, or this place, may do."""
        return await self.json("whoami")

    async def ticket(self, purpose: str, box: str | None = None) -> types.TicketMade:
        """A ticket for one request of a browser: purpose is "pty", "files", "port" (of a box) or "login"."""
        return await self.json("ticket_for", body={"for": purpose, "box": box})

    async def login(self, ticket: str) -> types.Login:
        """Trades a ticket for a token that holds half a day, and uses it from then on."""
        answer = await self.json("login", body={"ticket": ticket})
        self.token = answer.token
        return answer

    async def metrics(self) -> str:
        """Counters in the text form of Prometheus."""
        return (await (await self.call("metrics")).all()).decode()

    async def network_ca(self) -> types.NetworkAuthority:
        """The certificate of the authority that boxes with an inspected host trust."""
        return await self.json("network_ca")

    async def tools(self) -> list[Any]:
        """The agent tools, with their JSON schemas."""
        return (await self.json("tool_list")).tools

    async def bang(self, thread: str, text: str, *, user: str | None = None, timeout_ms: int | None = None,
                   max_chars: int | None = None) -> types.BangResult:
        """Runs what a person typed in a chat (!ls -la, !cd DIR, !get FILE, !!) in the sender's box of that chat."""
        return await self.json("bang", thread, body={"text": text, "user": user, "timeout_ms": timeout_ms,
                                                     "max_chars": max_chars}, silence=EXEC_SECONDS + SLACK)

    def events(self, *, box: str | None = None, user: str | None = None, type: str | None = None,
               after: str | None = None) -> Watch:
        """What happens to boxes (box: ids, separated by commas), for ever; after="0": also what happened and is still
        known. A lost connection is taken up again where it was."""
        return Watch(self, "events", (), {"box": box, "user": user, "type": type, "after": after}, resume=True)

    async def audit(self, *, box: str | None = None, user: str | None = None, verb: str | None = None,
                    outcome: str | None = None, since: str | None = None, until: str | None = None, after: int = 0,
                    tail: bool | None = None, limit: int = 1000, follow: bool = False) -> AsyncIterator[types.AuditEvent]:
        """Who did what, row by row; with follow=True also what is still to come."""
        while True:
            page = await self.json("audit", silence=90, query={
                "box": box, "user": user, "verb": verb, "outcome": outcome, "since": since, "until": until,
                "after": after or None, "limit": limit, "tail": tail, "wait_ms": 30000 if follow else None})
            for row in page.events:
                yield names(row, "detail")
            after, tail = page.next, None
            if not follow and not page.truncated:
                return

    async def audit_verify(self) -> types.AuditVerified:
        """Whether the audit log is whole and unchanged."""
        return await self.json("audit_verify")


class _Group:
    def __init__(self, client: Client) -> None:
        self._client = client


class Tokens(_Group):
    """Who may use the daemon; for admins."""

    async def create(self, *, user: str | None = None, scope: str | None = None, runner: str | None = None,
                     label: str | None = None, expires_in: float | None = None) -> types.NewToken:
        return await self._client.json("token_create", body={
            "user": user, "scope": scope, "runner": runner, "label": label, "expires_in_ms": milliseconds(expires_in)})

    async def list(self) -> list[types.Token]:
        return (await self._client.json("token_list")).tokens

    async def revoke(self, id: str) -> None:
        await self._client.none("token_revoke", id)


class Templates(_Group):
    """What boxes are made from; for admins."""

    async def list(self) -> list[str]:
        return [each.name for each in (await self._client.json("template_list")).templates]

    async def create(self, name: str, archive: Any) -> None:
        """From a tar archive: bytes, an open file or an iterator of bytes."""
        await self._client.json("template_import", name, raw=archive, headers={"Content-Type": "application/x-tar"})

    async def delete(self, name: str) -> None:
        await self._client.none("template_remove", name)


class Secrets(_Group):
    """Values that boxes use and never have."""

    async def set(self, name: str, value: str | None = None, *, user: str | None = None, hosts: list[str] | None = None,
                  **more: Any) -> types.Secret:
        """Stores a secret, or changes it. More fields: from, slots, methods, paths, ports, env, prefix, scrub, wide;
        `from` is a word of Python, so it is written from_."""
        fields = {key.rstrip("_"): each for key, each in more.items()}
        known = {"from", "slots", "methods", "paths", "ports", "env", "prefix", "scrub", "wide"}
        if unknown := set(fields) - known:
            raise TypeError(f"a secret has no {', '.join(sorted(unknown))}")
        return await self._client.json("secret_set", name, body={"value": value, "user": user, "hosts": hosts, **fields})

    async def get(self, name: str, user: str | None = None) -> types.Secret:
        return await self._client.json("secret_get", name, query={"user": user})

    async def list(self, user: str | None = None) -> list[types.Secret]:
        return (await self._client.json("secret_list", query={"user": user})).secrets

    async def delete(self, name: str, user: str | None = None) -> None:
        await self._client.none("secret_removed", name, query={"user": user})


class Machines(_Group):
    """Machines that joined the daemon."""

    async def list(self, user: str | None = None) -> list[types.Machine]:
        return (await self._client.json("machine_list", query={"user": user})).machines

    async def send_away(self, name: str, user: str | None = None) -> None:
        await self._client.none("machine_send_away", name, query={"user": user})


class Workers(_Group):
    """Workers that a daemon makes boxes on; for admins."""

    async def list(self) -> list[types.Worker]:
        return (await self._client.json("worker_list")).workers

    async def drain(self, name: str) -> types.Worker:
        """No new box is made on it from now on; those that it has stay."""
        return await self._client.json("worker_drain", name)

    async def open(self, name: str) -> types.Worker:
        """It gets new boxes again."""
        return await self._client.json("worker_open", name)


class Registry(_Group):
    """Skills and sub-agents that users share."""

    async def search(self, q: str | None = None, *, type: str | None = None, mine: bool | None = None,
                     versions: bool | None = None, limit: int | None = None,
                     offset: int | None = None) -> list[types.RegistryEntry]:
        return (await self._client.json("registry_search", query={
            "q": q, "type": type, "mine": mine, "versions": versions, "limit": limit, "offset": offset})).entries

    async def get(self, entry: str | int, *, author: str | None = None, type: str | None = None) -> types.RegistryEntry:
        return await self._client.json("registry_get", entry, query={"author": author, "type": type})

    async def publish(self, box: str, name: str, *, type: str | None = None, version: str | None = None,
                      sharing: str | None = None, description: str | None = None,
                      tags: str | None = None) -> types.RegistryEntry:
        return await self._client.json("registry_publish", body={
            "box": box, "name": name, "type": type, "version": version, "sharing": sharing, "description": description,
            "tags": tags})

    async def unpublish(self, entry: str | int, *, author: str | None = None, type: str | None = None) -> None:
        await self._client.none("registry_unpublish", entry, query={"author": author, "type": type})


class McpServers(_Group):
    """MCP servers of a user, which run in their boxes."""

    async def list(self, user: str | None = None) -> list[types.McpServer]:
        return (await self._client.json("server_list", query={"user": user})).servers

    async def get(self, name: str, user: str | None = None) -> types.McpServer:
        return await self._client.json("server_get", name, query={"user": user})

    async def set(self, name: str, command: str, args: Sequence[str] = (), *, user: str | None = None,
                  env: dict[str, str] | None = None, cwd: str | None = None, machine: str | None = None,
                  thread: str | None = None, disabled: bool | None = None, timeout: float | None = None,
                  start_timeout: float | None = None, type: str | None = None) -> types.McpServer:
        return await self._client.json("server_put", name, query={"user": user}, body={
            "command": command, "args": [*args], "env": env, "cwd": cwd, "machine": machine, "thread": thread,
            "disabled": disabled, "timeout_ms": milliseconds(timeout), "start_timeout_ms": milliseconds(start_timeout),
            "type": type})

    async def delete(self, name: str, user: str | None = None) -> None:
        await self._client.none("server_remove", name, query={"user": user})


# ---- streams ----

class Watch:
    """Events, as a loop sees them. Leaving the loop ends the request."""

    def __init__(self, client: Client, operation: str, path: Sequence[Any], query: dict[str, Any],
                 resume: bool = False, box: Box | None = None, body: dict[str, Any] | None = None) -> None:
        self._client, self._operation, self._path, self._query = client, operation, path, query
        self._resume, self._box, self._body = resume, box, body
        self._exchange: Any = None
        self._waiting: list[Any] = []
        self._ended = False
        self._deadline: float | None = None
        self._lost: float | None = None  # since when there is no connection; 0: there is one, None: there was none yet

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Any:
        item = await self._take()
        if item is None:
            raise StopAsyncIteration
        if isinstance(item, Exit):
            await self._finish()
        return item

    async def _finish(self) -> None:
        """Nothing more comes: the connection can serve other requests."""
        self._ended = True
        try:
            await self._exchange.all()
        except (Unreachable, Timeout):
            pass  # the result is here already

    async def _take(self) -> Any:
        """The next item, or None at the end."""
        while not self._ended:
            if self._waiting:
                name, id, data = self._waiting.pop(0)
                if name == "error":
                    await self.aclose()
                    raise errors.of_answer(0, data, {}, False)
                item = self._item(name, id, data)
                if item is not None:
                    return item
                continue
            try:
                await self._more()
                self._lost = 0.0
            except (Unreachable, Timeout):
                late = self._deadline is not None and time.monotonic() >= self._deadline
                if self._lost == 0:
                    self._lost = time.monotonic()
                if not self._resume or late or self._lost is None or time.monotonic() - self._lost > _PATIENCE:
                    self._ended = True
                    raise
                self._exchange = None
                await asyncio.sleep(0.2)
        return None

    async def _more(self) -> None:
        """Reads events, after the request if there is none yet."""
        exchange = self._exchange
        if exchange is None:
            path = (await self._box.open(), *self._path) if self._box else self._path
            self._events = Events()
            self._exchange = exchange = await self._client.call(
                self._operation, *path, query=self._query, body=self._body, headers={"Accept": "text/event-stream"})
        if self._deadline is not None:
            exchange.silence = min(max(self._deadline - time.monotonic(), 0.001), self._client.timeout)
        data = await exchange.read()
        if not data:
            raise Unreachable("the event stream ended early", sent=True)
        self._waiting = self._events.feed(data)

    def _item(self, name: str, id: str, data: Any) -> Any:
        if id:
            self._query["after"] = id
        if name == "ready" and self._operation == "file_watch":
            return None
        return names(Answer({"type": name, **data}), "path", "to")

    async def ready(self) -> None:
        """Waits until a change from now on is seen."""
        while not self._waiting and not self._ended:
            await self._more()

    async def aclose(self) -> None:
        self._ended = True
        if self._exchange:
            self._exchange.drop()

    async def __aenter__(self) -> Watch:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()


class Stream(Watch):
    """The output of a command: Output items, then one Exit. Leaving the loop early ends the command, except one that
    runs in the background."""

    pid: int | None = None

    def _item(self, name: str, id: str, data: Any) -> Output | Exit | None:
        if name == "started":
            self.pid = data["pid"]
        item = item_of(name, data)
        if isinstance(item, Output) and self._resume:
            offset = "offset" if item.stream == "stdout" else "stderr_offset"
            self._query[offset] = self._query.get(offset, 0) + len(item.data)
        return item

    async def collect(self, on_stdout: Callable[[str], Any] | None = None,
                      on_stderr: Callable[[str], Any] | None = None, timeout: float | None = None) -> Result:
        """Reads to the end, for so many seconds at most; the result has the last part of the output."""
        self._deadline = None if timeout is None else time.monotonic() + timeout
        kept = Collected()
        async for item in self:
            if isinstance(item, Exit):
                return kept.result(item.result)
            kept.add(item)
            call = on_stdout if item.stream == "stdout" else on_stderr
            if call:
                call(item.text)
        raise Unreachable("the output ended without a result", sent=True)


class Process:
    """A command in the background. It goes on when nobody looks at it."""

    def __init__(self, box: Box, pid: int) -> None:
        self._box, self.pid = box, pid

    async def info(self) -> types.Process:
        return await self._box._json("process_get", self.pid)

    async def poll(self) -> int | None:
        """Its exit status; negative (as in subprocess) when a signal ended it, None while it runs."""
        info = await self.info()
        if info.state == "running":
            return None
        if info.exit_code is not None:
            return info.exit_code
        import signal
        return -getattr(signal, info.signal or "", 1)

    def follow(self, offset: int = 0, stderr_offset: int = 0) -> Stream:
        """Its output from an offset on, and what is still to come. A restart of the daemon does not disturb it."""
        return Stream(self._box.client, "process_output", (self.pid,), {
            "offset": offset, "stderr_offset": stderr_offset}, resume=True, box=self._box)

    async def wait(self, timeout: float | None = None) -> Result:
        """Waits for its end; Timeout when that takes longer, and the process goes on. The result has the last part
        of its output."""
        stream = self.follow()
        try:
            return await stream.collect(timeout=timeout)
        finally:
            await stream.aclose()

    async def output(self, offset: int = 0, *, stream: str = "stdout", wait: float | None = None,
                     limit: int | None = None) -> Answer:
        """What it printed from an offset on: {data, next_offset, first_offset, state}."""
        exchange = await self._box._call("process_output", self.pid, silence=(wait or 0) + SLACK, query={
            "stream": stream, "offset": offset, "wait_ms": milliseconds(wait), "limit": limit})
        data, headers = await exchange.all(), exchange.headers
        return Answer(data=bytes(data), next_offset=int(headers.get("x-next-offset", 0)),
                      first_offset=int(headers.get("x-first-offset", 0)), state=headers.get("x-process-state", ""))

    async def write(self, data: str | bytes, eof: bool | None = None) -> None:
        """Feeds its standard input."""
        raw = data.encode() if isinstance(data, str) else data
        await self._box._none("process_stdin", self.pid, query={"eof": eof}, raw=raw,
                              headers={"Content-Type": "application/octet-stream"})

    async def close_stdin(self) -> None:
        await self.write(b"", eof=True)

    async def signal(self, signal: str | int) -> None:
        """Signals its process group: "TERM", "SIGTERM" or a number."""
        await self._box._none("process_signal", self.pid, body={"signal": signal})

    async def kill(self) -> None:
        await self.signal("KILL")


class Session:
    """A shell that lives from command to command: its directory and variables stay."""

    def __init__(self, box: Box, name: str | None, fields: dict[str, Any]) -> None:
        self._box, self.name, self._fields = box, name, fields
        self._opened = False

    async def open(self) -> Session:
        """Makes it, or finds the one of its name; the first command does so by itself."""
        if not self._opened:
            info = await self._box._json("session_open", body={"name": self.name, **self._fields})
            self.name, self._opened = info.name, True
        return self

    async def run(self, command: str, *, cwd: str | None = None, timeout: float | None = None,
                  wait: float | None = None, quiet: float | None = None, background: bool | None = None,
                  output_limit: int | None = None, check: bool = False) -> Result:
        """Runs a command when its turn comes. With `wait` or `quiet` it may go on after this answer: see `state`."""
        await self.open()
        longest = max(timeout or EXEC_SECONDS, wait or 0) + SLACK
        result = Result(await self._box._json("session_exec", self.name, silence=longest, body={
            "command": command, "cwd": cwd, "timeout_ms": milliseconds(timeout), "wait_ms": milliseconds(wait),
            "quiet_ms": milliseconds(quiet), "background": background, "output_limit_bytes": output_limit}))
        if check and not result.ok:
            raise CommandFailed(result)
        return result

    async def stream(self, command: str, *, cwd: str | None = None, timeout: float | None = None) -> Stream:
        """The same, as a loop over its output; leaving the loop early ends the command."""
        await self.open()
        return Stream(self._box.client, "session_exec", (self.name,), {}, box=self._box, body={
            "command": command, "cwd": cwd, "timeout_ms": milliseconds(timeout)})

    async def info(self, wait: float | None = None) -> types.Session:
        """Looks at it; with `wait` as soon as it runs nothing, at most so many seconds later."""
        await self.open()
        return await self._box._json("session_get", self.name, silence=(wait or 0) + SLACK,
                                     query={"wait_ms": milliseconds(wait)})

    async def write(self, data: str | bytes) -> None:
        """Types to the command that runs."""
        raw = data.encode() if isinstance(data, str) else data
        await self._box._none("session_stdin", self.name, raw=raw, headers={"Content-Type": "application/octet-stream"})

    async def stop(self) -> types.SessionResult:
        """Ends the command that runs; the session stays."""
        return await self._box._json("session_stop", self.name)

    async def close(self) -> None:
        """Ends the session with all it started."""
        await self._box._none("session_end", self.name)
        self._opened = False


class Pty:
    """A terminal in a box. `with` ends it; detach() leaves it running, and box.pty(pid=..., offset=...) finds it."""

    def __init__(self, box: Box, query: dict[str, Any]) -> None:
        self._box, self._query = box, query
        self.pid: int | None = query.get("pid")
        self.offset: int = query.get("offset") or 0  # bytes of output that were read
        self.exit: Result | None = None  # how it ended
        self._socket: Any = None
        self._frames, self._waiting = Frames(), []

    async def open(self) -> Pty:
        if self._socket is None:
            client, key = self._box.client, to_base64(os.urandom(16))
            method, target = client._target("pty", (await self._box.open(),), self._query)
            exchange = await client.send(method, target, headers={
                "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": key})
            if exchange.status != 101 or exchange.headers.get("sec-websocket-accept") != websocket_accept(key):
                exchange.drop()
                raise Protocol("the daemon, or a proxy before it, does not speak WebSocket")
            self._socket, rest = exchange.socket()
            self._waiting = self._frames.feed(rest)
            while self.pid is None and self.exit is None:
                await self._more(time.monotonic() + client.timeout)
        return self

    async def _more(self, deadline: float | None) -> None:
        """Reads messages, and handles those that are not output."""
        while not self._waiting:
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            data = await self._socket.recv_within(left)
            if data is None:
                raise Timeout("the terminal printed nothing in that time")
            if not data:
                raise Unreachable("the connection to the terminal ended", sent=True)
            self._waiting = self._frames.feed(data)
        if self._waiting[0][0] == BINARY:
            return
        kind, data = self._waiting.pop(0)
        if kind == PING:
            await self._socket.send(frame(PONG, data), self._box.client.timeout)
        elif kind == CLOSE and self.exit is None:
            raise Unreachable("the daemon closed the terminal", sent=True)
        elif kind == TEXT:
            message = parse(data)
            if "started" in message:
                self.pid = message.started.pid
            elif "exit" in message:
                self.exit = Result(message.exit, {"stdout": b"", "stderr": b""})
            elif "error" in message:
                raise errors.of_answer(0, message.error, {}, False)

    async def read(self, timeout: float | None = None) -> bytes:
        """Some output. No bytes: the terminal has ended, and `exit` says how. Timeout: nothing came; reading may go on."""
        await self.open()
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.exit is None:
            if self._waiting and self._waiting[0][0] == BINARY:
                data = self._waiting.pop(0)[1]
                self.offset += len(data)
                return data
            await self._more(deadline)
        return b""

    def __aiter__(self) -> Pty:
        return self

    async def __anext__(self) -> bytes:
        data = await self.read()
        if not data:
            raise StopAsyncIteration
        return data

    async def write(self, data: str | bytes) -> None:
        """Types."""
        await self.open()
        raw = data.encode() if isinstance(data, str) else data
        for at in range(0, len(raw), 32768):
            await self._socket.send(frame(BINARY, raw[at:at + 32768]), self._box.client.timeout)

    async def resize(self, cols: int, rows: int) -> None:
        await self.open()
        await self._socket.send(frame(TEXT, dump({"resize": {"cols": cols, "rows": rows}})), self._box.client.timeout)

    async def detach(self) -> None:
        """Ends the connection; the terminal goes on."""
        if self._socket:
            self._socket.close()

    async def kill(self) -> None:
        """Ends the terminal with what runs in it."""
        await self.detach()
        if self.pid is not None and self.exit is None:
            try:
                await Process(self._box, self.pid).kill()
            except NotFound:
                pass

    async def __aenter__(self) -> Pty:
        return await self.open()

    async def __aexit__(self, *_: Any) -> None:
        await (self.detach() if self._query.get("pid") else self.kill())


# ---- files ----

class Reader:
    """A file of a box that is read piece by piece."""

    def __init__(self, files: Files, path: Any) -> None:
        self._files, self._path = files, path
        self._exchange: Any = None
        self._rest = bytearray()

    async def open(self) -> Reader:
        if self._exchange is None:
            self._exchange = await self._files._call("file_get", query={"path": self._path})
        return self

    async def read(self, size: int = -1) -> bytes:
        """At most `size` bytes, all without it; none at the end."""
        await self.open()
        while size < 0 or len(self._rest) < size:
            data = await self._exchange.read()
            if not data:
                break
            self._rest += data
        out = bytes(self._rest[:size] if size >= 0 else self._rest)
        del self._rest[:len(out)]
        return out

    def __aiter__(self) -> Reader:
        return self

    async def __anext__(self) -> bytes:
        await self.open()
        data = await self._exchange.read()
        if not data:
            raise StopAsyncIteration
        return data

    async def aclose(self) -> None:
        if self._exchange:
            self._exchange.drop()

    async def __aenter__(self) -> Reader:
        return await self.open()

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()


class Files:
    """The files of a box. Paths are absolute, or relative to the workspace."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._call, self._json, self._none = box._call, box._json, box._none

    async def read_bytes(self, path: Any) -> bytes:
        return bytes(await (await self._call("file_get", query={"path": path})).all())

    async def read(self, path: Any, format: str = "text") -> Any:
        """A file as text (bytes that are not UTF-8 become U+FFFD); format="bytes" or "stream" as E2B has it."""
        if format == "stream":
            return self.open(path)
        data = await self.read_bytes(path)
        return data if format == "bytes" else data.decode("utf-8", "replace")

    def open(self, path: Any, mode: str = "rb") -> Reader:
        """A file to read piece by piece; to write one that way, give write() an iterator or an open file."""
        if mode != "rb":
            raise Invalid("open() reads bytes only, mode 'rb'; to write, give write() an iterator or an open file")
        return Reader(self, path)

    async def write(self, path: Any, data: Any, *, mode: int | str | None = None, parents: bool | None = True,
                    append: bool | None = None, if_match: str | None = None) -> str | None:
        """Writes a file whole or not at all: str, bytes, an open file or an iterator of bytes. Answers with its ETag."""
        raw = data.encode() if isinstance(data, str) else bytes(data) if isinstance(data, (bytearray, memoryview)) else data
        headers = {"Content-Type": "application/octet-stream", **({"If-Match": if_match} if if_match else {})}
        exchange = await self._call("file_put", raw=raw, headers=headers, size=_size_of(raw), query={
            "path": path, "mode": f"{mode:o}" if isinstance(mode, int) else mode, "parents": parents, "append": append})
        await exchange.all()
        return exchange.headers.get("etag")

    async def write_many(self, files: dict[str, str | bytes], path: Any = None) -> types.UnpackResult:
        """Writes several files in one request, all or none."""
        if path is not None:
            await self.mkdir(path, parents=True)
        return await self.unpack(tar((name, data.encode() if isinstance(data, str) else data)
                                     for name, data in files.items()), path)

    async def unpack(self, archive: Any, path: Any = None) -> types.UnpackResult:
        """Unpacks a tar archive (bytes, an open file, an iterator) below a directory, whole or not at all."""
        answer = await self._json("archive_put", raw=archive, size=_size_of(archive), query={"path": path},
                                  headers={"Content-Type": "application/x-tar"})
        for skipped in answer.skipped:
            names(skipped, "name")
        return answer

    async def upload(self, local: Any, path: Any) -> None:
        """A local file to a path, or what is in a local directory into a directory."""
        local = os.fspath(local)
        if os.path.isdir(local):
            await self.mkdir(path, parents=True)
            await self.unpack(tar(walk(local)), path)
            return
        with open(local, "rb") as file:
            await self.write(path, file, mode=os.fstat(file.fileno()).st_mode & 0o777)

    async def download(self, path: Any, local: Any) -> list[str]:
        """A file to a local path, or what is in a directory into a local directory. Answers with the names that were
        left out: links that lead out of the directory, devices and pipes."""
        import tempfile
        local = os.fspath(local)
        if (await self.stat(path)).type == "dir":
            exchange = await self._call("archive_get", query={"path": path})
            with tempfile.TemporaryFile() as file:
                await _copy(exchange, file)
                file.seek(0)
                os.makedirs(local, exist_ok=True)
                return extract(file, local)
        exchange = await self._call("file_get", query={"path": path})
        part = f"{local}.{os.getpid()}.part"
        try:
            with open(part, "wb") as file:
                await _copy(exchange, file)
            os.replace(part, local)
        except BaseException:
            exchange.drop()
            if os.path.exists(part):
                os.unlink(part)
            raise
        return []

    async def stat(self, path: Any) -> types.File:
        return names(await self._json("file_stat", query={"path": path}), "name", "path", "link_target")

    async def exists(self, path: Any) -> bool:
        try:
            await self.stat(path)
        except FileNotFound:
            return False
        return True

    async def list(self, path: Any = None, depth: int | None = None, limit: int | None = None, *,
                   sort: str | None = None, after: Any = None) -> list[types.File]:
        """Entries, in no order; sort="name": pages of at most 1000 in order, each after the last path of the one before."""
        answer = await self._json("file_list", query={"path": path, "depth": depth, "limit": limit, "sort": sort,
                                                      "after": after})
        return [names(entry, "name", "path", "link_target") for entry in answer.entries]

    async def remove(self, path: Any, recursive: bool | None = None) -> None:
        await self._none("file_delete", query={"path": path, "recursive": recursive})

    async def mkdir(self, path: Any, *, mode: int | str | None = None, parents: bool | None = None) -> None:
        octal = f"{mode:o}" if isinstance(mode, int) else mode
        await self._none("file_mkdir", body=named({"path": path, "mode": octal, "parents": parents}, "path"))

    async def move(self, source: Any, target: Any, overwrite: bool | None = None) -> None:
        await self._none("file_move", body=named({"from": source, "to": target, "overwrite": overwrite}, "from", "to"))

    async def glob(self, pattern: str, path: Any = None, *, include_dirs: bool | None = None,
                   limit: int | None = None, timeout: float | None = None) -> list[str]:
        """Paths that match: * ? [] {} and **, which crosses directories."""
        answer = await self._json("file_glob", body=named({
            "pattern": pattern, "path": path, "include_dirs": include_dirs, "limit": limit,
            "timeout_ms": milliseconds(timeout)}, "pattern", "path"))
        return names(answer, "paths").paths

    async def grep(self, pattern: str, path: Any = None, *, glob: str | None = None, literal: bool | None = None,
                   ignore_case: bool | None = None, context: int | None = None, limit: int | None = None,
                   timeout: float | None = None) -> types.GrepResult:
        """Lines that match a Perl-compatible expression."""
        answer = await self._json("file_grep", body=named({
            "pattern": pattern, "path": path, "glob": glob, "literal": literal, "ignore_case": ignore_case,
            "context": context, "limit": limit, "timeout_ms": milliseconds(timeout)}, "pattern", "path", "glob"))
        for match in answer.matches:
            names(match, "path", "text", "before", "after")
        return answer

    async def hash(self, path: Any) -> str:
        """SHA-256 of a file, in hexadecimal."""
        return (await self._json("file_hash", query={"path": path})).sha256

    async def edit(self, path: Any, old: str, new: str, all: bool | None = None) -> types.EditResult:
        """Replaces a text in a file: the only place, or all."""
        body = named({"path": path, "old": old, "new": new, "all": all}, "path", "old", "new")
        return await self._json("file_edit", body=body)

    def watch(self, path: Any = None, recursive: bool | None = None) -> Watch:
        """Changes, for ever: {type: created|modified|removed|moved, path, to}."""
        return Watch(self._box.client, "file_watch", (), {"path": path, "recursive": recursive}, box=self._box)

    async def archive(self, path: Any = None) -> bytes:
        """A directory as a tar archive."""
        return bytes(await (await self._call("archive_get", query={"path": path})).all())

    # as E2B spells them
    get_info, make_dir, rename, watch_dir, write_files = stat, mkdir, move, watch, write_many


def _size_of(raw: Any) -> int | None:
    """How long a body is, where that is known before it is sent."""
    if isinstance(raw, bytes):
        return len(raw)
    try:
        return os.fstat(raw.fileno()).st_size - raw.tell()
    except (AttributeError, OSError):
        return None


async def _copy(exchange: _Exchange, file: Any) -> None:
    while data := await exchange.read():
        file.write(data)


# ---- parts of a box ----

class _Part:
    def __init__(self, box: Box) -> None:
        self._box = box


class Commands(_Part):
    """E2B's spelling of what a box does itself."""

    async def run(self, command: str, background: bool = False, **more: Any) -> Any:
        for theirs, ours in (("envs", "env"),):
            if theirs in more:
                more[ours] = more.pop(theirs)
        return await (self._box.spawn(command, **more) if background else self._box.run(command, **more))

    async def list(self) -> list[types.Process]:
        return await self._box.processes()

    def connect(self, pid: int) -> Process:
        return Process(self._box, pid)

    async def kill(self, pid: int) -> None:
        await Process(self._box, pid).kill()

    async def send_stdin(self, pid: int, data: str | bytes) -> None:
        await Process(self._box, pid).write(data)


class Snapshots(_Part):
    """Kept states of the files of a box."""

    async def create(self, name: str | None = None) -> types.Snapshot:
        return await self._box._json("snapshot_create", body={"name": name})

    async def list(self) -> list[types.Snapshot]:
        return (await self._box._json("snapshot_list")).snapshots

    async def delete(self, name: str) -> None:
        await self._box._none("snapshot_remove", name)


class Network(_Part):
    """What a box may reach."""

    async def get(self) -> types.Network:
        return await self._box._json("network_get")

    async def set(self, network: Any, existing: str | None = None) -> types.Network:
        """Replaces the policy: "none", "open", or an object such as {"allow": ["pypi.org"]}, which may also have mode,
        deny, limits, log and ask_timeout_ms."""
        return await self._box._json("network_set", query={"existing": existing},
                                     body=network if isinstance(network, dict) else {"network": network})

    async def change(self, *, allow: Any = None, deny: Any = None, existing: str | None = None) -> types.Network:
        """Adds entries to the policy or removes some: a list, or {"add": [...], "remove": [...]}."""
        return await self._box._json("network_patch", query={"existing": existing}, body={"allow": allow, "deny": deny})

    async def allow(self, *hosts: str) -> types.Network:
        return await self.change(allow={"add": [*hosts]})

    async def remove(self, existing: str | None = None) -> types.Network:
        """Takes the network away."""
        return await self._box._json("network_remove", query={"existing": existing})

    async def test(self, to: str) -> types.NetworkTest:
        """What would happen to a connection, and why."""
        return await self._box._json("network_test", query={"to": to})

    async def learned(self) -> Any:
        """The smallest policy that allows what the box has reached or tried."""
        return (await self._box._json("network_learned")).network

    async def answer(self, question: int, verdict: str, *, remember: bool | None = None,
                     valid_for: float | None = None) -> None:
        """Answers a question of a box whose policy has mode ask."""
        await self._box._none("network_answer", body={"question": question, "verdict": verdict, "remember": remember,
                                                      "for_ms": milliseconds(valid_for)})


class BoxSecrets(_Part):
    """Secrets that a box may use."""

    async def bind(self, name: str, env: str | None = None) -> types.Binding:
        return await self._box._json("secret_bind", name, body={"env": env})

    async def unbind(self, name: str) -> None:
        await self._box._none("secret_unbind", name)

    async def list(self) -> list[types.Binding]:
        return (await self._box._json("secret_bindings")).secrets


class Tools(_Part):
    """Agent tools of a box, and those of its user's MCP servers."""

    async def list(self) -> list[Any]:
        return (await self._box._json("box_tools")).tools

    async def call(self, name: str, arguments: dict[str, Any], *, thread: str | None = None) -> types.ToolResult:
        return await self._box._json("tool", name, raw=dump(arguments), silence=EXEC_SECONDS + SLACK, headers={
            "Content-Type": "application/json", **({"Cubby-Thread": thread} if thread else {})})

    async def stale(self) -> types.StaleResults:
        """Kept results that show files which have changed since."""
        return await self._box._json("offload_refresh")


class Skills(_Part):
    """Skills that a box has to offer."""

    async def list(self) -> list[types.Skill]:
        return (await self._box._json("skill_list")).skills

    async def prompt(self) -> str:
        """The same as a block for a system prompt."""
        return (await (await self._box._call("skill_list", query={"format": "prompt"})).all()).decode()

    async def upload(self, archive: Any, base: bool | None = None) -> types.Uploaded:
        """Skills out of a ZIP: bytes, an open file or an iterator."""
        return await self._box._json("skill_upload", raw=archive, size=_size_of(archive), query={"base": base},
                                     headers={"Content-Type": "application/zip"})

    async def install(self, entry: str, replace: bool | None = None) -> types.InstalledEntry:
        return await self._box._json("skill_install", body={"entry": entry, "replace": replace})

    async def remove(self, name: str, base: bool | None = None) -> None:
        await self._box._none("skill_remove", name, query={"base": base})

    async def sync(self, name: str, direction: str) -> None:
        await self._box._none("skill_sync", name, body={"direction": direction})

    async def place(self) -> types.SyncReport:
        """Places global skills and sub-agents in the box again."""
        return await self._box._json("sync")

    async def placed(self) -> types.SyncReport:
        """What became of them."""
        return await self._box._json("synced")


class Agents(_Part):
    """Sub-agents that a box has to offer."""

    async def list(self) -> list[types.Agent]:
        return (await self._box._json("agent_list")).agents

    async def prompt(self) -> str:
        return (await (await self._box._call("agent_list", query={"format": "prompt"})).all()).decode()

    async def install(self, entry: str, replace: bool | None = None) -> types.InstalledEntry:
        return await self._box._json("agent_install", body={"entry": entry, "replace": replace})

    async def remove(self, name: str) -> None:
        await self._box._none("agent_remove", name)


class Port:
    """A server in a box."""

    def __init__(self, box: Box, port: int) -> None:
        self._box, self.port = box, port

    @property
    def url(self) -> str:
        """Where the daemon leads to it by HTTP; requests need the same token as all others."""
        place = self._box.client.place
        if place.unix:
            raise Unsupported("a daemon on a unix socket has no URL for a port; use forward()")
        return f"{place.url}/v1/boxes/{self._box.id}/ports/{self.port}/"

    async def ticket(self) -> types.Ticket:
        """A URL that opens it in a browser, for a minute."""
        return await self._box._json("ticket", body={"port": self.port})

    async def request(self, method: str, path: str = "/", *, body: bytes | None = None,
                      headers: dict[str, str] | None = None) -> Answer:
        """A request to it: {status, headers, body}. Its errors are answers, not exceptions."""
        target = f"/v1/boxes/{await self._box.open()}/ports/{self.port}/{path.lstrip('/')}"
        exchange = await self._box.client.send(method, target, body=body, headers=headers, failing=False)
        return Answer(body=bytes(await exchange.all()), status=exchange.status, headers=exchange.headers)

    def forward(self, local_port: int = 0) -> Any:
        """A local port that leads to it, by any protocol: `with box.port(5432).forward() as address:`."""
        from ._forward import Forward
        headers = {**self._box.client._headers(None), "Connection": "Upgrade", "Upgrade": "tcp"}
        return Forward(self._box.client.place, self._box.id, self.port, headers, local_port)


class Box:
    """A box: a shell and files of its own.

    Box(thread="demo") is the box of this user and thread, made if there is none; without a thread it is a new one.
    More fields: user, agent, machine, backend, template, shell, env, mounts, limits (or memory_mb, cpus, pids, disk_mb,
    open_files, output_bytes), container, network, secrets, idle_timeout (seconds), temporary, labels.
    `with` ends what it began: a box with a thread is released, one without is deleted, one that was found by its id
    is left alone.
    """

    def __init__(self, *, client: Client | None = None, id: str | None = None, **fields: Any) -> None:
        self._own = client is None
        self.client = client or Client()
        self._id, self._found, self._fields = id, id is not None, fields
        self.details: Any = None  # as of the last look
        self.files, self.snapshots, self.network, self.secrets = Files(self), Snapshots(self), Network(self), BoxSecrets(self)
        self.tools, self.skills, self.agents, self.commands = Tools(self), Skills(self), Agents(self), Commands(self)
        # sync: self.open()

    @classmethod
    async def create(cls, template: str | None = None, **fields: Any) -> Box:
        """A box, made or found at once."""
        box = cls(template=template, **fields)
        await box.open()
        return box

    @classmethod
    def connect(cls, id: str, client: Client | None = None) -> Box:
        """The box of this id, which exists."""
        return cls(client=client, id=id)

    async def open(self) -> str:
        """Its id; the first use of a box makes or finds it."""
        if self._id is None:
            self.details = await self.client.json("box_acquire", body=box_request(self._fields))
            self._id = self.details.id
        return self._id

    @property
    def id(self) -> str:
        if self._id is None:
            raise Invalid("the box is not open yet: `await box.open()`, or `async with`")
        return self._id

    sandbox_id = id

    async def _call(self, operation: str, *path: Any, **more: Any) -> _Exchange:
        return await self.client.call(operation, self._id or await self.open(), *path, **more)

    async def _json(self, operation: str, *path: Any, **more: Any) -> Any:
        return await self.client.json(operation, self._id or await self.open(), *path, **more)

    async def _none(self, operation: str, *path: Any, **more: Any) -> None:
        await self.client.none(operation, self._id or await self.open(), *path, **more)

    def __repr__(self) -> str:
        return f"Box({self._id!r})"

    # ---- commands ----

    def stream(self, command: str | Sequence[str], *, cwd: str | None = None, env: dict[str, str] | None = None,
               input: str | bytes | None = None, user: str | None = None, timeout: float | None = None,
               stdin_open: bool | None = None) -> Stream:
        """Runs a command; a loop sees its Output, then one Exit. Leaving the loop early ends the command.

        stdin_open: standard input stays open, for Process(box, stream.pid).write()."""
        return Stream(self.client, "exec", (), {}, box=self, body={
            **command_of(command), **input_of(input), "cwd": cwd, "env": env, "user": user,
            "timeout_ms": milliseconds(timeout), "stdin_open": stdin_open})

    async def run(self, command: str | Sequence[str], *, cwd: str | None = None, env: dict[str, str] | None = None,
                  input: str | bytes | None = None, user: str | None = None, timeout: float | None = None,
                  output_limit: int | None = None, check: bool = False,
                  on_stdout: Callable[[str], Any] | None = None, on_stderr: Callable[[str], Any] | None = None) -> Result:
        """Runs a command and waits for it. A str is a line for the shell, a list a program and its arguments.

        timeout: seconds, then it is killed (timed_out). check: CommandFailed unless it succeeds. on_stdout, on_stderr:
        called with text as it comes. output_limit: bytes kept of each stream; more loses its middle."""
        if on_stdout or on_stderr:
            stream = self.stream(command, cwd=cwd, env=env, input=input, user=user, timeout=timeout)
            result = await stream.collect(on_stdout, on_stderr)
        else:
            result = Result(await self._json("exec", silence=(timeout or EXEC_SECONDS) + SLACK, body={
                **command_of(command), **input_of(input), "cwd": cwd, "env": env, "user": user,
                "timeout_ms": milliseconds(timeout), "output_limit_bytes": output_limit}))
        if check and not result.ok:
            raise CommandFailed(result)
        return result

    async def spawn(self, command: str | Sequence[str], *, cwd: str | None = None, env: dict[str, str] | None = None,
                    input: str | bytes | None = None, user: str | None = None, timeout: float | None = None,
                    output_limit: int | None = None, tag: str | None = None) -> Process:
        """Starts a command in the background."""
        started = await self._json("process_start", body={
            **command_of(command), **input_of(input), "cwd": cwd, "env": env, "user": user,
            "timeout_ms": milliseconds(timeout), "output_limit_bytes": output_limit, "tag": tag})
        return Process(self, started.pid)

    async def processes(self) -> list[types.Process]:
        """Commands in the background, also those that have ended."""
        return (await self._json("process_list")).processes

    def process(self, pid: int) -> Process:
        return Process(self, pid)

    def session(self, name: str | None = None, *, cwd: str | None = None, env: dict[str, str] | None = None,
                user: str | None = None, shell: str | None = None, cols: int | None = None, rows: int | None = None,
                quiet: float | None = None) -> Session:
        """A shell that lives from command to command: the one of this name, or a new one."""
        return Session(self, name, {"cwd": cwd, "env": env, "user": user, "shell": shell, "cols": cols, "rows": rows,
                                    "quiet_ms": milliseconds(quiet)})

    async def sessions(self) -> list[types.Session]:
        return (await self._json("session_list")).sessions

    def pty(self, cols: int = 80, rows: int = 24, *, command: str | None = None, cwd: str | None = None,
            user: str | None = None, term: str | None = None, env: dict[str, str] | None = None,
            pid: int | None = None, offset: int | None = None) -> Pty:
        """A terminal; with pid one that runs already, from an offset of its output on."""
        return Pty(self, {"cols": cols, "rows": rows, "command": command, "cwd": cwd, "user": user, "term": term,
                          "env": dump(env).decode() if env else None, "pid": pid, "offset": offset})

    # ---- files as a whole ----

    async def diff(self, limit: int | None = None) -> list[types.Change]:
        """What differs from the template."""
        return [names(change, "path") for change in (await self._json("diff", query={"limit": limit})).changes]

    async def rollback(self, snapshot: str) -> types.Rollback:
        """The files become those of a snapshot; what runs is ended first."""
        return await self._json("rollback", body={"snapshot": snapshot})

    async def fork(self, *, snapshot: str | None = None, user: str | None = None, thread: str | None = None) -> Box:
        """A new box with the same files and settings."""
        made = await self._json("fork", body={"snapshot": snapshot, "user": user, "thread": thread})
        return Box(client=self.client, id=made.id)

    async def relocate(self, worker: str | None = None, *, stop: bool = False) -> types.Relocation:
        """A box on a worker moves to another one; what runs in it is ended with stop."""
        return await self._json("box_relocate", body={"worker": worker, "stop": stop}, silence=600)

    async def export(self) -> types.Export:
        """A container box becomes one image of one layer."""
        return await self._json("box_export", silence=600)

    # ---- reaching it ----

    def port(self, port: int) -> Port:
        """A server in the box."""
        return Port(self, port)

    async def get_host(self, port: int) -> str:
        """The host name under which browsers reach a server in the box."""
        return (await Port(self, port).ticket()).origin.split("//")[-1]

    async def tool(self, name: str, **arguments: Any) -> types.ToolResult:
        """Runs an agent tool in the box."""
        return await self.tools.call(name, arguments)

    def mcp(self) -> dict[str, Any]:
        """Where an MCP client finds this box: {"url", "headers"}."""
        if self.client.place.unix:
            raise Unsupported("a daemon on a unix socket has no URL for MCP clients")
        thread = (self.details or {}).get("thread") or self._fields.get("thread")
        if not thread:
            raise Unsupported("MCP finds a box by its thread, and this one has none")
        headers = {"Cubby-Thread": thread}
        if self.client.token:
            headers["Authorization"] = f"Bearer {self.client.token}"
        return {"url": self.client.place.url + "/mcp", "headers": headers}

    # ---- its life ----

    async def info(self) -> types.Box:
        """Everything about it; looking does not wake it."""
        self.details = await self._json("box_get")
        return self.details

    async def usage(self, since: str | None = None, until: str | None = None) -> list[types.UsageAt]:
        """What it used over time."""
        return (await self._json("box_usage", query={"since": since, "until": until})).samples

    async def is_running(self) -> bool:
        try:
            return (await self.info()).running
        except NotFound:
            return False

    async def release(self) -> types.Box:
        """It stays, and may be ended when idle."""
        return await self._json("box_release")

    async def pause(self) -> types.Box:
        """Its processes stop, and keep their memory."""
        return await self._json("box_pause")

    async def resume(self) -> types.Box:
        return await self._json("box_resume")

    async def start(self) -> types.Box:
        """Starts a box whose processes ended, on its files."""
        return await self._json("box_start")

    async def delete(self) -> None:
        """Nothing of it remains."""
        await self._none("box_destroy")

    kill, get_info = delete, info  # as E2B spells them

    async def aclose(self) -> None:
        """Ends the connections that belong to it; the box stays."""
        if self._own:
            await self.client.aclose()

    async def __aenter__(self) -> Box:
        await self.open()
        return self

    async def __aexit__(self, *_: Any) -> None:
        try:
            if self._id and not self._found:
                keeps = any(self._fields.get(name) for name in ("thread", "agent", "machine"))
                await (self.release() if keeps else self.delete())
        except NotFound:
            pass  # somebody deleted it
        finally:
            await self.aclose()


Sandbox = Box
