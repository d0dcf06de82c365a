"""The hosts that the contract holds for, and a plain client for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.contract import real
from tests.hosts import Host, literal
from tests.staffel.local_model.served import MODEL, serving

HELLO = [{"role": "user", "content": "Say hello."}]
TOO_LONG = [{"role": "user", "content": "word " * 600}]
SMALL_WINDOW = 256
LOCAL = "local model"
SCRIPTED = "scripted host"
REAL = "real Ollama"
#: An answer that takes seconds, and one that keeps to SCHEMA: the scripted host's only ones.
_TALK = " ".join(str(number) for number in range(400))
_OBJECT = '{"age": 42}'
SCHEMA = {
    "type": "object",
    "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["age"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    content_type: str
    objects: list[dict[str, Any]]
    """The lines of a stream, or the one object."""

    @property
    def last(self) -> dict[str, Any]:
        return self.objects[-1]

    @property
    def error(self) -> str:
        error = self.last["error"]
        assert isinstance(error, str)
        return error


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    url: str
    keeps_to_schema: str
    """The URL to ask for an answer that keeps to SCHEMA."""
    model: str

    def get(self, path: str) -> dict[str, Any]:
        reply = httpx.get(f"{self.url}{path}", timeout=60)
        assert reply.status_code == 200
        found: dict[str, Any] = reply.json()
        return found

    def post(self, path: str, *, to: str | None = None, **fields: Any) -> Reply:
        """One answer in one piece unless `stream` says otherwise; a field that is None is left out."""
        given = {"model": self.model, "stream": False, **fields}
        body = {name: value for name, value in given.items() if value is not None}
        reply = httpx.post(f"{to or self.url}{path}", json=body, timeout=120)
        objects = [json.loads(line) for line in reply.text.splitlines() if line]
        return Reply(reply.status_code, reply.headers["content-type"], objects)

    def chat(self, **fields: Any) -> Reply:
        return self.post("/api/chat", **{"messages": HELLO, "options": {"num_predict": 4}, **fields})

    def generate(self, **fields: Any) -> Reply:
        return self.post("/api/generate", **{"prompt": "Say hello.", "options": {"num_predict": 4}, **fields})

    def resident(self) -> list[dict[str, Any]]:
        """This model, if it is in memory."""
        models = self.get("/api/ps")["models"]
        return [model for model in models if model["model"] == self.model]

    def unload(self) -> None:
        reply = self.post("/api/chat", messages=[], keep_alive=0)
        assert (reply.status, reply.last["done_reason"]) == (200, "unload")


def names() -> list[str]:
    return [LOCAL, SCRIPTED, *([REAL] if real.answers() else [])]


@contextmanager
def target(name: str) -> Iterator[Target]:
    if name == LOCAL:
        with serving() as served:
            yield Target(name, served.url, served.url, MODEL)
    elif name == SCRIPTED:
        with Host() as host:
            talking, exact = (
                host.ollama(f"ok:load=0.2:every={every}:text={literal(text)}", models=(MODEL,), strict=True)
                for every, text in ((0.2, _TALK), (0, _OBJECT))
            )
            yield Target(name, talking, exact, MODEL)
    else:
        assert real.URL is not None
        yield Target(name, real.URL, real.URL, real.MODEL)
