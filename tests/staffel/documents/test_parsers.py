"""PDF and e-mail are parsed in a child process, and whatever is in them, a text or a reason comes out."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from staffel.documents import Unreadable, read
from staffel.documents.parsers import Kind, answer_for
from tests.staffel.documents.papers import BINARY, HEAD, MAILS, ONE_LINE_PDF, encrypted, mail, part, pdf, reason, write

SHOWN = "From: Jürgen <j@mill.example>\nDate: Mon, 02 Mar 2026 08:00:00 +0100\nSubject: The mill\n\n"
FUZZ = settings(database=None, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def is_clean_or_says_why(path: Path) -> None:
    try:
        text = read(path).text
    except Unreadable as refusal:
        if not str(refusal).isprintable():
            raise
    else:
        assert text.strip()
        text.encode()
        assert not [each for each in text if (each < " " and each not in "\n\t") or "\x7f" <= each <= "\x9f"]


class TestPdf:
    def test_a_pdf_gives_the_text_of_its_pages(self, tmp_path: Path) -> None:
        """Also under another suffix: its first bytes tell."""
        assert read(write(tmp_path, "a.bin", ONE_LINE_PDF)).text == "The bridge is closed."

    def test_a_pdf_locked_only_against_printing_opens(self, tmp_path: Path) -> None:
        """Such a file has an owner's password and an empty one for readers."""
        assert read(write(tmp_path, "a.pdf", encrypted(""))).text == "The bridge is closed."

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"", "empty"),
            (b"<html>", "not a PDF: it does not begin with %PDF-"),
            (ONE_LINE_PDF[:200], "broken PDF: "),
            (ONE_LINE_PDF.replace(b"/Kids[3 0 R]", b"/Kids[2 0 R]"), "broken PDF: "),
            (pdf(b"q 9 0 0 9 0 0 cm Q"), "no text in it (scanned pages?)"),
            (encrypted("secret"), "encrypted PDF (save it without its password)"),
        ],
        ids=["nothing", "HTML", "cut", "loop", "drawing", "password"],
    )
    def test_a_pdf_that_cannot_be_read_says_why(self, tmp_path: Path, content: bytes, said: str) -> None:
        """In a line, however the parser put it."""
        assert reason(write(tmp_path, "a.pdf", content)).startswith(said)

    def test_a_pdf_that_takes_too_long_is_given_up(self, tmp_path: Path) -> None:
        """Twenty kilobytes can unpack to minutes of work; the child that does it is ended."""
        path = write(tmp_path, "a.pdf", pdf(b"BT /F 9 Tf (a) Tj ET\n" * 400_000))
        assert reason(path, seconds=0.7) == "reading it takes longer than 0.7 s: broken, or far too large"

    def test_the_parsers_warnings_reach_nobody(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        """A slightly broken PDF makes pypdf talk; a progress bar is no place for that."""
        shifted = ONE_LINE_PDF.replace(b"startxref\n", b"startxref\n9")
        assert answer_for(Kind.PDF, shifted) == {"text": "The bridge is closed."}
        assert [record.name for record in caplog.records if record.name.startswith("pypdf")]
        caplog.clear()
        capfd.readouterr()
        with caplog.at_level(logging.DEBUG):
            assert read(write(tmp_path, "a.pdf", shifted)).text == "The bridge is closed."
        assert capfd.readouterr() == ("", "")
        assert caplog.records == []

    @pytest.mark.parametrize(
        ("program", "said"),
        [
            ("/bin/false", "its reader broke down: broken, or far too large"),
            ("/no/python", "its reader cannot be started: no such file or directory"),
        ],
    )
    def test_a_reader_that_dies_or_cannot_start_is_a_reason_too(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, said: str
    ) -> None:
        """The rest of the batch goes on."""
        monkeypatch.setattr(sys, "executable", program)
        assert reason(write(tmp_path, "a.pdf", ONE_LINE_PDF)) == said


class TestEmail:
    @pytest.mark.parametrize(
        ("message", "text"),
        [
            (HEAD + b"\r\nIt stands still.\r\n", "It stands still."),
            (
                b"\xef\xbb\xbf" + HEAD + b"Content-Type: text/plain; charset=klingon\r\n\r\nM\xfchle steht",
                "Mühle steht",
            ),
            (HEAD + "\r\nMühle".encode(), "Mühle"),
            (HEAD + b"Content-Type: text/plain; charset=us-ascii\r\n\r\nM\xc3\xbchle", "Mühle"),
            (mail(b"multipart/alternative", part(b"text/plain", b"Plain."), part(b"text/html", b"<p>Rich")), "Plain."),
            (mail(b"multipart/alternative", part(b"text/plain", b" "), part(b"text/html", b"<p>Rich")), "Rich"),
            (
                mail(
                    b"multipart/mixed",
                    part(b"text/plain", b"See there."),
                    part(b"image/png", b"x", b"Content-Disposition: attachment; filename=wheel.png"),
                    part(b"message/rfc822", HEAD + b"\r\nold"),
                ),
                "See there.\n\nAttachments (not read): wheel.png, message/rfc822",
            ),
        ],
        ids=["simple", "unknown charset", "no charset", "wrong charset", "alternative", "blank plain", "attachments"],
    )
    def test_an_email_gives_its_head_and_its_words(self, tmp_path: Path, message: bytes, text: str) -> None:
        """Who, when, what about, then the plain text, or the HTML part's words if there is none."""
        assert read(write(tmp_path, "a.eml", message)).text == SHOWN + text

    def test_html_is_reduced_to_its_words(self, tmp_path: Path) -> None:
        """Scripts and styles say nothing; blocks end lines; entities are characters."""
        page = (
            b"<html><head><title>T</title><style>p {x: y}</style><script>if (a < b) c()</script></head><body>"
            b"<h1>Closed</h1><p>From   Monday\n&amp; for <b>four</b> weeks&period;<br>"
            b"Detour:<ul><li>ring road<li>mill</ul>"
            b"<table><tr><td>bus</td><td>8</td></tr></table><!-- no --></body></html>"
        )
        text = read(write(tmp_path, "a.eml", HEAD + b"Content-Type: text/html\r\n\r\n" + page)).text
        lines = [line for line in text.removeprefix(SHOWN).split("\n") if line]
        assert lines == ["Closed", "From Monday & for four weeks.", "Detour:", "- ring road", "- mill", "bus 8"]

    @pytest.mark.parametrize(
        ("message", "said"),
        [
            (b"Just a note.\n", "not an e-mail: no From, To, Date or Subject"),
            (HEAD + b"\r\n", "no text in it"),
            (mail(b"multipart/mixed", part(b"application/pdf", b"x")), "no text in it (only attachments)"),
            (HEAD + b"\r\n" + bytes(range(256)) * 9, BINARY),
            (
                b"Subject: x\n"
                + b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(2000)),
                "broken e-mail: nested too deeply",
            ),
        ],
        ids=["note", "no body", "only attachments", "binary", "nested"],
    )
    def test_an_email_that_cannot_be_read_says_why(self, tmp_path: Path, message: bytes, said: str) -> None:
        """In a line, however the library put it."""
        assert reason(write(tmp_path, "a.eml", message)) == said

    def test_a_field_the_library_stumbles_over_does_not_cost_the_message(self, tmp_path: Path) -> None:
        """The field is shown as it stands, cut to a sane length."""
        text = read(write(tmp_path, "a.eml", b"From: " + b"(" * 3000 + b"\nSubject: s\n\nhello")).text
        assert text.endswith("…\nSubject: s\n\nhello")


