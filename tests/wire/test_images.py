"""Pictures come as bytes or base64, and are told by their first bytes."""

from __future__ import annotations

import base64
import time

import pytest

from staffel_wire.errors import Invalid
from staffel_wire.images import media_type, plain_base64
from staffel_wire.request import MOST_IMAGES, Request, parse

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(90))
JPEG = b"\xff\xd8\xff\xe0" + bytes(50)
GIF = b"GIF89a" + bytes(20)
WEBP = b"RIFF\x0a\x00\x00\x00WEBPVP8 " + bytes(20)
LINE = "must be the bytes of a PNG, JPEG, GIF or WebP image, or their base64"


def encoded(held: bytes) -> str:
    return base64.b64encode(held).decode()


@pytest.mark.parametrize(
    ("held", "kind"),
    [(PNG, "image/png"), (JPEG, "image/jpeg"), (GIF, "image/gif"), (b"GIF87a!", "image/gif"), (WEBP, "image/webp")],
)
def test_a_picture_is_kept_as_plain_base64(held: bytes, kind: str) -> None:
    """However it comes: a record is JSON, and all four protocols carry base64."""
    plain = encoded(held)
    forms = [held, bytearray(held), memoryview(held), plain, f"data:{kind};base64,{plain}",
             f"data:image/png;charset=utf-8;base64,{plain}", f"DATA:{kind};BASE64,{plain}",
             base64.encodebytes(held).decode()]  # fmt: skip
    for form in forms:
        assert parse({"prompt": "What is this?", "images": [form]}).images == [plain]
    assert media_type(plain) == kind


@pytest.mark.parametrize(
    "given",
    [
        "photo.png", "/etc/passwd", "file:///etc/passwd", "https://example.com/a.png", "data:image/png;base64,",
        "data:text/html;base64," + encoded(PNG), "data:image/png," + encoded(PNG), "", b"", b"<svg/>",
        encoded(b"hello"), encoded(PNG)[:-1], encoded(PNG) + "=", encoded(PNG) + "!", " " + encoded(PNG),
        encoded(b"RIFF1234WAVEfmt "),
        7, None, True, {"path": "photo.png"}, ["x"], "Ünïcode", "data:image/" + "a;" * 100_000,
    ],
    ids=lambda given: repr(given)[:30],
)  # fmt: skip
def test_what_is_no_picture_is_refused_and_never_opened(given: object) -> None:
    """A path would be read by whoever holds it: the caller, the worker, or the wrong one of both."""
    with pytest.raises(Invalid) as caught:
        parse({"prompt": "What is this?", "images": [encoded(PNG), given]})
    assert str(caught.value) == f"images.1: {LINE}"


def test_pictures_are_a_list_and_not_too_many() -> None:
    """One line each, as for any other field."""
    picture = encoded(PNG)
    assert len(parse({"prompt": "x", "images": [picture] * MOST_IMAGES}).images) == MOST_IMAGES
    for given, line in (
        (picture, "images: should be a valid list"),
        (PNG, "images: should be a valid list"),
        ([picture] * (MOST_IMAGES + 1), "images: list should have at most 20 items, not 21"),
    ):
        with pytest.raises(Invalid) as caught:
            parse({"prompt": "x", "images": given})
        assert str(caught.value) == line


def test_a_picture_needs_words_of_the_user() -> None:
    """It goes with the user's last message."""
    for fields, line in (
        ({}, "give a prompt or messages"),
        ({"prompt": " "}, "the prompt is empty"),
        (
            {"messages": [{"role": "assistant", "content": "Hello."}]},
            "images go with the last message of the user, and there is none",
        ),
    ):
        with pytest.raises(Invalid) as caught:
            parse({**fields, "images": [PNG]})
        assert str(caught.value) == line


def test_a_picture_counts_as_it_is_stored() -> None:
    """`max_request_bytes` is about the record: base64 is a third longer than the bytes."""
    with pytest.raises(Invalid, match=r"the request is 1,3\d\d bytes long; at most 1,000 are taken"):
        parse({"prompt": "x", "images": [PNG + bytes(900)]}, max_bytes=1000)


def test_a_large_picture_is_taken_in_no_time() -> None:
    """It is decoded once and never searched."""
    held = PNG + bytes(20_000_000)
    began = time.process_time()
    for form in (held, encoded(held), base64.encodebytes(held).decode()):
        parse({"prompt": "x", "images": [form]}, max_bytes=2**31)
    assert time.process_time() - began < 5


def test_a_request_without_them_is_stored_as_before() -> None:
    """A record that an older worker reads holds nothing that it does not know."""
    assert Request(prompt="Why?").model_dump_json(exclude_defaults=True) == '{"prompt":"Why?"}'


def test_plain_base64_is_what_it_is() -> None:
    """The worker reads a record through the same door."""
    assert plain_base64(plain_base64(PNG)) == plain_base64(PNG)
