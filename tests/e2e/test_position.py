"""Whoever waits for a lane's turn is told where the job stands, by every way in."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

import pytest

from staffel import SyncClient
from tests.eventually import eventually
from tests.hosts import Host
from tests.nodes import House, Valkey, serving
from tests.nodes.stages import Played

STAGES = {
    "broken": Played("openai", "status:500"),
    "short": Played("ollama", "ok:delay=0.1", {"local": True}),
    "endless": Played("ollama", "silent", {"local": True, "timeout": 60}),
}
CHAINS = {"lane": ("short",), "hang": ("endless",), "default": ("broken", "short")}


@pytest.fixture(scope="module")
def queue(valkey: Valkey, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A house with both workers, whose lane has made some calls."""
    with Host() as host:
        made = House(valkey.another(), host, tmp_path_factory.mktemp("queue"), stages=STAGES, chains=CHAINS)
        with serving(made, ("-Q", "cloud"), ("-Q", "ollama")):
            yield made


@pytest.fixture
def ask(queue: House) -> Iterator[SyncClient]:
    with SyncClient(queue.url) as client:
        for _ in range(4):
            client.ask("How long does one take?", chain="lane")
        yield client


def test_a_job_that_waits_is_told_its_place(queue: House, ask: SyncClient) -> None:
    """In `show`, by the client, in the table of lanes, and on the stderr of whoever waits."""
    first = ask.submit("Why?", chain="hang")
    eventually(lambda: ask.show(first)["status"] == "running", "the lane is busy")
    waiting = [ask.submit("And then?", chain="lane") for _ in range(3)]
    waits = queue.spawn("wait", waiting[2])
    eventually(lambda: ask.show(waiting[2])["position"]["of"] == 3, "one may be prepared, the others wait")
    found = ask.show(waiting[2])["position"]
    assert (found["lane"], found["place"]) == ("ollama", 3)
    assert 0 < found["eta_from_s"] < found["eta_s"] < found["eta_to_s"]
    said = r"queued: 3rd of 3 on ollama, about \d+ (s|min)( \d+ s)? \(.+ to .+\); "
    assert re.search(said, queue.staffel("show", waiting[2]).out)
    handed = ask.submit("Why not?")
    found = eventually(lambda: ask.show(handed)["position"], "it was handed on")
    assert (found["place"], found["of"]) == (4, 4)
    assert re.search(r"^ollama +\d", queue.staffel("stages").out, re.MULTILINE)
    assert waits.stderr is not None
    told = next(line for line in waits.stderr if " waits: " in line)
    assert re.match(rf"job {waiting[2]} waits: 3rd of [34] on ollama, about", told)
    ask.cancel(first)
    assert [ask.wait(job).stage for job in (*waiting, handed)] == ["short"] * 4
    assert ask.show(waiting[2])["position"] is None
    waits.send_signal(signal.SIGINT)
    waits.communicate(timeout=20)
