"""The accept rule: when a reply that a host has ended is an answer."""

from __future__ import annotations

import unicodedata

from config.ollama import is_elsewhere
from worker.failover import schema
from worker.failover.attempt import Reason, Usage
from worker.failover.degenerate import is_degenerate
from worker.failover.provider import Call, End
from worker.failover.verdict import FaultClass, Verdict

# The hosts' words for why they stopped, in lower case. Sources: the API references and SDKs of OpenAI, Anthropic,
# Google, Mistral, Cohere, DeepSeek, OpenRouter, Ollama and text-generation-inference. A word in none of these sets is
# no whole answer: tool_calls, tool_use, function_call, pause_turn, load, unload, or none.
_FINISHED = frozenset(
    {"stop", "end_turn", "stop_sequence", "stop_token", "eos", "eos_token", "complete", "completed", "finished"}
)
_CUT_SHORT = frozenset(
    {"length", "max_tokens", "max_output_tokens", "max_length", "model_length", "model_context_window_exceeded"}
)
_FILTERED = frozenset(
    {
        "content_filter", "content_filtered", "refusal", "blocked", "safety", "recitation", "language", "blocklist",
        "prohibited_content", "spii", "model_armor", "jailbreak", "guardrail_intervened", "error_toxic",
        "image_safety", "image_prohibited_content", "image_recitation",
    }
)  # fmt: skip
_FAILED = frozenset(
    {
        "error", "failed", "aborted", "abort", "cancelled", "timeout", "overloaded", "insufficient_system_resource",
        "other", "image_other", "malformed_function_call", "malformed_response", "unexpected_tool_call",
    }
)  # fmt: skip

_INVISIBLE = frozenset("\u034f\u115f\u1160\u2800\u3164\uffa0\ufffd")
"""Letters and signs by their category that show nothing, and the mark of a byte that was no text."""
_BLANK = frozenset({"Cc", "Cf", "Cs", "Zs", "Zl", "Zp", "Mn", "Me"})
"""Unicode's categories of blanks and of what only changes a character before it."""


def of_reply(call: Call, text: str, end: End | None, usage: Usage | None) -> Verdict | None:
    """None if this is an answer. An answer that only ran out of room counts as one (and is marked truncated)."""
    if end is None:
        return Verdict(Reason.INCOMPLETE, FaultClass.TRANSIENT)
    word = _word(end)
    if word in _FILTERED:
        return Verdict(Reason.FILTERED, FaultClass.NO_FIT)
    if word in _FAILED or word.startswith("malformed_"):
        return Verdict(Reason.SERVER_ERROR, FaultClass.TRANSIENT)
    if _prompt_was_cut(call, usage):
        return Verdict(Reason.TOO_LONG, FaultClass.NO_FIT)
    reason = _flaw(call, text, word)
    return None if reason is None else Verdict(reason, FaultClass.BAD_OUTPUT)


def is_cut_short(end: End) -> bool:
    return _word(end) in _CUT_SHORT


def _flaw(call: Call, text: str, word: str) -> Reason | None:
    """What is wrong with this text, from the surest sign to the faintest."""
    if is_blank(text):
        return Reason.TRUNCATED if word in _CUT_SHORT else Reason.EMPTY
    if word not in _FINISHED | _CUT_SHORT:
        return Reason.INCOMPLETE
    wanted = call.request.response_schema
    if wanted is not None and word in _CUT_SHORT:
        return Reason.TRUNCATED
    if wanted is not None and schema.meets(text, wanted):
        return None
    if is_degenerate(text):
        return Reason.DEGENERATE
    return None if wanted is None else Reason.MALFORMED


def is_blank(text: str) -> bool:
    """Whether nobody could see anything of this text; a character that this Python does not know counts as seen."""
    return all(c in _INVISIBLE or unicodedata.category(c) in _BLANK for c in text)


def _prompt_was_cut(call: Call, usage: Usage | None) -> bool:
    """Whether Ollama has silently answered a part of the prompt: half of it, and then it counts exactly what it keeps.

    `num_ctx - max((num_ctx - k) / 2, 1)`, with the 4 tokens that it keeps at the start and one more where the model
    begins with a mark (ollama#17427, `contextShiftPromptLimit`). It never does so when it honours `truncate: false`.

    Or it has dropped the prompt's start in mid-answer, to go on where the window was full: then both together are more
    than the window. Just as many are none too many: the last token of an answer has filled it. A prompt that is longer
    than the window by itself was read by a host that has a window of its own.
    """
    stage = call.stage
    if stage.provider != "ollama" or usage is None or is_elsewhere(stage.base_url, stage.model):
        return False
    window = stage.num_ctx
    if usage.input_tokens <= window < usage.input_tokens + usage.output_tokens:
        return True
    return usage.input_tokens in {window - max((window - kept) // 2, 1) for kept in (4, 5)}


def _word(end: End) -> str:
    return end.finish_reason.strip().lower()
