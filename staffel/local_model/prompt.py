"""A prompt that fits the window: whole, cut as Ollama cuts it, or refused."""

from __future__ import annotations

import json
from collections.abc import Sequence

from staffel.local_model.body import BAD
from staffel.local_model.errors import RequestRefused
from staffel.local_model.model import Message, Model, Prompt
from staffel.local_model.question import Question

_MOST_WINDOWS = 10
"""So many windows of output are the limit where a request sets none (Ollama's llm/llama_server.go)."""

_LONGER = (
    "the prompt is longer than the context length currently available to the model; shorten the prompt, adjust the "
    "context length in settings, or use a model with a longer context length"
)


async def fitted(model: Model, question: Question, *, adds_bos: bool) -> tuple[Prompt, int]:
    """What llama.cpp is to answer, and the most tokens of it. Raises RequestRefused where it does not fit.

    Ollama's two steps: the oldest messages go until the rest fits, but for the system's and the last
    (server/prompt.go); what is still too long keeps its first `num_keep` tokens and its end, half a window in all
    (llm/llama_server.go, `completionPromptForRequest`). `truncate: false` is neither.
    """
    messages, tokens = await _recent(model, question)
    window, shifts = question.loading.num_ctx, question.loading.shift
    whole: Prompt = messages if messages and not question.context else tokens
    if len(tokens) < window:
        return whole, _limit(question.num_predict, window, len(tokens), shifts=shifts)
    if not question.truncate:
        raise RequestRefused(BAD, _too_long(len(tokens), window))
    if not shifts:
        raise RequestRefused(BAD, _LONGER)
    kept = len(tokens) if question.num_keep < 0 else question.num_keep + adds_bos
    short = cut(tokens, window, kept)
    return short, _limit(question.num_predict, window, len(short), shifts=True)


def cut(tokens: Sequence[int], window: int, keep: int) -> list[int]:
    """The first `keep` tokens and the last ones, so that half of what else the window holds is free."""
    keep = min(keep, window - 1)
    limit = window - max((window - keep) // 2, 1)
    return [*tokens[:keep], *tokens[keep + len(tokens) - limit :]]


async def _recent(model: Model, question: Question) -> tuple[Sequence[Message], list[int]]:
    """The messages that stay, and the tokens of the whole prompt."""
    if not question.messages:
        return (), await model.tokens(question.raw)
    messages, before = question.messages, list(question.context)
    last = len(messages) - 1
    for first in range(last + 1):
        kept = [message for message in messages[:first] if message["role"] == "system"] + list(messages[first:])
        tokens = before + await model.tokens(await model.rendered(kept, question.settings))
        if not question.truncate or len(tokens) <= question.loading.num_ctx:
            break
    return kept, tokens


def _limit(num_predict: int, window: int, prompt_tokens: int, *, shifts: bool) -> int:
    most = _MOST_WINDOWS * window if shifts else window - prompt_tokens
    return most if num_predict < 0 else min(num_predict, most)


def _too_long(prompt_tokens: int, window: int) -> str:
    """llama.cpp's own reply as a string inside Ollama's: adapters meet it in this form."""
    size = f"request ({prompt_tokens} tokens) exceeds the available context size ({window} tokens), try increasing it"
    counts = {"n_prompt_tokens": prompt_tokens, "n_ctx": window}
    return json.dumps({"error": {"code": BAD, "message": size, "type": "exceed_context_size_error", **counts}})
