"""Prompts, answers, keys and what hosts complain of are found in the job's record and in the result, nowhere else.

The shared workers log at DEBUG, and the provider's key is one that only these tests know.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterable, Mapping
from urllib.parse import quote

import pytest
import redis
from celery import Celery, chord

from staffel import SyncClient
from staffel_wire import keys
from tests.e2e.events import Recorded
from tests.eventually import eventually
from tests.nodes import House, Valkey, Worker
from tests.nodes.flower import Flower
from tests.nodes.stages import ANSWER, KEY
from tests.nodes.worker import BOTH


@pytest.fixture
def told(house: House, workers: tuple[Worker, Worker], recorded: Recorded, flower: Flower, shop: Worker) -> Told:
    return Told(workers, shop, recorded, flower)


class Told:
    """All that Celery, the workers' logs and Flower have said so far."""

    def __init__(self, workers: tuple[Worker, Worker], shop: Worker, recorded: Recorded, flower: Flower) -> None:
        self.workers, self.shop, self.recorded, self.flower = workers, shop, recorded, flower

    def everything(self) -> Mapping[str, str]:
        pages = [
            "/", "/workers", "/tasks", "/broker", "/api/tasks?limit=10000", "/api/workers?refresh=1", "/metrics",
            *(f"/worker/{name}" for name in self.flower.get("/api/workers")),
            *(f"/task/{quote(job)}" for job in list(self.flower.get("/api/tasks?limit=30"))),
        ]  # fmt: skip
        return {
            **{str(worker.log): worker.logs() for worker in (*self.workers, self.shop)},
            "flower's log": self.flower.logs(),
            "events": json.dumps(self.recorded.all, ensure_ascii=False),
            **{page: str(self.flower.get(page)) for page in pages},
        }

    def nowhere(self, *canaries: str) -> None:
        leaks = [(canary, place) for place, text in self.everything().items() for canary in canaries if canary in text]
        assert leaks == []


def keys_holding(database: Valkey, canary: str) -> set[str]:
    """Every key of the database in whose value the canary is."""
    with database.client as client:
        return {key for key in client.scan_iter(count=1000) if canary in json.dumps(dumped(client, key))}


def dumped(client: redis.Redis, key: str) -> object:
    match client.type(key):
        case "string":
            return client.get(key)
        case "hash":
            return client.hgetall(key)
        case "list":
            return client.lrange(key, 0, -1)
        case "zset":
            return client.zrange(key, 0, -1)
        case "set":
            return sorted(client.smembers(key))
        case kind:
            return kind


def test_an_answered_job(told: Told, house: House, client: SyncClient, prompt: str) -> None:
    """Through two hosts that quote the key and the prompt in what they complain of, onto the lane."""
    job = client.submit({"system": f"{prompt} system", "prompt": prompt}, chain="secrets")
    assert client.wait(job).text == ANSWER
    told.recorded.until("task-succeeded", job)

    assert house.calls("leaky", prompt)[0].headers["authorization"] == f"Bearer {KEY}"
    told.nowhere(prompt, ANSWER, KEY, house.urls["leaky"], house.valkey.password)
    assert keys_holding(house.valkey, prompt) == set()
    assert {keys.job(job), f"celery-task-meta-{job}"} <= keys_holding(house.valkey, ANSWER)
    assert keys_holding(house.valkey, house.urls["leaky"]) == keys_holding(house.valkey, KEY) == set()
    details = [row["detail"] for row in client.show(job)["attempts"]]
    assert all(details[:2]), "what the hosts said is there"
    assert not any(key.endswith(":attempts") for key in keys_holding(house.valkey, ANSWER))


def test_a_job_under_way(told: Told, house: House, client: SyncClient, foreign: Celery, prompt: str) -> None:
    """While it runs the prompt is in its record alone: neither in the unacknowledged message nor in `inspect`.

    A foreign producer's message holds the prompt itself, but `inspect` does not show it either.
    """
    theirs = f"theirs {uuid.uuid4()}"
    foreign.send_task("tasks.ask", [{"prompt": theirs, "chain": "hang"}], queue="cloud")
    eventually(lambda: house.calls("silent", theirs), "the host is asked by the foreign job")
    job = client.submit(prompt, chain="hang")
    eventually(lambda: house.calls("silent", prompt), "the host is asked")

    assert keys_holding(house.valkey, prompt) == {keys.job(job)}
    told.nowhere(prompt)
    inspect = foreign.control.inspect(BOTH, timeout=10)
    shown = json.dumps([inspect.active(), inspect.reserved(), inspect.query_task([job])])
    assert job in shown
    assert prompt not in shown
    assert theirs not in shown

    client.cancel(job)
    eventually(lambda: not house.record(job).get("request"), "the request is deleted when the job has ended")
    assert keys_holding(house.valkey, prompt) == set()


