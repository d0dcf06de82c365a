"""The folder of `--out`: one summary per document, and a list of which document each belongs to.

The list is a file of JSON lines beside the summaries, one line added per document, so that a run of thousands does
not write it anew each time. Of two lines for one file the later counts; half a line, left by a crash, counts nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import unicodedata
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from staffel.batch.summaries import Row, Status
from staffel.documents.parsers import printable
from staffel_wire.errors import Invalid

SUFFIX = ".summary.md"
LIST = ".staffel-summaries.jsonl"

_LONGEST = 180
"""Bytes of a document's name in its summary's; file systems take 255 in all, some count UTF-16 units."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A summary that was written: its file below the folder, the document's absolute path and digest, its row."""

    file: str
    source: str
    digest: str
    row: Mapping[str, Any]


class SummaryFolder:
    """Names the summaries' files, tells which need not be asked for, and writes the new ones."""

    def __init__(self, root: Path) -> None:
        """Makes the folder. Raises `Invalid` if it cannot be written to."""
        self.root = root
        self._list = root / LIST
        try:
            root.mkdir(parents=True, exist_ok=True)
            data = self._list.read_bytes() if self._list.exists() else b""
            with self._list.open("ab") as file:
                if data and not data.endswith(b"\n"):
                    file.write(b"\n")
        except (OSError, ValueError) as error:
            why = (getattr(error, "strerror", None) or str(error)).lower()
            raise Invalid(f"--out {printable(str(root))}: cannot be written to: {why}") from None
        entries = [entry for line in data.splitlines() if (entry := _entry(line))]
        self._by_file = {entry.file: entry for entry in entries}
        self._by_source = {entry.source: entry.file for entry in entries}

    def files(self, documents: Iterable[tuple[Path, Path]]) -> dict[Path, str]:
        """Choose a file for each document, given its path and its place below what was typed.

        The place says the name: `a/b.txt` becomes `a/b.txt.summary.md`. A document whose name belongs to another
        one, in this run or still on the disk since an earlier one, gets some letters of its own. Once
        chosen, a name stays.
        """
        chosen: dict[Path, str] = {}
        taken: set[str] = set()
        for path, place in documents:
            source = os.path.abspath(path)  # noqa: PTH100 - a link keeps its own name
            file = self._by_source.get(source) or _named(place)
            if self._owner(file) not in {None, source} or _folded(file) in taken:
                file = _named(place, hashlib.sha256(os.fsencode(source)).hexdigest()[:8])
            taken.add(_folded(file))
            chosen[path] = file
        return chosen

    def _owner(self, file: str) -> str | None:
        """The document that a name belongs to; one that was moved away has no claim to it any more."""
        entry = self._by_file.get(file)
        return entry.source if entry and os.path.lexists(entry.source) else None

    def kept(self, row: Row, file: str, digest: str) -> Row | None:
        """The row of a summary that is there and belongs to this very text, whichever chain it came from."""
        entry = self._by_file.get(file)
        if entry is None or entry.digest != digest:
            return None
        try:
            summary = (self.root / file).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None
        return _remembered(row, entry, summary, str(self.root / file)) if summary else None

    def keep(self, row: Row, file: str, digest: str) -> Row:
        """Write an answered document's summary, then its line in the list; each is there whole or not at all."""
        target = self.root / file
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _write(target, f"{row.summary}\n")
            self._note(row, file, digest)
        except OSError as error:
            why = (error.strerror or type(error).__name__).lower()
            return replace(row, status=Status.UNWRITTEN, reason=f"{printable(str(target))}: {why}")
        return replace(row, file=str(target))

    def _note(self, row: Row, file: str, digest: str) -> None:
        found = {key: value for key, value in row.as_object().items() if key in _REMEMBERED}
        source = os.path.abspath(row.path)  # noqa: PTH100
        line = json.dumps({"file": file, "source": source, "digest": digest, "row": found}) + "\n"
        with self._list.open("ab", buffering=0) as file_:
            file_.write(line.encode())
        self._by_file[file] = Entry(file, source, digest, found)


_REMEMBERED = ("stage", "truncated", "cost_usd", "queued_s", "duration_s", "attempts", "job")


def _remembered(row: Row, entry: Entry, summary: str, file: str) -> Row | None:
    found = entry.row
    try:
        return replace(
            row,
            status=Status.ANSWERED,
            stage=str(found["stage"]),
            summary=summary,
            truncated=bool(found["truncated"]),
            cost_usd=None if found["cost_usd"] is None else float(found["cost_usd"]),
            queued_s=float(found["queued_s"]),
            duration_s=float(found["duration_s"]),
            attempts=tuple(found["attempts"]),
            job=str(found["job"]),
            file=file,
            kept=True,
        )
    except (KeyError, TypeError, ValueError):  # somebody has edited the list
        return None


def _entry(line: bytes) -> Entry | None:
    try:
        found = json.loads(line)
        entry = Entry(found["file"], found["source"], found["digest"], found["row"])
    except (ValueError, KeyError, TypeError):
        return None
    texts = (entry.file, entry.source, entry.digest)
    if not all(isinstance(text, str) for text in texts) or not isinstance(entry.row, Mapping):
        return None
    place = Path(entry.file)
    return None if place.is_absolute() or ".." in place.parts else entry


def _named(place: Path, mark: str = "") -> str:
    name = place.name
    while len(os.fsencode(name)) > _LONGEST:
        name = name[:-1]
    return str(place.with_name(f"{name}{f'-{mark}' if mark else ''}{SUFFIX}"))


def _folded(file: str) -> str:
    """Names that some file systems cannot tell apart."""
    return unicodedata.normalize("NFC", file).casefold()


def _write(target: Path, text: str) -> None:
    unfinished = target.with_name(f".staffel-{secrets.token_hex(6)}")
    try:
        with unfinished.open("xb") as file:
            file.write(text.encode("utf-8", "replace"))
        unfinished.replace(target)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise
