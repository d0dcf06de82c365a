"""An embedded Valkey, scripted hosts, and a door on every line between them and the workers."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from chaos.door import Door, Doors, low_port
from chaos.evidence import Call
from chaos.schedule import CALLERS
from config.file import General
from staffel import embedded
from tests.hosts import Host
from tests.hosts.dialect import Dialect
from tests.hosts.script import read_script
from tests.hosts.server import MODELS
from tests.nodes import House, Valkey
from tests.nodes.stages import Played

TIMEOUT_S = 6.0
"""Of each stage; a host that hangs is given up after it."""

DRAIN_S = 3.0
"""Shorter than the longest call, so that some calls are handed back."""

GENERAL = {"visibility_timeout": 20, "drain": DRAIN_S}
"""What a foreign message waits for after its worker's death, and how long a worker may take to end."""

_CLOCKS: Mapping[str, object] = {"timeout": TIMEOUT_S}
STAGES: Mapping[str, Played] = {
    "first": Played("openai", "ok:echo:delay=0.3", {**_CLOCKS, "breaker": {"open_for": 2, "open_growth": 1}}),
    "second": Played("openai", "ok:echo:delay=1", _CLOCKS),
    "long": Played("openai", "ok:echo:delay=4", {"timeout": 15}),
    "sour": Played("openai", "status:500:delay=0.2", _CLOCKS),
    "local": Played("ollama", "ok:echo:delay=0.05", {**_CLOCKS, "local": True}),
}
CHAINS: Mapping[str, Sequence[str]] = {
    "quick": ("first", "second"),
    "failover": ("sour", "second"),
    "handoff": ("sour", "local"),
    "patient": ("first", "long"),
    "slow": ("long", "second"),
}
HOSTS = ("first", "second", "local")
"""Those that die and come back."""

OLLAMA = "lane"
"""What the ollama lane's worker is called here."""


class Hosts(Host):
    """Scripted hosts behind doors; what each does may be changed while it runs. Its clock is the ledger's."""

    def __init__(self, doors: Doors) -> None:
        super().__init__(clock=time.time)
        self._doors = doors
        self.behind: dict[str, Door] = {}
        """The door by the base URL that leads through it."""

    def stage(
        self, dialect: type[Dialect], script: str, models: tuple[str, ...] = MODELS, *, strict: bool = False
    ) -> str:
        url = super().stage(dialect, script, models, strict=strict)
        door = self._doors.made(lambda: int(self.url.rpartition(":")[2]))
        through = url.replace(self.url, f"http://127.0.0.1:{door.port}")
        self.behind[through] = door
        return through

    def play(self, url: str, script: str) -> None:
        """From the next call on the stage does as this script says."""
        self._at(url)._steps = read_script(script)


class Yard:
    """The house and its lines."""

    def __init__(self, valkey: Valkey, hosts: Hosts, house: House, doors: Doors, names: Sequence[str]) -> None:
        self.valkey, self.hosts, self.house = valkey, hosts, house
        self.lines = {name: doors.made(lambda: self.valkey.running.port) for name in (*names, CALLERS)}
        """The door between each worker, or the callers, and Valkey."""

    def url(self, name: str) -> str:
        """Valkey as the worker of this name, or the callers, reach it."""
        port = self.valkey.running.port
        return self.house.url.replace(f":{port}/", f":{self.lines[name].port}/")

    def host_door(self, stage: str) -> Door:
        return self.hosts.behind[self.house.urls[stage]]

    def play(self, stage: str, script: str | None) -> None:
        """Have a stage's host do something else; with None as ever."""
        self.hosts.play(self.house.urls[stage], script or STAGES[stage].script)

    def revive(self) -> None:
        """Start Valkey again from its append-only file."""
        self.valkey.running = embedded.start(self.valkey.folder, timeout=30)

    def calls(self) -> list[tuple[str, Call]]:
        """What every host was asked, with the words of the request."""
        return [
            (str(call.body), Call(stage, call.started, call.ended, str(call.outcome)))
            for stage in STAGES
            for call in self.hosts.calls(self.house.urls[stage])
        ]


@contextmanager
def yard(folder: Path, names: Sequence[str]) -> Iterator[Yard]:
    """All but the workers, ended afterwards."""
    with ExitStack() as stack:
        doors = stack.enter_context(Doors())
        hosts = stack.enter_context(Hosts(doors))
        state = folder / "state"
        valkey = Valkey(state, embedded.start(state, timeout=30, port=low_port), itertools.count())
        stack.callback(valkey.stop)
        house = House(valkey, hosts, folder, stages=STAGES, chains=CHAINS)
        known = {key: value for key, value in GENERAL.items() if key in General.model_fields}
        head = "".join(f"{key} = {value}\n" for key, value in known.items())
        house.config.write_text(head + house.config.read_text())
        yield Yard(valkey, hosts, house, doors, names)