def test_what_foreign_producers_write(told: Told, foreign: Celery, prompt: str) -> None:
    """They put the prompt into the message and its `argsrepr`; of it, nothing is repeated by our workers.

    Also where the task has a name that is not there, where the message is no task at all, and where the request is
    refused: Celery logs the whole body of all of these.
    """
    sent = [
        foreign.send_task("tasks.ask", [{"prompt": prompt, "chain": "secrets-kept"}], queue="cloud"),
        foreign.send_task("tasks.ask", kwargs={"prompt": prompt, "chain": "quick"}, queue="cloud"),
        foreign.send_task("tasks.ask", [{"prompt": prompt, "chain": "nowhere"}], queue="cloud"),
        foreign.send_task("tasks.ask", [{"prompt": prompt, "deadline": "soon"}], queue="cloud"),
        foreign.send_task("tasks.ask", [[prompt]], queue="cloud"),
        foreign.send_task("tasks.summarize", [{"text": prompt, "chain": "quick"}], queue="cloud"),
        foreign.send_task("tasks.aks", [{"prompt": prompt}], queue="cloud"),
        foreign.send_task("tasks.ask", [{"prompt": prompt}], queue="cloud", eta="never"),
    ]
    with foreign.producer_pool.acquire(block=True) as producer:
        producer.publish({"prompt": prompt}, routing_key="cloud", exchange="")
        bare = {"task": "tasks.ask", "id": f"bare-{uuid.uuid4()}"}  # what a producer in another language may leave out
        producer.publish(
            [[{"prompt": prompt, "chain": "quick"}], {}, {}], routing_key="cloud", exchange="", headers=bare
        )
        sent.insert(0, foreign.AsyncResult(bare["id"]))
        broken = {"content_type": "application/json", "content_encoding": "utf-8", "routing_key": "cloud"}
        for body in (f'[["{prompt}', f'[["{prompt}"], {{}}, "\xff"]'.encode("latin-1")):
            producer.publish(body, exchange="", headers={"task": "tasks.ask", "id": "broken"}, **broken)
    eventually(lambda: all(result.ready() for result in sent[:-1]), "Celery has the end of each")
    after = foreign.send_task("tasks.ask", [{"prompt": "after", "chain": "quick"}], queue="cloud")
    assert after.get(timeout=30)["text"] == "after"

    told.nowhere(prompt, KEY)


def test_the_answers_that_a_canvas_passes_on(told: Told, foreign: Celery, shop: Worker, prompt: str) -> None:
    """Our worker publishes a chord's body with the answers as its arguments: in that message they must be, in its
    `argsrepr`, which the body's own worker and Flower repeat, they need not."""  # fmt: skip
    ask = foreign.signature("tasks.ask", args=[{"prompt": prompt, "chain": "secrets"}], queue="cloud", immutable=True)

    result = chord([ask, ask.clone()], app=foreign)(foreign.signature("shop.count", queue="shop"))

    assert result.get(timeout=30) == ["tells", "tells"]
    told.recorded.until("task-succeeded", result.id)
    told.nowhere(prompt, ANSWER)


def test_messages_hold_no_prompt(house: House, workers: object, valkey: Valkey, prompt: str) -> None:
    """On a Redis where nobody takes them, messages of the client and of `delay` lie as they were sent."""
    quiet = valkey.another()
    with house.valkey.client as busy, quiet.client as client:
        client.set(keys.CATALOGUE, busy.get(keys.CATALOGUE))
        with SyncClient(quiet.url) as staffel:
            staffel.submit(prompt, chain="quick")
        code = f"from tasks import ask; ask.delay({{'prompt': {prompt!r}, 'chain': 'quick'}}); print(0)"
        assert house.python(code, STAFFEL_REDIS_URL=quiet.url) == 0
        messages = client.lrange("cloud", 0, -1)
    assert len(messages) == 2
    assert prompt not in decoded(messages)
    assert len(keys_holding(quiet, prompt)) == 2


def decoded(messages: Iterable[str]) -> str:
    parsed = [json.loads(message) for message in messages]
    return json.dumps([(message, base64.b64decode(message["body"]).decode()) for message in parsed])
