"""What the reply to a probe says of a local host."""

from __future__ import annotations

import pytest

from config.stages import Stage
from worker.failover.clocks import Reply
from worker.failover.provider import End, Fault, Kind, Words
from worker.probing import lesson_of

STAGE = Stage("local", "ollama", model="m", lane="ollama")
BUSY = Words(text="server busy, please try again.  maximum pending requests exceeded", formed=True)
NO_MODEL = Words(text="model 'm' not found", formed=True)
WRONG = Words(text="missing request body", formed=True)


@pytest.mark.parametrize(
    ("reply", "works", "fails", "throttles", "permanent"),
    [
        (Reply(text="OK", end=End("stop")), True, False, False, False),
        (Reply(text="", end=End("length")), True, False, False, False),
        (Reply(text="O"), False, True, False, False),
        (Reply(fault=Fault(Kind.FIRST_TOKEN)), False, True, False, False),
        (Reply(fault=Fault(Kind.CONNECT)), False, True, False, False),
        (Reply(fault=Fault(Kind.STATUS, status=500)), False, True, False, False),
        (Reply(fault=Fault(Kind.STATUS, status=400, words=WRONG)), False, True, False, False),
        (Reply(fault=Fault(Kind.STATUS, status=503, words=BUSY)), False, False, True, False),
        (Reply(fault=Fault(Kind.STATUS, status=404, words=NO_MODEL)), False, False, False, True),
        (Reply(fault=Fault(Kind.OURS)), False, False, False, False),
    ],
    ids=[
        "answer",
        "thinks",
        "no end",
        "silent",
        "refused",
        "crashed",
        "calls it wrong",
        "busy",
        "no model",
        "never sent",
    ],
)
def test_only_an_answer_says_that_it_works(
    reply: Reply, works: bool, fails: bool, throttles: bool, permanent: bool
) -> None:
    lesson, _ = lesson_of(reply, STAGE)
    assert (lesson.worked, lesson.failed, lesson.throttled, lesson.permanent) == (works, fails, throttles, permanent)
