"""The demo from start to end, told as it happens."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from staffel.client import Client
from staffel.demo.clouds import played
from staffel.demo.house import House, calls, local_host, up
from staffel.demo.scenes import DOCUMENTS, QUESTION, SCENES, LocalHost, Scene, configuration
from staffel_wire.record import ENDED, story

_TICK_S = 0.05


@dataclass(slots=True)
class Told:
    """What was seen: the object of every job by scene, and the documents' rows."""

    scenes: list[tuple[Scene, Mapping[str, Any]]] = field(default_factory=list)
    documents: list[Mapping[str, Any]] = field(default_factory=list)

    def attempts(self) -> Counter[str]:
        """How often the ledger says that each stage was called."""
        rows = [*(shown for _, shown in self.scenes), *self.documents]
        calls = [a for row in rows for a in row.get("attempts") or () if a["outcome"] != "skipped"]
        return Counter(a["stage"] for a in calls)


async def play(folder: Path, documents: Path) -> int:
    """Run everything in this folder; the exit code."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    told = Told()
    async with played() as clouds, local_host() as local:
        console.print(f"local model: [bold]{escape(local.model)}[/] at {local.url}", _kind(local))
        async with up(folder, configuration(clouds, local)) as house:
            for scene in SCENES:
                told.scenes.append((scene, await _scene(console, house.client, scene)))
            told.documents += await _summaries(console, house, folder, documents)
        for table in _tables(told):
            console.print("", table)
        counted = Counter(clouds.calls)
        if (seen := await asyncio.to_thread(calls, local)) is not None:
            counted["local"] = seen
        wrong = list(_wrong(told, counted))
    calls_of = ", ".join(f"{stage} {count}" for stage, count in sorted(counted.items()))
    console.print(f"\ncalls that the hosts' own logs count: {escape(calls_of)}")
    for line in wrong:
        console.print(f"[red]not as promised:[/] {escape(line)}")
    if local.ours:
        console.print(
            "This model is tiny (135M parameters, 4 bit) and weak by design: the summaries show that requests end"
            " well, not that they are good. Point [bold]stages.local[/] at your own Ollama for those."
        )
    if not wrong:
        console.print("Every job was answered, and the hosts' own logs count exactly the attempts of the ledger.")
    return 1 if wrong else 0


def _kind(local: LocalHost) -> str:
    return "(llama.cpp, started for this demo)" if local.ours else "(your Ollama)"


async def _scene(console: Console, client: Client, scene: Scene) -> Mapping[str, Any]:
    console.print(f"\n[bold]{scene.title}[/]: {' -> '.join([*scene.clouds, 'local'])}")
    job = await client.submit(QUESTION, chain=scene.name, max_output_tokens=60, temperature=0.0, seed=1)
    told = 0
    while True:
        shown = await client.show(job)
        settled = [row for row in shown["attempts"] if row["outcome"] != "started"]
        for row in settled[told:]:
            console.print(f"  {row['n']}/{row['of']} {escape(story([row]))}")
        told = len(settled)
        if shown["status"] in ENDED:
            break
        await asyncio.sleep(_TICK_S)
    console.print(f"  {shown['status']} after {shown['duration_s']:.2f} s: {escape((shown['text'] or '').strip())}")
    return shown


async def _summaries(console: Console, house: House, folder: Path, documents: Path) -> list[Mapping[str, Any]]:
    console.print(f"\n[bold]{DOCUMENTS.title}[/]: staffel summarize {escape(str(documents))} --chain {DOCUMENTS.name}")
    command = [sys.executable, "-m", "staffel.cli", "summarize", str(documents), "--chain", DOCUMENTS.name]
    log = folder / "summarize.log"  # its own progress would run into ours
    with log.open("w") as errors:
        process = await asyncio.create_subprocess_exec(
            *command, "--json", "--out", str(folder / "summaries"),
            env=house.environ, limit=10_000_000, stdout=asyncio.subprocess.PIPE, stderr=errors,
        )  # fmt: skip
    rows: list[Mapping[str, Any]] = []
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    async for line in process.stdout:
        rows.append(json.loads(line))
        console.print(f"  {escape(_document(rows[-1]))}")
        console.print(f"    [dim]{escape(' '.join((rows[-1].get('summary') or '').split()))}[/]")
    await process.wait()
    if not rows:
        console.print(f"  {escape((log.read_text().strip().splitlines() or ['it said nothing'])[-1])}")
    return rows


def _document(row: Mapping[str, Any]) -> str:
    name = Path(row["path"]).name
    if row["status"] != "answered":
        return f"{name}: {row['status']}: {row.get('reason')}"
    told = story(row["attempts"])
    return f"{name}: {row['words']} words -> {row['summary_words']}; {told}"


def _own_cost(scene: Scene, shown: Mapping[str, Any]) -> float:
    """Seconds that are the walk's own: neither a clock of the scene nor the local answer."""
    return float(shown["duration_s"] - scene.clocks_s - shown["attempts"][-1]["duration_s"])


def _tables(told: Told) -> Iterable[Table]:
    scenes = Table("scene", "attempts", "total s", "clocks s", "local answer s", "the walk itself s", box=None)
    for scene, shown in told.scenes:
        if shown["attempts"]:
            scenes.add_row(
                scene.title, str(len(shown["attempts"])), f"{shown['duration_s']:.2f}", f"{scene.clocks_s:.0f}",
                f"{shown['attempts'][-1]['duration_s']:.2f}", f"{_own_cost(scene, shown):.2f}",
            )  # fmt: skip
    documents = Table("document", "words", "summary", "stage", "attempts", "local answer s", box=None)
    for row in told.documents:
        attempts = row.get("attempts") or [{"duration_s": 0, "outcome": "skipped"}]
        called = sum(attempt["outcome"] != "skipped" for attempt in attempts)
        documents.add_row(
            escape(Path(row["path"]).name), str(row.get("words")), str(row.get("summary_words")),
            row.get("stage") or "", str(called), f"{attempts[-1]['duration_s'] or 0:.2f}",
        )  # fmt: skip
    return scenes, documents


def _wrong(told: Told, counted: Counter[str]) -> Iterable[str]:
    """Every promise of the demo that did not hold."""
    for scene, shown in told.scenes:
        if shown["status"] != "answered" or shown["stage"] != "local":
            yield f"{scene.title}: {shown['status']}"
        expected = [*(_reason(behaviour) for behaviour in scene.clouds), None]
        if (reasons := [row["reason"] for row in shown["attempts"]]) != expected:
            yield f"{scene.title}: {reasons} instead of {expected}"
    yield from _wrong_documents(told.documents)
    recorded = told.attempts()
    unlogged = {"local"} - counted.keys()  # a real Ollama keeps no count
    for stage in sorted({*counted, *recorded} - unlogged):
        if counted[stage] != recorded[stage]:
            yield f"{stage}: its host saw {counted[stage]} calls, the ledger has {recorded[stage]}"


def _wrong_documents(rows: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    if not rows:
        yield "no document was summarized"
    for row in rows:
        name = Path(row["path"]).name
        if row["status"] != "answered":
            yield f"{name}: {row['status']}"
        elif row["summary_words"] >= row["words"]:
            yield f"{name}: the summary is no shorter than the document"


def _reason(behaviour: str) -> str:
    return {"500": "server_error", "429": "throttled", "silent": "timeout", "503": "overloaded"}[behaviour]
