"""What the bytes of a text, PDF or e-mail file say, as a string.

This file is also the program of the child process in which `documents` reads a PDF or an e-mail, so it imports
nothing of ours: the child starts in a tenth of a second, whatever the package around it has become.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import resource
import sys
from collections.abc import Sequence
from contextlib import suppress
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from enum import StrEnum
from html.parser import HTMLParser
from io import BytesIO

_MAX_MEMORY = 2 * 1024**3
_MAX_NAMES = 20

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_HIGH_BYTES = bytes(range(0x80, 0x100))
_TERMINAL_CODES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_LINE_BREAKS = re.compile(r"\r\n?|[\f\v\x85]")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_BINARY = "binary file (text, Markdown, PDF and e-mail can be read)"


class Unreadable(Exception):
    """A file is no document that can be read; the message is the reason, one line without the file's name."""


class Kind(StrEnum):
    """How a file is read; the value is what a person calls it."""

    TEXT = "text"
    PDF = "PDF"
    EMAIL = "e-mail"


def decoded(data: bytes) -> str:
    """Decode text as its byte order mark says, else as UTF-8, else as Windows-1252 or Latin-1 if that is plausible."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            try:
                return _not_binary(data[len(mark) :].decode(encoding))
            except UnicodeError:
                raise Unreadable(f"not {encoding.upper()}, though its first bytes say so") from None
    try:
        return _not_binary(data.decode("utf-8"))
    except UnicodeError:
        text = data.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    # A few bad bytes among many good sequences are a damaged UTF-8 file: Latin-1 would garble all of it.
    if bad * 4 <= len(text) - len(text.encode("ascii", "ignore")) - bad:
        return _not_binary(text)
    return _latin(data)


def _latin(data: bytes) -> str:
    try:
        text = data.decode("cp1252")
    except UnicodeError:
        text = data.decode("latin-1")
    if _controls(text) > max(1, len(text) / 100):
        raise Unreadable(_BINARY)
    if (len(data) - len(data.translate(None, _HIGH_BYTES))) * 3 > len(data):
        raise Unreadable("not UTF-8 nor Latin-1")  # most likely another alphabet's encoding
    return text


def _not_binary(text: str) -> str:
    if _controls(text) > max(4, len(text) / 10):
        raise Unreadable(_BINARY)
    return text


def _controls(text: str) -> int:
    return len(text) - len(_CONTROLS.sub("", text))


def cleaned(text: str) -> str:
    # Through UTF-16: halves of one character that a PDF hands over apart are joined, lone ones replaced.
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _CONTROLS.sub("", _LINE_BREAKS.sub("\n", _TERMINAL_CODES.sub("", whole)))


def printable(text: str, most: int = 200) -> str:
    """One line without control characters; bytes of a file name that are no UTF-8 are replaced."""
    line = " ".join(cleaned(os.fsencode(text).decode("utf-8", "replace")).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def main(arguments: Sequence[str]) -> None:
    """Be the child: limit this process, parse standard input, print the answer as JSON."""
    kind, seconds = arguments
    # The parent ends a child that is late; should the parent be gone, the processor's clock does.
    limits = (
        (resource.RLIMIT_CPU, int(seconds)),
        (resource.RLIMIT_AS, _MAX_MEMORY),
        (resource.RLIMIT_CORE, 0),
    )
    for what, most in limits:
        with suppress(ValueError, OSError):  # not every system knows each limit
            resource.setrlimit(what, (most, most))
    sys.stdout.write(json.dumps(answer_for(Kind(kind), sys.stdin.buffer.read())))


def answer_for(kind: Kind, data: bytes) -> dict[str, str]:
    """Give a PDF's or e-mail's `text`, or the `reason` why there is none; raises nothing, whatever the bytes."""
    try:
        return {"text": _pdf(data) if kind is Kind.PDF else _email(data)}
    except Unreadable as error:
        return {"reason": str(error)}
    except MemoryError:
        return {"reason": f"needs more than {_MAX_MEMORY // 1024**3} GB of memory: broken, or far too large"}
    except RecursionError:
        return {"reason": f"broken {kind}: nested too deeply"}
    except Exception as error:  # noqa: BLE001  # on broken input both parsers raise anything
        ours_to_show = type(error).__module__.startswith("pypdf") and str(error)
        return {"reason": f"broken {kind}: {printable(ours_to_show or type(error).__name__, 100)}"}


def _pdf(data: bytes) -> str:
    # Imported in the child only: it takes 0.3 s.
    from pypdf import PdfReader  # noqa: PLC0415
    from pypdf.errors import DependencyError, FileNotDecryptedError  # noqa: PLC0415

    if b"%PDF-" not in data[:1024]:
        raise Unreadable("not a PDF: it does not begin with %PDF-")
    try:
        reader = PdfReader(BytesIO(data))
        # Many a PDF is encrypted only against printing and opens with the empty password.
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("encrypted PDF (save it without its password)")
        text = "\n\n".join(page.extract_text() for page in reader.pages)
    except DependencyError:
        raise Unreadable("encrypted PDF (AES; the package cryptography could open it)") from None
    except FileNotDecryptedError:
        raise Unreadable("encrypted PDF (save it without its password)") from None
    if not text.strip():
        raise Unreadable("no text in it (scanned pages?)")
    return text


def _email(data: bytes) -> str:
    message = BytesParser(policy=policy.default).parsebytes(data.removeprefix(codecs.BOM_UTF8))
    fields = {name: _field(message, name) for name in ("From", "To", "Date", "Subject")}
    head = [f"{name}: {value}" for name, value in fields.items() if value]
    if not head:
        raise Unreadable("not an e-mail: no From, To, Date or Subject")
    names = [printable(part.get_filename() or part.get_content_type()) for part in message.iter_attachments()]
    body = _body(message).strip()
    if not body:
        raise Unreadable("no text in it" + (" (only attachments)" if names else ""))
    text = "\n".join(head) + "\n\n" + body
    if names:
        text += f"\n\nAttachments (not read): {', '.join(names[:_MAX_NAMES])}"
        text += f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return text


def _field(message: EmailMessage, name: str) -> str:
    try:
        value = str(message[name] or "")
    except Exception:  # noqa: BLE001  # one field the library stumbles over must not cost the message
        value = next(str(raw) for key, raw in message.raw_items() if key.lower() == name.lower())
    return printable(value, 1000)


def _body(message: EmailMessage) -> str:
    """Give the plain text, or, if it says nothing, the HTML part's words."""
    for kind in ("plain", "html"):
        part = message.get_body((kind,))
        payload = part.get_payload(decode=True) if part else None
        if part is None or not isinstance(payload, bytes):
            continue
        try:
            text = payload.decode(part.get_content_charset("utf-8"))
        except (LookupError, UnicodeError):
            text = decoded(payload)
        if kind == "html":
            page = _Page()
            page.feed(text)
            page.close()
            text = page.words()
        if text.strip():
            return text
    return ""


class _Page(HTMLParser):
    """The words of a page, a line for each block, without scripts and styles."""

    _LAYOUT = ("address", "article", "br", "div", "footer", "header", "hr", "section")
    _PROSE = ("blockquote", "dd", "dl", "dt", "h1", "h2", "h3", "h4", "h5", "h6", "li", "ol", "p", "pre", "ul")
    _BLOCKS = frozenset({*_LAYOUT, *_PROSE, "table", "tr"})
    _MUTE = frozenset({"script", "style", "title"})

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[str] = []
        self._muted = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self._muted = tag in self._MUTE
        if tag in self._BLOCKS:
            self._pieces.append("\n- " if tag == "li" else "\n")
        elif tag in {"td", "th"}:
            self._pieces.append(" ")

    def handle_endtag(self, tag: str) -> None:
        self._muted = False
        if tag in self._BLOCKS:
            self._pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._muted:
            self._pieces.append(re.sub(r"\s+", " ", data))

    def words(self) -> str:
        lines = [" ".join(line.split()) for line in "".join(self._pieces).split("\n")]
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


if __name__ == "__main__":
    main(sys.argv[1:])
