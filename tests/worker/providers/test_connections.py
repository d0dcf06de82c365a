"""Connections are used again, refused at once, and closed when nobody listens any more."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator

import pytest

from tests.eventually import eventually, eventually_async
from tests.hosts import Host, Outcome
from tests.worker.providers.asking import MESSAGES, place, provider_of, replies, reply, stage_at, walked
from worker.failover import judge
from worker.failover.chain import Stop
from worker.failover.clocks import Reply, read
from worker.failover.provider import Call, Kind
from worker.failover.request import Request


def reason(found: Reply) -> str | None:
    verdict = judge.of_fault(found.fault) if found.fault else judge.of_reply(found.text, found.end)
    return verdict and str(verdict.reason)


def test_a_refused_connection_is_told_at_once(host: Host, protocol: str) -> None:
    """Not when the connect clock strikes, and also at a stage's first call: certificates were read there for 60 ms."""
    found = replies(stage_at(host.refused(), protocol, connect_timeout=3), times=3)
    assert [reply.fault and reply.fault.kind for reply in found] == [Kind.CONNECT] * 3
    assert max(reply.duration_s for reply in found) < 1
    assert min(reply.duration_s for reply in found) < 0.05


@pytest.fixture
def deaf() -> Iterator[str]:
    """An address where the connection is never taken: the queue of those that wait is full."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        waiting = []
        for _ in range(4):
            waiting.append(endpoint := socket.socket())
            endpoint.setblocking(False)
            endpoint.connect_ex(listening.getsockname())
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        for endpoint in waiting:
            endpoint.close()


def test_the_connect_clock_strikes_where_nobody_takes_the_connection(deaf: str, protocol: str) -> None:
    """Long before the others."""
    found = reply(stage_at(deaf, protocol, connect_timeout=0.3))
    assert (reason(found), found.text) == ("connect", "")
    assert 0.25 < found.duration_s < 5


def test_calls_one_after_the_other_share_a_connection(host: Host, protocol: str) -> None:
    """Also after a failure that was told in full; only a cut needs a new one."""
    url = place(host, protocol, "ok,thinking,status:500,length,empty,error-in-stream,ok")
    replies(stage_at(url, protocol), times=7)
    assert len({call.connection for call in host.calls(url)}) == 1


@pytest.mark.parametrize(
    ("script", "reasons"),
    [
        ("ok,cut-head,ok", [None, "cut_off", None]),
        ("ok,cut-head:reset,ok", [None, "cut_off", None]),
        ("ok,cut,ok", [None, "cut_off", None]),
        ("ok,status:500,ok", [None, "server_error", None]),
        ("status:503,status:503,ok", ["overloaded", "overloaded", None]),
        ("status:429:retry-after=0,ok", ["throttled", None]),
    ],
)
def test_no_call_is_made_twice_by_any_layer(host: Host, protocol: str, script: str, reasons: list[str | None]) -> None:
    """A connection that was used before and breaks is what HTTP clients like to retry unasked."""
    url = place(host, protocol, script)
    found = replies(stage_at(url, protocol), times=len(reasons))
    assert [reason(reply) for reply in found] == reasons
    assert len(host.calls(url)) == len(reasons)


@pytest.mark.parametrize("script", ["silent", "head-only", "stall", "blanks", "drip:every=0.1"])
def test_a_cancel_closes_the_socket_at_once(host: Host, protocol: str, script: str) -> None:
    """The host stops working for it; no further stage is asked."""
    url = place(host, protocol, script)
    stop, asked = Stop(), []

    async def cancel() -> None:
        await eventually_async(lambda: host.in_flight(url), "the call is in flight")
        asked.append(time.monotonic())
        stop.ask()

    shown = walked(stage_at(url, protocol), stop, cancel)
    assert shown["status"] == "cancelled"
    assert [(row["stage"], row["outcome"]) for row in shown["attempts"]] == [("first", "cancelled")]
    call = eventually(lambda: [call for call in host.calls(url) if call.ended], "the host saw the close")[0]
    assert (call.outcome, len(host.calls(url))) == (Outcome.ABORTED, 1)
    assert call.closed_at is not None
    assert call.closed_at - asked[0] < 1


def test_a_cancelled_call_leaves_the_provider_as_it_was(host: Host, protocol: str) -> None:
    """The next call gets a connection that works."""

    async def asking() -> list[Reply]:
        url = place(host, protocol, "ok,stall,ok")
        call = Call(stage_at(url, protocol), Request(MESSAGES), 100)
        async with provider_of(protocol) as provider:
            first = await read(provider, call, 30)
            broken = asyncio.ensure_future(read(provider, call, 30))
            await eventually_async(lambda: host.in_flight(url), "the second call is in flight")
            broken.cancel()
            with pytest.raises(asyncio.CancelledError):
                await broken
            return [first, await read(provider, call, 30)]

    assert [reason(reply) for reply in asyncio.run(asking())] == [None, None]


def test_a_hundred_and_twenty_calls_are_in_flight_together(host: Host, protocol: str) -> None:
    """The pool has no bound of its own, where HTTP clients stop at 100; all are closed in the end."""
    url = place(host, protocol, "silent")

    async def asking() -> None:
        call = Call(stage_at(url, protocol), Request(MESSAGES), 100)
        async with provider_of(protocol) as provider:
            calls = [asyncio.ensure_future(read(provider, call, 30)) for _ in range(120)]
            await eventually_async(lambda: host.in_flight(url) == 120, "all calls are in flight")
            for under_way in calls:
                under_way.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    asyncio.run(asking())
    eventually(lambda: host.in_flight(url) == 0, "all sockets are closed")
    assert {call.outcome for call in host.calls(url)} == {Outcome.ABORTED}
