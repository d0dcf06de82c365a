"""How a worker ends: the first Ctrl-C lets calls finish, the second gives their jobs to another worker."""

from __future__ import annotations

from collections.abc import Callable

from staffel import SyncClient
from tests.eventually import eventually
from tests.hosts import Call, Outcome
from tests.nodes import House, Played, serving


def test_the_first_ctrl_c_waits_and_the_second_does_not(make_house: Callable[..., House]) -> None:
    """Nobody can kill a thread: on the second one Celery ended with a NotImplementedError, and the job was lost.

    Its call is closed, its message goes back to the queue, and the next worker has it at once. That one is ended as a
    supervisor does: the call under way is finished, and nothing of the worker stays behind.
    """
    script = "silent,ok:text=the second worker's:delay=1"
    house = make_house(stages={"stage": Played("openai", script)}, chains={"default": ("stage",)})

    def calls() -> list[Call]:
        return house.calls("stage", "Are you there?")

    with SyncClient(house.url) as client, house.valkey.client as redis:
        with serving(house, ()) as (first,):
            job = client.submit("Are you there?")
            eventually(calls, "the host is asked")
            first.kill("SIGINT")
            eventually(lambda: "Warm shutdown" in first.logs(), "the worker has heard it")
            assert client.show(job)["status"] == "running"
            first.kill("SIGINT")
            first.process.wait(10)
            assert "Traceback" not in first.logs()
            assert calls()[0].outcome is Outcome.ABORTED
        with serving(house, ()) as (second,):
            eventually(lambda: len(calls()) == 2, "the host is asked again")
            assert second.stop() == 0
        assert client.wait(job).text == "the second worker's"
        assert [row["outcome"] for row in client.show(job)["attempts"]] == ["unknown", "answered"]
        assert not redis.exists("staffel:workers", "staffel:unacked")
