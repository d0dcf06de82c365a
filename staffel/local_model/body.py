"""The bodies of Ollama's requests, field by field, and what it says where one is wrong.

Field names, defaults, statuses and error texts follow Ollama 0.33 (its api/types.go and server/routes.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, JsonValue, ValidationError, model_validator
from pydantic_core import ErrorDetails

from staffel.local_model.errors import RequestRefused

BAD = 400
NOT_FOUND = 404
SERVER_ERROR = 500  # what Ollama answers where a caller's option or format is wrong

_SEEDS = 2**32
_GO_TYPES = {"int_type": "integer", "float_type": "float32", "list_type": "array", "bool_type": "boolean"}


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
        """The name as it was asked for; one without a tag means `latest`. Raises RequestRefused."""
        asked = self.model or self.name
        if not asked:
            raise RequestRefused(BAD, "model is required")
        whole = asked if ":" in asked else f"{asked}:latest"
        if whole.lower() != served.lower():
            raise RequestRefused(NOT_FOUND, f"model '{asked}' not found")
        return asked


class Message(_Body):
    role: str = ""
    content: str = ""
    images: list[JsonValue] = []


class Options(_Body):
    """Ollama's names and defaults. Those that choose a token are llama.cpp's names too, though not its defaults."""

    num_ctx: _Whole = 0
    num_batch: _Whole = 0
    num_gpu: _Whole = -1
    main_gpu: _Whole = 0
    num_thread: _Whole = 0
    use_mmap: bool | None = None
    num_keep: _Whole = 4
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

    @classmethod
    def parse(cls, given: Mapping[str, JsonValue]) -> Options:
        """Raises RequestRefused that names the first wrong one."""
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            raise _refused_option(error.errors(include_url=False)[0]) from error

    def sampling(self) -> dict[str, JsonValue]:
        """What llama.cpp is told of a choice of tokens."""
        loading = {"num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "use_mmap"}
        chosen: dict[str, JsonValue] = self.model_dump(exclude=loading | {"num_keep", "num_predict", "seed", "stop"})
        if self.seed >= 0:
            chosen["seed"] = self.seed % _SEEDS
        return {**chosen, "stop": list(self.stop)} if self.stop else chosen


class Asked(Named):
    """What `/api/chat` and `/api/generate` have in common."""

    stream: bool = True
    options: dict[str, JsonValue] = {}
    format: JsonValue = None
    think: bool | Literal["high", "medium", "low", "max"] = False
    keep_alive: JsonValue = None
    truncate: bool = True
    shift: bool = True
    logprobs: bool = False
    top_logprobs: _Whole = 0


class ChatBody(Asked):
    messages: list[Message] = []
    tools: list[JsonValue] = []


class GenerateBody(Asked):
    prompt: str = ""
    suffix: str = ""
    system: str = ""
    template: str = ""
    context: list[_Whole] = []
    raw: bool = False
    images: list[JsonValue] = []


def parsed(kind: type[Body], raw: bytes) -> Body:
    """The body as `kind`. Raises RequestRefused that names the first wrong field."""
    if not raw:
        raise RequestRefused(BAD, "missing request body")
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        raise _refused(error.errors(include_url=False)[0]) from error


def _refused(wrong: ErrorDetails) -> RequestRefused:
    match wrong["loc"]:
        case ("think", *_):
            levels = '"high", "medium", "low", "max", true, or false'
            return RequestRefused(BAD, f"invalid think value: {wrong['input']!r} (must be {levels})")
        case place:
            return RequestRefused(BAD, ": ".join(filter(None, [".".join(map(str, place)), wrong["msg"]])))


def _refused_option(wrong: ErrorDetails) -> RequestRefused:
    name, *inner = wrong["loc"]
    if inner:
        return RequestRefused(SERVER_ERROR, f'option "{name}" must be of an array of strings')
    return RequestRefused(SERVER_ERROR, f'option "{name}" must be of type {_GO_TYPES.get(wrong["type"], "number")}')
