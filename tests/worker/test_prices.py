"""The price of a call: the stage's own, or the list that comes with the package."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from config.stages import Price, Stage
from worker import prices
from worker.failover.attempt import Usage
from worker.prices import cost, warm

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
