"""A local host that hangs: its breaker opens, and closes when the host has generated something for no job."""

from __future__ import annotations

import pytest

from staffel import SyncClient
from tests.eventually import eventually
from tests.nodes import House, Valkey, serving
from tests.nodes.stages import Played

BREAKER = {"consecutive_failures": 1, "open_for": 1, "open_growth": 1}
STAGES = {
    "wedged": Played(
        "ollama", "silent,silent,ok:text=home", {"local": True, "timeout": 1, "cool_off": 0, "breaker": BREAKER}
    ),
}
CHAINS = {"default": {"stages": ("wedged",), "deadline": 60}}


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory, valkey: Valkey, house: House) -> House:
    return House(valkey.another(), house.host, tmp_path_factory.mktemp("wedged"), stages=STAGES, chains=CHAINS)


def test_a_wedged_host_is_probed_by_a_short_generation_of_the_lanes_owner(place: House) -> None:
    url = place.urls["wedged"]
    with serving(place, ["-Q", "ollama"]), SyncClient(place.url) as client:
        first = client.submit("question one")
        eventually(lambda: len(place.host.calls(url)) >= 1, "the host is asked")
        second = client.submit("question two")
        assert client.wait(second).text == "home"
        with pytest.raises(Exception, match="exhausted"):
            client.wait(first)
        asked = [call.body for call in place.host.calls(url)]
        probes = [body for body in asked if body["options"]["num_predict"] <= 8]
        assert len(probes) == 2, "one that was not answered, and one that was"
        assert all(body["think"] is False for body in probes)
        jobs = [body["messages"][0]["content"] for body in asked if body not in probes]
        assert jobs == ["question one", "question two"]
        assert not any("version" in request for request in place.host.others(url))
