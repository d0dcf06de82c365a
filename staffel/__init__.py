"""LLM requests that always end well: `from staffel import Client`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from staffel.answer import Answer
    from staffel.client import Client
    from staffel.errors import Cancelled, Exhausted, Expired, Invalid, Refused, StaffelError, Unavailable
    from staffel.sync import SyncClient

__all__ = [
    "Answer",
    "Cancelled",
    "Client",
    "Exhausted",
    "Expired",
    "Invalid",
    "Refused",
    "StaffelError",
    "SyncClient",
    "Unavailable",
]

_PLACES = {"Answer": "staffel.answer", "Client": "staffel.client", "SyncClient": "staffel.sync"}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of the above
    """Loaded when it is asked for: a command needs a tenth of a second to start, the client half a second."""
    if name not in __all__:
        raise AttributeError(f"module 'staffel' has no attribute {name!r}")
    return getattr(import_module(_PLACES.get(name, "staffel.errors")), name)
