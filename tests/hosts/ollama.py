"""Ollama's native API: a chat, or a prompt at `/api/generate`; and without either, to load a model or unload it.

Shapes after Ollama's docs/api.md and docs/api/errors.mdx: NDJSON, durations in nanoseconds, counters that are zero
left out, an error is one string.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from tests.hosts.dialect import Dialect, Ending, Failure, Said, to_json
from tests.hosts.log import Stage
from tests.hosts.memory import WINDOW
from tests.hosts.ollama_rules import refusal, seconds_to_stay

CHAT = "/api/chat"
GENERATE = "/api/generate"
_NANOSECONDS = 1_000_000_000
_PER_INPUT_TOKEN = 1_000_000
_PER_OUTPUT_TOKEN = 10_000_000
_LEAST_LOAD = 1_000_000
_SIZE = 100_000_000
_FOR_EVER = 9_223_372_036.0
"""Seconds that fit into Go's duration."""
_DETAILS = {
    "parent_model": "",
    "format": "gguf",
    "family": "llama",
    "families": ["llama"],
    "parameter_size": "135M",
    "quantization_level": "Q8_0",
}
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
        return method == "POST" and path.partition("?")[0] in {CHAT, GENERATE, "/api/show"}

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
                return to_json({"models": [_running(name, stage) for name in stage.memory.names()]})
        return None

    @property
    def window(self) -> int | None:
        window = self._options.get("num_ctx")
        return window if isinstance(window, int) else None

    @property
    def stay(self) -> float | None:
        return seconds_to_stay(self.body.get("keep_alive"))

    async def early(
        self, stage: Stage, wait: Callable[[float], Awaitable[None]]
    ) -> tuple[int, Mapping[str, Any]] | None:
        path = self.path.partition("?")[0]
        if path == "/api/show":
            stage.note(f"POST {path}")
            return self._shown(stage)
        if stage.strict and (refused := refusal(self, stage.models)) is not None:
            stage.note(f"POST {path} refused")
            return refused
        if self.empty:
            return await self._prepared(stage, wait)
        stage.memory.use(self.model, self.stay)
        return None

    @property
    def empty(self) -> bool:
        """To load or unload a model is no call; a body that names none is one."""
        asked = self.body.get("prompt") if self._generates else self.body.get("messages")
        return bool(self.model) and not asked

    async def _prepared(self, stage: Stage, wait: Callable[[float], Awaitable[None]]) -> tuple[int, Mapping[str, Any]]:
        unloads = self.stay == 0
        stage.note(f"POST {self.path} {'unload' if unloads else 'load'}")
        if unloads:
            stage.memory.unload(self.model)
        elif not stage.memory.has(self.model, self.window):
            stage.memory.unload(self.model)
            await wait(stage.load_seconds())
            stage.memory.load(self.model, self.window, self.stay)
        stage.memory.use(self.model, self.stay)
        if not stage.in_flight():
            stage.memory.rest()
        return 200, {**self._message({"content": ""}), "done": True, "done_reason": "unload" if unloads else "load"}

    def _shown(self, stage: Stage) -> tuple[int, Mapping[str, Any]]:
        if self.model not in stage.models:
            return 404, {"error": _MESSAGES[404].format(model=self.model)}
        info = {"general.architecture": "llama", "general.parameter_count": 135_000_000, "llama.context_length": WINDOW}
        texts = {"license": "", "modelfile": f"FROM {self.model}\n", "parameters": "", "template": "{{ .Prompt }}"}
        more = {"details": _DETAILS, "model_info": info, "capabilities": ["completion"], "modified_at": _time()}
        return 200, {**texts, **more}

    @property
    def _generates(self) -> bool:
        return self.path.partition("?")[0] == GENERATE

    @property
    def _options(self) -> Mapping[str, Any]:
        options = self.body.get("options")
        return options if isinstance(options, Mapping) else {}

    def messages(self) -> list[tuple[str, str]]:
        if not self._generates:
            return super().messages()
        told = (("system", self.body.get("system")), ("user", self.body.get("prompt")))
        return [(role, text) for role, text in told if isinstance(text, str) and text]

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
            **(_flat(content) if self._generates else {"message": {"role": "assistant", **content}}),
            "done": False,
        }


def _flat(content: Mapping[str, str]) -> dict[str, str]:
    return {{"content": "response"}.get(name, name): text for name, text in content.items()}


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


def _running(name: str, stage: Stage) -> dict[str, Any]:
    left = min(stage.memory.left(name), _FOR_EVER)
    expires = {
        "expires_at": _time(timedelta(seconds=left)),
        "size_vram": 0,
        "context_length": stage.memory.window(name),
    }
    return {**{key: value for key, value in _listed(name).items() if key != "modified_at"}, **expires}


def _time(later: timedelta = timedelta()) -> str:
    return (datetime.now(UTC) + later).isoformat().replace("+00:00", "Z")
