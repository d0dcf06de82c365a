"""Wait for a condition, never for a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_TICK = 0.02


def eventually(ask: Callable[[], T], description: str, timeout: float = 15.0) -> T:
    """Ask again and again until the answer is true, and return it; fail after `timeout` seconds."""
    end = time.monotonic() + timeout
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout:g} s: {description} (last answer: {answer!r})")
        time.sleep(_TICK)


async def eventually_async(ask: Callable[[], T], description: str, timeout: float = 15.0) -> T:
    """The same, on an event loop that must go on meanwhile."""
    end = time.monotonic() + timeout
    while not (answer := ask()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout:g} s: {description} (last answer: {answer!r})")
        await asyncio.sleep(_TICK)
    return answer
