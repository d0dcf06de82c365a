"""A house for batches: a narrow cloud worker, chains that end in every way, and `staffel summarize` typed in it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from staffel.cli import run
from tests.eventually import eventually
from tests.hosts import Host
from tests.nodes import Finished, House, Played, Valkey, serving

SLOTS = 2
PLACES = 4 * SLOTS

STAGES: Mapping[str, Played] = MappingProxyType(
    {
        "good": Played("openai", "ok:text=In short\\, it is closed.", {"price.input": 1000, "price.output": 1000}),
        "slow": Played("openai", "ok:text=Short.:delay=0.3"),
        "broken": Played("openai", "status:500"),
        "strict": Played("openai", "status:400"),
        "once-broken": Played("openai", "status:500,ok:text=Short."),
        "narrow": Played("ollama", "ok:text=Short.", {"lane": "cloud", "num_ctx": 600, "local": True}),
        "attic": Played("openai", "ok", {"lane": "attic"}),
    }
)  # fmt: skip

CHAINS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "default": ("good",),
        "slowly": ("slow",),
        "hopeless": ("broken", "broken-too"),
        "rigid": ("strict",),
        "flaky": ("once-broken",),
        "short": ("narrow",),
        "long": ("narrow", "good"),
        "unserved": ("attic",),
        "half-served": ("broken", "attic"),
    }
)


@contextmanager
def batch_house(folder: Path, valkey: Valkey, host: Host) -> Iterator[House]:
    stages = {**STAGES, "broken-too": Played("openai", "status:529")}
    made = House(
        valkey.another(), host, folder, stages=stages, chains=CHAINS, variables={"STAFFEL_CLOUD_SLOTS": str(SLOTS)}
    )
    with serving(made, ()):
        yield made


class Typed:
    """`staffel summarize ...` in this process, which costs no start, with what it prints."""

    def __init__(self, house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        for name in ("STAFFEL_REDIS_URL", "STAFFEL_CONFIG", "COLUMNS"):
            monkeypatch.setenv(name, house.environ[name])
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> Finished:
        self._capsys.readouterr()
        code = run(["summarize", *map(str, arguments)])
        said = self._capsys.readouterr()
        return Finished(code, said.out, said.err, 0.0)

    def rows(self, *arguments: str | Path, code: int = 0) -> dict[str, dict[str, Any]]:
        """The objects of `--json` by their document's file name."""
        finished = self(*arguments, "--json")
        assert finished.code == code, finished
        rows = [json.loads(line) for line in finished.out.splitlines()]
        return {Path(row["path"]).name: row for row in rows}


def document(word: str = "") -> str:
    """A text that no other test has; `word` stands in it."""
    return f"The bridge {word or uuid.uuid4().hex} is closed for four weeks, says the office of roads. " * 3


def forget_jobs(house: House) -> None:
    """As after `answer_ttl`."""
    with house.valkey.client as client:
        client.delete(*house.jobs())


def drained(house: House) -> None:
    """Wait until nothing of an abandoned run is left, which the next test would meet."""
    with house.valkey.client as client:
        eventually(
            lambda: all(client.hget(job, "status") not in {"queued", "running", "parked"} for job in house.jobs()),
            "the jobs of an abandoned run have ended",
        )
