"""The embedded Valkey: found by every command, started by `up`, `demo` and the tests."""

from staffel.embedded.server import Running, find, start, stop
from staffel.embedded.state_dir import EmbeddedFailed, StateDir

__all__ = ["EmbeddedFailed", "Running", "StateDir", "find", "start", "stop"]
