"""An `/api/chat` request, checked as Ollama checks it and put into llama.cpp's words.

Field names, defaults, statuses and error texts follow Ollama 0.33 (its api/types.go and server/routes.go).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError, model_validator
from pydantic_core import ErrorDetails

from staffel.local_model.errors import RequestRefused

_BAD = 400
_NOT_FOUND = 404
_SERVER_ERROR = 500  # what Ollama answers where a caller's option or format is wrong

_SEEDS = 2**32
_DURATION = re.compile(r"[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h))+)")
_ZERO = re.compile(r"[+-]?0+[a-zµ]*")
_GO_TYPES = {"int_type": "integer", "float_type": "float32", "list_type": "array", "string_type": "string"}


def _without_fraction(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Body = TypeVar("Body", bound=BaseModel)
_Whole = Annotated[int, BeforeValidator(_without_fraction)]  # JSON knows one kind of number, and so does Ollama


class _Body(BaseModel):
    """Unknown fields and nulls are as if they were not there; any other type is a mistake."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, fields: object) -> object:
        if not isinstance(fields, dict):
            return fields
        return {name: value for name, value in fields.items() if value is not None}


class Named(_Body):
    """A request that names a model."""

    model: str = ""
    name: str = ""  # the older word for it

    def found(self, served: str) -> str:
        """The name as it was asked for; the tag may be left out. Raises RequestRefused."""
        asked = self.model or self.name
        if not asked:
            raise RequestRefused(_BAD, "model is required")
        if asked not in {served, served.partition(":")[0]}:
            raise RequestRefused(_NOT_FOUND, f"model '{asked}' not found")
        return asked


class _Message(_Body):
    role: str = ""
    content: str = ""
    images: list[JsonValue] = []


class _Options(_Body):
    """Ollama's names and defaults. All but the first four are llama.cpp's names too, though not its defaults."""

    num_ctx: _Whole = 0
    num_predict: _Whole = -1
    seed: _Whole = -1
    stop: list[str] = []
    temperature: float = 0.8
    top_k: _Whole = 40
    top_p: float = 0.9
    min_p: float = 0.0
    typical_p: float = 1.0
    repeat_last_n: _Whole = 64
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0

    def sampling(self) -> dict[str, JsonValue]:
        chosen: dict[str, JsonValue] = self.model_dump(exclude={"num_ctx", "num_predict", "seed", "stop"})
        if self.seed >= 0:
            chosen["seed"] = self.seed % _SEEDS
        return {**chosen, "stop": list(self.stop)} if self.stop else chosen


class _ChatBody(Named):
    messages: list[_Message] = []
    stream: bool = True
    options: _Options = Field(default_factory=_Options)
    format: JsonValue = None
    think: bool | Literal["high", "medium", "low", "max"] = False
    keep_alive: JsonValue = None
    tools: list[JsonValue] = []
    logprobs: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """What one request asks. `num_ctx` and `num_predict` are tokens; 0 and below 0 set no limit."""

    model: str
    messages: tuple[dict[str, str], ...]
    stream: bool
    unload: bool
    num_ctx: int
    num_predict: int
    settings: dict[str, JsonValue]

    @classmethod
    def parse(cls, raw: bytes, served: str) -> Question:
        """Check a request for the model `served`. Raises RequestRefused."""
        body = parsed(_ChatBody, raw)
        asked = body.found(served)
        _refuse_what_it_cannot(body, served)
        return cls(
            model=asked,
            messages=tuple({"role": message.role.lower(), "content": message.content} for message in body.messages),
            stream=body.stream,
            unload=_is_zero(body.keep_alive),
            num_ctx=body.options.num_ctx,
            num_predict=body.options.num_predict,
            settings={**body.options.sampling(), **_format(body.format)},
        )

    def limited_to(self, window: int, prompt_tokens: int) -> dict[str, object]:
        """The request for llama.cpp, its answer cut to what `window` leaves. Raises RequestRefused if nothing is left.

        Never answers from a part of the prompt: of Ollama's two ways with a long one (cut in half, or refused, as with
        `truncate: false` and for every model that brings its own chat template) this is the second.
        """
        if self.num_ctx > 0:
            window = min(window, self.num_ctx)
        room = window - prompt_tokens
        if room < 1:
            raise RequestRefused(_BAD, _too_long(prompt_tokens, window))
        limit = room if self.num_predict < 0 else min(self.num_predict, room)
        return {**self.settings, "messages": list(self.messages), "max_tokens": limit}


def parsed(kind: type[Body], raw: bytes) -> Body:
    """The body as `kind`. Raises RequestRefused that names the first wrong field."""
    if not raw:
        raise RequestRefused(_BAD, "missing request body")
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        raise _refused(error.errors(include_url=False)[0]) from error


def _refused(wrong: ErrorDetails) -> RequestRefused:
    match wrong["loc"]:
        case ("options", str() as name):
            return RequestRefused(
                _SERVER_ERROR, f'option "{name}" must be of type {_GO_TYPES.get(wrong["type"], "number")}'
            )
        case ("options", "stop", _):
            return RequestRefused(_SERVER_ERROR, 'option "stop" must be of an array of strings')
        case ("think", *_):
            levels = '"high", "medium", "low", "max", true, or false'
            return RequestRefused(_BAD, f"invalid think value: {wrong['input']!r} (must be {levels})")
        case place:
            return RequestRefused(_BAD, ": ".join(filter(None, [".".join(map(str, place)), wrong["msg"]])))


def _refuse_what_it_cannot(body: _ChatBody, served: str) -> None:
    if body.think:
        raise RequestRefused(_BAD, f'"{served}" does not support thinking')
    wanted = {
        "tools": body.tools,
        "vision": any(message.images for message in body.messages),
        "logprobs": body.logprobs,
    }
    for capability, asked in wanted.items():
        if asked:
            raise RequestRefused(_BAD, f"{served} does not support {capability}")


def _format(wanted: JsonValue) -> dict[str, JsonValue]:
    if wanted is None or wanted == "":
        return {}
    if wanted == "json":
        return {"response_format": {"type": "json_object"}}
    if isinstance(wanted, dict):
        return {"response_format": {"type": "json_schema", "json_schema": {"schema": wanted}}}
    raise RequestRefused(_SERVER_ERROR, 'invalid format: expected "json" or a JSON schema')


def _is_zero(keep_alive: JsonValue) -> bool:
    """Checked as Ollama does, but the model stays for as long as the server runs. Raises RequestRefused."""
    match keep_alive:
        case bool():
            pass
        case None:
            return False
        case int() | float():
            return keep_alive == 0
        case str() if _DURATION.fullmatch(keep_alive):
            return bool(_ZERO.fullmatch(keep_alive))
    raise RequestRefused(_BAD, f'time: invalid duration "{keep_alive}" (seconds, or a number with its unit as in "5m")')


def _too_long(prompt_tokens: int, window: int) -> str:
    """llama.cpp's own reply as a string inside Ollama's: adapters meet it in this form."""
    size = f"request ({prompt_tokens} tokens) exceeds the available context size ({window} tokens), try increasing it"
    counts = {"n_prompt_tokens": prompt_tokens, "n_ctx": window}
    return json.dumps({"error": {"code": _BAD, "message": size, "type": "exceed_context_size_error", **counts}})
