"""The state directory: its files, who may read them, and the lock that says whether a server lives there.

`redis.lock` is the one truth about life and death. Whoever starts a server holds the lock and hands the open file on to
the server; the kernel lets the lock go when the last holder is dead, however it died. So two starters give one
server, no two servers ever write the same data, and a lock that can be had means that nothing lives there.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


class EmbeddedFailed(Exception):
    """The embedded server could not be started or stopped; the text is one line for a person."""


@dataclass(frozen=True, slots=True)
class StateDir:
    """One state directory, by its real path: two ways to the same directory are the same."""

    root: Path

    @classmethod
    def at(cls, path: Path) -> StateDir:
        return cls(Path(os.path.realpath(path)))

    @property
    def note(self) -> Path:
        return self.root / "redis.json"

    @property
    def conf(self) -> Path:
        return self.root / "redis.conf"

    @property
    def lock(self) -> Path:
        return self.root / "redis.lock"

    @property
    def log(self) -> Path:
        return self.root / "redis.log"

    @property
    def data(self) -> Path:
        return self.root / "data"

    def make(self) -> None:
        """Make the directory, for its owner alone; raises EmbeddedFailed, or OSError when the disk says no."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = self.root.stat()
        if found.st_uid != os.geteuid():
            raise EmbeddedFailed(
                f"the state directory {self.root} belongs to user {found.st_uid}, not to you; "
                "set STAFFEL_STATE_DIR to a directory of your own"
            )
        if found.st_mode & 0o077:
            self._close(found.st_mode)
        self.data.mkdir(mode=0o700, exist_ok=True)

    def _close(self, mode: int) -> None:
        """Shut others out; a home or a /tmp that was named by mistake, and holds other things, stays as it is."""
        if not mode & stat.S_ISVTX and (self.lock.exists() or not any(self.root.iterdir())):
            self.root.chmod(0o700)
        if self.root.stat().st_mode & 0o077:
            raise EmbeddedFailed(
                f"the state directory {self.root} is open to other users (mode {stat.S_IMODE(mode):04o}); "
                "chmod 700 it if it is staffel's alone, or set STAFFEL_STATE_DIR to another"
            )

    @contextmanager
    def locked(self) -> Iterator[int | None]:
        """Hold the lock and yield its open file, or yield None at once: a server lives here, or is being started."""
        lock = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
            else:
                yield lock
        finally:
            os.close(lock)

    def write(self, path: Path, text: str) -> None:
        """Write a file of this directory that only its owner reads, whole or not at all; the lock must be held."""
        draft = path.with_name(path.name + ".new")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        draft.replace(path)

    def forget(self) -> None:
        """Remove what says where the server is and what its password was; the lock must be held."""
        for path in (self.note, self.conf):
            path.unlink(missing_ok=True)
