"""One idempotency key, one job: asked once, however often and however it is submitted."""

from __future__ import annotations

import asyncio

import pytest
from celery import Celery

from staffel import Client, Invalid, SyncClient
from tests.eventually import eventually
from tests.nodes import House

KEY = "order 66"


@pytest.fixture
def key(prompt: str) -> str:
    """Nobody else's."""
    return f"{KEY} {prompt}"


def asked(house: House, chain: str, prompt: str) -> int:
    return len(house.calls({"slowly": "slow", "quick": "echo", "hang": "silent"}[chain], prompt))


@pytest.mark.usefixtures("workers")
class TestOneKey:
    def test_two_callers_at_once_are_one_job_and_one_call(self, house: House, prompt: str, key: str) -> None:
        """Through clients, each on a connection of its own."""

        async def ask() -> tuple[str, str]:
            async with Client(house.url) as client:
                job = await client.submit(prompt, chain="slowly", idempotency_key=key)
                return job, (await client.wait(job)).text

        async def all_at_once() -> set[tuple[str, str]]:
            return set(await asyncio.gather(*(ask() for _ in range(5))))

        assert len(asyncio.run(all_at_once())) == 1
        assert asked(house, "slowly", prompt) == 1

    def test_each_celery_task_has_the_answer_under_its_own_id(
        self, house: House, client: SyncClient, foreign: Celery, prompt: str, key: str
    ) -> None:
        """The second is a follower of the first: one call, and nothing that it costs."""
        fields = {"prompt": prompt, "chain": "slowly", "idempotency_key": key}
        first, second, third = (foreign.send_task("tasks.ask", [fields], queue="cloud") for _ in range(3))
        texts = {task.get(timeout=40)["text"] for task in (first, second, third)}
        assert len(texts) == 1
        assert asked(house, "slowly", prompt) == 1
        shown = [client.show(task.id) for task in (first, second, third)]
        (leader,) = (one["job"] for one in shown if one["follows"] is None)
        others = [one for one in shown if one["job"] != leader]
        assert [(one["follows"], one["attempts"], one["cost_usd"]) for one in others] == [(leader, [], 0.0)] * 2

    def test_a_task_that_comes_later_has_the_same_answer(
        self, house: House, client: SyncClient, foreign: Celery, prompt: str, key: str
    ) -> None:
        """Whether the first was submitted by a client or by Celery."""
        answer = client.ask(prompt, chain="quick", idempotency_key=key)
        task = foreign.send_task(
            "tasks.ask", [{"prompt": prompt, "chain": "quick", "idempotency_key": key, "deadline": 20}], queue="cloud"
        )
        assert task.get(timeout=20)["text"] == answer.text
        assert client.submit(prompt, chain="quick", idempotency_key=key, deadline=5) == answer.job
        assert asked(house, "quick", prompt) == 1

    def test_another_request_under_the_same_key_is_refused(
        self, client: SyncClient, foreign: Celery, prompt: str, key: str
    ) -> None:
        """By name, with the job that has the key, and without a word of either request."""
        job = client.submit(prompt, chain="quick", idempotency_key=key)
        with pytest.raises(Invalid) as raised:
            client.submit(f"not {prompt}", chain="quick", idempotency_key=key)
        line = f"idempotency_key: job {job} has it, and asks something else; write another key"
        assert str(raised.value) == line
        fields = {"prompt": f"not {prompt}", "chain": "quick", "idempotency_key": key}
        task = foreign.send_task("tasks.ask", [fields], queue="cloud")
        with pytest.raises(Exception, match=line):
            task.get(timeout=20)

    def test_a_follower_whose_first_was_cancelled_asks_for_itself(
        self, house: House, client: SyncClient, foreign: Celery, prompt: str, key: str
    ) -> None:
        """The first one's caller wants it no more; the second's does."""
        fields = {"prompt": prompt, "chain": "slowly", "idempotency_key": key}
        first = foreign.send_task("tasks.ask", [fields], queue="cloud")
        eventually(lambda: asked(house, "slowly", prompt) == 1, "the first is asked")
        second = foreign.send_task("tasks.ask", [fields], queue="cloud")
        eventually(lambda: house.record(second.id).get("follows") == first.id, "the second follows")
        client.cancel(first.id)
        assert second.get(timeout=40)["stage"] == "slow"
        assert (client.show(first.id)["status"], client.show(second.id)["follows"]) == ("cancelled", None)
        assert asked(house, "slowly", prompt) == 2

    def test_a_follower_can_be_cancelled_alone(
        self, house: House, client: SyncClient, foreign: Celery, prompt: str, key: str
    ) -> None:
        """Celery says REVOKED of it, and the first goes on."""
        fields = {"prompt": prompt, "chain": "slowly", "idempotency_key": key}
        first = foreign.send_task("tasks.ask", [fields], queue="cloud")
        eventually(lambda: asked(house, "slowly", prompt) == 1, "the first is asked")
        second = foreign.send_task("tasks.ask", [fields], queue="cloud")
        eventually(lambda: second.state == "RETRY", "the second waits")
        assert client.cancel(second.id) == "cancelled"
        eventually(lambda: second.state == "REVOKED", "Celery has heard")
        assert first.get(timeout=40)["stage"] == "slow"


def test_the_key_itself_is_nowhere_in_redis(
    house: House, workers: object, client: SyncClient, prompt: str, key: str
) -> None:
    """It may name a customer's order."""
    client.ask(prompt, chain="quick", idempotency_key=key)
    with house.valkey.client as redis:
        for name in redis.scan_iter("staffel:idempotency:*", count=1000):
            assert KEY not in name
            assert KEY not in str(redis.hgetall(name))
