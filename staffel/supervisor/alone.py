"""What `staffel up` needs for itself: the state directory, and Flower's port."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from staffel.errors import StaffelError
from staffel.supervisor.program import ADDRESS


class NotFree(StaffelError):
    """Somebody else has what is needed."""

    exit_code = 2


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Be the only one on this state directory, as long as the process lives; raises NotFree.

    The lock is on the directory itself, so that no file is left behind, and the kernel lets it go.
    """
    handle = _opened(folder)
    try:
        _lock(handle, folder)
        yield
    finally:
        os.close(handle)


def _opened(folder: Path) -> int:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise _unusable(folder, error) from None


def _lock(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise NotFree(
            f"staffel up already runs on {folder}: stop it with Ctrl-C in its terminal, "
            "or set STAFFEL_STATE_DIR to another directory"
        ) from None
    except OSError as error:  # some network file systems lock no directory
        raise _unusable(folder, error) from None


def _unusable(folder: Path, error: OSError) -> NotFree:
    return NotFree(f"{folder} cannot be used: {error.strerror}; set STAFFEL_STATE_DIR to a local directory of your own")


def flower_port(wanted: int) -> int:
    """The port if Flower can have it, a free one for 0; raises NotFree."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, wanted))
        except OSError as error:
            why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be had ({error.strerror})"
            raise NotFree(f"port {wanted} {why}: name another with --port, or --no-flower") from None
        return int(probe.getsockname()[1])
