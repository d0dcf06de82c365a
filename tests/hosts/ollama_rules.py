"""What Ollama refuses, and how it reads a prompt that does not fit: for a strict stage, which is a judge of requests.

Order, statuses and texts after Ollama's server/routes.go; a word is a token here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.hosts.dialect import Dialect
from tests.hosts.memory import WINDOW

Refusal = tuple[int, Mapping[str, Any]]

_KEEP = 4
_DURATION = re.compile(r"[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h))+)")
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LEVELS = ("high", "medium", "low", "max")
_TYPES: Mapping[str, tuple[type, ...]] = {"integer": (int,), "float32": (int, float), "array": (list,)}
_OPTIONS = {
    **dict.fromkeys(("num_ctx", "num_predict", "num_keep", "num_batch", "num_gpu", "seed", "top_k"), "integer"),
    **dict.fromkeys(("temperature", "top_p", "min_p", "repeat_penalty"), "float32"),
    "stop": "array",
}


def seconds_to_stay(keep_alive: Any) -> float | None:
    """None where nothing is said, or nothing that can be read; infinity where it is negative."""
    if isinstance(keep_alive, int | float) and not isinstance(keep_alive, bool):
        return float(keep_alive) if keep_alive >= 0 else math.inf
    if isinstance(keep_alive, str) and _DURATION.fullmatch(keep_alive):
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(keep_alive))
        return math.inf if keep_alive.startswith("-") else seconds
    return None


def refusal(dialect: Dialect, models: Sequence[str]) -> Refusal | None:
    """Also cuts what the dialect counts of a prompt that is too long, and limits its answer."""
    body = dialect.body
    keep_alive = body.get("keep_alive")
    if keep_alive is not None and seconds_to_stay(keep_alive) is None:
        return _refused(400, f'time: missing unit in duration "{keep_alive}"')
    think = body.get("think")
    if think is not None and not isinstance(think, bool) and think not in _LEVELS:
        return _refused(400, f'invalid think value: "{think}"')
    if not dialect.model:
        return _refused(400, "model is required")
    if dialect.model not in models:
        return _refused(404, f"model '{dialect.model}' not found")
    if think:
        return _refused(400, f'"{dialect.model}" does not support thinking')
    if body.get("tools"):
        return _refused(400, f"registry.ollama.ai/library/{dialect.model} does not support tools")
    if body.get("suffix"):
        return _refused(400, f"registry.ollama.ai/library/{dialect.model} does not support insert")
    return _wrong_option(body.get("options")) or _wrong_format(body.get("format")) or _too_long(dialect)


def _wrong_option(options: Any) -> Refusal | None:
    for name, value in (options or {}).items():
        kind = _OPTIONS.get(name)
        if kind is not None and (isinstance(value, bool) or not isinstance(value, _TYPES[kind])):
            return _refused(500, f'option "{name}" must be of type {kind}')
    return None


def _wrong_format(wanted: Any) -> Refusal | None:
    if wanted in (None, "", "json") or isinstance(wanted, dict):
        return None
    return _refused(500, f'invalid format: "{wanted}"; expected "json" or a valid JSON Schema')


def _too_long(dialect: Dialect) -> Refusal | None:
    options = dialect.body.get("options") or {}
    window, most = dialect.window or WINDOW, options.get("num_predict", -1)
    dialect.most_output = most if most >= 0 else None
    lengths = [(role, len(text.split())) for role, text in dialect.messages()]
    if sum(length for _, length in lengths) < window:
        return None
    if dialect.body.get("truncate") is False:
        tokens = dialect.input_tokens
        message = f"request ({tokens} tokens) exceeds the available context size ({window} tokens), try increasing it"
        error = {"code": 400, "message": message, "type": "exceed_context_size_error", "n_ctx": window}
        return _refused(400, json.dumps({"error": {**error, "n_prompt_tokens": tokens}}))
    while len(lengths) > 1 and sum(length for _, length in lengths) > window and (old := _oldest(lengths)) is not None:
        del lengths[old]
    dialect.input_tokens = sum(length for _, length in lengths)
    if dialect.input_tokens >= window:
        keep = min(options.get("num_keep", _KEEP), window - 1)
        dialect.input_tokens = window - max((window - keep) // 2, 1)
    return None


def _oldest(lengths: Sequence[tuple[str, int]]) -> int | None:
    """The first that may go: not the system's, and not the last one."""
    return next((index for index, (role, _) in enumerate(lengths[:-1]) if role != "system"), None)


def _refused(status: int, error: str) -> Refusal:
    return status, {"error": error}
