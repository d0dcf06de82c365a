"""Whether the model that a call needs is in its Ollama host's memory, and that it stays there.

A load takes as long as many answers, and one that is given up is thrown away by the host. So a model is loaded when the
lane is taken, looked after and loaded again where it is gone; and a call that may have to load it has a clock for that.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Sequence
from contextlib import suppress

from config.ollama import full_name, is_elsewhere, is_same
from config.stages import Stage, address_of
from worker.failover.clocks import Reply
from worker.failover.provider import Fault, Kind
from worker.failover.turns import Idle
from worker.providers.ollama import loading
from worker.providers.ollama_host import Hosts, HostUnclear

_log = logging.getLogger("staffel")

FRESH_S = 1.0
"""A model that has answered so recently is still there: nothing unloads it so soon, but a `keep_alive` of none."""

LOOKS_S = 15.0
"""Between two looks at a model that is to be kept."""

LONGEST_PAUSE_S = 240.0
"""A host that cannot load it is tried less and less often, but in this time once more."""

GIVEN_UP = Reply(fault=Fault(Kind.SPENT))
"""A load that was left in the middle: the host may be at it still."""

_NEVER = re.compile(r"0+(\.0+)?(ms|s|m|h)?(0+(\.0+)?(ms|s|m|h))*")


class Warmth:
    """One per worker process, on its event loop, for the stages of its lane.

    Of several models on one host the one that answered last is kept, at first the first stage's: two that do not fit
    into its memory together would drive each other out for ever.
    """

    def __init__(self, stages: Sequence[Stage], hosts: Hosts) -> None:
        self._hosts = hosts
        self._kept: dict[object, Stage] = {}
        self._last: dict[object, tuple[Stage, float]] = {}
        self._windows: dict[str, int] = {}
        self._failures: dict[str, int] = {}
        self._told: dict[str, str] = {}
        self._woken = asyncio.Event()
        for stage in filter(_is_ours, stages):
            self._kept.setdefault(_host(stage), stage)

    async def is_cold(self, stage: Stage) -> bool:
        """Whether the call that is to be made now may have to load the model first. To be asked while nobody calls.

        No look where the same model has answered just now; a host that does not say it at once may be loading another.
        """
        if not _is_ours(stage):
            return False
        last = self._last.get(_host(stage))
        if last is not None and not _leaves_at_once(stage):
            other, when = last
            if _loaded(other) == _loaded(stage) and _now() - when < FRESH_S:
                return False
            if _loaded(other) != _loaded(stage) and is_same(other.model, stage.model):
                return True  # no look shows with which options a model was loaded
        try:
            return not await self._is_there(stage)
        except HostUnclear:
            return True

    def answered(self, stage: Stage) -> None:
        """A call of this stage was answered just now: its model is there."""
        if _is_ours(stage):
            self._kept[_host(stage)] = stage
            self._last[_host(stage)] = (stage, _now())
            self._failures.pop(stage.name, None)

    def unsure(self) -> None:
        """Others may have had the hosts meanwhile: nothing is known of what they have in memory, and a look is due."""
        self._last.clear()
        self._windows.clear()
        self._failures.clear()
        self._woken.set()

    async def load(self, stage: Stage) -> bool:
        """Load the model as the stage's calls will want it, within `cold_load_timeout`; one line in the log.

        A host that fails in the same way again and again is told once. A model that is to leave after each call is not
        loaded.
        """
        if _leaves_at_once(stage):  # an empty chat would unload it
            return False
        began = _now()
        try:
            async with asyncio.timeout(stage.cold_load_timeout):
                await self._hosts.load(stage)
        except (HostUnclear, TimeoutError) as error:
            given_up = f"not there after {stage.cold_load_timeout:g} s (cold_load_timeout)"
            self._failed(stage, str(error) or given_up)
            return False
        self._told.pop(stage.name, None)
        _log.info("stage %s: %s is loaded, %.1f s", stage.name, stage.model, _now() - began)
        self._last[_host(stage)] = (stage, _now())
        self._failures.pop(stage.name, None)
        with suppress(HostUnclear):
            found = await self._hosts.resident(stage)
            if found is not None and found.context_length is not None:
                self._windows[stage.name] = found.context_length
        return True

    async def keep(self, idle: Idle, lane_held: asyncio.Event) -> None:
        """For ever: load what is not there, at once when the lane is held, and look again every 15 s.

        A stage whose `keep_alive` is none is left alone. What a host cannot load is tried after ever longer pauses.
        """
        due: dict[object, float] = {}
        while True:
            if not lane_held.is_set() or self._woken.is_set():
                due.clear()
            self._woken.clear()
            await lane_held.wait()
            for host, stage in list(self._kept.items()):
                if due.get(host, 0.0) <= _now() and not _leaves_at_once(stage):
                    await self._ensure(idle, host, stage, lane_held)
                    due[host] = _now() + self._pause(stage)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOKS_S):
                    await self._woken.wait()

    async def _ensure(self, idle: Idle, host: object, stage: Stage, lane_held: asyncio.Event) -> None:
        async def is_needed() -> bool:
            return self._kept[host] is stage and lane_held.is_set() and await self.is_cold(stage)

        async def work() -> Reply | None:
            return None if await self.load(stage) else GIVEN_UP

        await idle(is_needed, work)

    def _pause(self, stage: Stage) -> float:
        """A little less than a round, so that the next one finds it due."""
        return min(LOOKS_S * 2.0 ** self._failures.get(stage.name, 0), LONGEST_PAUSE_S) - LOOKS_S / 2

    def _failed(self, stage: Stage, why: str) -> None:
        self._failures[stage.name] = self._failures.get(stage.name, 0) + 1
        self._last.pop(_host(stage), None)
        if self._told.get(stage.name) != why:
            self._told[stage.name] = why
            _log.warning("stage %s: %s is not loaded: %s", stage.name, stage.model, why)

    async def _is_there(self, stage: Stage) -> bool:
        """With another window than the stage's it is loaded anew, but for the one that the host made of it."""
        found = await self._hosts.resident(stage)
        if found is None:
            return False
        return found.context_length in {None, stage.num_ctx, self._windows.get(stage.name)}


def _now() -> float:
    return asyncio.get_running_loop().time()


def _is_ours(stage: Stage) -> bool:
    return stage.provider == "ollama" and not is_elsewhere(stage.base_url, stage.model)


def _host(stage: Stage) -> object:
    return address_of(stage.base_url) or stage.base_url


def _loaded(stage: Stage) -> str:
    """The model as it is loaded: with any other settings it is loaded anew."""
    return json.dumps({**loading(stage), "model": full_name(stage.model).lower(), "keep_alive": None}, sort_keys=True)


def _leaves_at_once(stage: Stage) -> bool:
    """Whether the model is to be unloaded after each call."""
    return _NEVER.fullmatch(str(stage.keep_alive)) is not None
