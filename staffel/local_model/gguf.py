"""The header of a GGUF file: what a model says of itself, without loading it.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (little-endian, versions 2 and 3).
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from staffel.local_model.errors import ModelBroken

Value = str | int | float | bool | list["Value"]

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING = 8
_ARRAY = 9
_MOST_DIMENSIONS = 8
_LONGEST = 2**30  # bytes of a string or values of an array; a broken file may name any number


@dataclass(frozen=True, slots=True)
class Header:
    """`metadata` as it stands in the file, `parameters` the numbers in all tensors together."""

    metadata: dict[str, Value]
    parameters: int


def read_header(file: Path) -> Header:
    """Raises ModelBroken."""
    try:
        with file.open("rb") as source:
            return _header(source)
    except (OSError, ValueError, KeyError, struct.error) as error:
        raise ModelBroken(file) from error


def _header(source: BinaryIO) -> Header:
    if source.read(4) != _MAGIC or _number(source, "<I") not in _VERSIONS:
        raise ValueError("no GGUF file")
    tensors, pairs = _whole(source, "<Q"), _whole(source, "<Q")
    metadata = {_text(source): _value(source, _whole(source, "<I")) for _ in range(pairs)}
    return Header(metadata, sum(_tensor(source) for _ in range(tensors)))


def _tensor(source: BinaryIO) -> int:
    """How many numbers it holds."""
    _text(source)
    dimensions = _whole(source, "<I")
    if dimensions > _MOST_DIMENSIONS:
        raise ValueError("a tensor of too many dimensions")
    sizes = [_whole(source, "<Q") for _ in range(dimensions)]
    _number(source, "<I")
    _number(source, "<Q")
    return math.prod(sizes)


def _value(source: BinaryIO, kind: int) -> Value:
    if kind == _STRING:
        return _text(source)
    if kind == _ARRAY:
        inner, length = _whole(source, "<I"), _length(source)
        return [_value(source, inner) for _ in range(length)]
    return _number(source, _NUMBERS[kind])


def _text(source: BinaryIO) -> str:
    length = _length(source)
    raw = source.read(length)
    if len(raw) < length:
        raise ValueError("the file ends too early")
    return raw.decode(errors="replace")


def _length(source: BinaryIO) -> int:
    length = _whole(source, "<Q")
    if length > _LONGEST:
        raise ValueError("a length that no model has")
    return length


def _whole(source: BinaryIO, form: str) -> int:
    return int(_number(source, form))


def _number(source: BinaryIO, form: str) -> int | float | bool:
    found: int | float | bool = struct.unpack(form, source.read(struct.calcsize(form)))[0]
    return found
