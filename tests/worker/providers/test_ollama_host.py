"""What a host says of its models, or why it does not, each over a real socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from aiohttp import web

from config.stages import Stage
from tests.worker.ollama_house import House, house
from worker.providers import ollama_host
from worker.providers.ollama_host import Hosts, HostUnclear, Resident, Shown

T = TypeVar("T")


def stage_of(found: House, **fields: Any) -> Stage:
    return Stage("local", "ollama", **{"base_url": found.url, "model": "m", **fields})


def asked(ask: Callable[[Hosts, House], Awaitable[T]], **fields: Any) -> tuple[T, House]:
    async def asking() -> tuple[T, House]:
        async with house(**fields) as found:
            hosts = Hosts()
            try:
                return await ask(hosts, found), found
            finally:
                await hosts.close()

    return asyncio.run(asking())


def why(ask: Callable[[Hosts, Stage], Awaitable[object]], **fields: Any) -> str:
    """In which words the host is said not to have answered."""

    async def fails(hosts: Hosts, found: House) -> str:
        with pytest.raises(HostUnclear) as error:
            await ask(hosts, stage_of(found))
        return str(error.value)

    return asked(fails, **fields)[0]


LOOKS: list[Callable[[Hosts, Stage], Awaitable[object]]] = [Hosts.pulled, Hosts.resident, Hosts.shown]


@pytest.mark.parametrize(("model", "there"), [("m", True), ("M:latest", True), ("m:8b", False), ("n", False)])
def test_a_model_is_found_by_any_of_its_names(model: str, there: bool) -> None:
    """As Ollama does: no tag is the tag `latest`."""

    async def ask(hosts: Hosts, found: House) -> tuple[bool, bool]:
        stage = stage_of(found, model=model)
        return await hosts.pulled(stage), await hosts.resident(stage) is not None

    assert asked(ask, resident={"m:latest": 4096})[0] == (there, there)


def test_what_is_in_memory_is_told_with_its_window_and_its_time() -> None:
    """And nothing, spelled null, is nothing."""
    found, _ = asked(lambda hosts, found: hosts.resident(stage_of(found)), resident={"m:latest": 2048})
    assert found == Resident(2048, "2026-12-01T12:00:00Z")
    assert asked(lambda hosts, found: hosts.resident(stage_of(found)))[0] is None


def test_a_model_is_described_by_what_it_was_trained_for_and_what_it_can() -> None:
    """The window's key begins with the model's family."""
    found, _ = asked(lambda hosts, found: hosts.shown(stage_of(found)), capabilities=("completion", "vision"))
    assert found == Shown(8192, frozenset({"completion", "vision"}))


def test_a_load_is_the_empty_chat_and_has_the_stages_settings() -> None:
    """With no clock of its own: whoever gives up throws it away."""
    fields = {"num_ctx": 2048, "keep_alive": "1h", "params": {"options": {"num_gpu": 0, "top_k": 1}}}
    _, found = asked(lambda hosts, found: hosts.load(stage_of(found, **fields)))
    options = {"num_gpu": 0, "num_ctx": 2048}
    assert found.loads == [{"model": "m", "messages": [], "stream": False, "keep_alive": "1h", "options": options}]
    assert found.resident == {"m:latest": 2048}


def test_a_load_that_fails_says_why_in_the_hosts_words() -> None:
    """Without its address: the line goes into a log."""
    found = why(Hosts.load, failing="llama runner process has terminated: CUDA error: out of memory at 10.0.0.1:11434")
    assert found == "status 500: llama runner process has terminated: CUDA error: out of memory at …"


@pytest.mark.parametrize("look", LOOKS)
def test_a_host_that_does_not_answer_is_given_up(
    look: Callable[[Hosts, Stage], Awaitable[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that loads a model says nothing of its memory until it is done."""
    monkeypatch.setattr(ollama_host, "LOOK_S", 0.05)
    assert why(look, hangs=True) == "no answer within 0.05 s"


@pytest.mark.parametrize("look", [*LOOKS, Hosts.load])
@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (web.Response(status=404, text="404 page not found"), "status 404: 404 page not found"),
        (web.Response(status=502), "status 502"),
        (web.Response(status=302, headers={"location": "/"}), "status 302"),
        (web.Response(body=b"<html>", content_type="text/html"), "an answer that is none of Ollama's"),
        (web.Response(body=b"[]"), "an answer that is none of Ollama's"),
        (web.Response(body=b"[" * 100_000), "an answer that is none of Ollama's"),
        (web.Response(body=b'{"error": "no"}'), "status 200: no"),
        (web.Response(body=b" " * 5_000_000), "an answer that is far too long"),
    ],
)
def test_a_host_that_is_none_of_ollamas_is_told_in_one_line(
    look: Callable[[Hosts, Stage], Awaitable[object]], reply: web.Response, said: str
) -> None:
    """Never a traceback: a person asks what is wrong, or a loop would end."""
    assert why(look, odd=reply) == said


@pytest.mark.parametrize("body", [b"{}", b'{"models": 7}', b'{"models": [7, {"name": 7}]}', b'{"model_info": 7}'])
def test_an_answer_in_an_odd_shape_is_none_or_says_nothing(body: bytes) -> None:
    """Whatever it is."""

    async def ask(hosts: Hosts, found: House) -> list[object]:
        results = await asyncio.gather(*(look(hosts, stage_of(found)) for look in LOOKS), return_exceptions=True)
        return [type(result) if isinstance(result, BaseException) else result for result in results]

    tags, ps, shown = asked(ask, odd=web.Response(body=body))[0]
    assert tags in (False, HostUnclear)
    assert ps in (None, HostUnclear)
    assert shown == Shown()


def test_a_host_that_is_away_says_so() -> None:
    """It is no news that it has no model."""

    async def asking() -> HostUnclear:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            hosts, url = Hosts(), f"http://127.0.0.1:{taken.getsockname()[1]}"
            with pytest.raises(HostUnclear, match="nobody answers") as error:
                await hosts.pulled(Stage("local", "ollama", base_url=url, model="m"))
            await hosts.close()
            return error.value

    assert asyncio.run(asking()).away
