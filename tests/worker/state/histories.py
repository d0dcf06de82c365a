"""What a random history of the shared state is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from config.limits import Breaker, Limits
from config.stages import Price, Stage
from tests.worker.state.test_contract import ANSWER
from worker.failover.answer import Status
from worker.failover.attempt import Reason
from worker.failover.state import Lesson, Settlement

BRITTLE = Breaker(window=4, min_calls=3, consecutive_failures=2, open_for=3, open_max=10, permanent_for=15)
STAGES = {
    stage.name: stage
    for stage in (
        Stage("brittle", "scripted", model="m", breaker=BRITTLE),
        Stage("tight", "scripted", model="m", timeout=8, breaker=BRITTLE,
              limits=Limits(max_in_flight=1, requests_per_minute=20, burst=4)),
        Stage("left", "scripted", model="m", limit_group="account", max_output_tokens=100, breaker=BRITTLE,
              limits=Limits(max_in_flight=2, tokens_per_minute=7000, burst=3)),
        Stage("right", "scripted", model="m", limit_group="account", max_output_tokens=200, reserve=2,
              limits=Limits(max_in_flight=2, tokens_per_minute=7000, burst=3)),
        Stage("lane", "scripted", model="m", lane="ollama", local=True, breaker=BRITTLE),
        Stage("priced", "scripted", model="m", price=Price(input=3, output=7.7), max_output_tokens=999,
              usd_per_day=0.05, breaker=BRITTLE),
    )
}  # fmt: skip
NAMES = [*STAGES, "gone"]
OWNERS = ("cloud", "cloud", "ollama")
"""The lane of each of the three workers."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What comes of a call."""

    reason: Reason | None
    settlement: Settlement


def goes_on(reason: Reason, **lesson: Any) -> Ending:
    return Ending(reason, Settlement(lesson=Lesson(**lesson)))


def answers(**lesson: Any) -> Ending:
    return Ending(None, Settlement(Status.ANSWERED, ANSWER, lesson=Lesson(worked=True, **lesson)))


ENDINGS = {
    "fails": goes_on(Reason.SERVER_ERROR, failed=True),
    "fails for its deadline": Ending(
        Reason.TIMEOUT, Settlement(last=Status.EXPIRED, lesson=Lesson(failed=True, tokens=70))
    ),
    "is not there": goes_on(Reason.CONNECT, failed=True, reached=False, usd=0.0),
    "fails and names a time": goes_on(Reason.SERVER_ERROR, failed=True, closed_s=6.0),
    "throttles": goes_on(Reason.THROTTLED, throttled=True, usd=0.0),
    "throttles and names a time": goes_on(Reason.THROTTLED, throttled=True, closed_s=4.5),
    "is overloaded": goes_on(Reason.OVERLOADED, throttled=True),
    "knows no key": goes_on(Reason.AUTH, permanent=True, loud=True),
    "has no credit for a time": goes_on(Reason.QUOTA, permanent=True, closed_s=7.0, loud=True),
    "has no such model": goes_on(Reason.MODEL_MISSING, permanent=True, loud=True),
    "talks nonsense": goes_on(Reason.MALFORMED, worked=True, tokens=150, usd=0.0123456789),
    "is too short": goes_on(Reason.TOO_LONG),
    "takes no seed": goes_on(Reason.UNSUPPORTED, dropped="seed", loud=True),
    "takes no stop this time": goes_on(Reason.UNSUPPORTED, dropped="stop", believed=False),
    "refuses": goes_on(Reason.BAD_REQUEST),
    "talks on and on": goes_on(Reason.TRUNCATED, worked=True, tokens=4000, usd=0.02),
    "is cancelled": Ending(Reason.CANCELLED, Settlement(Status.CANCELLED)),
    "answers": answers(),
    "answers in few tokens": answers(tokens=20, usd=0.000321),
    "answers at length": answers(tokens=5000, usd=0.03),
    "answers slowly": answers(failed=True, tokens=3),
}

PLANS = st.lists(st.sampled_from([*STAGES]), min_size=1, max_size=3, unique=True)
NUMBERS = st.sampled_from([0, 1, 0, 1, 2])
WALKS = st.lists(st.sampled_from([*ENDINGS]), max_size=4)
SECONDS = (3.0, 0.4, 5.0, 1.0, 2.0, 0.001, 16.0, 31.0)
