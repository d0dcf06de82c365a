"""The client of a web backend: one connection, however many jobs wait, and a wait that ends whatever happens."""

from __future__ import annotations

import asyncio
import threading

import psutil
import pytest

from staffel import Client, SyncClient, Unavailable
from tests.eventually import eventually_async
from tests.nodes import House

pytestmark = pytest.mark.usefixtures("workers")


def connections(house: House) -> set[str]:
    """Those of the server's clients that are this process; the workers' come and go."""
    own = {f"{c.laddr.ip}:{c.laddr.port}" for c in psutil.Process().net_connections("tcp") if c.raddr}
    with house.valkey.client as redis:
        return own & {client["addr"] for client in redis.client_list()}


def test_a_hundred_asks_share_one_connection(house: House, prompt: str) -> None:
    """`CLIENT LIST` grows by exactly one that stays the same, and each caller gets its own answer."""

    async def work() -> tuple[list[str], set[str]]:
        before, seen = connections(house), set[str]()
        async with Client(house.url) as client:
            asked = [asyncio.create_task(client.ask(f"{prompt} {n}", chain="echo-slowly")) for n in range(100)]
            while not all(task.done() for task in asked):
                seen |= await asyncio.to_thread(connections, house) - before
            return [(await task).text for task in asked], seen

    texts, seen = asyncio.run(work())
    assert texts == [f"{prompt} {n}" for n in range(100)]
    assert len(seen) == 1


def test_a_hundred_cancelled_asks_leave_the_connection_usable(house: House, prompt: str) -> None:
    """A coroutine that is cancelled in mid-reply must not leave its reply to the next one."""

    async def work() -> list[str]:
        async with Client(house.url) as client:
            for wait in range(20):
                asked = [asyncio.create_task(client.ask(f"{prompt} left", chain="quick")) for _ in range(5)]
                await asyncio.sleep(wait * 0.0005)
                for task in asked:
                    task.cancel()
                await asyncio.gather(*asked, return_exceptions=True)
            stayed = await asyncio.gather(*(client.ask(f"{prompt} {n}", chain="quick") for n in range(10)))
            return [answer.text for answer in stayed]

    assert asyncio.run(work()) == [f"{prompt} {n}" for n in range(10)]


def test_who_waits_learns_that_the_client_was_closed(house: House, prompt: str) -> None:
    """A backend that shuts down while a request waits: the wait ends with an error instead of never."""

    async def work() -> None:
        async with Client(house.url) as client:
            waiting = asyncio.create_task(client.ask(prompt, chain="hang"))
            await eventually_async(lambda: house.calls("silent", prompt), "the host is asked")
        with pytest.raises(Unavailable, match="closed"):
            await asyncio.wait_for(waiting, 5)

    asyncio.run(work())


def test_threads_share_a_sync_client(house: House, prompt: str) -> None:
    """Django's threads use one object; it opens one connection."""
    before, texts = connections(house), dict[int, str]()
    with SyncClient(house.url) as client:

        def ask(n: int) -> None:
            texts[n] = client.ask(f"{prompt} {n}", chain="echo-slowly").text

        threads = [threading.Thread(target=ask, args=(n,)) for n in range(10)]
        for thread in threads:
            thread.start()
        during = connections(house) - before
        for thread in threads:
            thread.join()
    assert texts == {n: f"{prompt} {n}" for n in range(10)}
    assert len(during) <= 1


def test_a_job_is_joined_by_its_id(house: House, prompt: str) -> None:
    """Submitted twice under one id, it is asked once and both get the answer."""

    async def work() -> list[str]:
        async with Client(house.url) as client:
            name = f"joined-{prompt.rsplit(maxsplit=1)[-1]}"
            jobs = [await client.submit(prompt, chain="quick", job=name) for _ in range(2)]
            return [(await client.wait(job)).text for job in jobs]

    assert asyncio.run(work()) == [prompt, prompt]
    assert len(house.calls("echo", prompt)) == 1
