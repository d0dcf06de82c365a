"""What was asked, in the engine's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from staffel_wire.images import media_type
from staffel_wire.request import parse
from worker.failover.request import Image, Request


def as_request(fields: Mapping[str, Any]) -> Request:
    """The engine's request of what the door took."""
    door = parse(dict(fields), max_bytes=2**31)
    return Request(
        messages=door.conversation(),
        max_output_tokens=door.max_output_tokens,
        temperature=door.temperature,
        reasoning=door.reasoning,
        stop=door.stop,
        seed=door.seed,
        params=door.params,
        response_schema=door.response_schema,
        images=tuple(Image(media_type(picture), picture) for picture in door.images),
    )
