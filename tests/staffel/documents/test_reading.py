"""Documents are found and read as people have them, and a file that cannot be read says why in one line."""

from __future__ import annotations

import hashlib
import os
import socket
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from staffel.documents import MAX_BYTES, Document, NoSuchPath, find, read
from staffel_wire.errors import StaffelError
from tests.staffel.documents.papers import BINARY, reason, without_privileges, write

EXAMPLES = Path(__file__).parents[3] / "examples" / "documents"


class TestFind:
    def test_a_folder_gives_its_documents_in_sorted_order_and_nothing_hidden(self, tmp_path: Path) -> None:
        """Kinds are told by their suffix in any case; a hidden file or folder is none of our business."""
        for name in ("b.txt", "a.MD", "c/d.pdf", "c/a.eml", "e.markdown", "x.png", ".h.txt", ".git/a.txt", "README"):
            write(tmp_path, name, "x")
        found = [str(path.relative_to(tmp_path)) for path in find([tmp_path])]
        assert found == ["a.MD", "b.txt", "e.markdown", "c/a.eml", "c/d.pdf"]

    def test_a_file_given_by_name_is_taken_whatever_it_is_called(self, tmp_path: Path) -> None:
        """Whoever names a file means it, hidden or without a suffix."""
        given = [write(tmp_path, "LICENSE", "x"), write(tmp_path, ".notes", "x")]
        assert find(given) == given

    def test_each_file_comes_once_and_the_order_given_stays(self, tmp_path: Path) -> None:
        """A file beside its own folder, the folder twice, a link to the file: one document."""
        first, second = write(tmp_path, "z.txt", "x"), write(tmp_path, "a.txt", "x")
        (tmp_path / "zz.txt").symlink_to(first)
        assert find([first, tmp_path, tmp_path, tmp_path / "." / "a.txt"]) == [first, second]

    def test_a_loop_of_links_is_harmless(self, tmp_path: Path) -> None:
        """A folder that contains itself through a link is walked once; a link to itself is a row, not a hang."""
        write(tmp_path, "in/a.txt", "x")
        (tmp_path / "in" / "again").symlink_to(tmp_path)
        (tmp_path / "self.txt").symlink_to(tmp_path / "self.txt")
        assert [path.name for path in find([tmp_path])] == ["self.txt", "a.txt"]
        assert reason(tmp_path / "self.txt") == "too many levels of symbolic links"

    def test_every_path_that_is_not_there_is_named_at_once(self, tmp_path: Path) -> None:
        """A mistyped path is a mistake in usage: nothing is read before it is mended."""
        (tmp_path / "dangling").symlink_to(tmp_path / "gone")
        bad = [Path("no.txt"), tmp_path / "dangling", Path("nul\0.txt"), Path("n" * 5000)]
        with pytest.raises(
            NoSuchPath, match=r"^no\.txt, .*/dangling, nul\.txt, n+…: no such file or folder$"
        ) as mistake:
            find([tmp_path, *bad])
        assert isinstance(mistake.value, StaffelError)
        assert mistake.value.exit_code == 2

    def test_a_folder_that_cannot_be_listed_becomes_a_row(self) -> None:
        """Its documents would otherwise be missing and nobody would know."""
        with TemporaryDirectory() as name:  # not tmp_path, whose parents only its owner may enter
            folder = Path(name)
            folder.chmod(0o755)
            write(folder, "open/a.txt", "x")
            (folder / "locked").mkdir(mode=0)
            with without_privileges():
                found = find([folder])
                assert [path.name for path in found] == ["a.txt", "locked"]
                assert reason(found[-1]) == "permission denied"
            (folder / "locked").chmod(0o700)


