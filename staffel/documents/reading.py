"""Find what people call documents and read each as one clean string: text, Markdown, PDF and e-mail files.

A hostile PDF or e-mail can make its parser loop or eat memory, and only a process can be ended. So these two
are parsed in a child process with a clock and a memory limit. That also keeps the parsers' own warnings and
log lines away from the user.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from staffel.documents import parsers
from staffel.documents.parsers import Kind, Unreadable, cleaned, decoded, printable
from staffel_wire.errors import Invalid

__all__ = ["MAX_BYTES", "PARSE_SECONDS", "SUFFIXES", "Document", "NoSuchPath", "Unreadable", "find", "read"]

SUFFIXES = frozenset({".txt", ".md", ".markdown", ".pdf", ".eml"})
"""What is taken from a folder, in any case; a file given by name is tried whatever it is called."""

MAX_BYTES = 50_000_000
PARSE_SECONDS = 60.0


class NoSuchPath(Invalid):
    """A path that was given is not there."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file's text: never empty, no control characters but newline and tab, no lone surrogates."""

    path: Path
    name: str
    """The file's name without its folders, made fit to print; two documents may share one."""
    text: str
    digest: str
    """SHA-256 of the text in UTF-8, as hex digits."""


def find(paths: Sequence[Path]) -> list[Path]:
    """List the files behind these paths, each once, in the order given and sorted within a folder.

    Hidden files, hidden folders and links to folders are passed over in a folder. A folder that cannot be
    listed stands in the list itself, so that reading it says why. Raises `NoSuchPath`.
    """
    missing = [path for path in paths if not _is_there(path)]
    if missing:
        raise NoSuchPath(f"{', '.join(printable(str(path)) for path in missing)}: no such file or folder")
    found: dict[str, Path] = {}
    for path in paths:
        for file in _walked(path) if os.path.isdir(path) else (path,):  # noqa: PTH112  # Path's can raise
            found.setdefault(os.path.realpath(file), file)
    return list(found.values())


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


def _walked(folder: Path) -> Iterator[Path]:
    unlisted: list[Path] = []
    for at, folders, files in os.walk(folder, onerror=lambda error: unlisted.append(Path(error.filename))):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES:
                yield Path(at, name)
    yield from unlisted


def read(path: Path, *, seconds: float = PARSE_SECONDS) -> Document:
    """Read one file whole, or raise `Unreadable`; nothing is ever left out silently but attachments, by name.

    Blocks; a PDF or e-mail costs a child process and takes at most `seconds`.
    """
    data = _content(path)
    kind = _kind(path, data)
    text = cleaned(decoded(data) if kind is Kind.TEXT else _parsed_apart(kind, data, seconds)).strip()
    if not text:
        raise Unreadable("empty" if kind is Kind.TEXT else "no text in it")
    if len(text) > MAX_BYTES:
        raise Unreadable(f"unpacks to more than {MAX_BYTES // 1_000_000} MB of text")
    return Document(path, printable(path.name), text, hashlib.sha256(text.encode()).hexdigest())


def _content(path: Path) -> bytes:
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Unreadable("not a regular file")
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Unreadable((error.strerror or type(error).__name__).lower()) from error
    except ValueError as error:
        raise Unreadable("its name holds a NUL character") from error
    if len(data) > MAX_BYTES:
        raise Unreadable(f"larger than {MAX_BYTES // 1_000_000} MB")
    if not data:
        raise Unreadable("empty")
    return data


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file; a named pipe to which nobody writes would otherwise block forever."""
    return os.open(path, flags | os.O_NONBLOCK)


def _kind(path: Path, data: bytes) -> Kind:
    suffix = path.suffix.lower()
    if suffix == ".pdf" or data.startswith(b"%PDF-"):
        return Kind.PDF
    return Kind.EMAIL if suffix == ".eml" else Kind.TEXT


def _parsed_apart(kind: Kind, data: bytes, seconds: float) -> str:
    # -P: what lies beside the documents or beside this file must not shadow a module.
    command = [sys.executable, "-P", parsers.__file__, kind, str(math.ceil(seconds) + 1)]
    try:
        done = subprocess.run(
            command, input=data, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=seconds, check=False
        )
        answer = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise Unreadable(f"reading it takes longer than {seconds:g} s: broken, or far too large") from None
    except OSError as error:
        raise Unreadable(f"its reader cannot be started: {(error.strerror or 'unknown').lower()}") from error
    except ValueError:
        raise Unreadable("its reader broke down: broken, or far too large") from None
    if "reason" in answer:
        raise Unreadable(answer["reason"])
    return str(answer["text"])
