"""Whatever a host does ends in one word of the ledger, after one call, and the walk goes on: behaviours x protocols.

Each three times: read as a whole, streamed into the walk's sink, and asked for in one piece.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import SecretStr

from tests.eventually import eventually
from tests.hosts import Host, Outcome
from tests.worker.providers.asking import place, stage_at, walked, walking

SOON = {"timeout": 0.3}
NO_TOKEN = {"first_token_timeout": 0.3}
IDLE = {"idle_timeout": 0.3, "timeout": 1.0}
ANSWERED = "answered"


@dataclass(frozen=True, slots=True)
class Brick:
    """One behaviour and what becomes of it: the attempt's reason, or `answered`.

    `shown`: text reaches the caller before the failure where it is streamed, so that the walk ends there. `by`: what
    a protocol (or `PROTOCOL/MODE`) makes of it, where it makes something else. `one`: what it is where the answer
    comes in one piece.
    """

    script: str
    reason: str
    clocks: Mapping[str, float] = field(default_factory=dict)
    shown: bool = False
    by: Mapping[str, str] = field(default_factory=dict)
    one: str | None = None

    def expected(self, protocol: str, mode: str) -> str:
        if mode == "one" and self.one is not None:
            return self.one
        return self.by.get(f"{protocol}/{mode}", self.by.get(protocol, self.reason))


WALL: list[Brick] = [
    Brick("status:400", "bad_request"),
    Brick("status:422", "bad_request"),
    Brick("status:400:html", "server_error"),
    Brick("status:400:body=", "server_error"),
    Brick("status:400:body=No.", "server_error"),
    Brick("status:400:list", "bad_request"),
    Brick("status:400:message=prompt is too long\\: 9001 tokens > 8192 maximum", "too_long"),
    Brick("status:401", "auth"),
    Brick("status:401:html", "auth"),
    Brick("status:402", "quota"),
    Brick("status:403", "auth"),
    Brick("status:404:message=model 'm' not found", "model_missing"),
    Brick("status:404:html", "misrouted"),
    Brick("status:405", "misrouted"),
    Brick("status:408", "server_error"),
    Brick("status:413", "too_long"),
    Brick("status:429", "throttled"),
    Brick("status:451", "filtered"),
    Brick("status:500", "server_error"),
    Brick("status:500:drip", "server_error"),
    Brick("status:500:mb=20", "server_error"),
    Brick("status:502:html", "server_error"),
    Brick("status:503", "overloaded", by={"ollama": "throttled"}),
    Brick("status:524:body=", "server_error"),
    Brick("status:529", "overloaded"),
    Brick("status:204:body=", "misrouted"),
    Brick("redirect", "misrouted"),
    Brick("redirect:status=308", "misrouted"),
    Brick("empty", "empty"),
    Brick("length-empty", "truncated"),
    Brick("length-empty:thinking", "truncated"),
    Brick("ok:text=   ", "empty"),
    Brick("repeat:text=ha :times=400", "degenerate", shown=True),
    Brick("no-end", "incomplete", shown=True),
    Brick("no-done", "incomplete", shown=True),
    Brick("late-error", "server_error", shown=True),
    Brick("late-cut", "cut_off", shown=True),
    Brick("ok:finish=content_filter", "filtered", shown=True),
    Brick("ok:finish=load", "incomplete", shown=True),
    Brick("null-choices", "incomplete", by={"ollama": "malformed", "anthropic/one": "empty"}),
    Brick("empty-candidates", "incomplete", by={"ollama": "empty", "anthropic/one": "empty"}),
    Brick("error-200", "server_error"),
    Brick("silent", "first_token_timeout", NO_TOKEN),
    Brick("silent", "timeout", SOON),
    Brick("head-only", "first_token_timeout", NO_TOKEN),
    Brick("head-drip", "first_token_timeout", NO_TOKEN),
    Brick("blanks", "first_token_timeout", NO_TOKEN),
    Brick("role-only", "first_token_timeout", NO_TOKEN),
    Brick("whitespace", "first_token_timeout", NO_TOKEN, one="malformed"),
    Brick("stall", "idle_timeout", IDLE, shown=True, one="timeout"),
    Brick("drip:every=0.1", "timeout", SOON, shown=True),
    Brick("cut", "cut_off", shown=True),
    Brick("cut:reset", "cut_off", shown=True),
    Brick("cut:after=0", "cut_off"),
    Brick("cut-head", "cut_off"),
    Brick("cut-head:reset", "cut_off"),
    Brick("short", "cut_off", shown=True),
    Brick("bad-chunks:after=0", "malformed"),
    Brick("not-http", "malformed"),
    Brick("error-in-stream", "server_error", shown=True),
    Brick("unreadable", "malformed"),
    Brick("unreadable:garbage", "malformed"),
    Brick("unreadable:shape", "incomplete", by={"anthropic": "malformed", "ollama": "malformed"}),
    Brick("big:mb=12", "malformed", shown=True),
    Brick("big:mb=12:line", "malformed"),
    Brick("gzip", "malformed"),
    Brick("gzip:garbage", "malformed"),
    Brick("ok", ANSWERED),
    Brick("thinking", ANSWERED),
    Brick("length", ANSWERED),
    Brick("ok:type=text/html", ANSWERED),
    Brick("ok:type=application/octet-stream", ANSWERED),
    Brick("ok:every=0.02", ANSWERED),
]

MODES = ("whole", "sink", "one")


@pytest.mark.parametrize("brick", WALL, ids=lambda brick: f"{brick.script}-{brick.reason}")
def test_each_behaviour_is_told_in_one_word(host: Host, protocol: str, brick: Brick) -> None:
    """One call each, counted at the host: no adapter retries on its own, and no redirect is followed."""
    urls = {mode: place(host, protocol, brick.script) for mode in MODES}

    async def walks() -> list[Mapping[str, Any]]:
        async def sink(_: str) -> None:
            pass

        return await asyncio.gather(
            *(
                walking(
                    stage_at(urls[mode], protocol, stream=mode != "one", **brick.clocks),
                    sink=sink if mode == "sink" else None,
                )
                for mode in MODES
            )
        )

    for mode, shown in zip(MODES, asyncio.run(walks()), strict=True):
        first = shown["attempts"][0]
        reason = brick.expected(protocol, mode)
        assert (mode, first["reason"] or first["outcome"]) == (mode, reason), first
        committed = mode == "sink" and (brick.shown or reason == ANSWERED)
        assert (mode, first["committed"]) == (mode, committed)
        ends = {"bad_request": "refused", ANSWERED: "answered"}
        status = "exhausted" if committed and reason != ANSWERED else ends.get(reason, "answered")
        assert (mode, shown["status"]) == (mode, status)
        calls, others = host.calls(urls[mode]), host.others(urls[mode])
        asked = [row for row in shown["attempts"] if row["stage"] == "first"]
        assert (mode, len(calls), len(asked), others) == (mode, 1, 1, [])


@pytest.mark.parametrize("script", ["ok", "thinking", "length", "ok:every=0.02"])
def test_a_host_that_answers_is_quoted_word_for_word(host: Host, protocol: str, script: str) -> None:
    """Without its thinking; with the tokens that it counted, of which only some say which were thinking."""
    url = place(host, protocol, script)
    shown = walked(stage_at(url, protocol))
    assert (shown["status"], shown["stage"], shown["text"]) == ("answered", "first", "Hello from the scripted host.")
    assert (shown["finish_reason"], shown["truncated"]) == (("length", True) if script == "length" else ("stop", False))
    thought = 6 if script == "thinking" else 0
    told = {"output_tokens": 5 + thought, "reasoning_tokens": thought if protocol in {"openai", "gemini"} else 0}
    assert shown["usage"] == shown["attempts"][0]["usage"] == {"input_tokens": 1, **told}
    assert len(host.calls(url)) == len(shown["attempts"]) == 1


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("retry-after=7", 7), ("retry-after=0.5", 0.5), ("retry-after=999999", 86_400), ("retry-after=-1", None),
        ("retry-after=soon", None), ("retry-after-ms=1500", 1.5), ("x-ms-retry-after-ms=2500", 2.5),
        ("message=Please try again in 1m30s.", 90), ("retry-after-ms=100:retry-after=7", 0.1),
    ],
)  # fmt: skip
def test_what_a_host_says_about_trying_again_is_in_the_ledger(
    host: Host, protocol: str, header: str, seconds: float | None
) -> None:
    """For whoever decides when this stage is asked again. Of an Ollama host it was lost."""
    url = place(host, protocol, f"status:429:{header}")
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
    assert call.ended - call.started < 0.3 + 2


def test_a_host_that_quotes_the_caller_is_not_quoted(host: Host, protocol: str) -> None:
    """Its words are in the ledger, but neither the key, nor the address, nor the prompt, nor what moves a cursor."""
    url = place(host, protocol, "quote")
    stage = stage_at(url, protocol, api_key=SecretStr("sk-canary-0123456789"))
    prompt = "the secret of the old lighthouse keeper"
    detail = str(walked(stage, messages=[{"role": "user", "content": prompt}])["attempts"][0]["detail"])
    assert len(detail) <= 200
    assert detail.isprintable()
    for secret in ("sk-canary", "0123456789", "127.0.0.1", "lighthouse", "secret of"):
        assert secret not in detail
