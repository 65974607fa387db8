"""A connection for asyncio, with a time limit for silence."""
from __future__ import annotations

import asyncio

from .errors import Timeout, Unreachable
from ._net import Place
from ._wire import PIECE


class Socket:
    """A connection of an event loop. A time limit ends the connection: no task is needed for it."""

    def __init__(self, place: Place) -> None:
        self._place, self._loop, self._late = place, asyncio.get_running_loop(), False

    async def connect(self, seconds: float) -> None:
        place = self._place
        try:
            if place.unix:
                opening = asyncio.open_unix_connection(place.unix, limit=PIECE)
            else:
                opening = asyncio.open_connection(place.host, place.port, limit=PIECE,
                                                  ssl=place.context() if place.tls else None)
            self.reader, self.writer = await asyncio.wait_for(opening, seconds)
        except Unreachable:
            raise
        except (OSError, asyncio.TimeoutError) as error:
            raise place.failure(TimeoutError() if isinstance(error, asyncio.TimeoutError) else error) from None

    def _expire(self) -> None:
        self._late = True
        self.writer.transport.abort()

    async def _within(self, seconds: float | None, step, what: str) -> bytes:
        timer = self._loop.call_later(seconds, self._expire) if seconds is not None else None
        try:
            out = await step
        except OSError as error:
            if self._late:
                raise Timeout(f"the daemon {what} for {seconds:g} s") from None
            raise Unreachable(f"the connection ended: {error}", sent=True) from None
        finally:
            if timer:
                timer.cancel()
        if self._late:
            raise Timeout(f"the daemon {what} for {seconds:g} s")
        return out

    async def send(self, data: bytes, seconds: float) -> None:
        self.writer.write(data)
        await self._within(seconds, self.writer.drain(), "took no data")

    async def recv(self, seconds: float | None) -> bytes:
        """Some bytes; none at the end of the connection."""
        return await self._within(seconds, self.reader.read(PIECE), "sent nothing")

    async def recv_within(self, seconds: float | None) -> bytes | None:
        """The same; None when nothing came in that time, and the connection stays good."""
        try:
            return await asyncio.wait_for(self.reader.read(PIECE), seconds)
        except asyncio.TimeoutError:
            return None
        except OSError as error:
            raise Unreachable(f"the connection ended: {error}", sent=True) from None

    def stale(self) -> bool:
        """Whether an idle connection cannot be used again: it has ended, or belongs to another event loop."""
        if self._loop is not asyncio.get_running_loop():
            return True
        return self.reader.at_eof() or self.writer.transport.is_closing()

    def close(self) -> None:
        if hasattr(self, "writer") and not self._loop.is_closed():
            self.writer.transport.abort()
