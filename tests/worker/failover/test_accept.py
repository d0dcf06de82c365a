"""Which replies that a host has ended are answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from config.stages import Stage
from tests.worker.failover.walks import QUESTION
from worker.failover.accept import is_blank, is_cut_short, of_reply
from worker.failover.attempt import Reason, Usage
from worker.failover.provider import Call, End
from worker.failover.request import Request
from worker.failover.verdict import FaultClass

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
LOOP = "the " * 200


def call(provider: str = "openai", schema: dict[str, Any] | None = None, **fields: Any) -> Call:
    stage = Stage("a", provider, **{"model": "m", **fields})
    return Call(stage, Request(**QUESTION, response_schema=schema), max_output_tokens=100)


def reason(text: str, finish: str | None, schema: dict[str, Any] | None = None) -> Reason | None:
    verdict = of_reply(call(schema=schema), text, None if finish is None else End(finish), None)
    assert verdict is None or verdict.consequences.goes_on
    return verdict and verdict.reason


@pytest.mark.parametrize(
    ("text", "finish", "expected"),
    [
        ("Because.", "stop", None),
        ("Because.", "end_turn", None),
        ("Because.", "stop_sequence", None),
        ("Because.", "STOP", None),
        ("Because.", "completed", None),
        ("Because.", " Stop ", None),
        ("Because.", "length", None),
        ("Because.", "max_tokens", None),
        ("Because.", "MAX_TOKENS", None),
        ("Because.", "model_context_window_exceeded", None),
        ("", "length", Reason.TRUNCATED),
        (" \n", "MAX_TOKENS", Reason.TRUNCATED),
        ("", "model_context_window_exceeded", Reason.TRUNCATED),
        ("", "stop", Reason.EMPTY),
        ("\n\t ", "stop", Reason.EMPTY),
        ("\u200b\ufeff\u2060", "stop", Reason.EMPTY),
        ("\ufffd\ufffd", "stop", Reason.EMPTY),
        ("\u200b", "length", Reason.TRUNCATED),
        ("", "tool_calls", Reason.EMPTY),
        ("Becau", "load", Reason.INCOMPLETE),
        ("Becau", "unload", Reason.INCOMPLETE),
        ("Becau", "", Reason.INCOMPLETE),
        ("Becau", "tool_use", Reason.INCOMPLETE),
        ("Becau", "pause_turn", Reason.INCOMPLETE),
        ("Becau", "FINISH_REASON_UNSPECIFIED", Reason.INCOMPLETE),
        ("Becau", "a word of tomorrow", Reason.INCOMPLETE),
        ("Becau", None, Reason.INCOMPLETE),
        ("", None, Reason.INCOMPLETE),
        (LOOP, "stop", Reason.DEGENERATE),
        (LOOP, "length", Reason.DEGENERATE),
        (LOOP, "tool_calls", Reason.INCOMPLETE),
    ],
)
def test_a_reply_is_judged_by_its_text_and_its_end(text: str, finish: str | None, expected: Reason | None) -> None:
    """Only a text with an end that its host calls one is an answer."""
    assert reason(text, finish) == expected


@pytest.mark.parametrize(
    "finish",
    ["content_filter", "refusal", "SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "LANGUAGE",
     "IMAGE_SAFETY", "blocked"],
)  # fmt: skip
@pytest.mark.parametrize("text", ["", "Becau", LOOP])
def test_a_host_that_will_not_say_it_is_no_fit(finish: str, text: str) -> None:
    """Another host may; half of an answer that its filter stopped is not given out, and its breaker counts nothing."""
    verdict = of_reply(call(schema=SCHEMA), text, End(finish), None)
    assert verdict is not None
    assert (verdict.reason, verdict.fault_class) == (Reason.FILTERED, FaultClass.NO_FIT)


@pytest.mark.parametrize(
    "finish", ["error", "insufficient_system_resource", "aborted", "OTHER", "MALFORMED_FUNCTION_CALL", "MALFORMED_X"]
)
@pytest.mark.parametrize("text", ["", "Becau"])
def test_a_host_that_failed_in_the_middle_says_so_in_its_last_word(finish: str, text: str) -> None:
    """With 200 and an end as of a whole answer (OpenRouter, DeepSeek, Gemini): it counts as an outage."""
    verdict = of_reply(call(), text, End(finish), None)
    assert verdict is not None
    assert (verdict.reason, verdict.fault_class) == (Reason.SERVER_ERROR, FaultClass.TRANSIENT)


@pytest.mark.parametrize(
    ("finish", "cut"),
    [("length", True), ("MAX_TOKENS", True), ("model_context_window_exceeded", True), ("stop", False)],
)
def test_an_answer_is_cut_short_by_the_same_words(finish: str, cut: bool) -> None:
    """What the accept rule takes for cut short is marked truncated."""
    assert is_cut_short(End(finish)) is cut


@pytest.mark.parametrize(
    ("text", "finish", "expected"),
    [
        ('{"n": 1}', "stop", None),
        (' \n{"n": 1}\n\n', "stop", None),
        ('{"n": 1}' + "\n" * 1000, "stop", None),
        ('{"n": 1, "m": [' + "0, " * 5000 + "0]}", "stop", None),
        ('{"n": 1}', "length", Reason.TRUNCATED),
        ('{"n": ', "max_tokens", Reason.TRUNCATED),
        ("", "length", Reason.TRUNCATED),
        ("", "stop", Reason.EMPTY),
        ('{"n": "1"}', "stop", Reason.MALFORMED),
        ("{}", "stop", Reason.MALFORMED),
        ('{"n": ', "stop", Reason.MALFORMED),
        ('```json\n{"n": 1}\n```', "stop", None),
        ('```\n{"n": 1}```\n', "stop", None),
        ('Here: ```json\n{"n": 1}\n```', "stop", Reason.MALFORMED),
        ('```json\n{"n": 1}\n```\n```json\n{"n": 1}\n```', "stop", Reason.MALFORMED),
        ("```", "stop", Reason.MALFORMED),
        ('{"n": 1} I hope this helps.', "stop", Reason.MALFORMED),
        ("Because.", "end_turn", Reason.MALFORMED),
        ('{"n": 1, "m": [' + '{"a": 1}, ' * 500, "stop", Reason.DEGENERATE),
        ('{"n": 1}', "tool_calls", Reason.INCOMPLETE),
    ],
)
def test_with_a_schema_only_whole_and_valid_json_is_an_answer(text: str, finish: str, expected: Reason | None) -> None:
    """Hosts promise it and do not keep it; half of an object is of no use to anybody, however it ends."""
    assert reason(text, finish, SCHEMA) == expected


@pytest.mark.parametrize(("num_ctx", "counted"), [(4096, 2050), (4096, 2051), (32768, 16386), (65536, 32770)])
def test_a_prompt_that_ollama_cut_in_half_is_too_long(num_ctx: int, counted: int) -> None:
    """It answers with 200 from the half that it kept, and only its count of tokens shows it (ollama#17427)."""
    verdict = of_reply(call("ollama", num_ctx=num_ctx), "Because.", End("stop"), Usage(counted, 3))
    assert verdict is not None
    assert (verdict.reason, verdict.fault_class) == (Reason.TOO_LONG, FaultClass.NO_FIT)


@pytest.mark.parametrize(
    ("provider", "usage"),
    [
        ("ollama", Usage(2049, 3)),
        ("ollama", Usage(2052, 3)),
        ("ollama", Usage(4090, 6)),
        ("ollama", Usage(0, 4096)),
        ("ollama", Usage(4097, 3)),
        ("ollama", Usage(0, 3)),
        ("ollama", None),
        ("openai", Usage(2050, 3)),
    ],
)
def test_any_other_count_of_tokens_is_an_answers(provider: str, usage: Usage | None) -> None:
    """The sign is one exact number, or more than a window that the prompt alone would fit into, of one provider.

    An answer may fill its window to the last token; and a host that read a longer prompt has a longer window.
    """
    assert of_reply(call(provider), "Because.", End("stop"), usage) is None


@pytest.mark.parametrize("usage", [Usage(4090, 7), Usage(4096, 1), Usage(1, 4096)])
@pytest.mark.parametrize("finish", ["stop", "length"])
def test_an_answer_for_which_ollama_moved_its_window_is_too_long(usage: Usage, finish: str) -> None:
    """It goes on without the start of the prompt, where the system's instructions stand, and says nothing of it."""
    verdict = of_reply(call("ollama"), "Because.", End(finish), usage)
    assert verdict is not None
    assert (verdict.reason, verdict.fault_class) == (Reason.TOO_LONG, FaultClass.NO_FIT)


@pytest.mark.parametrize("fields", [{"model": "m:cloud"}, {"model": "m:20b-cloud"}, {"base_url": "https://ollama.com"}])
def test_the_window_of_ollamas_cloud_is_its_own(fields: dict[str, str]) -> None:
    """It takes no `num_ctx`: more tokens than that are no sign of anything."""
    assert of_reply(call("ollama", **fields), "Because.", End("stop"), Usage(4090, 7)) is None


@pytest.mark.parametrize(
    "text", ["", " ", "\u00a0\u3000\u2028", "\u200b\u200d", "\u2800", "\u3164", "\ufe0f", "\x00\x07"]
)
def test_what_nobody_can_see_is_blank(text: str) -> None:
    """Such replies passed for answers: a text of nothing but zero-width blanks is not empty to Python."""
    assert is_blank(text)


@pytest.mark.parametrize("text", ["0", ".", "\u200bno\u200b", "é", "的", "👍", "\U0001fae9", "\ufffdx", "\ue000", "½"])
def test_one_character_that_is_seen_is_a_text(text: str) -> None:
    """Also a character that is younger than this Python's tables."""
    assert not is_blank(text)


def test_a_long_reply_is_judged_in_no_time() -> None:
    """The loop that judges is the one on which all other calls wait."""
    for text in ("\u200b" * 1_000_000, json.dumps({"n": 1, "m": ["x"] * 200_000})):
        assert reason(text, "stop", SCHEMA) in {None, Reason.EMPTY}
