"""Ollama's native API.

Shapes after Ollama's docs/api.md and docs/api/errors.mdx: NDJSON, durations in nanoseconds, counters that are zero
left out, an error is one string.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from tests.hosts.dialect import Dialect, Ending, Failure, Said, to_json
from tests.hosts.log import Stage

_NANOSECONDS = 1_000_000_000
_PER_INPUT_TOKEN = 1_000_000
_PER_OUTPUT_TOKEN = 10_000_000
_LEAST_LOAD = 1_000_000
_SIZE = 100_000_000
_DETAILS = {"format": "gguf", "family": "llama", "parameter_size": "135M", "quantization_level": "Q8_0"}
_MESSAGES = {
    404: "model '{model}' not found",
    429: "too many requests",
    500: "llama-server process has terminated: exit status 2",
    # Two blanks: as Ollama's scheduler writes it.
    503: "server busy, please try again.  maximum pending requests exceeded",
}


class Ollama(Dialect):
    name: ClassVar[str] = "ollama"
    suffix: ClassVar[str] = ""
    stream_type = "application/x-ndjson"

    @classmethod
    def asks(cls, method: str, path: str) -> bool:
        return method == "POST" and path.partition("?")[0] == "/api/chat"

    @classmethod
    def look(cls, path: str, stage: Stage) -> str | None:
        match path:
            case "/":
                return "Ollama is running"
            case "/api/version":
                return to_json({"version": "0.33.0"})
            case "/api/tags":
                return to_json({"models": [_listed(name) for name in stage.models]})
            case "/api/ps":
                return to_json({"models": [_running(name) for name in stage.models] if stage.resident else []})
        return None

    @property
    def streams(self) -> bool:
        return bool(self.body.get("stream", True))

    def frame(self, value: Mapping[str, Any]) -> bytes:
        return f"{to_json(value)}\n".encode()

    def opening(self) -> bytes:
        return b""

    def thought(self, text: str) -> bytes:
        return self.frame(self._message({"content": "", "thinking": text}))

    def piece(self, text: str) -> bytes:
        return self.frame(self._message({"content": text}))

    def hollow(self) -> bytes:
        return self.piece("")

    def ending(self, said: Said) -> Ending:
        return Ending(b"", self.frame({**self._message({"content": ""}), **_end(said)}))

    def blank(self) -> bytes:
        return b"\n"

    def garbled(self) -> bytes:
        return b'{"message": {"role": "assistant", "content": "Hel\n'

    def whole(self, said: Said) -> Mapping[str, Any]:
        content = {"content": said.text}
        if said.thinking:
            content["thinking"] = said.thinking
        return {**self._message(content), **(_end(said) if said.finish is not None else {})}

    def unanswered(self, said: Said, gap: Any) -> list[Mapping[str, Any]]:
        return [{**self._message({}), "message": None if gap is None else {}, **_end(said)}]

    def error(self, failure: Failure) -> Mapping[str, Any]:
        """One string is all there is."""
        default = _MESSAGES.get(failure.status, f"the scripted host says {failure.status}").format(model=self.model)
        word = default if failure.code is None or failure.code.isdigit() else failure.code
        return {"error": word if failure.message is None else failure.message}

    def _message(self, content: Mapping[str, str]) -> dict[str, Any]:
        return {
            "model": self.model,
            "created_at": _time(),
            "message": {"role": "assistant", **content},
            "done": False,
        }


def _end(said: Said) -> dict[str, Any]:
    load = max(int(said.load * _NANOSECONDS), _LEAST_LOAD)
    prompt, answer = said.input_tokens * _PER_INPUT_TOKEN, said.output_tokens * _PER_OUTPUT_TOKEN
    counters = {
        "total_duration": load + prompt + answer,
        "load_duration": load,
        "prompt_eval_count": said.input_tokens,
        "prompt_eval_duration": prompt,
        "eval_count": said.output_tokens,
        "eval_duration": answer,
    }
    return {"done": True, "done_reason": said.finish, **{key: n for key, n in counters.items() if n}}


def _listed(name: str) -> dict[str, Any]:
    tag = {"name": name, "model": name, "size": _SIZE, "digest": "0" * 64, "details": _DETAILS}
    return {**tag, "modified_at": _time()}


def _running(name: str) -> dict[str, Any]:
    more = {"expires_at": _time(timedelta(minutes=5)), "size_vram": 0, "context_length": 8192}
    return {**_listed(name), **more}


def _time(later: timedelta = timedelta()) -> str:
    return (datetime.now(UTC) + later).isoformat().replace("+00:00", "Z")
