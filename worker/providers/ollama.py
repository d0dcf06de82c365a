"""Ollama's native `/api/chat`.

Native, because its OpenAI-compatible twin ignores `num_ctx`, `keep_alive` and errors in mid-stream. Without the
`ollama` package, whose `chat()` knows no `truncate`: without that a prompt that is too long is answered from half of
itself with status 200 (ollama#17427). The package also fails at a blank line and keeps no header of an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from config.ollama import LOAD_TIME, load_options
from config.stages import Stage
from worker.failover.provider import Call, Chunk, End, Fault, Kind, Piece, counted
from worker.providers.adapter import Adapter, Reading, wishes, without
from worker.providers.frames import Frame
from worker.providers.schema_prompt import told_in_prompt
from worker.providers.tokens import at_most

_NEVER_SILENT = "gpt-oss"
"""In the names of the models that take no `think: false` (docs.ollama.com, "Thinking")."""

_SHORT = 64
"""Tokens that an answer is given however long its prompt may be."""

_TEMPLATE = 48
_A_MESSAGE = 8
"""Tokens that a model's template puts around a prompt, and around each of its messages."""

_AN_IMAGE = 1000

_LONGEST_TOKEN = 8
"""Characters: a prompt of more than so many times the window is not looked at, it has no room."""


class _Reading(Reading):
    def take(self, frame: Frame) -> Iterable[Chunk]:
        """Only what an answer is made of is looked at."""
        message = frame.get("message")
        if not isinstance(message, Mapping) or not isinstance(content := message.get("content") or "", str):
            raise Fault(Kind.UNREADABLE)
        if str(message.get("thinking") or "").strip():
            yield Piece(thought=True)
        if content:
            yield from self.spoken.take(content)
        if frame.get("done") in (True, "true"):
            yield from self.spoken.end()
            asked, answered = frame.get("prompt_eval_count"), frame.get("eval_count")
            # A counter of 0 is left out: of a prompt that was all in the cache.
            usage = counted(0 if asked is None and answered else asked, answered)
            yield End(str(frame.get("done_reason") or ""), usage)


class Ollama(Adapter):
    OPTIONAL: ClassVar[Mapping[str, Sequence[str]]] = {
        "think": ("think", "thinking"),
        "options.temperature": ("temperature",),
        "options.seed": ("seed",),
        "options.stop": ("stop",),
    }

    BY_VALUE: ClassVar[frozenset[str]] = frozenset({"think"})

    FIXED: ClassVar[frozenset[str]] = frozenset(
        {"model", "messages", "stream", "truncate", "keep_alive", "options.num_ctx", "options.num_predict"}
    )
    """Another window would load the model anew, and without a limit an answer may never end."""

    LOADED: ClassVar[frozenset[str]] = frozenset({"shift", *(f"options.{name}" for name in LOAD_TIME)})
    """What is a stage's alone, since another value loads the model anew: never a request's, and never dropped."""

    SCHEMA: ClassVar[frozenset[str]] = frozenset({"format"})

    READING: ClassVar[type[Reading]] = _Reading

    def url(self, call: Call) -> str:
        return f"{call.stage.base_url.rstrip('/')}/api/chat"

    def headers(self, stage: Stage) -> Mapping[str, str]:
        return authorization(stage)

    def params(self, call: Call) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        stages, requests = super().params(call)
        return stages, without(requests, self.LOADED)

    def optional(self, call: Call) -> Mapping[str, Sequence[str]]:
        return {path: words for path, words in super().optional(call).items() if path not in self.LOADED}

    def body(self, call: Call) -> dict[str, Any]:
        """A request's own params on top of the stage's, those of `options` one by one."""
        request, stage = call.request, call.stage
        schema = request.response_schema if stage.takes.response_schema else None
        messages, params = _messages(call), self.params(call)
        return {
            **({"think": _think(stage.model, request.reasoning)} if stage.takes.reasoning else {}),
            **params[0],
            **params[1],
            **({} if schema is None else {"format": schema}),
            "model": stage.model,
            "messages": messages,
            "truncate": False,
            "keep_alive": stage.keep_alive,
            "options": _options(call, params, _room(call, messages)),
            "stream": stage.stream,
        }


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


def authorization(stage: Stage) -> Mapping[str, str]:
    """The key that the stage names, and never that of the environment's `OLLAMA_API_KEY`: it is the cloud's."""
    return {"authorization": f"Bearer {stage.api_key.get_secret_value()}"} if stage.api_key else {}


def loading(stage: Stage) -> dict[str, Any]:
    """The empty chat that loads the stage's model as its calls will want it, and answers when it is there."""
    shift = {"shift": stage.params["shift"]} if "shift" in stage.params else {}
    options = {**load_options(stage.params), "num_ctx": stage.num_ctx}
    fixed = {"model": stage.model, "messages": [], "stream": False, "keep_alive": stage.keep_alive}
    return {**shift, **fixed, "options": options}


def _room(call: Call, messages: Sequence[Mapping[str, Any]]) -> int:
    """Tokens that an answer may have: what the window leaves to it, for where it runs full the host drops the start of
    the prompt and goes on.

    The prompt is estimated, rather as too long, so a short answer is asked for in any case: the host refuses a prompt
    that has no room at all, and an answer for which the window did not suffice is none (`failover/accept.py`).
    """
    window, wanted = call.stage.num_ctx, call.max_output_tokens
    texts = [message["content"] for message in messages]
    if sum(map(len, texts)) > _LONGEST_TOKEN * window:
        return min(wanted, _SHORT)
    around = _TEMPLATE + _A_MESSAGE * len(texts) + _AN_IMAGE * len(call.request.images)
    return max(min(wanted, window - around - sum(map(at_most, texts))), min(wanted, _SHORT))


def _options(call: Call, params: Iterable[Mapping[str, Any]], room: int) -> Any:  # noqa: ANN401
    """What a caller puts in its place, where that is no object: the host says what is wrong with it."""
    options = wishes(call)
    for given in params:
        own = given.get("options") or {}
        if not isinstance(own, Mapping):
            return own
        options |= own
    return {**options, "num_ctx": call.stage.num_ctx, "num_predict": room}
