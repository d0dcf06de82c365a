"""Whatever a host does ends in one word of the ledger, after one call, and the walk goes on."""

from __future__ import annotations

import pytest

from tests.eventually import eventually
from tests.hosts import Host, Outcome
from tests.worker.providers.asking import place, stage_at, walked

SOON = {"timeout": 0.2}
NO_TOKEN = {"first_token_timeout": 0.2}
IDLE = {"idle_timeout": 0.2}

WALL: list[tuple[str, tuple[str, int | None], dict[str, float]]] = [
    ("status:400", ("bad_request", 400), {}),
    ("status:400:html", ("server_error", 400), {}),
    ("status:400:code=context_length_exceeded", ("too_long", 400), {}),
    ("status:400:message=the prompt is longer than the context length", ("too_long", 400), {}),
    ("status:401", ("auth", 401), {}),
    ("status:402", ("quota", 402), {}),
    ("status:403", ("auth", 403), {}),
    ("status:404", ("model_missing", 404), {}),
    ("status:404:html", ("misrouted", 404), {}),
    ("status:413", ("too_long", 413), {}),
    ("status:422", ("bad_request", 422), {}),
    ("status:429", ("throttled", 429), {}),
    ("status:429:code=insufficient_quota", ("quota", 429), {}),
    ("status:500", ("server_error", 500), {}),
    ("status:502:html", ("server_error", 502), {}),
    ("status:503", ("overloaded", 503), {}),
    ("status:529", ("overloaded", 529), {}),
    ("status:204:body=", ("misrouted", 204), {}),
    ("redirect", ("misrouted", 302), {}),
    ("redirect:status=308", ("misrouted", 308), {}),
    ("empty", ("empty", 200), {}),
    ("length-empty", ("truncated", 200), {}),
    ("length-empty:thinking", ("truncated", 200), {}),
    ("no-end", ("incomplete", 200), {}),
    ("ok:finish=load", ("incomplete", 200), {}),
    ("ok:finish=content_filter", ("filtered", 200), {}),
    ("silent", ("first_token_timeout", None), NO_TOKEN),
    ("silent", ("timeout", None), SOON),
    ("head-only", ("first_token_timeout", None), NO_TOKEN),
    ("blanks", ("first_token_timeout", None), NO_TOKEN),
    ("stall", ("idle_timeout", None), IDLE),
    ("drip:every=0.1", ("timeout", None), SOON),
    ("cut", ("cut_off", None), {}),
    ("cut:reset", ("cut_off", None), {}),
    ("cut:after=0", ("cut_off", None), {}),
    ("cut-head", ("cut_off", None), {}),
    ("cut-head:reset", ("cut_off", None), {}),
    ("error-in-stream", ("server_error", None), {}),
    ("error-in-stream:code=insufficient_quota", ("quota", None), {}),
    ("unreadable", ("malformed", None), {}),
    ("unreadable:garbage", ("malformed", None), {}),
    ("big:mb=12", ("malformed", None), {}),
    ("big:mb=12:line", ("malformed", None), {}),
]


@pytest.mark.parametrize(("script", "told", "clocks"), WALL)
def test_a_host_that_does_not_answer_is_told_in_one_word(
    host: Host, protocol: str, script: str, told: tuple[str, int | None], clocks: dict[str, float]
) -> None:
    """One call each: no adapter retries on its own. Blank lines of an Ollama host were unreadable."""
    url = place(host, protocol, script)
    shown = walked(stage_at(url, protocol, **clocks))
    first = shown["attempts"][0]
    assert (first["outcome"], (first["reason"], first["status"])) == ("failed", told)
    assert shown["status"] == ("refused" if told[0] == "bad_request" else "answered")
    assert len(host.calls(url)) == 1
    assert host.others(url) == [], "no redirect is followed, and nothing else is asked"


@pytest.mark.parametrize("script", ["ok", "thinking", "length", "ok:every=0.02"])
def test_a_host_that_answers_is_quoted_word_for_word(host: Host, protocol: str, script: str) -> None:
    """Without its thinking; with the tokens that it counted, of which Ollama does not say which were thinking."""
    url = place(host, protocol, script)
    shown = walked(stage_at(url, protocol))
    assert (shown["status"], shown["stage"], shown["text"]) == ("answered", "first", "Hello from the scripted host.")
    assert (shown["finish_reason"], shown["truncated"]) == (("length", True) if script == "length" else ("stop", False))
    thought = 6 if script == "thinking" else 0
    told = {"output_tokens": 5 + thought, "reasoning_tokens": thought if protocol == "openai" else 0}
    assert shown["usage"] == shown["attempts"][0]["usage"] == {"input_tokens": 1, **told}
    assert len(host.calls(url)) == len(shown["attempts"]) == 1


@pytest.mark.parametrize(
    ("header", "seconds"), [("7", 7), ("0.5", 0.5), ("999999", 86_400), ("-1", None), ("soon", None)]
)
def test_what_a_host_says_about_trying_again_is_in_the_ledger(
    host: Host, protocol: str, header: str, seconds: float | None
) -> None:
    """For whoever decides when this stage is asked again. Of an Ollama host it was lost."""
    url = place(host, protocol, f"status:429:retry-after={header}")
    assert walked(stage_at(url, protocol))["attempts"][0]["retry_after_s"] == seconds


@pytest.mark.parametrize(
    ("script", "clocks"),
    [("silent", NO_TOKEN), ("head-only", SOON), ("stall", IDLE), ("drip:every=0.1", SOON), ("blanks", NO_TOKEN)],
)
def test_a_clock_that_strikes_closes_the_socket(
    host: Host, protocol: str, script: str, clocks: dict[str, float]
) -> None:
    """A host that goes on computing for nobody would still count it."""
    url = place(host, protocol, script)
    walked(stage_at(url, protocol, **clocks))
    call = eventually(lambda: [call for call in host.calls(url) if call.ended], "the host saw the close")[0]
    assert call.outcome is Outcome.ABORTED
    assert call.ended is not None
    assert call.ended - call.started < 0.2 + 2
