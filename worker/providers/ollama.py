"""Ollama's native `/api/chat`.

Native, because its OpenAI-compatible twin ignores `num_ctx`, `keep_alive` and errors in mid-stream. Without the
`ollama` package, whose `chat()` knows no `truncate`: without that a prompt that is too long is answered from half of
itself with status 200 (ollama#17427). The package also fails at a blank line and keeps no header of an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from config.stages import Stage
from worker.failover.provider import Call, Chunk, End, Fault, Kind, Piece, counted
from worker.providers.adapter import Adapter, Reading
from worker.providers.frames import Frame
from worker.providers.schema_prompt import told_in_prompt
from worker.providers.thinking import Spoken

_NEVER_SILENT = "gpt-oss"
"""In the names of the models that take no `think: false` (docs.ollama.com, "Thinking")."""


class Ollama(Adapter):
    OPTIONAL: ClassVar[Mapping[str, Sequence[str]]] = {
        "think": ("think", "thinking"),
        "options.temperature": ("temperature",),
        "options.seed": ("seed",),
        "options.stop": ("stop",),
    }

    BY_VALUE: ClassVar[frozenset[str]] = frozenset({"think"})

    FIXED: ClassVar[frozenset[str]] = frozenset(
        {"model", "messages", "stream", "truncate", "format", "options.num_ctx", "options.num_predict"}
    )

    def url(self, call: Call) -> str:
        return f"{call.stage.base_url.rstrip('/')}/api/chat"

    def headers(self, stage: Stage) -> Mapping[str, str]:
        return {"authorization": f"Bearer {stage.api_key.get_secret_value()}"} if stage.api_key else {}

    def body(self, call: Call) -> dict[str, Any]:
        """A request's own params on top of the stage's.

        None of them reaches the model, the messages, `truncate`, `num_ctx` or `num_predict`: another window would load
        the model anew, and without a limit an answer may never end.
        """
        request, stage = call.request, call.stage
        schema = request.response_schema
        native = schema is not None and stage.takes.response_schema
        return {
            **({"think": _think(stage.model, request.reasoning)} if stage.takes.reasoning else {}),
            "keep_alive": stage.keep_alive,
            **stage.params,
            **request.params.get(stage.name, {}),
            **({"format": schema} if native else {}),
            "model": stage.model,
            "messages": _messages(call),
            "truncate": False,
            "options": _options(call),
            "stream": stage.stream,
        }

    def reading(self, call: Call) -> Reading:  # noqa: ARG002 - the protocol needs none
        return _Reading()


def _think(model: str, reasoning: str | None) -> str | bool:
    """Without the field a model that can think does; one that cannot be silenced thinks as little as it can."""
    if reasoning not in {None, "none"}:
        return str(reasoning)
    return "low" if _NEVER_SILENT in model.lower() else False


def _messages(call: Call) -> list[dict[str, Any]]:
    request = call.request
    if request.response_schema is not None and not call.stage.takes.response_schema:
        messages = told_in_prompt(request.messages, request.response_schema)
    else:
        messages = [dict(message) for message in request.messages]
    last = next((message for message in reversed(messages) if message["role"] == "user"), None)
    if last is not None and request.images:
        last["images"] = [image.base64 for image in request.images]
    return messages


def _options(call: Call) -> Any:  # noqa: ANN401 - whatever a caller put there, where it is no object
    request, stage = call.request, call.stage
    optional = {
        "temperature": request.temperature if stage.takes.temperature else None,
        "seed": request.seed if stage.takes.seed else None,
        "stop": list(request.stop) or None if stage.takes.stop else None,
    }
    options: dict[str, Any] = {name: value for name, value in optional.items() if value is not None}
    for params in (stage.params, request.params.get(stage.name, {})):
        given = params.get("options") or {}
        if not isinstance(given, Mapping):
            return given  # the host says what is wrong with it
        options |= given
    return {**options, "num_ctx": stage.num_ctx, "num_predict": min(call.max_output_tokens, stage.num_ctx)}


class _Reading(Reading):
    def __init__(self) -> None:
        self._spoken = Spoken()

    def take(self, frame: Frame) -> Iterable[Chunk]:
        """Only what an answer is made of is looked at."""
        message = frame.get("message")
        if not isinstance(message, Mapping) or not isinstance(content := message.get("content") or "", str):
            raise Fault(Kind.UNREADABLE)
        if str(message.get("thinking") or "").strip():
            yield Piece(thought=True)
        if content:
            yield from self._spoken.take(content)
        if frame.get("done") in (True, "true"):
            yield from self._spoken.end()
            usage = counted(frame.get("prompt_eval_count"), frame.get("eval_count"))
            yield End(str(frame.get("done_reason") or ""), usage)

    def done(self, *, marked: bool) -> Iterable[Chunk]:  # noqa: ARG002 - another protocol's mark
        """What was held of a text that broke off."""
        return self._spoken.end()
