"""An `/api/chat` request, checked as Ollama checks it and put into llama.cpp's words.

Field names, defaults, statuses and error texts follow Ollama 0.33 (its api/types.go and server/routes.go).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from staffel.local_model.errors import RequestRefused

_BAD = 400
_NOT_FOUND = 404
_OLLAMA_S_FAULT = 500  # Ollama answers 500 where a caller's option or format is wrong

# Option: the Go type that Ollama names in its error, and its default. Sent always: llama.cpp's own differ.
_SAMPLING: Mapping[str, tuple[str, float]] = {
    "temperature": ("float32", 0.8),
    "top_k": ("integer", 40),
    "top_p": ("float32", 0.9),
    "min_p": ("float32", 0.0),
    "typical_p": ("float32", 1.0),
    "repeat_last_n": ("integer", 64),
    "repeat_penalty": ("float32", 1.0),
    "presence_penalty": ("float32", 0.0),
    "frequency_penalty": ("float32", 0.0),
}
_THINK_LEVELS = ("high", "medium", "low", "max")
_DURATION = re.compile(r"[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h))+)")
_SEEDS = 2**32


@dataclass(frozen=True, slots=True)
class Question:
    """What one request asks. `num_ctx` and `num_predict` are tokens; below 0 or None they set no limit."""

    model: str
    messages: tuple[Mapping[str, str], ...]
    stream: bool
    unload: bool
    num_ctx: int | None
    num_predict: int
    sampling: Mapping[str, Any]

    @classmethod
    def parse(cls, body: object, served: str) -> Question:
        """Check a request for the model `served`. Raises RequestRefused."""
        if not isinstance(body, dict):
            raise RequestRefused(_BAD, "the request must be a JSON object")
        model = find_model(body, served)
        _refuse_what_it_cannot(body, served)
        options = _typed(body, "options", dict, {})
        return cls(
            model=model,
            messages=tuple(_message(message, served) for message in _typed(body, "messages", list, [])),
            stream=_typed(body, "stream", bool, True),
            unload=_keep_alive(body.get("keep_alive")) == 0,
            num_ctx=_number(options, "num_ctx", "integer", None),
            num_predict=_number(options, "num_predict", "integer", -1),
            sampling={**_sampling(options), **_format(body.get("format"))},
        )

    def limited_to(self, window: int, prompt_tokens: int) -> dict[str, Any]:
        """The request for llama.cpp, its answer cut to what `window` leaves. Raises RequestRefused if nothing is left.

        Never answers from a part of the prompt: of Ollama's two ways with a long prompt (cut in half, or refused, as
        with `truncate: false` and for every model that brings its own chat template) this one has the second.
        """
        window = min(window, self.num_ctx or window)
        room = window - prompt_tokens
        if room < 1:
            raise RequestRefused(_BAD, _too_long(prompt_tokens, window))
        limit = room if self.num_predict < 0 else min(self.num_predict, room)
        return {**self.sampling, "messages": list(self.messages), "max_tokens": limit}


def find_model(body: Mapping[str, Any], served: str) -> str:
    """The model's name as it was asked for; its tag may be left out. Raises RequestRefused."""
    asked = body.get("model") or body.get("name")
    if not isinstance(asked, str):
        raise RequestRefused(_BAD, "model is required")
    if asked not in {served, served.partition(":")[0]}:
        raise RequestRefused(_NOT_FOUND, f"model '{asked}' not found")
    return asked


def _refuse_what_it_cannot(body: Mapping[str, Any], served: str) -> None:
    think = body.get("think")
    if isinstance(think, str) and think not in _THINK_LEVELS:
        levels = ", ".join(f'"{level}"' for level in _THINK_LEVELS)
        raise RequestRefused(_BAD, f'invalid think value: "{think}" (must be {levels}, true, or false)')
    if think:
        raise RequestRefused(_BAD, f'"{served}" does not support thinking')
    for field in ("tools", "logprobs"):
        if body.get(field):
            raise RequestRefused(_BAD, f"{served} does not support {field}")


def _message(message: object, served: str) -> Mapping[str, str]:
    if not isinstance(message, dict):
        raise RequestRefused(_BAD, "messages must be a list of objects with role and content")
    if message.get("images"):
        raise RequestRefused(_BAD, f"{served} does not support vision")
    return {
        "role": _text(_typed(message, "role", str, "")).lower(),
        "content": _text(_typed(message, "content", str, "")),
    }


def _text(text: str) -> str:
    """Without lone surrogates: JSON can carry them, UTF-8 cannot, and Ollama replaces them too."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _typed(body: Mapping[str, Any], field: str, kind: type, default: Any) -> Any:
    value = body.get(field)
    if value is None:
        return default
    if not isinstance(value, kind):
        raise RequestRefused(_BAD, f"{field} must be a JSON {_JSON_NAMES[kind]}")
    return value


_JSON_NAMES: Mapping[type, str] = {dict: "object", list: "list", bool: "boolean", str: "string"}


def _number(options: Mapping[str, Any], name: str, kind: str, default: Any) -> Any:
    value = options.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RequestRefused(_OLLAMA_S_FAULT, f'option "{name}" must be of type {kind}')
    return int(value) if kind == "integer" else value


def _sampling(options: Mapping[str, Any]) -> dict[str, Any]:
    chosen = {name: _number(options, name, kind, default) for name, (kind, default) in _SAMPLING.items()}
    seed = _number(options, "seed", "integer", -1)
    if seed >= 0:
        chosen["seed"] = seed % _SEEDS
    stop = options.get("stop")
    if stop is not None:
        if not isinstance(stop, list) or not all(isinstance(item, str) for item in stop):
            raise RequestRefused(_OLLAMA_S_FAULT, 'option "stop" must be of an array of strings')
        chosen["stop"] = [_text(item) for item in stop]
    return chosen


def _format(wanted: object) -> dict[str, Any]:
    if wanted is None or wanted == "":
        return {}
    if wanted == "json":
        return {"response_format": {"type": "json_object"}}
    if isinstance(wanted, dict):
        return {"response_format": {"type": "json_schema", "json_schema": {"schema": wanted}}}
    raise RequestRefused(_OLLAMA_S_FAULT, 'invalid format: expected "json" or a JSON schema')


def _keep_alive(value: object) -> object:
    """Accepted and checked, but the model stays for as long as the server runs."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    if isinstance(value, str) and _DURATION.fullmatch(value):
        return 0 if re.fullmatch(r"[+-]?0[a-z]*", value) else value
    raise RequestRefused(_BAD, f'time: invalid duration "{value}" (a number of seconds, or a number with a unit: "5m")')


def _too_long(prompt_tokens: int, window: int) -> str:
    """llama.cpp's own reply as a string inside Ollama's: adapters meet it in this form."""
    return (
        f'{{"error":{{"code":400,"message":"request ({prompt_tokens} tokens) exceeds the available context size '
        f'({window} tokens), try increasing it","type":"exceed_context_size_error",'
        f'"n_prompt_tokens":{prompt_tokens},"n_ctx":{window}}}}}'
    )
