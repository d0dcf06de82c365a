"""What a new job's record is written from."""

from __future__ import annotations

import json

from staffel_wire.catalogue import Catalogue, Entry
from staffel_wire.request import Request


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
        "",
    ]
