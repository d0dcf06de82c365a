"""What a new job's record is written from."""

from __future__ import annotations

import json
import math

from staffel_wire.catalogue import Catalogue, Entry
from staffel_wire.request import Request

_BYTES = 4
_IMAGE = 1000


def arguments(request: Request, entry: Entry, catalogue: Catalogue, message: str, *, again: bool = False) -> list[str]:
    """ARGV of submit.lua; an empty message writes the record alone. `again` lets an unanswered id be asked anew."""
    return [
        request.model_dump_json(exclude_defaults=True),
        json.dumps(entry.plan),
        request.chain,
        request.label or "",
        entry.lane,
        str(round(entry.deadline * 1000)),
        str(catalogue.answer_ttl),
        "1" if request.local_only else "0",
        message,
        "1" if again else "0",
        "1" if request.images else "0",
        str(tokens_in(request)),
        "" if request.max_output_tokens is None else str(request.max_output_tokens),
        "",
    ]


def tokens_in(request: Request) -> int:
    """What a request is taken for until its stage has counted it: four bytes of text are a token, an image is 1,000."""
    texts = [message["content"] for message in request.conversation()]
    if request.response_schema is not None:
        texts.append(json.dumps(request.response_schema, ensure_ascii=False))
    return math.ceil(sum(len(text.encode()) for text in texts) / _BYTES) + _IMAGE * len(request.images)
