"""What a new job's record is written from."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Literal

from staffel_wire import keys
from staffel_wire.catalogue import Catalogue, Entry
from staffel_wire.request import Request

_BYTES = 4
_IMAGE = 1000

LOOKS_MS = 10_000
"""Housekeeping looks at a new job after this: by then a message that got lost is missed."""

SAME = {"idempotency_key", "deadline", "priority"}
"""What may differ between two requests that ask the same: a caller who asks again has less time left, or more need."""

Mode = Literal["join", "follow"]
"""What becomes of a request whose idempotency key another job has: the caller takes that job, or gets one of its own
that shares the other's end.
"""


def submitting(
    job: str, request: Request, entry: Entry, catalogue: Catalogue, message: str, *, again: bool = False,
    mode: Mode = "join", gone: str = "", others: Mapping[str, str] | None = None, now_ms: int | None = None,
) -> tuple[list[str], list[str | int]]:  # fmt: skip
    """KEYS and ARGV of submit.lua; an empty message writes the record alone. `again` lets an unanswered id be asked
    anew; `others` are more fields of the record; `gone`: this job has the idempotency key no more.
    """
    names = [keys.job(job), keys.attempts(job), entry.queue, keys.OPEN, keys.DEAD, keys.WAITING]
    given: list[str | int] = [
        job,
        request.model_dump_json(exclude_defaults=True, exclude={"idempotency_key"}),
        json.dumps({**fields(request, entry), **(others or {})}),
        message,
        int(again),
        round(entry.deadline * 1000),
        catalogue.answer_ttl * 1000,
        LOOKS_MS,
        "" if now_ms is None else now_ms,
    ]
    if request.idempotency_key is not None:
        key = _digest(request.idempotency_key)
        names.append(keys.idempotency(key))
        asked = request.model_dump_json(exclude_defaults=True, exclude=SAME)
        given += [_digest(asked), catalogue.idempotency_ttl * 1000, mode, gone, key]
    return names, given


def fields(request: Request, entry: Entry) -> dict[str, str]:
    """The fields of the record that tell of the request without holding it."""
    found = {
        "plan": json.dumps(entry.plan),
        "chain": request.chain,
        "lane": entry.lane,
        "priority": entry.priority,
        "local_only": "1" if request.local_only else "0",
        "images": "1" if request.images else "0",
        "tokens_in": str(tokens_in(request)),
        "tokens_out": "" if request.max_output_tokens is None else str(request.max_output_tokens),
    }
    return {**found, "label": request.label} if request.label else found


def taken_by_another(job: str) -> str:
    """What a caller is told whose idempotency key stands for another request."""
    return f"idempotency_key: job {job} has it, and asks something else; write another key"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def tokens_in(request: Request) -> int:
    """What a request is taken for until its stage has counted it: four bytes of text are a token, an image is 1,000."""
    texts = [message["content"] for message in request.conversation()]
    if request.response_schema is not None:
        texts.append(json.dumps(request.response_schema, ensure_ascii=False))
    return math.ceil(sum(len(text.encode()) for text in texts) / _BYTES) + _IMAGE * len(request.images)
