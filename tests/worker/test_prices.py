"""The price of a call: the stage's own, or the list that comes with the package."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import replace

import pytest

from config.stages import Chain, Price, Stage
from worker import prices
from worker.failover.attempt import Usage
from worker.prices import cost, per_million, unpriced, warm

MILLION = Usage(1_000_000, 1_000_000)
LISTED = Stage("a", "openai", "https://api.openai.com/v1", "gpt-4o-mini")


def price(model: str, base_url: str, usage: Usage | None = MILLION, **fields: object) -> float | None:
    return cost(Stage("a", "openai", base_url, model, **fields), usage, unbilled=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "base_url"),
    [
        ("gpt-4o-mini", "https://api.openai.com/v1"),
        ("gpt-4o-mini", "https://house.openai.azure.com/openai/v1"),
        ("openai/gpt-4o-mini", "https://openrouter.ai/api/v1"),
        ("deepseek-chat", "https://api.deepseek.com"),
        ("deepseek-chat", "https://api.deepseek.com/v1"),
        ("claude-sonnet-4-5", "https://api.anthropic.com"),
        ("gemini-2.5-pro", "https://generativelanguage.googleapis.com/v1beta"),
        ("gemini-2.5-pro", "https://generativelanguage.googleapis.com/v1beta/openai"),
        ("mistral-small-latest", "https://api.mistral.ai/v1"),
        ("llama-3.3-70b-versatile", "https://api.groq.com/openai/v1"),
        ("grok-4", "https://api.x.ai/v1"),
    ],
)
def test_a_host_that_is_listed_has_its_models_price(model: str, base_url: str) -> None:
    """Also where it only speaks like OpenAI; two million tokens cost some cents up to some dozen dollars."""
    found = price(model, base_url)
    assert found is not None
    assert 0.01 < found < 100


@pytest.mark.parametrize(
    ("model", "base_url"),
    [
        ("gpt-4o-mini", "http://10.0.0.3:8000/v1"),
        ("gpt-4o-mini", "http://llm.house:8000/v1"),
        ("llama3", "http://localhost:11434"),
        ("gpt-4o-mini", ""),
        ("no-such-model", "https://api.openai.com/v1"),
        ("", "https://api.openai.com/v1"),
    ],
)
def test_a_house_host_that_does_not_say_so_costs_nobody_knows_what(model: str, base_url: str) -> None:
    """Its models have the names of sold ones: nobody may take their price for its own."""
    assert price(model, base_url) is None


def test_a_price_of_the_stage_goes_before_the_list() -> None:
    """Who wrote it has a contract."""
    assert price("gpt-4o-mini", LISTED.base_url, price=Price(input=2, output=8)) == 10.0


def test_reasoning_is_paid_as_output_and_once() -> None:
    """It is among the output tokens already."""
    assert price(LISTED.model, LISTED.base_url, Usage(0, 1000, 900)) == price(
        LISTED.model, LISTED.base_url, Usage(0, 1000)
    )


def test_a_long_prompt_has_the_price_of_long_prompts() -> None:
    """Some models cost more a token beyond 200,000."""
    url = "https://generativelanguage.googleapis.com/v1beta"
    short, long = price("gemini-2.5-pro", url, Usage(100_000, 0)), price("gemini-2.5-pro", url, Usage(1_000_000, 0))
    assert short is not None
    assert long is not None
    assert long > 10 * short


def test_what_is_free_and_what_is_not_known() -> None:
    """In this order: the house, what was turned away, what was not counted."""
    assert cost(LISTED, None, unbilled=True) == 0
    assert cost(LISTED, None, unbilled=False) is None
    assert price(LISTED.model, LISTED.base_url, None, local=True) == 0
    assert price(LISTED.model, LISTED.base_url, Usage(0, 0)) == 0
    assert cost(Stage("a", "scripted", model="gpt-4o-mini"), MILLION, unbilled=False) is None


def test_no_count_makes_a_price_fail() -> None:
    """The greatest that a host is believed; an answer was never worth less than its price."""
    found = price(LISTED.model, LISTED.base_url, Usage(2**53 - 1, 2**53 - 1))
    assert found is not None
    assert found > 0


def test_a_warm_list_takes_no_time() -> None:
    """It is asked on the event loop, between two calls."""
    warm([LISTED])
    started = time.perf_counter()
    for _ in range(100):
        cost(LISTED, MILLION, unbilled=False)
    assert time.perf_counter() - started < 1


def test_the_list_is_read_by_those_alone_who_need_it() -> None:
    """It takes most of a second."""
    stages = "Stage('a', 'ollama', 'http://127.0.0.1:1', 'm', local=True), Stage('b', 'scripted', model='m')"
    program = f"import sys; from config.stages import Stage; from worker.prices import warm; warm([{stages}]); "
    program += "print('genai_prices' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout == "False\n"


def test_a_package_that_is_broken_costs_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or one that is not there."""
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    warm([LISTED])
    assert prices.cost(LISTED, MILLION, unbilled=False) is None
    assert prices.per_million(LISTED) is None


