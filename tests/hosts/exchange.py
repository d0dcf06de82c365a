"""One call under way: what a behaviour may do with it."""

from __future__ import annotations

from collections.abc import Mapping

from tests.hosts.connection import Connection, Request, render_head
from tests.hosts.dialect import Dialect, to_json
from tests.hosts.log import Outcome, Stage
from tests.hosts.script import Step

_JSON = "application/json"


class Exchange:
    """Every sending method raises ClientGone when the client has closed."""

    def __init__(
        self,
        *,
        connection: Connection,
        request: Request,
        stage: Stage,
        number: int,
        step: Step,
        dialect: Dialect,
        home: str,
    ) -> None:
        self.step = step
        self.dialect = dialect
        self.stage = stage
        self.home = home
        """The stage's own URL."""
        self.reusable = False
        """Whether the connection may carry another request."""
        self._connection = connection
        self._keep_alive = request.keep_alive
        self._number = number

    async def wait(self, seconds: float | None) -> None:
        await self._connection.wait(seconds)

    async def start(self) -> None:
        """Send the headers of a body whose length nobody knows yet."""
        kind = self.dialect.stream_type if self.dialect.streams else _JSON
        headers = {"Content-Type": kind, "Cache-Control": "no-cache", "Transfer-Encoding": "chunked"}
        await self._connection.write(render_head(200, {**headers, **self._connection_header()}))

    async def send(self, data: bytes) -> None:
        """Send one chunk of the body that `start` began."""
        if data:
            await self._connection.write(b"%x\r\n%b\r\n" % (len(data), data))

    async def finish(self, data: bytes = b"") -> None:
        """Send the last chunk and the end of the body in one write."""
        chunk = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
        await self._end(chunk + b"0\r\n\r\n")

    async def reply(self, status: int, body: str, kind: str = _JSON, headers: Mapping[str, str] | None = None) -> None:
        """Send a whole response."""
        data = body.encode()
        length = {"Content-Type": kind, "Content-Length": str(len(data))}
        await self._end(render_head(status, {**length, **self._connection_header(), **(headers or {})}) + data)

    async def reply_json(self, value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        await self.reply(status, to_json(value), headers=headers)

    def cut(self, *, reset: bool) -> None:
        """Close without an end; the caller of the behaviour closes the socket."""
        self.stage.end(self._number, Outcome.CUT)
        if reset:
            self._connection.reset()

    def opening(self) -> bytes:
        return self.dialect.opening() if self.dialect.streams else b'{"unfinished": "'

    def piece(self, text: str) -> bytes:
        """A chunk of text; of a call that does not stream, a bit of a body that nobody will finish."""
        return self.dialect.piece(text) if self.dialect.streams else text.encode()

    async def _end(self, data: bytes) -> None:
        await self._connection.write(data, before_last=lambda: self.stage.end(self._number, Outcome.SERVED))
        self.reusable = self._keep_alive

    def _connection_header(self) -> dict[str, str]:
        return {"Connection": "keep-alive" if self._keep_alive else "close"}
