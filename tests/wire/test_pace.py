"""When a job that waits for its turn will have ended, and how sure that is."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import chain, repeat
from random import Random

import pytest

from staffel_wire.pace import Estimate, Now, Pace, now_of, pace_of, stand_before, until_end

Draw = Callable[[Random], float]
"""The length of one call in seconds."""

LENGTHS: dict[str, Draw] = {
    "evenly from 0.5 to 2 s": lambda random: random.uniform(0.5, 2),
    "all the same": lambda _: 1.5,
    "mostly short": lambda random: random.lognormvariate(0, 0.6),
    "heavy tails": lambda random: random.lognormvariate(0, 1),
    "two kinds": lambda random: 1.0 if random.random() < 0.8 else 8.0,
}
HOLDS = {
    "evenly from 0.5 to 2 s": 0.85,
    "all the same": 1.0,
    "mostly short": 0.85,
    "heavy tails": 0.8,
    "two kinds": 0.85,
}
"""How often the stated range must hold; measured are 0.90 to 0.93, always, 0.90 to 0.94, 0.86 to 0.95, 0.90 to 0.97."""


def share(draw: Draw, seen: int, calls: int, trials: int) -> float:
    """How often a range that is told from so many calls holds the true end, so many calls on, of one under way too.

    Between two calls are some milliseconds that nobody has measured.
    """
    random, held = Random(seen * 1000 + calls), 0
    for _ in range(trials):
        lengths, under_way = [draw(random) for _ in range(seen)], draw(random)
        elapsed = random.random() * under_way
        told = until_end(lengths, calls, elapsed)
        assert told is not None
        assert told.low is not None
        assert told.high is not None
        assert 0 < told.low < told.mean < told.high
        true = under_way - elapsed + sum(draw(random) + random.uniform(0.002, 0.008) for _ in range(calls))
        held += told.low <= true <= told.high
    return held / trials


@pytest.mark.parametrize("calls", [1, 2, 3, 5, 8, 15, 40])
@pytest.mark.parametrize("kind", LENGTHS)
def test_the_true_end_lies_in_the_range_that_was_told(kind: str, calls: int) -> None:
    """Eight times of ten at least, after twenty calls, from the next in line to one far behind."""
    assert share(LENGTHS[kind], 20, calls, 400) >= HOLDS[kind]


def test_a_range_from_few_calls_holds_as_often() -> None:
    """It is wider for that."""
    assert share(LENGTHS["evenly from 0.5 to 2 s"], 5, 8, 600) >= 0.85
    few, many = (until_end(list(chain.from_iterable(repeat([0.5, 1, 2], n))), 8) for n in (1, 10))
    assert few is not None
    assert many is not None
    assert few.high is not None
    assert many.high is not None
    assert few.high > many.high


def test_a_range_says_something() -> None:
    """One that holds always, since it is as wide as can be, would help nobody: ten calls of 1.25 s on average."""
    told = until_end([0.5, 1.25, 2, 0.8, 1.7] * 4, 10)
    assert told is not None
    assert told.mean == pytest.approx(12.5)
    assert told.low is not None
    assert told.high is not None
    assert 8 < told.low < 11
    assert 14 < told.high < 17.5


@pytest.mark.parametrize(
    ("lengths", "calls", "elapsed", "told"),
    [
        ([], 5, None, None),
        ([2.0], 5, None, Estimate(10.0)),
        ([2.0, 4.0], 2, 1.0, Estimate(8.0)),
        ([2.0, 4.0], 2, 3.0, Estimate(7.0)),
        ([0.0, 0.0, 0.0], 4, None, Estimate(0.0)),
    ],
)
def test_little_that_is_known_is_told_without_a_range(
    lengths: list[float], calls: int, elapsed: float | None, told: Estimate | None
) -> None:
    """Of a call under way is left what is left of those that took longer."""
    assert until_end(lengths, calls, elapsed) == told


def test_a_call_that_runs_longer_than_any_before_puts_the_end_off() -> None:
    """It is not taken for one that must end now: at 10 s where all took 1 s, 5 s more are as good a guess as any."""
    told = until_end([1.0] * 20, 1, 10.0)
    assert told is not None
    assert told.mean == 6
    assert told.high is not None
    assert told.high > 12


@pytest.mark.parametrize(
    ("rank", "others", "batch", "before"),
    [
        (0, 50, False, 0),
        (8, 50, False, 8),
        (9, 50, False, 10),
        (20, 1, False, 21),
        (0, 0, True, 0),
        (0, 50, True, 9),
        (2, 50, True, 29),
        (2, 5, True, 7),
    ],
)
def test_a_batch_lets_interactive_jobs_go_before_but_for_every_tenth(
    rank: int,
    others: int,
    batch: bool,
    before: int,
) -> None:
    """`others`: how many wait in the other of the two queues."""
    assert stand_before(rank, others, batch=batch) == before


def test_what_stands_in_redis_is_read() -> None:
    """Where nothing stands there, nothing is known."""
    text = json.dumps({"calls": [[1500, 10, 30], [500, 0, 0]], "busy": "340000000:1500 340000001:500", "at": 1})
    pace = pace_of(text)
    assert pace == Pace(((1500, 10, 30), (500, 0, 0)), ((340000000, 1500), (340000001, 500)))
    assert (pace.lengths(), pace.tokens_per_second()) == ((1.5, 0.5), 20)
    assert (pace_of(None), pace_of("").tokens_per_second()) == (Pace(), None)
    assert now_of('{"owner":"o","since":null,"in_hand":1,"at":5}') == Now("o", None, 1)
    assert (now_of('{"owner":"o","since":7,"in_hand":2}').prepared, now_of("").prepared) == (1, 0)


def test_the_busy_share_is_of_the_last_minute() -> None:
    """The oldest part counts as far as it lies in it, and a call that is still under way up to now."""
    now = 100 * 5_000 + 2_500
    parts = tuple((part, 5_000) for part in range(80, 100))
    assert Pace(busy=(*parts, (100, 2_500))).busy_share(now) == 1
    assert Pace(busy=((99, 3_000),)).busy_share(now) == 3 / 60
    assert Pace(busy=((88, 5_000),)).busy_share(now) == 2.5 / 60
    assert Pace(busy=((50, 5_000),)).busy_share(now) == 0
    assert Pace().busy_share(now, now - 15_000) == 0.25
    assert Pace().busy_share(now, now - 300_000) == 1
    assert Pace(busy=((101, 4_000),)).busy_share(now) == 0, "a clock that was set back"