def test_an_estimate_uses_the_price_of_short_prompts() -> None:
    """What is paid for 1M tokens in 1000 calls; a long prompt is found out after its call."""
    gemini = Stage("a", "gemini", "https://generativelanguage.googleapis.com/v1beta", "gemini-2.5-pro")
    for stage in (LISTED, gemini):
        found = per_million(stage)
        assert found is not None
        for usage, usd in zip((Usage(1000, 0), Usage(0, 1000)), found, strict=True):
            assert cost(stage, usage, unbilled=False) == pytest.approx(usd / 1000)


def test_the_price_of_an_estimate_has_the_order_of_the_cost() -> None:
    """The house, the stage's own, the list, nobody knows."""
    own = Price(input=2, output=8)
    assert per_million(replace(LISTED, local=True, price=own)) == (0, 0)
    assert per_million(replace(LISTED, price=own)) == (2, 8)
    assert per_million(replace(LISTED, model="no-such-model")) is None
    assert per_million(Stage("a", "scripted", model="gpt-4o-mini")) is None


def test_a_fee_for_each_call_is_no_price_of_tokens() -> None:
    """Divided by a thousand tokens it would be the dearest of all."""
    found = per_million(Stage("a", "openai", "https://api.perplexity.ai", "sonar-pro"))
    assert found is not None
    assert found[0] < found[1] < 100


UNKNOWN = replace(LISTED, name="b", model="gpt-x")
SCRIPTED = Stage("c", "scripted", model="scripted")
HOUSE = Stage("d", "ollama", "http://127.0.0.1:11434", "m", local=True)


def _without(stages: Iterable[Stage], *chains: Chain) -> dict[str, str]:
    found = unpriced({stage.name: stage for stage in stages}, {chain.name: chain for chain in chains})
    return {problem.path: problem.text for problem in found}


def test_a_budget_over_an_unknown_price_is_a_problem() -> None:
    """Each call would count as nothing: the budget would never be used up."""
    chains = (Chain("dear", ("a", "b", "c", "d"), usd_per_day=5), Chain("free", ("b", "c")))
    own = replace(UNKNOWN, usd_per_day=1.0)
    assert _without([LISTED, own, SCRIPTED, HOUSE], *chains) == {
        "stages.b.usd_per_day": "no price is known for gpt-x at the address of stages.b; "
        "write price = { input = ..., output = ... } there",
        "chains.dear.usd_per_day": "no price is known for gpt-x at the address of stages.b, "
        "scripted at the address of stages.c; write price = { input = ..., output = ... } there",
    }


def test_a_budget_over_known_prices_is_none() -> None:
    """The list's, the stage's own, and the house; of a stage without a budget nobody asks."""
    priced = replace(SCRIPTED, price=Price(input=1, output=1), usd_per_day=0.0)
    stages = [replace(LISTED, usd_per_day=1), replace(HOUSE, usd_per_day=1), priced, UNKNOWN]
    assert _without(stages, Chain("dear", ("a", "c", "d"), usd_per_day=0), Chain("free", ("a", "b"))) == {}
