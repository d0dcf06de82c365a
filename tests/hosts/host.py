"""What a test holds: the host in a thread of its own, and its log."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
import time
from concurrent.futures import Future
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.hosts.anthropic import Anthropic
from tests.hosts.dialect import Dialect
from tests.hosts.gemini import Gemini
from tests.hosts.log import Call, Clock, Stage
from tests.hosts.ollama import Ollama
from tests.hosts.openai import OpenAI
from tests.hosts.server import LOOPBACK, MODELS, Server, home_of, split_target

_MOST_QUEUED = 128
_HANDSHAKE = 0.2
"""Seconds after which a connection on loopback is not made any more."""


class Host:
    """A provider on loopback that does as its URLs say.

    Leaving the context drops all connections, ends the thread, and raises what went wrong in the host itself.
    """

    def __init__(self, port: int = 0, clock: Clock = time.monotonic) -> None:
        self._port = port
        self._server = Server(clock)
        self._numbers = itertools.count(1)
        self._held: list[socket.socket] = []
        self._started: Future[asyncio.AbstractEventLoop] = Future()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="scripted host", daemon=True)

    def __enter__(self) -> Self:
        """Raises OSError if the port cannot be had."""
        self._thread.start()
        self._started.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._started.result().call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        for endpoint in self._held:
            endpoint.close()
        if self._server.faults and error is None:
            raise BaseExceptionGroup("the scripted host made a mistake", self._server.faults)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        try:
            server = await self._server.start(self._port)
        except OSError as error:
            self._started.set_exception(error)
            return
        self._started.set_result(asyncio.get_running_loop())
        await self._stopping.wait()
        await self._server.stop(server)

    @property
    def url(self) -> str:
        """Where the host listens; a behaviour put behind it makes a stage."""
        return self._server.root

    def openai(self, script: str = "ok", models: tuple[str, ...] = MODELS) -> str:
        """The base URL of a new stage, ending in /v1. Raises ValueError if the script has a mistake."""
        return self.stage(OpenAI, script, models)

    def anthropic(self, script: str = "ok", models: tuple[str, ...] = MODELS) -> str:
        """The base URL of a new stage; it may be asked with a /v1 and without. Raises as `openai` does."""
        return self.stage(Anthropic, script, models)

    def gemini(self, script: str = "ok", models: tuple[str, ...] = MODELS) -> str:
        """The base URL of a new stage, ending in /v1beta. Raises as `openai` does."""
        return self.stage(Gemini, script, models)

    def ollama(self, script: str = "ok", models: tuple[str, ...] = MODELS, *, strict: bool = False) -> str:
        """The base URL of a new stage; `models` are what /api/tags lists. Raises as `openai` does.

        A `strict` one refuses what Ollama refuses, counts a window, and answers one call at a time.
        """
        return self.stage(Ollama, script, models, strict=strict)

    def stage(
        self, dialect: type[Dialect], script: str, models: tuple[str, ...] = MODELS, *, strict: bool = False
    ) -> str:
        home = home_of(script, str(next(self._numbers)))
        self._server.stage(home, script, models, strict=strict)
        return f"{self.url}{home}{dialect.suffix}"

    def refused(self) -> str:
        """A base URL where nothing listens, and nothing will while this host lives."""
        return f"http://{_address(self._bound())}"

    def unaccepting(self) -> str:
        """A base URL where a connection is neither made nor refused: the queue for new ones is full.

        Raises RuntimeError if the system queues more than it was told to.
        """
        endpoint = self._bound()
        endpoint.listen(0)
        for _ in range(_MOST_QUEUED):
            filler = socket.socket()
            self._held.append(filler)
            filler.settimeout(_HANDSHAKE)
            try:
                filler.connect(endpoint.getsockname())
            except TimeoutError:
                return f"http://{_address(endpoint)}"
        raise RuntimeError(f"no end of the queue after {_MOST_QUEUED} connections")

    def tls_silent(self) -> str:
        """A base URL that takes connections and never says a word, thus ends no TLS handshake."""
        endpoint = self._bound()
        # The system itself takes them from here on.
        endpoint.listen(_MOST_QUEUED)
        return f"https://{_address(endpoint)}"

    def unknown(self) -> str:
        """A base URL whose host has no address, see RFC 2606."""
        return "http://scripted.invalid"

    def _bound(self) -> socket.socket:
        endpoint = socket.socket()
        self._held.append(endpoint)
        endpoint.bind((LOOPBACK, 0))
        return endpoint

    def calls(self, url: str) -> list[Call]:
        """The requests for an answer so far, in the order in which they came, those in flight included."""
        return self._at(url).calls()

    def others(self, url: str) -> list[str]:
        """All other requests, such as `GET /api/ps`."""
        return self._at(url).others()

    def in_flight(self, url: str) -> int:
        return self._at(url).in_flight()

    def most_at_once(self, url: str) -> int:
        """The greatest number of calls that were in flight at the same time."""
        return self._at(url).most_at_once()

    def _at(self, url: str) -> Stage:
        home, _, _ = split_target(urlsplit(url).path)
        if (stage := self._server.stages().get(home)) is None:
            raise LookupError(f"no stage of this host: {url}")
        return stage


def _address(endpoint: socket.socket) -> str:
    return f"{LOOPBACK}:{endpoint.getsockname()[1]}"
