"""The TOML file and the variables that override it, read into stages and chains or into a list of problems."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from config.complete import incomplete
from config.groups import shared
from config.notes import notes
from config.overrides import blamed, merged
from config.problems import ConfigError, Problem, Table, checked, no_such, salvaged
from config.stages import (
    MOST_STAGES,
    NAMES,
    Chain,
    ChainTable,
    Stage,
    StageTable,
    address_of,
    is_name,
    lane_of,
    stage,
)

_KEY = re.compile(r"[\x21-\x7e]+")
"""What an HTTP header can carry as a key."""

_TOO_DEEP = "is nested too deeply to be read"


class General(Table):
    """The keys above the first table. Times in seconds."""

    max_request_bytes: int = Field(default=4_000_000, ge=1_000, le=100_000_000)
    answer_ttl: int = Field(default=86_400, ge=1)
    ledger_ttl: int = Field(default=7 * 86_400, ge=1)
    dead_ttl: int = Field(default=7 * 86_400, ge=0)
    idempotency_ttl: int = Field(default=86_400, ge=1)
    cloud_slots: int = Field(default=200, ge=1, le=2_000)
    max_deliveries: int = Field(default=3, ge=1)
    drain: float = Field(default=30, ge=0, le=3_600, allow_inf_nan=False)
    visibility_timeout: float = Field(default=120, ge=10, le=86_400, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Read:
    """A sound configuration; `notes` are worth a line but stop nothing."""

    general: General
    stages: Mapping[str, Stage]
    chains: Mapping[str, Chain]
    notes: tuple[Problem, ...]


def load(path: Path, overrides: Mapping[str, Any], environ: Mapping[str, str]) -> Read:
    """Read and check the file; raises `ConfigError` with every problem of it."""
    source = str(path)
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        hint = "is not there; `staffel init` writes one, or name yours with STAFFEL_CONFIG or --config"
        raise ConfigError(source, [Problem("", hint)]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            source, [Problem("", f"cannot be read: {getattr(error, 'strerror', None) or error}")]
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(source, [Problem("", f"is not TOML: {error}")]) from None
    except ValueError:  # a number that Python refuses to read for its length
        raise ConfigError(source, [Problem("", "holds a number that is far too long")]) from None
    except RecursionError:
        raise ConfigError(source, [Problem("", _TOO_DEEP)]) from None
    try:
        return _Reading(source, merged(raw, overrides), environ).result()
    except ConfigError as error:
        raise ConfigError(source, [blamed(problem, raw, overrides) for problem in error.problems]) from None
    except RecursionError:
        raise ConfigError(source, [Problem("", _TOO_DEEP)]) from None


class _Reading:
    """One pass over the tables that gathers problems instead of stopping at the first."""

    def __init__(self, source: str, raw: dict[str, Any], environ: Mapping[str, str]) -> None:
        self.source, self.environ = source, environ
        self.problems: list[Problem] = []
        self.tables: dict[str, StageTable] = {}
        self.rings: set[frozenset[str]] = set()
        self.plans: dict[str, tuple[str, ...]] = {}
        self.raw_stages = self._table(raw, "stages")
        self.raw_chains = self._table(raw, "chains")
        self.general, found = checked(General, raw, "", beside=("stages", "chains"))
        self.problems += found

    def _table(self, raw: dict[str, Any], key: str) -> dict[str, Any]:
        table = raw.pop(key, {})
        if not isinstance(table, Mapping) or not table:
            self.problems.append(Problem(key, f"must hold at least one table, [{key}.NAME]"))
            return {}
        return dict(table)

    def result(self) -> Read:
        stages, clashes = shared(self._stages(), self.tables)
        self.problems += clashes
        chains = self._chains()
        self._used()
        self._one_lane_a_host()
        if self.problems:
            raise ConfigError(self.source, self.problems)
        return Read(self.general, stages, chains, tuple(notes(self.tables)))

    def _stages(self) -> dict[str, Stage]:
        stages = {}
        for name, table in self.raw_stages.items():
            path = f"stages.{name}"
            self._name(name, path)
            value, found = checked(StageTable, table, path)
            value = value or salvaged(StageTable, table, path, found, provider="scripted")
            self.problems += found
            if value is not None:
                told = {problem.path for problem in found}
                missing = (Problem(f"{path}.{key}", text) for key, text in incomplete(value))
                self.problems += [problem for problem in missing if problem.path not in told]
                self.tables[name] = value
                stages[name] = stage(name, value, self._key(value, path))
        return stages

    def _name(self, name: str, path: str) -> None:
        if not is_name(name):
            self.problems.append(Problem(path, NAMES))

    def _key(self, table: StageTable, path: str) -> str | None:
        if table.api_key_env is None:
            return None
        # A key pasted here by mistake may look like a name, but for its small letters.
        shown = table.api_key_env if table.api_key_env.isupper() else "named here"
        if not (key := self.environ.get(table.api_key_env, "").strip()):
            text = f"the variable {shown} is not set; set it, or name the one that holds the key"
            self.problems.append(Problem(f"{path}.api_key_env", text))
        elif not _KEY.fullmatch(key):
            text = f"the variable {shown} holds no key: a key has no blanks, no line breaks and only ASCII characters"
            self.problems.append(Problem(f"{path}.api_key_env", text))
            return None
        return key or None

    def _chains(self) -> dict[str, Chain]:
        chains = {}
        for name, table in self.raw_chains.items():
            path = f"chains.{name}"
            self._name(name, path)
            if name in self.raw_stages:
                self.problems.append(Problem(path, "a stage has this name too; give the chain another"))
            value, found = checked(ChainTable, table, path)
            self.problems += found
            plan = self._plan(name)
            if len(plan) > MOST_STAGES:
                text = f"{len(plan)} stages, with those of its chains; a chain has at most {MOST_STAGES}, take some out"
                self.problems.append(Problem(f"{path}.stages", text))
            if value is not None:
                chains[name] = Chain(name, plan, value.deadline, value.usd_per_day)
                self._reserves(chains[name], path)
        return chains

    def _plan(self, name: str) -> tuple[str, ...]:
        """The stages of a chain, chains in it unrolled, each chain once however many name it.

        A walk with a path of its own instead of a recursion: a file may stack more chains than Python does calls.
        """
        if name in self.plans:
            return self.plans[name]
        path = {name: enumerate(self._links(name))}
        found: dict[str, list[str]] = {name: []}
        while path:
            here = next(reversed(path))
            for place, item in path[here]:
                if self._is_new(item) and item not in path:
                    path[item], found[item] = enumerate(self._links(item)), []
                    break
                found[here] += self._link(item, f"chains.{here}.stages.{place}", path)
            else:
                del path[here]
                self.plans[here] = tuple(dict.fromkeys(found[here]))
                if path:
                    found[next(reversed(path))] += self.plans[here]
        return self.plans[name]

    def _is_new(self, name: str) -> bool:
        return name in self.raw_chains and name not in self.raw_stages and name not in self.plans

    def _link(self, item: str, place: str, path: Iterable[str]) -> Sequence[str]:
        """The stages behind one name of a chain; a ring of chains is a problem, told once, and so is nobody's name."""
        if item in self.raw_stages:
            return (item,)
        if item in self.plans:
            return self.plans[item]
        if item not in self.raw_chains:
            self._once(Problem(place, no_such(item, [*self.raw_stages, *self.raw_chains])))
            return ()
        above = list(path)
        ring = above[above.index(item) :]
        if frozenset(ring) not in self.rings:
            self.rings.add(frozenset(ring))
            self.problems.append(Problem(place, f"a ring: {' -> '.join((*ring, item))}; take one link out"))
        return ()

    def _links(self, name: str) -> list[str]:
        """What a chain names, as far as it can be read: a chain with a mistake is still walked for others."""
        links = self._written(name)
        return [link for link in links if isinstance(link, str)] if isinstance(links, list) else []

    def _written(self, name: str) -> object:
        table = self.raw_chains[name]
        return table.get("stages") if isinstance(table, Mapping) else None

    def _once(self, problem: Problem) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def _reserves(self, chain: Chain, path: str) -> None:
        known = [self.tables[name] for name in chain.plan if name in self.tables]
        if len(known) > 1 and (kept := sum(table.reserve for table in known[1:])) >= chain.deadline:
            text = f"{chain.deadline:g} s are all reserved ({kept:g} s) for later stages; raise it, or lower a reserve"
            self.problems.append(Problem(f"{path}.deadline", text))

    def _used(self) -> None:
        mentioned = {link for name in self.raw_chains for link in self._links(name)}
        # Text instead of a list is a mistake of its own, and its stages are not unused besides.
        texts = (self._written(name) for name in self.raw_chains)
        mentioned.update(part.strip() for text in texts if isinstance(text, str) for part in text.split(","))
        for name in self.raw_stages:
            if self.raw_chains and name not in mentioned:
                self.problems.append(Problem(f"stages.{name}", "is in no chain; add it to one, or take it out"))

    def _one_lane_a_host(self) -> None:
        lanes: dict[tuple[str, int], tuple[str, str]] = {}
        for name, table in self.tables.items():
            if table.provider != "ollama" or (host := address_of(table.base_url)) is None:
                continue
            lane = lane_of(table)
            first, other = lanes.setdefault(host, (name, lane))
            if other != lane:
                text = f"{lane!r}, but {first} has the same host on {other!r}; one Ollama host has one lane"
                self.problems.append(Problem(f"stages.{name}.lane", text))
