"""The embedded default server: one private Valkey of a state directory, for whoever has no Redis of their own.

In the state directory, `redis.json` says where it listens, `redis.conf` what it was started with, `redis.log` what
it complains of, and `data/` holds its append-only file; a lock tells whether it lives (see state_dir.py).

It is no part of the process that started it: it has a session of its own and lives until `stop`. After a crash it
comes back at the same URL, so that its clients find it by themselves; after a `stop` it gets a new port and password.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from staffel.embedded.process import (
    INSTEAD,
    begin_log,
    bundled_server,
    complaint,
    free_port,
    lives,
    pid_that_answers,
    spawn,
    taken,
    write_conf,
)
from staffel.embedded.state_dir import EmbeddedFailed, StateDir

__all__ = ["EmbeddedFailed", "Running", "find", "start", "stop"]

_ANSWER = 1.0  # s a living server may take to answer
_TICK = 0.02  # s between two looks
_GRACE = 2.0  # s for a signal to end a server that did not follow the request to
_PORTS = 5  # ports tried before the fault must be elsewhere


@dataclass(frozen=True, slots=True)
class Running:
    """A server and where it is; the URL holds its password, and is in no repr."""

    url: str = field(repr=False)
    pid: int
    port: int
    data: Path


def find(state_dir: Path) -> Running | None:
    """The server of this state directory, if it is alive and ours; a silent stranger on its port costs a second.

    Ours is what accepts the password and has the pid that was noted: neither another server on the port nor a
    recycled pid is. A server that is still loading its data is not there yet.
    """
    noted = _noted(StateDir.at(state_dir))
    return None if noted is None else _answering(noted)


def start(
    state_dir: Path,
    *,
    timeout: float = 10.0,
    port: Callable[[], int] = free_port,
    program: Callable[[], Path] = bundled_server,
) -> Running:
    """The server of this state directory, started if it was not there, within `timeout` seconds.

    Many may call this at once and get the same server. Raises EmbeddedFailed. A server that needs longer than that to
    load its data goes on loading, and the next call waits for the same one.
    """
    home = StateDir.at(state_dir)
    end = time.monotonic() + timeout
    with _faults_in_a_line(home):
        home.make()
        while True:
            if running := find(home.root):
                return running
            with home.locked() as lock:
                if lock is not None:
                    return _launch(home, lock, end, port, program())
            if time.monotonic() > end:
                raise _silent(home)
            time.sleep(_TICK)


def stop(server: Running | Path, *, timeout: float = 10.0) -> bool:
    """End the server and keep its data; False when it was gone, or when only a later one than `server` is there.

    It is asked to shut down and given `timeout` seconds, then terminated, then killed. Raises EmbeddedFailed when
    what lives there is not known to be ours: a stranger's pid is never signalled.
    """
    home = StateDir.at(server.data.parent if isinstance(server, Running) else server)
    with _faults_in_a_line(home):
        running = _living(home, time.monotonic() + timeout)
        if running is None or (isinstance(server, Running) and server.pid != running.pid):
            return False
        _end(running, home, timeout)
        _await(lambda: _forgotten(home) or _succeeded(home, running), timeout)
    return True


def _launch(home: StateDir, lock: int, end: float, port: Callable[[], int], program: Path) -> Running:
    """Start a server at the URL of the one that crashed here, or at a new one while another has the port."""
    crashed = _noted(home)
    for _ in range(_PORTS):
        chosen = crashed or _fresh(home, port())
        crashed = None
        log_begin = begin_log(home)
        process = _spawn(home, lock, chosen, program)
        try:
            _note(home, replace(chosen, pid=process.pid))
            running = _settled(process, home, end)
        except BaseException:
            process.kill()
            process.wait()
            home.forget()
            raise
        if running:
            return running
        if process.poll() is None:
            raise _silent(home)
        if not taken(chosen.port):
            break
    home.forget()
    why = complaint(home, log_begin) or f"exit status {process.returncode}"
    raise EmbeddedFailed(
        f"the embedded server ended at once ({why}); see {home.log}; "
        f"if its data is damaged, move {home.data} away to begin with none, {INSTEAD}"
    )


def _spawn(home: StateDir, lock: int, chosen: Running, program: Path) -> subprocess.Popen[bytes]:
    try:
        write_conf(home, chosen.port, str(urlsplit(chosen.url).password))
        # Were we killed before its pid is noted, a note without a pid would still lead to the server.
        _note(home, replace(chosen, pid=0))
        return spawn(home, lock, program)
    except BaseException:
        home.forget()
        raise


def _settled(process: subprocess.Popen[bytes], home: StateDir, end: float) -> Running | None:
    """The server once it answers; None when it has ended, or when the time has."""
    while process.poll() is None and time.monotonic() < end:
        if running := find(home.root):
            return running
        time.sleep(_TICK)
    return None


def _fresh(home: StateDir, port: int) -> Running:
    url = f"redis://:{secrets.token_urlsafe(32)}@127.0.0.1:{port}/0"
    return Running(url=url, pid=0, port=port, data=home.data)


def _living(home: StateDir, end: float) -> Running | None:
    """The server that is to be ended, waited for while it is started; None when the lock shows that there is none."""
    if not home.lock.exists():
        return None
    while (running := find(home.root)) is None:
        if _forgotten(home):
            return None
        if time.monotonic() > end:
            running = _noted(home)
            if running is None or not lives(running.pid, home):
                raise _silent(home)
            break
        time.sleep(_TICK)
    return running


def _end(running: Running, home: StateDir, timeout: float) -> None:
    patience = timeout if _asked_to_end(running) else 0.0
    for wait, force in ((patience, signal.SIGTERM), (min(timeout, _GRACE), signal.SIGKILL)):
        if _await(lambda: not lives(running.pid, home), wait):
            return
        with suppress(ProcessLookupError):
            os.kill(running.pid, force)
    if not _await(lambda: not lives(running.pid, home), _GRACE):
        raise EmbeddedFailed(f"the embedded server (pid {running.pid}) cannot be ended; see {home.log}")


def _asked_to_end(running: Running) -> bool:
    try:
        with _client(running.url) as client:
            client.shutdown()
    except (redis.RedisError, OSError):
        return False
    return True


def _forgotten(home: StateDir) -> bool:
    """Remove what leads to a server, if none lives or is being started."""
    with home.locked() as lock:
        if lock is not None:
            home.forget()
        return lock is not None


def _succeeded(home: StateDir, ended: Running) -> bool:
    """Whether somebody has started another server since; what leads there is no longer ours to remove."""
    noted = _noted(home)
    return noted is not None and noted.pid not in (0, ended.pid)


def _await(ask: Callable[[], bool], timeout: float) -> bool:
    end = time.monotonic() + timeout
    while not (answer := ask()) and time.monotonic() < end:
        time.sleep(_TICK)
    return answer


# --- what is known of a server


def _note(home: StateDir, running: Running) -> None:
    note = {"url": running.url, "pid": running.pid, "port": running.port}
    home.write(home.note, json.dumps(note) + "\n")


def _noted(home: StateDir) -> Running | None:
    try:
        note = json.loads(home.note.read_text())
        url, pid = str(note["url"]), int(note["pid"])
        where = urlsplit(url)
        if not where.port or not where.password or not where.password.isascii():
            return None
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None
    return Running(url=url, pid=pid, port=where.port, data=home.data)


def _answering(noted: Running) -> Running | None:
    pid = pid_that_answers(noted.port, str(urlsplit(noted.url).password), _ANSWER)
    return replace(noted, pid=pid) if pid and noted.pid in (0, pid) else None


def _client(url: str) -> redis.Redis:
    never = Retry(NoBackoff(), 0)
    return redis.Redis.from_url(url, protocol=2, socket_timeout=_ANSWER, socket_connect_timeout=_ANSWER, retry=never)


def _silent(home: StateDir) -> EmbeddedFailed:
    noted = _noted(home)
    who = f"pid {noted.pid}" if noted and noted.pid else "pid unknown"
    return EmbeddedFailed(
        f"the embedded server of {home.root} ({who}) is there but does not answer: it still loads its data, or hangs; "
        f"try again in a moment, or see {home.log} and end that process"
    )


@contextmanager
def _faults_in_a_line(home: StateDir) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        raise EmbeddedFailed(
            f"the embedded server cannot use {fault.filename or home.root}: {fault.strerror or fault}; "
            f"set STAFFEL_STATE_DIR to a directory of your own on a disk with room, {INSTEAD}"
        ) from fault
