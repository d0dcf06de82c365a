"""Pictures in a request: bytes or their base64, never a path or an address that somebody would have to read."""

from __future__ import annotations

import base64
import binascii
import re

MOST_IMAGES = 20
"""Pictures in one request."""

_DATA_URL = re.compile(r"data:image/[\w.+-]{1,60}(;[\w=.+-]{1,60}){0,5};base64,", re.ASCII | re.IGNORECASE)
_BEGINNINGS = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "image/webp"),
)
_SNIFFED = 24
"""So many characters of base64 hold the longest beginning."""


def plain_base64(picture: object) -> str:
    """The picture in base64, without line breaks or a `data:` prefix; raises `ValueError` if it is none.

    What it is, its first bytes say, whatever a prefix claims.
    """
    held = bytes(picture) if isinstance(picture, bytes | bytearray | memoryview) else _decoded(picture)
    if held is None or _kind(held) is None:
        raise ValueError("must be the bytes of a PNG, JPEG, GIF or WebP image, or their base64")
    return base64.b64encode(held).decode()


def media_type(picture: str) -> str:
    """The media type of a picture in plain base64; raises `ValueError` if it is none."""
    found = _kind(base64.b64decode(picture[:_SNIFFED]))
    if found is None:
        raise ValueError("not a picture")
    return found


def _decoded(text: object) -> bytes | None:
    if not isinstance(text, str):
        return None
    prefix = _DATA_URL.match(text)
    lines = text[prefix.end() if prefix else 0 :].splitlines()
    try:
        return base64.b64decode("".join(lines).encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        return None


def _kind(held: bytes) -> str | None:
    return next((name for beginning, name in _BEGINNINGS if beginning.match(held)), None)
