"""What a person or a service manager says when everything shall end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager


class Stop:
    """`asked` after the first Ctrl-C, SIGTERM or closed terminal; `hurried` after another Ctrl-C."""

    def __init__(self) -> None:
        self.asked, self.hurried = asyncio.Event(), asyncio.Event()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear signals instead of dying of them, on the running loop of the main thread."""
        loop = asyncio.get_running_loop()
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup means it
            numbers.append(signal.SIGHUP)
        for number in numbers:
            loop.add_signal_handler(number, self._hear, number)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _hear(self, number: signal.Signals) -> None:
        # A closing terminal says it more than once, so only Ctrl-C can mean impatience.
        if self.asked.is_set() and number is signal.SIGINT:
            self.hurried.set()
        self.asked.set()
