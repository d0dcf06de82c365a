"""Files as they lie in people's folders, made for a test."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter

from staffel.documents import Unreadable, read

BINARY = "binary file (text, Markdown, PDF and e-mail can be read)"


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def reason(path: Path, **clock: float) -> str:
    with pytest.raises(Unreadable) as refusal:
        read(path, **clock)
    said = str(refusal.value)
    assert said
    assert said.isprintable()
    return said


def pdf(content: bytes) -> bytes:
    """Build a PDF of one page with this content stream."""
    packed = zlib.compress(content)
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
        b"<</Filter/FlateDecode/Length %d>>stream\n%b\nendstream" % (len(packed), packed),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
    )
    out = b"%PDF-1.4\n"
    table = b"xref\n0 6\n0000000000 65535 f \n"
    for number, each in enumerate(objects, 1):
        table += b"%010d 00000 n \n" % len(out)
        out += b"%d 0 obj\n%b\nendobj\n" % (number, each)
    return out + table + b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % len(out)


ONE_LINE_PDF = pdf(b"BT /F 12 Tf 10 100 Td (The bridge is closed.) Tj ET")


def encrypted(user_password: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(ONE_LINE_PDF)))
    writer.encrypt(user_password, "the owner's", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


@contextmanager
def without_privileges() -> Iterator[None]:
    """Be nobody for a moment: root may read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


HEAD = (
    b"From: =?utf-8?q?J=C3=BCrgen?= <j@mill.example>\r\nSubject: The mill\r\nDate: Mon, 2 Mar 2026 08:00:00 +0100\r\n"
)


def part(kind: bytes, body: bytes, *fields: bytes) -> bytes:
    return b"\r\n".join((b"--cut", b"Content-Type: " + kind, *fields, b"", body, b""))


def mail(kind: bytes, *parts: bytes) -> bytes:
    return HEAD + b"Content-Type: " + kind + b"; boundary=cut\r\n\r\n" + b"".join(parts) + b"--cut--\r\n"


MAILS = (
    mail(b"multipart/alternative", part(b"text/plain", b"Plain."), part(b"text/html", b"<p>Rich")),
    mail(b"multipart/mixed", part(b"text/html; charset=utf-8", b"<p>Rich</p>"), part(b"image/png; name=a.png", b"x")),
)
