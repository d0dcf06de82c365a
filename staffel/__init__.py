"""LLM requests that always end well: `from staffel import Client`."""

from staffel.client import Client
from staffel.errors import Cancelled, Exhausted, Expired, Invalid, Refused, StaffelError, Unavailable
from staffel.sync import SyncClient

__all__ = [
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
