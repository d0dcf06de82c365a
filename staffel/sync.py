"""The same client for Django and scripts: every call runs on one event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from staffel.answer import Answer
from staffel.client import Client
from staffel.dead_letters import SyncDeadLetters

T = TypeVar("T")


class SyncClient:
    """`Client` without `await`; safe to share between threads, all of which use its one connection."""

    def __init__(self, url: str | None = None) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="staffel-client")
        self._thread.start()
        try:
            self._client = self._run(_made(url))
        except BaseException:
            self._end_loop()
            raise
        self.dead = SyncDeadLetters(self._client.dead, self._run)
        """See `Client.dead`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ask(self, request: str | Mapping[str, Any], **fields: Any) -> Answer:  # noqa: ANN401 - a request's other fields
        """See `Client.ask`."""
        return self._run(self._client.ask(request, **fields))

    def submit(self, request: str | Mapping[str, Any], **fields: Any) -> str:  # noqa: ANN401 - a request's other fields
        """See `Client.submit`."""
        return self._run(self._client.submit(request, **fields))

    def wait(self, job: str) -> Answer:
        """See `Client.wait`."""
        return self._run(self._client.wait(job))

    def show(self, job: str) -> dict[str, Any]:
        """See `Client.show`."""
        return self._run(self._client.show(job))

    def cancel(self, job: str) -> str:
        """See `Client.cancel`."""
        return self._run(self._client.cancel(job))

    def close(self) -> None:
        """Close the connection and end the thread; jobs under way go on."""
        self._run(self._client.close())
        self._end_loop()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _made(url: str | None) -> Client:
    return Client(url)
