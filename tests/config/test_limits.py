"""Breakers, limits and budgets as they are written, and what is said of those that cannot be meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from config.file import Read, load
from config.limits import Breaker, Limits

Problems = Callable[..., dict[str, str]]
Reading = Callable[..., Read]

NAME = "a name has small letters, digits, _ and -, and starts with a letter"
CHAIN = "[chains.default]\nstages = ['a', 'b', 'c']\n"


def stages(**tables: str) -> str:
    """The stages a, b and c with these lines, in one chain; none of them has a note."""
    lines = [f"[stages.{name}]\nprovider = 'scripted'\ntimeout = 5\n{tables.get(name, '')}\n" for name in "abc"]
    return "".join(lines) + CHAIN


def test_what_is_not_written_has_its_default(read: Reading) -> None:
    """No limit, no budget, and a breaker for everybody."""
    found = read(stages())
    stage = found.stages["a"]
    assert (stage.limits, stage.limit_group, stage.usd_per_day) == (Limits(), None, None)
    assert stage.breaker == Breaker()
    assert found.chains["default"].usd_per_day is None


def test_what_is_written_arrives(read: Reading) -> None:
    """A variable may set one key of a breaker, and the others stay."""
    text = "max_in_flight = 1\nrequests_per_minute = 2\ntokens_per_minute = 3\nburst = 0.5\nusd_per_day = 4.5\n"
    found = read(stages(a=f"{text}breaker = {{ window = 20, slow_call = 3 }}") + "usd_per_day = 0\n")
    stage = found.stages["a"]
    assert stage.limits == Limits(max_in_flight=1, requests_per_minute=2, tokens_per_minute=3, burst=0.5)
    assert (stage.usd_per_day, found.chains["default"].usd_per_day) == (4.5, 0)
    assert (stage.breaker.window, stage.breaker.slow_call, stage.breaker.min_calls) == (20, 3, 5)


def test_a_variable_sets_one_key_of_a_breaker(tmp_path: Path) -> None:
    """As text, and the others stay as the file has them."""
    path = tmp_path / "staffel.toml"
    path.write_text(stages(a="breaker = { window = 20 }"))
    found = load(path, {"stages": {"a": {"breaker": {"min_calls": "10"}}}}, {}).stages["a"].breaker
    assert (found.min_calls, found.window) == (10, 20)


def test_what_one_stage_of_a_group_writes_holds_for_all(read: Reading) -> None:
    """The account counts all of them together, whichever it is written at; a default is no value of the group."""
    found = read(
        stages(
            a="limit_group = 'account'\nrequests_per_minute = 500",
            b="limit_group = 'account'\ntokens_per_minute = 9000\nburst = 2\nrequests_per_minute = 500",
            c="limit_group = 'other'\nmax_in_flight = 7",
        )
    ).stages
    assert found["a"].limits == found["b"].limits
    assert found["a"].limits == Limits(requests_per_minute=500, tokens_per_minute=9000, burst=2)
    assert found["c"].limits == Limits(max_in_flight=7)


def test_stages_without_a_group_have_limits_of_their_own(read: Reading) -> None:
    """Having none is not a group."""
    found = read(stages(a="max_in_flight = 1", b="max_in_flight = 2")).stages
    assert [found[name].limits.max_in_flight for name in "abc"] == [1, 2, None]


def test_a_group_with_two_minds_is_refused(problems: Problems) -> None:
    """Which of them held would depend on the stage that was asked; each is told against the first."""
    found = problems(
        stages(
            a="limit_group = 'account'\nrequests_per_minute = 500\nmax_in_flight = 3\nburst = 6",
            b="limit_group = 'account'\nrequests_per_minute = 600",
            c="limit_group = 'account'\nrequests_per_minute = 500\nmax_in_flight = 4\nburst = 6.5",
        )
    )
    sentence = "{}, but a of the same limit_group has {}; write that, or leave it out"
    assert found == {
        "stages.b.requests_per_minute": sentence.format(600, 500),
        "stages.c.max_in_flight": sentence.format(4, 3),
        "stages.c.burst": sentence.format(6.5, 6),
    }


def test_a_wrong_limit_is_no_second_mistake_in_its_group(problems: Problems) -> None:
    """What cannot be read is compared with nothing."""
    found = problems(
        stages(
            a="limit_group = 'g'\nmax_in_flight = 0", b="limit_group = 'g'\nmax_in_flight = 4", c="limit_group = 'g'"
        )
    )
    assert found == {"stages.a.max_in_flight": "must be greater than or equal to 1"}


@pytest.mark.parametrize(
    ("text", "path", "sentence"),
    [
        ("limit_group = 'My Account'", "limit_group", NAME),
        ("max_in_flight = 0", "max_in_flight", "must be greater than or equal to 1"),
        ("max_in_flight = 1.5", "max_in_flight", "must be a whole number"),
        ("requests_per_minute = 1_000_000_001", "requests_per_minute", "must be less than or equal to 1000000000"),
        ("tokens_per_minute = 1_000_000_001", "tokens_per_minute", "must be less than or equal to 1000000000"),
        ("burst = 0", "burst", "must be greater than 0"),
        ("usd_per_day = -1", "usd_per_day", "must be greater than or equal to 0"),
        ("usd_per_day = inf", "usd_per_day", "must be a finite number"),
        ("usd_per_day = 1_000_001", "usd_per_day", "must be less than or equal to 1000000"),
        ("price = { input = 100_001, output = 1 }", "price.input", "must be less than or equal to 100000"),
        ("max_output_tokens = 10_000_001", "max_output_tokens", "must be less than or equal to 10000000"),
        ("breaker.failure_ratio = 0", "breaker.failure_ratio", "must be greater than 0"),
        ("breaker.failure_ratio = 1.1", "breaker.failure_ratio", "must be less than or equal to 1"),
        ("breaker.window = 0", "breaker.window", "must be greater than 0"),
        ("breaker.min_calls = 0", "breaker.min_calls", "must be greater than or equal to 1"),
        ("breaker.consecutive_failures = 0", "breaker.consecutive_failures", "must be greater than or equal to 1"),
        ("breaker.open_growth = 0.5", "breaker.open_growth", "must be greater than or equal to 1"),
        ("breaker.slow_call = true", "breaker.slow_call", "must be a value, not true or false"),
        ("breaker.permanent_for = 'long'", "breaker.permanent_for", "must be a number"),
    ],
)
def test_a_wrong_value_is_told_with_what_is_right(problems: Problems, text: str, path: str, sentence: str) -> None:
    """Under the key's whole path. Sums of the greatest values are whole numbers to Redis's Lua all the same."""
    assert problems(stages(a=text)) == {f"stages.a.{path}": sentence}


@pytest.mark.parametrize("text", ["open_for = 600", "open_for = 600\nopen_max = 400"])
def test_a_breaker_that_is_open_for_longer_than_its_most_is_refused(problems: Problems, text: str) -> None:
    """Also where the most is the default: 600 s were cut to a number that stands nowhere in the file."""
    most = 400 if "open_max" in text else 300
    sentence = f"{most} s is less than open_for (600 s); write 600 or more, or lower that"
    assert problems(stages() + f"[stages.a.breaker]\n{text}\n") == {"stages.a.breaker.open_max": sentence}


def test_a_breaker_may_be_open_for_its_most_at_once(read: Reading) -> None:
    """It does not grow then; and a wrong open_for is one mistake alone."""
    assert read(stages(a="breaker = { open_for = 400, open_max = 400 }")).stages["a"].breaker.open_max == 400


def test_a_wrong_time_to_be_open_is_compared_with_nothing(problems: Problems) -> None:
    """One mistake, told once."""
    assert list(problems(stages(a="breaker = { open_for = 'long' }"))) == ["stages.a.breaker.open_for"]


def test_a_plan_of_more_than_five_hundred_stages_is_refused(problems: Problems, read: Reading) -> None:
    """One script walks it whole, and no other script runs meanwhile; stages of chains in a chain count too."""
    names = [f"s{n}" for n in range(501)]
    tables = "".join(f"[stages.{name}]\nprovider = 'scripted'\n" for name in names)
    halves = f"[chains.one]\nstages = {names[:250]}\n[chains.two]\nstages = {names[250:]}\n"
    found = problems(f"{tables}{halves}[chains.default]\nstages = ['one', 'two']\n")
    sentence = "501 stages, with those of its chains; a chain has at most 500, take some out"
    assert found == {"chains.default.stages": sentence}
    assert read(f"{tables}{halves}[chains.default]\nstages = {names[:500]}\n")
