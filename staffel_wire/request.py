"""A request at the door: checked whole before a job exists, refused with one line that a person understands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from staffel_wire import schema
from staffel_wire.errors import Invalid
from staffel_wire.images import MOST_IMAGES, plain_base64

MAX_REQUEST_BYTES = 4_000_000
"""The default of `max_request_bytes`: a request as JSON may be this long."""

MOST_STOPS = 64
"""No provider takes more than 16 end marks."""

MAX_DEADLINE_S = 30 * 86_400.0

NOT_YET = frozenset({"stream"})
"""Fields of the design that no stage honours yet: refused by name, since an ignored one would be a lie."""

_FIELD = re.compile(r"(messages\.\d{1,9}\.)?[A-Za-z_]\w{0,29}")
"""What may be a typo is shown; anything else may be a customer's text, and a worker logs what it refuses."""

_DEEPEST = 50
_LONE = re.compile("[\ud800-\udfff]")


def _sound(wanted: dict[str, Any]) -> dict[str, Any]:
    if (trouble := schema.trouble(wanted)) is not None:
        raise ValueError(trouble)
    return wanted


Schema = Annotated[dict[str, Any], AfterValidator(_sound)]
Priority = Literal["interactive", "batch"]
"""Batch jobs give way to interactive ones, on every lane; of ten jobs that a worker takes one is theirs."""

Picture = Annotated[str, BeforeValidator(plain_base64)]


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, strict=True)

    role: Literal["system", "user", "assistant"]
    content: str


class Request(BaseModel):
    """What a caller asks. Times in seconds, lengths in tokens.

    Either `prompt` or `messages`; `system` goes before them. `params` are a provider's own fields, by stage name.
    `response_schema` is a JSON schema for the answer; `images` go with the last message of the user, held as base64.
    """

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, strict=True)

    prompt: str | None = None
    messages: list[Message] = []
    system: str | None = None
    chain: Annotated[str, StringConstraints(min_length=1)] = "default"
    deadline: float | None = Field(default=None, gt=0, le=MAX_DEADLINE_S, allow_inf_nan=False)
    max_output_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    temperature: float | None = Field(default=None, ge=0, le=2, allow_inf_nan=False)
    reasoning: Literal["none", "low", "medium", "high"] | None = None
    stop: list[str] = Field(default=[], max_length=MOST_STOPS)
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    params: dict[str, dict[str, Any]] = {}
    response_schema: Schema | None = None
    images: list[Picture] = Field(default=[], max_length=MOST_IMAGES)
    local_only: bool = False
    priority: Priority = "interactive"
    label: Annotated[str, StringConstraints(max_length=200)] | None = None
    idempotency_key: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None

    @model_validator(mode="after")
    def _one_text(self) -> Request:
        if self.prompt is None and not self.messages:
            raise ValueError("give a prompt or messages")
        if self.prompt is not None and self.messages:
            raise ValueError("give a prompt or messages, not both")
        said = [self.prompt] if self.prompt is not None else [m.content for m in self.messages if m.role != "system"]
        if not any(text and text.strip() for text in said):
            raise ValueError("the prompt is empty" if self.prompt is not None else "the messages are empty")
        if self.images and self.messages and all(message.role != "user" for message in self.messages):
            raise ValueError("images go with the last message of the user, and there is none")
        return self

    def conversation(self) -> list[dict[str, str]]:
        """The messages that a provider is sent, the system's first."""
        first = [{"role": "system", "content": self.system}] if self.system else []
        if self.prompt is not None:
            return [*first, {"role": "user", "content": self.prompt}]
        return [*first, *({"role": m.role, "content": m.content} for m in self.messages)]


def parse(fields: object, max_bytes: int = MAX_REQUEST_BYTES) -> Request:
    """The request that these fields make, or `Invalid` with one line that never quotes the caller's text."""
    if isinstance(fields, str):
        fields = {"prompt": fields}
    if not isinstance(fields, Mapping):
        raise Invalid(f"a request is an object with a prompt, not a {type(fields).__name__}")
    for name in fields:
        if name in NOT_YET:
            raise Invalid(f"{name}: not supported yet; leave it out")
    broken = _lone_surrogate(fields, ())
    if broken is not None:
        place = cleaned(".".join(map(str, broken)))
        raise Invalid(f"{place}: holds a lone surrogate (half a character), which is no text; decode it first")
    try:
        request = Request.model_validate(dict(fields))
        # Stricter than pydantic, which turns NaN into null and a set into a list.
        json.dumps(request.params, allow_nan=False)
        size = len(request.model_dump_json(exclude_defaults=True).encode())
    except ValidationError as error:
        raise Invalid(_line(error)) from None
    except (ValueError, TypeError, RecursionError):
        raise Invalid("params: only what JSON can hold") from None
    if size > max_bytes:
        raise Invalid(f"the request is {size:,} bytes long; at most {max_bytes:,} are taken (max_request_bytes)")
    return request


def _lone_surrogate(value: object, place: tuple[object, ...]) -> tuple[object, ...] | None:
    """Where the first string stands that UTF-8 cannot carry; None where all can be sent."""
    if isinstance(value, str):
        return place if _LONE.search(value) else None
    if len(place) > _DEEPEST:
        return None
    inner: Iterable[tuple[object, object]] = ()
    if isinstance(value, Mapping):
        inner = value.items()
    elif isinstance(value, list | tuple):
        inner = enumerate(value)
    for key, item in inner:
        below = (*place, key)
        if isinstance(key, str) and _LONE.search(key):
            return below
        if (found := _lone_surrogate(item, below)) is not None:
            return found
    return None


def _line(error: ValidationError) -> str:
    first, *others = error.errors(include_input=False, include_url=False)
    place = ".".join(str(part) for part in first["loc"])
    more = f" (and {len(others)} more)" if others else ""
    return _sentence(place, first["type"], first["msg"]) + more


def _sentence(place: str, kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        what, model = ("message", Message) if place.startswith("messages.") else ("request", Request)
        shown = place if _FIELD.fullmatch(place) else "a name with other characters"
        return f"{shown}: not a field of a {what}; there are {', '.join(sorted(model.model_fields))}"
    if kind == "missing":
        return f"{place}: missing"
    text = message.removeprefix("Value error, ").removeprefix("Input ").removesuffix(" or instance of Message").strip()
    text = text.replace(" after validation", "")
    return f"{cleaned(place)}: {text[0].lower()}{text[1:]}" if place else text


def cleaned(place: str) -> str:
    """A caller's own key, short and printable: it may be anything."""
    return "".join(c if c.isprintable() and not _LONE.match(c) else "?" for c in place[:60])
