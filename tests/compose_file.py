"""docker-compose.yml and the files beside it, as the tests read them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
COMPOSE = (ROOT / "docker-compose.yml").read_text()
SERVICES: Mapping[str, Mapping[str, Any]] = yaml.safe_load(COMPOSE)["services"]
OURS = ("cloud", "ollama-worker", "flower")
SECRET = re.compile(r"KEY|PASSWORD|AUTH|TOKEN|SECRET")
_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::(?P<kind>[-?])(?P<text>[^}]*))?\}|\$(?P<dollar>\$)")

GIVEN = {"REDIS_PASSWORD": "canary0password", "FLOWER_BASIC_AUTH": "somebody:canary0login"}


def filled(text: str) -> str:
    """The text as Compose would give it on, with `GIVEN` as the surroundings."""

    def value(found: re.Match[str]) -> str:
        if found["dollar"]:
            return "$"
        return GIVEN.get(found["name"]) or (found["text"] if found["kind"] == "-" else "")

    return _VARIABLE.sub(value, text)


def used() -> dict[str, str | None]:
    """Every variable that Compose is to fill in, and its default; None for one that must be given."""
    found = {
        name: found["text"] if found["kind"] == "-" else None
        for found in _VARIABLE.finditer(COMPOSE)
        if (name := found["name"]) and name != "COMPOSE_PROJECT_NAME"  # Compose's own
    }
    return found | {name: "" for service in SERVICES.values() for name, value in variables(service) if value is None}


def variables(service: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    return list(service.get("environment", {}).items())


def explained() -> dict[str, str]:
    """The variables of .env.example, each of which has a comment above it."""
    example, above = dict[str, str](), ""
    for line in (ROOT / ".env.example").read_text().splitlines():
        name, is_one, value = line.partition("=")
        if is_one and not line.startswith("#"):
            assert above, f"{name} is not explained"
            example[name] = value
        elif not line:
            above = ""
        else:
            above += line
    return example


def dockerfile(instruction: str) -> list[str]:
    """The arguments of every such instruction, in order."""
    joined = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())
    return re.findall(rf"^{instruction} (.+)$", joined, re.MULTILINE)
