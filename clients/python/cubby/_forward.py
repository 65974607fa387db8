"""A local port that leads to a server in a box, by any protocol. An event loop in a thread of its own serves it, for
both clients."""
from __future__ import annotations

import asyncio
import socket
import threading

from ._net import Place
from ._net_aio import Socket
from ._wire import PIECE, Parser, request_head
from .errors import CubbyError


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(PIECE):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


class Forward:
    """Listens on 127.0.0.1; `with` gives (host, port), and ends it with all connections."""

    def __init__(self, place: Place, box: str, port: int, headers: dict[str, str], local_port: int) -> None:
        self._place, self._head = place, request_head("GET", f"{place.prefix}/v1/boxes/{box}/ports/{port}", headers)
        listener = socket.create_server(("127.0.0.1", local_port))
        self.address: tuple[str, int] = listener.getsockname()[:2]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(listener,), daemon=True)
        self._thread.start()

    def _run(self, listener: socket.socket) -> None:
        self._loop.run_until_complete(asyncio.start_server(self._serve, sock=listener, limit=PIECE))
        self._loop.run_forever()  # until close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks))
        listener.close()
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        remote, parser = Socket(self._place), Parser()
        try:
            await remote.connect(10)
            await remote.send(self._head, 60)
            while not parser.status and (data := await remote.recv(60)):
                parser.feed(data)
            if parser.status == 101:
                writer.write(parser.rest)
                up = asyncio.ensure_future(_pump(reader, remote.writer))
                await _pump(remote.reader, writer)
                up.cancel()
        except (OSError, CubbyError):
            pass  # the local end sees that the connection ends
        finally:
            writer.close()
            remote.close()

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def __enter__(self) -> tuple[str, int]:
        return self.address

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> tuple[str, int]:
        return self.address

    async def __aexit__(self, *_: object) -> None:
        self.close()
