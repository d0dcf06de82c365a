"""A request inside the engine: already checked, never changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Image:
    """A picture: its media type (`image/png`) and its bytes in base64, as all four protocols carry them."""

    media_type: str
    base64: str


@dataclass(frozen=True, slots=True)
class Request:
    """What a stage is asked, in portable words; lengths in tokens.

    `reasoning` is none, low, medium or high; "none" switches thinking off where the provider can, None leaves it to
    the provider, but for Ollama, where it means "none". `images` belong to the last message of the user.
    `response_schema` is a JSON schema that the answer must meet. `params` are provider's own fields by stage name.
    """

    messages: Sequence[Mapping[str, str]]
    max_output_tokens: int | None = None
    temperature: float | None = None
    reasoning: str | None = None
    stop: Sequence[str] = ()
    seed: int | None = None
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    response_schema: Mapping[str, Any] | None = None
    images: Sequence[Image] = ()
