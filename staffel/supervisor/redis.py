"""The Redis that everything here uses: somebody's own, or the embedded Valkey, which is started again if it dies."""

from __future__ import annotations

import asyncio
from pathlib import Path

from staffel import embedded
from staffel.client import Client
from staffel.embedded.process import lives
from staffel.embedded.state_dir import StateDir
from staffel.errors import Unavailable
from staffel.supervisor.log import Log
from staffel.supervisor.patience import GaveUp, Patience
from staffel_wire.url import shown_url

VALKEY = "valkey"
_LOOK_S = 0.5


class Redis:
    """`url` is empty for the embedded one, until it is started."""

    def __init__(self, url: str, state_dir: Path, log: Log) -> None:
        self.url = url
        self._embedded = not url
        self._home, self._log = StateDir.at(state_dir), log
        self._server: embedded.Running | None = None

    @property
    def shown(self) -> str:
        return shown_url(self.url) + (" (embedded)" if self._embedded else "")

    async def start(self) -> None:
        """Raises `Unavailable` when there is none."""
        if self._embedded:
            try:
                self._server = await asyncio.to_thread(embedded.start, self._home.root)
            except embedded.EmbeddedFailed as error:
                raise Unavailable(str(error)) from None
            self.url = self._server.url
        async with Client(self.url) as client:
            await client.lanes()

    async def watch(self) -> None:
        """Start the embedded one again whenever it dies; raises GaveUp when that does not help. Never returns."""
        patience = Patience()
        while True:
            await asyncio.sleep(_LOOK_S)
            if self._server is not None and not lives(self._server.pid, self._home):
                await self._revive(self._server, patience)

    async def _revive(self, dead: embedded.Running, patience: Patience) -> None:
        if not patience.left():
            raise GaveUp(f"{VALKEY} died again; see {self._home.log}")
        self._log.say(VALKEY, f"died (pid {dead.pid}); starting it again, nothing it recorded is lost", "ERROR")
        try:
            self._server = await asyncio.to_thread(embedded.start, self._home.root)
        except embedded.EmbeddedFailed as error:
            raise GaveUp(str(error)) from None
        if self._server.url != self.url:
            raise GaveUp(f"{VALKEY} could not come back where it was, since its port is taken; run `staffel up` again")
        self._log.say(VALKEY, "is back")

    async def stop(self) -> None:
        """End the embedded one and keep its data; somebody's own is left alone. Raises EmbeddedFailed."""
        if self._embedded:
            await asyncio.to_thread(embedded.stop, self._home.root)