class TestHostileBytes:
    @settings(FUZZ, max_examples=150)
    @given(content=st.binary(max_size=300), suffix=st.sampled_from([".txt", ".md", "", ".docx"]))
    def test_any_bytes_are_text_or_a_reason(self, tmp_path: Path, content: bytes, suffix: str) -> None:
        """Whatever is in the file, what comes out can be sent as JSON and shown to a person."""
        is_clean_or_says_why(write(tmp_path, f"a{suffix}", content))

    @settings(FUZZ, max_examples=6)
    @given(
        content=st.binary(min_size=1, max_size=300), head=st.sampled_from([(".pdf", b"%PDF-"), (".eml", b"To: a\n\n")])
    )
    def test_any_bytes_are_a_pdf_or_email_or_a_reason(
        self, tmp_path: Path, content: bytes, head: tuple[str, bytes]
    ) -> None:
        """The same through the child process; it is slow, so there are few."""
        is_clean_or_says_why(write(tmp_path, f"a{head[0]}", head[1] + content))

    @settings(FUZZ, max_examples=80)
    @given(
        cuts=st.lists(st.tuples(st.integers(0, 5000), st.binary(max_size=8)), min_size=1, max_size=4), data=st.data()
    )
    def test_a_damaged_pdf_or_email_never_raises_in_the_child(
        self, cuts: list[tuple[int, bytes]], data: st.DataObject
    ) -> None:
        """Bytes of real files are overwritten here and there: that gets deeper into a parser than noise."""
        kind, sound = data.draw(
            st.sampled_from(
                [(Kind.PDF, ONE_LINE_PDF), (Kind.PDF, encrypted("")), *((Kind.EMAIL, each) for each in MAILS)]
            )
        )
        content = bytearray(sound)
        for at, new in cuts:
            content[at % len(sound) : at % len(sound) + len(new)] = new
        answer = answer_for(kind, bytes(content))
        assert answer.get("text") or answer["reason"].isprintable()

    @settings(FUZZ, max_examples=100)
    @given(content=st.binary(max_size=200))
    @example(content=b"Subject: =?utf-8?b?7aCA?=\n\n\xed\xa0\x80")
    def test_any_bytes_under_a_mail_head_never_raise_in_the_child(self, content: bytes) -> None:
        """Headers are the library's weak side."""
        answer = answer_for(Kind.EMAIL, b"Subject: x\nFrom: " + content)
        assert answer.get("text") or answer["reason"].isprintable()
