"""The asynchronous half of the host: connections, and which stage and protocol a path means."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import quote, unquote

from tests.hosts.anthropic import Anthropic
from tests.hosts.behaviours import BEHAVIOURS
from tests.hosts.connection import ClientGone, Connection, Request, WatchedReader, render_head
from tests.hosts.dialect import Dialect, to_json
from tests.hosts.errors import HTML, PAGE
from tests.hosts.exchange import Exchange
from tests.hosts.gemini import Gemini
from tests.hosts.log import Call, Clock, Outcome, Stage
from tests.hosts.ollama import Ollama
from tests.hosts.openai import OpenAI

#: One more protocol: its file, its name here, and a method of Host. Gemini's list of models also ends as OpenAI's does.
DIALECTS: tuple[type[Dialect], ...] = (Gemini, Anthropic, OpenAI, Ollama)
MODELS = ("scripted:latest",)
LOOPBACK = "127.0.0.1"
_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"
_LONGEST_STAGE_PATH = 3


def home_of(script: str, name: str) -> str:
    """The path below which a stage lives."""
    return f"/s/{quote(name, safe='')}/{quote(script, safe=':,=')}"


def split_target(target: str) -> tuple[str, str, str]:
    """The stage's path, its script, and what stands below it with its query."""
    path, mark, query = target.partition("?")
    segments = path.removeprefix("/").split("/")
    named = segments[0] == "s" and len(segments) >= _LONGEST_STAGE_PATH
    name, script, rest = (segments[1], segments[2], segments[3:]) if named else ("", segments[0], segments[1:])
    script = unquote(script)
    home = home_of(script, unquote(name)) if named else f"/{quote(script, safe=':,=')}"
    return home, script, "/" + "/".join(rest) + mark + query


class Server:
    """Runs on one loop; stages may be made and asked from any thread."""

    def __init__(self, clock: Clock) -> None:
        self.faults: list[BaseException] = []
        """Mistakes of the host itself, to be raised where somebody sees them."""
        self.root = ""
        self._clock = clock
        self._lock = threading.Lock()
        self._stages: dict[str, Stage] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._accepted = 0

    async def start(self, port: int) -> asyncio.Server:
        """Listen. `asyncio.start_server` does the same with a reader that cannot be watched."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: asyncio.StreamReaderProtocol(WatchedReader(), self._connected), LOOPBACK, port, backlog=1024
        )
        self.root = f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
        return server

    async def stop(self, server: asyncio.Server) -> None:
        """Drop every connection; calls in flight are logged as stopped."""
        server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await server.wait_closed()
        # The transports close themselves in the loop's next cycle.
        await asyncio.sleep(0)

    def stage(self, home: str, script: str, models: tuple[str, ...] = MODELS, *, strict: bool = False) -> Stage:
        """The stage of this path, made when it is first named. Raises ValueError if the script has a mistake."""
        with self._lock:
            if home not in self._stages:
                self._stages[home] = Stage(script, models, self._clock, strict=strict)
            return self._stages[home]

    def stages(self) -> Mapping[str, Stage]:
        with self._lock:
            return dict(self._stages)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert isinstance(reader, WatchedReader)
        self._accepted += 1
        serving = self._serve(Connection(self._accepted, reader, writer))
        connection = asyncio.get_running_loop().create_task(serving)
        self._connections.add(connection)
        connection.add_done_callback(self._disconnected)

    def _disconnected(self, connection: asyncio.Task[None]) -> None:
        self._connections.discard(connection)
        if not connection.cancelled() and (error := connection.exception()) is not None:
            self.faults.append(error)

    async def _serve(self, connection: Connection) -> None:
        try:
            with contextlib.suppress(ClientGone):
                while (request := await connection.read_request()) and await self._respond(connection, request):
                    pass
            await connection.close()
        finally:
            connection.abort()

    async def _respond(self, connection: Connection, request: Request) -> bool:
        """Say whether the connection may carry another request."""
        if request.target == "/calls":
            return await _reply(connection, request, 200, to_json(self._report()), _JSON)
        home, script, path = split_target(request.target)
        try:
            stage = self.stage(home, script)
        except ValueError as error:
            return await _reply(connection, request, 404, f"{error}\n", _TEXT)
        dialect = next((dialect for dialect in DIALECTS if dialect.asks(request.method, path)), None)
        if dialect is not None:
            return await self._asked(connection, request, stage, dialect(path, _parsed(request.body)), home)
        stage.note(f"{request.method} {path}")
        if path == "/elsewhere":
            return await _reply(connection, request, 200, PAGE, HTML)
        body = _looked_up(request.method, path, stage)
        return await _reply(connection, request, 404 if body is None else 200, body or "404 page not found", _JSON)

    async def _asked(self, connection: Connection, request: Request, stage: Stage, dialect: Dialect, home: str) -> bool:
        early = await dialect.early(stage, connection.wait)
        if early is not None:
            return await _reply(connection, request, early[0], to_json(early[1]), _JSON)
        if not stage.strict:
            return await self._play(connection, request, stage, dialect, home)
        async with stage.turns.one(connection.wait):
            return await self._play(connection, request, stage, dialect, home)

    async def _play(self, connection: Connection, request: Request, stage: Stage, dialect: Dialect, home: str) -> bool:
        number, step = stage.begin(
            lambda number, step, now: Call(
                number=number,
                connection=connection.number,
                protocol=dialect.name,
                behaviour=step.name,
                path=dialect.path,
                headers=request.headers,
                body=_parsed(request.body),
                started=now,
            )
        )
        call = Exchange(
            connection=connection,
            request=request,
            stage=stage,
            number=number,
            step=step,
            dialect=dialect,
            home=self.root + home,
        )
        connection.when_gone(lambda: stage.end(number, Outcome.ABORTED))
        try:
            if step.has("delay"):
                await call.wait(step.number("delay", 0))
            await BEHAVIOURS[step.name](call)
        except ClientGone:
            stage.end(number, Outcome.ABORTED)
        finally:
            stage.end(number, Outcome.STOPPED)
            connection.when_gone(None)
        return call.reusable

    def _report(self) -> dict[str, Any]:
        return {
            home: {
                "in_flight": stage.in_flight(),
                "most_at_once": stage.most_at_once(),
                "others": stage.others(),
                "calls": [asdict(call) for call in stage.calls()],
            }
            for home, stage in self.stages().items()
        }


def _looked_up(method: str, path: str, stage: Stage) -> str | None:
    if method not in {"GET", "HEAD"}:
        return None
    found = (dialect.look(path, stage) for dialect in DIALECTS)
    return next((body for body in found if body is not None), None)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


async def _reply(connection: Connection, request: Request, status: int, body: str, kind: str) -> bool:
    data = body.encode()
    alive = "keep-alive" if request.keep_alive else "close"
    head = render_head(status, {"Content-Type": kind, "Content-Length": str(len(data)), "Connection": alive})
    await connection.write(head if request.method == "HEAD" else head + data)
    return request.keep_alive
