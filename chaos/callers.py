"""Submits the jobs, as three kinds of callers do: our client, `ask.delay`, and a foreign `send_task`.

A submit that raised is no submitted job: its caller tries again with the same id until it returns, or gives up.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.schedule import CLIENT, Ask
from staffel import Client, Unavailable

_ROOT = Path(__file__).parent.parent
_AGAIN_S = 0.3
_PATIENCE_S = 40.0
"""After so long a caller gives up; longer than any fault lasts."""

_STOP_S = 30.0


@dataclass(slots=True)
class Submitted:
    """What became of one submit; `at` is when it returned, in epoch seconds, None where its caller gave up."""

    ask: Ask
    job: str
    """The id that the caller got: of another job with the same idempotency key, or its own."""
    at: float | None = None
    raised: int = 0
    error: str = ""


class Callers:
    """All callers, on the line to Valkey that is theirs."""

    def __init__(self, url: str, environ: Mapping[str, str], folder: Path, deadline_s: float) -> None:
        self._url, self._deadline_s = url, deadline_s
        self._environ, self._folder = {**environ, "STAFFEL_REDIS_URL": url}, folder
        self._answers: dict[str, asyncio.Future[str | None]] = {}
        self.submitted: list[Submitted] = []
        """In the order of the asks; grows from nothing to all of them at once, each is filled in later."""

    async def run(self, asks: Sequence[Ask], began: float) -> None:
        """Submit each at its instant, counted from `began` by the monotonic clock; return when each has ended."""
        self.submitted = [Submitted(ask, ask.job) for ask in asks]
        with (self._folder / "celery-caller.log").open("wb") as log:
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "chaos.celery_caller", env=self._environ, stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE, stderr=log, start_new_session=True, cwd=_ROOT,
            )  # fmt: skip
        listening = asyncio.create_task(self._listen(child))
        try:
            async with Client(self._url) as client:
                work = [self._one(each, began, client, child) for each in self.submitted]
                await asyncio.gather(*work)
        finally:
            await self._end(child)
            await listening

    async def _one(self, mine: Submitted, began: float, client: Client, child: asyncio.subprocess.Process) -> None:
        await asyncio.sleep(max(0.0, began + mine.ask.at_s - time.monotonic()))
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end:
            raised = await (self._client(mine, client) if mine.ask.caller == CLIENT else self._celery(mine, child))
            if raised is None:
                mine.at = time.time()
                return
            mine.raised, mine.error = mine.raised + 1, raised
            await asyncio.sleep(_AGAIN_S)

    def _fields(self, ask: Ask) -> dict[str, Any]:
        batch = {"priority": "batch"} if zlib.crc32(ask.mark.encode()) % 3 == 0 else {}
        keyed = {"idempotency_key": ask.key} if ask.key else {}
        return {"prompt": f"say {ask.mark}", "chain": ask.chain, "deadline": self._deadline_s, **keyed, **batch}

    async def _client(self, mine: Submitted, client: Client) -> str | None:
        try:
            mine.job = await client.submit(self._fields(mine.ask), job=mine.ask.job)
        except Unavailable as error:
            return str(error)
        return None

    async def _celery(self, mine: Submitted, child: asyncio.subprocess.Process) -> str | None:
        ask = mine.ask
        answer = self._answers[ask.job] = asyncio.get_running_loop().create_future()
        told = {"job": ask.job, "caller": ask.caller, "fields": self._fields(ask)}
        assert child.stdin is not None
        try:
            child.stdin.write(json.dumps(told).encode() + b"\n")
            await child.stdin.drain()
            return await asyncio.wait_for(answer, _PATIENCE_S)
        except (OSError, TimeoutError) as error:
            return f"the caller's process: {type(error).__name__}"

    async def _listen(self, child: asyncio.subprocess.Process) -> None:
        assert child.stdout is not None
        async for line in child.stdout:
            told = json.loads(line)
            answer = self._answers.get(told["job"])
            if answer is not None and not answer.done():
                answer.set_result(told["raised"])

    async def _end(self, child: asyncio.subprocess.Process) -> None:
        assert child.stdin is not None
        child.stdin.close()
        try:
            await asyncio.wait_for(child.wait(), _STOP_S)
        except (TimeoutError, asyncio.CancelledError):
            child.kill()
            await child.wait()
