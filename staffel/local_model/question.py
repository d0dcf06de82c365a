"""A request for an answer, checked in Ollama's order and put into llama.cpp's words."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from staffel.local_model.body import BAD, SERVER_ERROR, Asked, ChatBody, GenerateBody, Options, parsed
from staffel.local_model.errors import RequestRefused
from staffel.local_model.facts import Facts
from staffel.local_model.keep_alive import seconds_to_stay
from staffel.local_model.loading import Loading

_LEAST_WINDOW = 4
_MOST_LOGPROBS = 20
_LIBRARY = "registry.ollama.ai/library/"  # whose models Ollama calls so where they cannot do a thing


@dataclass(frozen=True, slots=True)
class Question:
    """What one request asks.

    `messages` are none where the model is to be loaded or unloaded, and `raw` is a prompt that no template touches.
    `stay` is the seconds of keep_alive, None where nothing was said. `num_predict` and `num_keep` are tokens; below 0
    means no limit, and the whole prompt.
    """

    model: str
    messages: tuple[dict[str, str], ...]
    raw: str
    context: tuple[int, ...]
    stream: bool
    stay: float | None
    truncate: bool
    loading: Loading
    num_keep: int
    num_predict: int
    settings: dict[str, JsonValue]

    @property
    def empty(self) -> bool:
        return not (self.messages or self.raw)

    @property
    def unloads(self) -> bool:
        return self.empty and self.stay == 0


def chat_question(raw: bytes, facts: Facts, num_ctx: int) -> Question:
    """A body of `/api/chat`; `num_ctx` is the window where it names none. Raises RequestRefused."""
    body = parsed(ChatBody, raw)
    messages = tuple({"role": message.role.lower(), "content": message.content} for message in body.messages)
    wanted = {"tools": bool(body.tools), "vision": any(message.images for message in body.messages)}
    return _question(body, facts, num_ctx, messages=messages, wanted=wanted)


def generate_question(raw: bytes, facts: Facts, num_ctx: int) -> Question:
    """A body of `/api/generate`. Raises RequestRefused."""
    body = parsed(GenerateBody, raw)
    if body.raw and (body.template or body.system or body.context):
        body.found(facts.name)
        raise RequestRefused(BAD, "raw mode does not support template, system, or context")
    system = [{"role": "system", "content": body.system}] if body.system else []
    messages = (*system, {"role": "user", "content": body.prompt}) if body.prompt and not body.raw else ()
    wanted = {"insert": bool(body.suffix), "vision": bool(body.images)}
    question = _question(
        body,
        facts,
        num_ctx,
        messages=messages,
        wanted=wanted,
        raw=body.prompt if body.raw else "",
        context=body.context,
    )
    if body.template and body.prompt:
        raise RequestRefused(SERVER_ERROR, "template error: this server renders no template but the model's own")
    return question


def _question(
    body: Asked,
    facts: Facts,
    num_ctx: int,
    *,
    messages: tuple[dict[str, str], ...],
    wanted: dict[str, bool],
    raw: str = "",
    context: list[int] | None = None,
) -> Question:
    stay = seconds_to_stay(body.keep_alive)
    if not 0 <= body.top_logprobs <= _MOST_LOGPROBS:
        raise RequestRefused(BAD, f"top_logprobs must be between 0 and {_MOST_LOGPROBS}")
    asked = body.found(facts.name)
    leaves = not (messages or raw) and stay == 0
    if not leaves:
        _refuse_what_it_cannot(body, facts.name, {**wanted, "logprobs": body.logprobs})
    options = Options() if leaves else Options.parse(body.options)
    return Question(
        model=asked,
        messages=messages,
        raw=raw,
        context=tuple(context or ()),
        stream=body.stream,
        stay=stay,
        truncate=body.truncate,
        loading=_loading(options, facts, num_ctx, shift=body.shift),
        num_keep=options.num_keep,
        num_predict=options.num_predict,
        settings={**options.sampling(), **({} if leaves else _format(body.format))},
    )


def _loading(options: Options, facts: Facts, num_ctx: int, *, shift: bool) -> Loading:
    """A window longer than the model learned is made as long as that, without a word."""
    window = options.num_ctx if options.num_ctx > 0 else num_ctx
    return Loading(
        num_ctx=min(max(window, _LEAST_WINDOW), facts.trained_window),
        num_batch=options.num_batch,
        num_gpu=options.num_gpu,
        main_gpu=options.main_gpu,
        num_thread=options.num_thread,
        use_mmap=options.use_mmap,
        shift=shift,
    )


def _refuse_what_it_cannot(body: Asked, served: str, wanted: dict[str, bool]) -> None:
    if body.think:
        raise RequestRefused(BAD, f'"{body.model or body.name}" does not support thinking')
    for capability, asked in wanted.items():
        if asked:
            raise RequestRefused(BAD, f"{_LIBRARY}{served} does not support {capability}")


def _format(wanted: JsonValue) -> dict[str, JsonValue]:
    if wanted is None or wanted == "":
        return {}
    if wanted == "json":
        return {"response_format": {"type": "json_object"}}
    if isinstance(wanted, dict):
        return {"response_format": {"type": "json_schema", "json_schema": {"schema": wanted}}}
    raise RequestRefused(SERVER_ERROR, 'invalid format: expected "json" or a JSON schema')
