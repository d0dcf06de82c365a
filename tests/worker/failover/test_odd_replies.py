"""One reply never ends a walk, whatever is in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from config.stages import Stage
from tests.virtual_time import run
from tests.worker.failover.walks import PRICE, Bench, Walked, stage, walked
from worker.failover.attempt import Usage
from worker.failover.clocks import Reply, read
from worker.failover.provider import Call, End, Kind, Piece, counted
from worker.failover.request import Request


class Played:
    """A provider that says these chunks and raises these errors, `closing` when it is left before its end."""

    def __init__(self, *steps: Piece | End | BaseException, closing: Exception | None = None) -> None:
        self.steps, self.closing = steps, closing

    async def stream(self, call: Call) -> AsyncIterator[Piece | End]:
        call.sending()
        try:
            for step in self.steps:
                if isinstance(step, BaseException):
                    raise step
                yield step
        except GeneratorExit:
            if self.closing:
                raise self.closing from None
            raise


def heard(*steps: Piece | End | BaseException, closing: Exception | None = None) -> Reply:
    call = Call(Stage("a", "scripted", first_token_timeout=5), Request([]), 100)
    return run(read(Played(*steps, closing=closing), call, 60))


def played(*steps: Piece | End | BaseException) -> Walked:
    """A walk along one stage with a price."""

    async def walking() -> Walked:
        bench = Bench([stage("a", price=PRICE)], provider=Played(*steps))
        bench.submit()
        return await bench.walk()

    return run(walking())


@pytest.mark.parametrize("script", [["wibble"], ["ok:hi:x"], ["status:many"], [7], 5])
def test_a_script_that_nobody_can_play_is_an_unreadable_reply(script: object) -> None:
    """The exception left the walk, and the job was running for ever."""
    broken = Stage("a", "scripted", model="m", params={"script": script})
    found = walked(broken, stage("b", "ok:Because."))
    assert found.told == [("a", "failed", "malformed"), ("b", "answered", None)]


@pytest.mark.parametrize("error", [ValueError("x"), OverflowError(), RecursionError(), TimeoutError(), KeyError("x")])
@pytest.mark.parametrize("said", [(), (Piece("Becau"),)])
def test_an_exception_of_a_provider_is_an_unreadable_reply(error: Exception, said: tuple[Piece, ...]) -> None:
    """Whatever was heard before it is kept. One that looks like a clock is none: all of these had left the walk."""
    reply = heard(*said, error)
    assert reply.fault is not None
    assert (reply.fault.kind, reply.text, reply.end) == (Kind.UNREADABLE, "".join(p.text for p in said), None)


def test_an_exception_while_closing_costs_no_answer() -> None:
    """The answer was whole by then."""
    reply = heard(Piece("Because."), End("stop"), Piece("more"), closing=ValueError("x"))
    assert (reply.text, reply.end, reply.fault) == ("Because.", End("stop"), None)


def test_a_cancelled_reading_is_no_reply() -> None:
    """Only the caller's own cancel leaves the reading."""
    with pytest.raises(asyncio.CancelledError):
        heard(asyncio.CancelledError())


def test_an_error_of_the_sinks_is_not_the_providers() -> None:
    """A stage must not be blamed for our own store."""

    async def sink(_: str) -> None:
        raise ConnectionError("the store is away")

    call = Call(Stage("a", "scripted"), Request([]), 100)
    with pytest.raises(ConnectionError):
        run(read(Played(Piece("Because."), End("stop")), call, 60, sink))


def test_more_tokens_than_there_are_numbers_cost_nothing_known() -> None:
    """10**400 tokens of a stage with a price ended in an OverflowError, and the job was running for ever."""
    (attempt,) = played(Piece("Because."), End("stop", Usage(10**400, 1))).attempts
    assert (attempt["outcome"], attempt["usage"], attempt["cost_usd"]) == ("answered", None, None)
    (attempt,) = played(Piece("Because."), End("stop", Usage(1_000_000, 0))).attempts
    assert attempt["cost_usd"] == PRICE.input


@pytest.mark.parametrize("odd", [-1, True, False, 1.0, float("nan"), "1", [], {}, 2**31, 10**400], ids=repr)
def test_a_count_is_a_whole_number_within_reason(odd: object) -> None:
    """Of three counts that come together none is believed if one is odd."""
    assert counted(odd, 1, 1) is counted(1, odd, 1) is counted(1, 1, odd) is None
    assert counted(2**31 - 1, 0) == Usage(2**31 - 1, 0, 0)


def test_half_a_count_is_no_count() -> None:
    """An Ollama without counters cost 0.0 USD in a cloud, and a host that counts only its input half the price."""
    assert counted(None, 1) is counted(1, None) is counted(None, None, 3) is None
    assert counted(5, 7, None) == Usage(5, 7, 0)
    assert counted(5, 7, 999) == Usage(5, 7, 7), "reasoning is a part of the output"


def test_half_a_character_is_replaced() -> None:
    """JSON can spell one; printing or storing the answer failed long after it was given."""
    seen: list[str] = []

    async def sink(text: str) -> None:
        seen.append(text)

    call = Call(Stage("a", "scripted"), Request([]), 100)
    said = [Piece("a\ud800b"), Piece("\udc00"), Piece("😀"), Piece("\ud800"), End("stop")]
    reply = run(read(Played(*said), call, 60, sink))
    assert (reply.text, seen) == ("a\ufffdb\ufffd😀", ["a\ufffdb", "\ufffd", "😀"])


def test_a_character_that_comes_in_two_halves_is_one() -> None:
    """A host that counts in the other encoding's units cuts an emoji in two."""
    assert heard(Piece("a\ud83d"), Piece("\ude00"), Piece("\ude00b"), End("stop")).text == "a😀\ufffdb"
