"""What the walk itself costs: the total of a job less the clocks of its scene and less the local answer.

    python -m benchmarks.walk [--rounds 10]

The third stage is scripted (it answers after 0.2 s), the clouds are played by a host on loopback, everything else is
the real thing: embedded Valkey, two workers, the client. The baseline, in the same minute on the same workers, is a job
whose chain is the local stage alone: the ratio says what two failed stages and a handoff add. Each round has clouds of
its own: one that has failed or throttled before might be passed over, which is another scene.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from staffel.client import Client
from staffel.demo.clouds import Clouds, played
from staffel.demo.house import up
from staffel.demo.scenes import SCENES, LocalHost, Scene, configuration

ANSWER_S = 0.2
BASELINE = Scene("alone", "the local stage alone", ())


def round_of(number: int) -> tuple[Scene, ...]:
    """The scenes of one round, whose clouds nobody has called before, and the baseline."""
    return (*(replace(scene, name=f"{scene.name}-{number}-cloud") for scene in SCENES), BASELINE)


async def own_cost(client: Client, scene: Scene) -> float:
    """Seconds of one job that neither a clock nor the local answer took."""
    shown: Mapping[str, Any] = (await client.ask("benchmark", chain=scene.name)).shown
    if skipped := [row["stage"] for row in shown["attempts"] if row["outcome"] == "skipped"]:
        raise SystemExit(f"{scene.title}: {', '.join(skipped)} was passed over, so that nothing was measured")
    return float(shown["duration_s"] - scene.clocks_s - shown["attempts"][-1]["duration_s"])


def written(clouds: Clouds, rounds: Sequence[Sequence[Scene]]) -> str:
    """The configuration of all rounds; its local stage is scripted."""
    scenes = list(dict.fromkeys(scene for scenes in rounds for scene in scenes))
    toml = configuration(clouds, LocalHost("http://127.0.0.1:1", "scripted", 2048, ours=True), scenes)
    scripted = f'provider = "scripted"\nlane = "ollama"\nparams = {{ script = ["ok:answer:{ANSWER_S}"] }}'
    return toml.replace('provider = "ollama"', scripted)


async def measure(count: int) -> dict[str, list[float]]:
    rounds = [round_of(number) for number in range(count)]
    with tempfile.TemporaryDirectory(prefix="staffel-bench-") as folder:
        async with played() as clouds, up(Path(folder), written(clouds, rounds)) as house:
            await house.client.ask("warm up", chain=BASELINE.name)
            costs: dict[str, list[float]] = {scene.title: [] for scene in (*SCENES, BASELINE)}
            for scenes in rounds:
                for scene in scenes:
                    costs[scene.title].append(await own_cost(house.client, scene))
            return costs


def report(costs: Mapping[str, Sequence[float]]) -> str:
    """One line a scene: median, spread, and the ratio to the baseline."""
    base = statistics.median(costs[BASELINE.title])
    lines = [f"{'scene':28}{'median ms':>10}{'least':>8}{'most':>8}{'ratio':>8}"]
    for title, seconds in costs.items():
        median = statistics.median(seconds)
        lines.append(
            f"{title:28}{median * 1000:10.1f}{min(seconds) * 1000:8.1f}{max(seconds) * 1000:8.1f}{median / base:8.1f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    print(report(asyncio.run(measure(parser.parse_args().rounds))))
