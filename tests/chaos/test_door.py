"""A door passes, cuts, holds back and swallows what goes through it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from chaos.door import Door, Doors

SOON_S = 10.0


@pytest.fixture
def door() -> Iterator[Door]:
    """A door to somebody who says everything again."""
    with socket.create_server(("127.0.0.1", 0)) as server, Doors() as doors:
        thread = threading.Thread(target=_echo, args=(server,), daemon=True)
        thread.start()
        yield doors.made(lambda: server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def _echo(server: socket.socket) -> None:
    while True:
        try:
            talking, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_say_again, args=(talking,), daemon=True).start()


def _say_again(talking: socket.socket) -> None:
    with talking:
        while data := _heard(talking):
            talking.sendall(data)


def _heard(line: socket.socket) -> bytes:
    try:
        return line.recv(1000)
    except ConnectionError:
        return b""


def _line(door: Door, timeout: float = SOON_S) -> socket.socket:
    return socket.create_connection(("127.0.0.1", door.port), timeout)


def test_it_passes_everything_both_ways(door: Door) -> None:
    with _line(door) as line:
        line.sendall(b"hello")
        assert line.recv(1000) == b"hello"


def test_cut_off_means_that_all_lines_end_and_none_is_made(door: Door) -> None:
    with _line(door) as line:
        line.sendall(b"hello")
        line.recv(1000)
        door.cut()
        assert _heard(line) == b""
        with pytest.raises(ConnectionRefusedError):
            _line(door)
    door.restore()
    with _line(door) as line:
        line.sendall(b"again")
        assert line.recv(1000) == b"again"


def test_a_slow_line_holds_back_either_way(door: Door) -> None:
    door.slow(0.2)
    with _line(door) as line:
        began = time.monotonic()
        line.sendall(b"hello")
        assert line.recv(1000) == b"hello"
        assert time.monotonic() - began >= 0.4


def test_a_black_hole_takes_everything_and_gives_it_back_when_it_is_over(door: Door) -> None:
    with _line(door, 0.3) as line:
        door.swallow()
        line.sendall(b"hello")
        with pytest.raises(TimeoutError):
            line.recv(1000)
        with _line(door):
            pass  # the connection itself is made
        door.restore()
        line.settimeout(SOON_S)
        assert line.recv(1000) == b"hello"


def test_a_line_to_nobody_ends(door: Door) -> None:
    with socket.socket() as nobody, Doors() as doors:
        nobody.bind(("127.0.0.1", 0))
        with _line(doors.made(lambda: nobody.getsockname()[1])) as line:
            assert _heard(line) == b""
