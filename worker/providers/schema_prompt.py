"""A schema told in words, for a stage that takes none natively."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def told_in_prompt(messages: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The messages with one more system text that asks for JSON alone.

    It joins a system message that opens the conversation, or else becomes that: many chat templates of local models
    refuse a second one, and one that stands anywhere but first. The word JSON must be there: DeepSeek refuses its JSON
    mode without it.
    """
    spelled = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    order = f"Answer with JSON alone, no other text and no code fence, that matches this JSON schema: {spelled}"
    told = [dict(message) for message in messages]
    if told and told[0].get("role") == "system":
        told[0]["content"] = f"{told[0].get('content') or ''}\n\n{order}".lstrip()
        return told
    return [{"role": "system", "content": order}, *told]
