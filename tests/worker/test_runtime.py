"""What the door took is what the engine asks for."""

from __future__ import annotations

import json

from staffel_wire.request import parse
from worker.asked import as_request
from worker.failover.request import Image

PNG = b"\x89PNG\r\n\x1a\n"
WEBP = b"RIFF\x0a\x00\x00\x00WEBP"


def test_a_schema_and_pictures_reach_the_engine() -> None:
    """Through the record, which is JSON: bytes are base64 there, and a picture's kind is read from its bytes again."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    record = parse({"prompt": "Why?", "response_schema": schema, "images": [PNG, WEBP]}).model_dump_json(
        exclude_defaults=True
    )
    request = as_request(json.loads(record))
    assert request.response_schema == schema
    assert request.images == (Image("image/png", "iVBORw0KGgo="), Image("image/webp", "UklGRgoAAABXRUJQ"))
    assert as_request({"prompt": "Why?"}).images == ()
    assert as_request({"prompt": "Why?"}).response_schema is None
