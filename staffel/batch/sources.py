"""The documents behind what was typed, each with a place and a name of its own."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from staffel import documents
from staffel.batch.folder import SUFFIX
from staffel.documents.parsers import printable


@dataclass(frozen=True, slots=True)
class Source:
    """A document that was found: its path, its place below the folder that was typed, its name for people.

    No two names of a batch are alike; a name is the place, or the path where two documents share a place.
    """

    path: Path
    place: Path
    name: str


def sources(paths: Sequence[Path], out: Path | None = None) -> list[Source]:
    """Find the documents of files and folders. Raises `NoSuchPath`.

    Summaries that lie below `out` are no documents, unless one is typed by name: else the second run over a folder
    that holds its own summaries would summarize them.
    """
    folders = [path for path in paths if os.path.isdir(path)]  # noqa: PTH112 - Path's can raise
    home = None if out is None else os.path.realpath(out)
    found = [path for path in documents.find(paths) if path in paths or not _is_summary(path, home)]
    places = [_place(path, folders) for path in found]
    often = Counter(places)
    return [
        Source(path, place, printable(str(place if often[place] == 1 else path)))
        for path, place in zip(found, places, strict=True)
    ]


def _is_summary(path: Path, home: str | None) -> bool:
    if home is None or not path.name.endswith(SUFFIX):
        return False
    return os.path.realpath(path).startswith(home.rstrip(os.sep) + os.sep)


def _place(path: Path, folders: Iterable[Path]) -> Path:
    for folder in folders:
        # `..` is below `.` in the eyes of pathlib, and no place for a summary.
        if path != folder and path.is_relative_to(folder) and ".." not in (below := path.relative_to(folder)).parts:
            return below
    return Path(path.name or "folder")
