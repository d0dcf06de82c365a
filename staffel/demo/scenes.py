"""The three scenes, as a table and as the configuration that plays them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from staffel.demo.clouds import Clouds

CLOCK_S = 2.0
"""The timeout of every stage in the cloud."""

QUESTION = "In one sentence: why is the sky blue?"


@dataclass(frozen=True, slots=True)
class Scene:
    """`clouds` are the behaviours of the stages before the local one; each silence costs one clock."""

    name: str
    title: str
    clouds: tuple[str, ...]

    @property
    def clocks_s(self) -> float:
        return CLOCK_S * self.clouds.count("silent")

    def stages(self) -> list[tuple[str, str]]:
        """Name and behaviour of each stage in the cloud."""
        return [(f"{self.name}{n}", behaviour) for n, behaviour in enumerate(self.clouds, 1)]


SCENES = (
    Scene("instant", "both fail at once", ("500", "429")),
    Scene("clock", "one clock in the path", ("silent", "429")),
    Scene("worst", "worst case", ("silent", "silent")),
)
DOCUMENTS = Scene("documents", "a batch of documents", ("503",))


@dataclass(frozen=True, slots=True)
class LocalHost:
    """The Ollama API in the house: a real Ollama, or the small model that comes along."""

    url: str
    model: str
    window: int
    ours: bool


def configuration(clouds: Clouds, local: LocalHost, scenes: Sequence[Scene] = (*SCENES, DOCUMENTS)) -> str:
    """The whole TOML: a chain for each scene, each with clouds of its own and the local stage behind them.

    What one scene teaches about its clouds (closed by a limit, taken for dead) is met by no other.
    """
    parts = [
        f"""[stages.local]
provider = "ollama"
base_url = "{local.url}"
model = "{local.model}"
local = true
num_ctx = {local.window}
timeout = 300
"""
    ]
    for scene in scenes:
        for name, behaviour in scene.stages():
            parts.append(
                f"""[stages.{name}]
provider = "openai"
base_url = "{clouds.base_url(name, behaviour)}"
model = "cloud"
timeout = {CLOCK_S}
"""
            )
        plan = [*(name for name, _ in scene.stages()), "local"]
        parts.append(f"[chains.{scene.name}]\nstages = {plan}\ndeadline = 600\n")
    return "\n".join(parts)
