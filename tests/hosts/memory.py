"""Which models a stage has in memory, as Ollama tells it: each stays as long as its last keep_alive says."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

STAY = 300.0
"""Seconds, where nobody says."""
WINDOW = 8192
"""Tokens, where nobody says."""


@dataclass
class Loaded:
    window: int = WINDOW
    stay: float = STAY
    """Seconds after the last use, infinity is for ever."""
    expires: float = math.inf
    """By the stage's clock; infinity while it is in use, and before its first use."""


class Memory:
    def __init__(self, clock: Callable[[], float], names: Iterable[str]) -> None:
        self._clock = clock
        self._models = {name: Loaded() for name in names}

    def has(self, model: str, window: int | None) -> bool:
        """Loaded, with this window if one is named: another one means another load."""
        return model in self.names() and window in {None, self._models[model].window}

    def names(self) -> list[str]:
        now = self._clock()
        self._models = {name: loaded for name, loaded in self._models.items() if loaded.expires > now}
        return list(self._models)

    def load(self, model: str, window: int | None, stay: float | None) -> None:
        loaded = Loaded()
        self._models[model] = Loaded(loaded.window if window is None else window, loaded.stay if stay is None else stay)

    def use(self, model: str, stay: float | None) -> None:
        """From now on, until `rest`; a keep_alive replaces the one before."""
        if model in self.names():
            self._models[model].expires = math.inf
            self._models[model].stay = self._models[model].stay if stay is None else stay

    def rest(self) -> None:
        """Nobody uses any: the clocks of those start that are not at rest already."""
        for loaded in self._models.values():
            if loaded.expires == math.inf:
                loaded.expires = self._clock() + loaded.stay

    def unload(self, model: str) -> None:
        self._models.pop(model, None)

    def window(self, model: str) -> int:
        return self._models[model].window

    def left(self, model: str) -> float:
        """Seconds until it goes, infinity is never."""
        loaded = self._models[model]
        return loaded.stay if loaded.expires == math.inf else loaded.expires - self._clock()
