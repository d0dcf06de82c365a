"""One call under way: what a behaviour may do with it."""

from __future__ import annotations

from collections.abc import Mapping

from tests.hosts.connection import Connection, Request, render_head
from tests.hosts.dialect import Dialect, to_json
from tests.hosts.log import Outcome, Stage
from tests.hosts.script import Step

_JSON = "application/json"
_FIRST_ERROR = 400
_KEYS = ("authorization", "x-api-key", "x-goog-api-key")


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
        dialect.input_tokens = step.count("input", dialect.input_tokens)
        self.stage = stage
        self.home = home
        """The stage's own URL."""
        self.headers = step.headers()
        """Those of the response that are not the host's own; a behaviour may add some, and they override."""
        self.reusable = False
        """Whether the connection may carry another request."""
        self._connection = connection
        self._request = request
        self._number = number

    async def wait(self, seconds: float | None) -> None:
        await self._connection.wait(seconds)

    @property
    def question(self) -> str:
        """The last user message."""
        return next((text for role, text in reversed(self.dialect.messages()) if role == "user"), "")

    @property
    def url(self) -> str:
        """What the caller asked for, as it came."""
        return f"http://{self._request.headers.get('host', '')}{self._request.target}"

    @property
    def key(self) -> str:
        """What came in the headers that bring a key, as it came."""
        return " ".join(self._request.headers[name] for name in _KEYS if name in self._request.headers)

    @property
    def kind(self) -> str:
        """The content type of an answer."""
        return self.dialect.stream_type if self.dialect.streams else _JSON

    async def start(self, status: int = 200, *, length: int | None = None) -> None:
        """Send the headers of a body that is to come, in chunks unless its length is said."""
        kind = self.kind if status < _FIRST_ERROR else _JSON
        size = {"Transfer-Encoding": "chunked"} if length is None else {"Content-Length": str(length)}
        await self.raw(self._head(status, {"Content-Type": kind, "Cache-Control": "no-cache", **size}))

    async def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        await self._connection.write(data)

    async def send(self, data: bytes) -> None:
        """Send one chunk of the body that `start` began."""
        if data:
            await self._connection.write(b"%x\r\n%b\r\n" % (len(data), data))

    async def finish(self, data: bytes = b"") -> None:
        """Send the last chunk and the end of the body in one write."""
        data += self.dialect.close() if self.dialect.streams else b""
        chunk = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
        await self._end(chunk + b"0\r\n\r\n")

    async def reply(self, status: int, body: str | bytes, kind: str = _JSON) -> None:
        """Send a whole response."""
        data = body.encode(errors="replace") if isinstance(body, str) else body
        await self._end(self._head(status, {"Content-Type": kind, "Content-Length": str(len(data))}) + data)

    async def reply_json(self, value: object, status: int = 200) -> None:
        await self.reply(status, to_json(value))

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
        self.reusable = self._request.keep_alive

    def _head(self, status: int, headers: Mapping[str, str]) -> bytes:
        alive = {"Connection": "keep-alive" if self._request.keep_alive else "close"}
        return render_head(status, {**headers, **alive, **self.headers})