class TestText:
    @pytest.mark.parametrize(
        "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252", "latin-1"], ids=lambda name: name
    )
    def test_text_is_read_in_the_encodings_people_have(self, tmp_path: Path, encoding: str) -> None:
        """With or without a byte order mark, and from an old Windows machine."""
        text = "Grüße aus Köln: Die Brücke ist für vier Wochen gesperrt, sagt das Straßenbauamt."
        document = read(write(tmp_path, "Brücke.txt", text.encode(encoding)))
        assert document == Document(
            tmp_path / "Brücke.txt", "Brücke.txt", text, hashlib.sha256(text.encode()).hexdigest()
        )

    def test_control_characters_are_removed_and_line_ends_made_one(self, tmp_path: Path) -> None:
        """NUL bytes, colours of a terminal log and form feeds are no part of what a document says."""
        raw = "one\0 line\r\n\x1b[31mred\x1b[0m\ttab\rthree\ffour\x07 \u2028 \x85last \u200d👍\n\n"
        assert read(write(tmp_path, "a.txt", raw)).text == "one line\nred\ttab\nthree\nfour \u2028 \nlast \u200d👍"

    def test_a_few_bad_bytes_do_not_garble_a_whole_utf8_file(self, tmp_path: Path) -> None:
        """A log cut in the middle of a character is still UTF-8, not Latin-1 full of Ã¼."""
        assert (
            read(write(tmp_path, "a.log", "für größer über Öl".encode() + b" \xc3")).text == "für größer über Öl \ufffd"
        )

    def test_a_real_replacement_character_is_kept(self, tmp_path: Path) -> None:
        """U+FFFD in valid UTF-8 is no sign of damage."""
        assert read(write(tmp_path, "a.txt", "what \ufffd was lost")).text == "what \ufffd was lost"

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"", "empty"),
            (b" \n\t\r\n\0", "empty"),
            (Path(sys.executable).read_bytes()[:4096], BINARY),
            (b"PK\x03\x04" + bytes(range(256)) * 4, BINARY),
            (b"\xef\xbb\xbf\xff\xfe", "not UTF-8, though its first bytes say so"),
            (b"\xff\xfea\xd8", "not UTF-16-LE, though its first bytes say so"),
            ("Привет, как у вас дела сегодня".encode("cp1251"), "not UTF-8 nor Latin-1"),
        ],
        ids=["nothing", "blank", "program", "archive", "broken UTF-8", "broken UTF-16", "Cyrillic"],
    )
    def test_what_is_no_text_is_refused_with_the_reason(self, tmp_path: Path, content: bytes, said: str) -> None:
        """A summary of garbled letters would be worse than a row that says why there is none."""
        assert reason(write(tmp_path, "a.txt", content)) == said


class TestFiles:
    def test_a_file_that_is_too_large_is_refused_unread(self, tmp_path: Path) -> None:
        """Fifty megabytes is more than any model's window by far."""
        path = write(tmp_path, "a.txt", "x")
        os.truncate(path, MAX_BYTES + 1)
        assert reason(path) == "larger than 50 MB"

    def test_pipes_sockets_devices_and_folders_are_refused_without_waiting(self, tmp_path: Path) -> None:
        """A named pipe would block forever, a device would never end."""
        os.mkfifo(tmp_path / "pipe.txt")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(tmp_path / "s"))
            assert reason(tmp_path / "s") == "no such device or address"
        assert reason(tmp_path / "pipe.txt") == "not a regular file"
        assert reason(Path("/dev/zero")) == "not a regular file"
        assert reason(tmp_path) == "is a directory"

    def test_a_file_that_may_not_be_read_or_is_gone_says_so(self, tmp_path: Path) -> None:
        """What the system says, in its own words."""
        path = write(tmp_path, "a.txt", "x")
        path.chmod(0)
        with without_privileges():
            assert reason(path) == "permission denied"
        path.unlink()
        assert reason(path) == "no such file or directory"
        assert reason(Path("a\0b")) == "its name holds a NUL character"

    def test_a_hostile_name_is_made_fit_to_print(self, tmp_path: Path) -> None:
        """A file's name may hold terminal codes, line breaks and bytes that are no UTF-8."""
        path = tmp_path / os.fsdecode(b"a\x1b[31m\nb\xff.txt")
        assert read(write(tmp_path, path.name, "x")).name == "a b\ufffd.txt"


class TestExamples:
    def test_the_examples_are_six_and_of_four_kinds(self) -> None:
        """They are what the demo summarizes."""
        assert len(files := find([EXAMPLES])) == 6
        assert {path.suffix for path in files} == {".txt", ".md", ".pdf", ".eml"}
        assert sorted(EXAMPLES.iterdir()) == sorted(files)

    @pytest.mark.parametrize("path", find([EXAMPLES]), ids=lambda path: path.name)
    def test_each_example_reads_and_has_200_to_600_words(self, path: Path) -> None:
        """Short enough for a small model's window, long enough to need a summary."""
        document = read(path)
        assert 200 <= len(document.text.split()) <= 600
        assert "\ufffd" not in document.text

    def test_two_examples_are_german(self) -> None:
        """Told by the commonest words."""
        texts = [read(path).text.lower().split() for path in find([EXAMPLES])]
        assert sum(words.count("und") + words.count("der") > 10 for words in texts) == 2
