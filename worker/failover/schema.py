"""Whether an answer is the JSON that its request asked for: always checked here, whatever a host promises.

Hosts take a schema and do not keep it: cut answers, models in a cloud, thinking switched off (ollama#12362, #14645).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NoReturn

from jsonschema_rs import Validator

from staffel_wire.schema import UNSOUND, compiled

_FENCE = "```"
_A_PAIR = 2


def meets(text: str, schema: Mapping[str, Any]) -> bool:
    """Whether the text is JSON, alone and valid against the schema. Never raises, whatever both hold."""
    try:
        answer = json.loads(bare(text), parse_constant=_no_number)
        return _validator(json.dumps(schema, sort_keys=True)).is_valid(answer)
    except UNSOUND:
        return False


def bare(text: str) -> str:
    """The text without the blanks, or the one Markdown fence, around it: models put JSON into one however asked."""
    text = text.strip()
    return text.partition("\n")[2].removesuffix(_FENCE).strip() if _is_fenced(text) else text


def _is_fenced(text: str) -> bool:
    return text.startswith(_FENCE) and text.endswith(_FENCE) and text.count(_FENCE) == _A_PAIR


@lru_cache(maxsize=64)
def _validator(schema: str) -> Validator:
    return compiled(json.loads(schema))


def _no_number(name: str) -> NoReturn:
    """Python reads `NaN` and `Infinity`; JSON does not."""
    raise ValueError(name)
