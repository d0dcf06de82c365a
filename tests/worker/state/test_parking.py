"""Jobs that no stage may run now: tried again, parked and sent on, or ended, whichever member keeps the state."""

from __future__ import annotations

import pytest

from tests.worker.state.books import EPOCH, Book
from tests.worker.state.calls import admit, answers, ask, fails, settle, skips, visit
from tests.worker.state.test_contract import over, permit
from worker.failover.answer import Status
from worker.failover.attempt import Reason
from worker.failover.state import Admission, Elsewhere, Parked, Taken


def parked(admission: Admission) -> Parked:
    assert isinstance(admission, Parked), admission
    return admission


def throttle(book: Book, stage: str, seconds: float) -> None:
    """Its host names a time."""
    settle(book, ask(book, stage, "kept"), Reason.THROTTLED, throttled=True, closed_s=seconds)


def waits(book: Book, *plan: str, job: str, owner: str = "one", **fields: object) -> Parked:
    """A new job is parked, with a signature."""
    found = parked(admit(book, *plan, job=job, owner=owner, **fields))
    assert book.park(job, f"send {job}")
    return found


def statuses(book: Book, *jobs: str) -> list[str]:
    return [book.view(job)["status"] for job in jobs]


def test_a_job_whose_last_stage_is_closed_waits_without_a_worker(book: Book) -> None:
    """Its record says for what and until when; it is no worker's, and its time counts as time in queues."""
    throttle(book, "a", 7)
    found = parked(admit(book, "a", job="waits"))
    assert (found.stage, found.lane, found.reason, found.until) == ("a", "cloud", Reason.THROTTLED, EPOCH + 7)
    assert found.view.status is Status.PARKED
    assert found.view.shown == book.view("waits")
    shown = book.view("waits")
    assert (shown["parked_for"], shown["retry_at"]) == ("a", "2023-11-14T22:13:27.000Z")
    assert book.holds_request("waits")
    assert book.park("waits")
    book.tick(7)
    assert book.feed() == ["waits"]
    admitted = permit(book.admit(visit("waits", "two")))
    assert (admitted.stage, admitted.left_s) == ("a", 83)
    assert admitted.request is not None, "whoever it is sent to has never seen it"
    shown = book.view("waits")
    assert (shown["status"], shown["parked_for"], shown["retry_at"], shown["queued_s"]) == ("running", None, None, 7)


def test_a_job_that_cannot_wait_so_long_ends_and_says_when_to_come_again(book: Book) -> None:
    """To the millisecond: what begins at the deadline is too late."""
    throttle(book, "a", 30)
    ended = over(admit(book, "a", job="short", deadline=30)).view
    assert (ended.status, ended.shown["retry_at"]) == (Status.EXHAUSTED, "2023-11-14T22:13:50.000Z")
    assert ended.shown["parked_for"] is None
    parked(admit(book, "a", job="long", deadline=30.001))


def test_what_later_stages_have_reserved_is_not_waited_away(book: Book) -> None:
    """`kept` has 20 s for itself, which `a` must leave it."""
    throttle(book, "a", 30)
    throttle(book, "kept", 70)
    found = parked(admit(book, "a", "kept", job="enough", deadline=71))
    assert found.stage == "a"
    found = parked(admit(book, "kept", "a", job="other", deadline=71))
    assert found.stage == "a"
    ended = over(admit(book, "a", "kept", deadline=50)).view
    assert ended.shown["retry_at"] == "2023-11-14T22:13:50.000Z"


def test_the_first_instant_at_which_any_stage_may_run_is_waited_for(book: Book) -> None:
    """And of two the first of the plan."""
    throttle(book, "a", 20)
    throttle(book, "b", 10)
    throttle(book, "home", 10)
    assert parked(admit(book, "a", "b", "home")).stage == "b"
    assert parked(admit(book, "home", "a", "b")).stage == "home"


def test_a_stage_is_tried_again_once_the_plan_has_been_walked(book: Book) -> None:
    """It was passed over at first sight, and is written down once."""
    throttle(book, "a", 3)
    first = ask(book, "a", "b", job="j")
    book.tick(5)
    assert first.stage == "b"
    fails(book, first)
    again = permit(book.admit(first.visit))
    assert (again.stage, again.place, again.n, again.of) == ("a", 0, 3, 4)
    assert skips(book, "j") == [("a", "throttled")]
    fails(book, again)
    assert statuses(book, "j") == ["exhausted"], "nothing is left"


def test_a_stage_that_throttles_a_job_may_have_it_later(book: Book) -> None:
    """The rest of the plan comes first; a failure is no reason to ask again."""
    first = ask(book, "a", "b", job="j")
    settle(book, first, Reason.THROTTLED, throttled=True, closed_s=3)
    second = permit(book.admit(first.visit))
    assert second.stage == "b"
    fails(book, second)
    found = parked(book.admit(second.visit))
    assert (found.stage, found.reason) == ("a", Reason.THROTTLED)
    assert skips(book, "j") == [], "it has a row of its own already"
    assert book.park("j")
    book.tick(3)
    assert book.feed() == ["j"]
    third = permit(book.admit(visit("j", "two")))
    assert (third.stage, third.n) == ("a", 3)
    assert settle(book, third, Reason.THROTTLED, throttled=True, closed_s=1).view is None
    assert parked(book.admit(third.visit)).stage == "a"


def test_stages_that_were_passed_over_are_tried_in_the_plans_order(book: Book) -> None:
    """However early or late each of them was."""
    throttle(book, "a", 4)
    throttle(book, "b", 3)
    first = ask(book, "a", "b", "home", job="j")
    assert first.stage == "home"
    book.tick(5)
    settle(book, first, Reason.THROTTLED, throttled=True, closed_s=1)
    book.tick(1)
    walked = []
    for _ in range(3):
        admitted = permit(book.admit(first.visit))
        walked.append(admitted.stage)
        fails(book, admitted)
    assert walked == ["a", "b", "home"]


def test_a_field_that_a_stage_rejects_when_it_is_tried_again_is_dropped_as_well(book: Book) -> None:
    """It is asked once more at once, and then no more."""
    throttle(book, "a", 3)
    first = ask(book, "a", "b", job="j")
    book.tick(3)
    fails(book, first)
    again = permit(book.admit(first.visit))
    assert settle(book, again, Reason.UNSUPPORTED, dropped="seed").view is None
    without = permit(book.admit(first.visit))
    assert (without.stage, without.dropped) == ("a", {"seed"})
    fails(book, without)
    assert statuses(book, "j") == ["exhausted"]


def test_a_worker_that_dies_with_a_stage_that_was_tried_again_leaves_it_to_the_next(book: Book) -> None:
    """Its stage gets another chance, as in the plan's first part."""
    throttle(book, "a", 3)
    first = ask(book, "a", "b", job="j")
    book.tick(3)
    fails(book, first)
    lost = permit(book.admit(first.visit))
    assert permit(book.admit(first.visit)).stage == "a", "and so does a grant that was lost"
    book.dies(first.visit.owner)
    assert (lost.stage, permit(book.admit(visit("j", "two"))).stage) == ("a", "a")


@pytest.mark.parametrize(("stage", "seconds"), [("a", 30.0), ("two", 1.0), ("slow", 1.0), ("scarce", 1.0)])
def test_a_job_waits_for_a_breaker_a_place_or_a_rate(book: Book, stage: str, seconds: float) -> None:
    """Until the instant from which there may be room, as far as it is known."""
    if stage == "a":
        fails(book, *(ask(book, "a") for _ in range(5)))
    for _ in range({"a": 0, "scarce": 1}.get(stage, 2)):
        ask(book, stage, tokens_in=300)
    found = parked(admit(book, stage, tokens_in=0))
    assert found.until == EPOCH + seconds
    assert found.reason is (Reason.BREAKER_OPEN if stage == "a" else Reason.LIMIT)


def test_a_stage_that_is_switched_off_for_a_time_is_waited_for(book: Book) -> None:
    """One that is off until somebody switches it on is not."""
    assert book.switch("a", "off", 20)
    assert parked(admit(book, "a")).reason is Reason.SWITCHED_OFF
    assert book.switch("a", "off")
    ended = over(admit(book, "a")).view
    assert (ended.status, ended.shown["retry_at"]) == (Status.EXHAUSTED, None), "nobody knows when that will be"


def test_tokens_that_calls_under_way_may_give_back_are_waited_for(book: Book) -> None:
    """A job that had twelve seconds was ended for tokens which came back after four."""
    under_way = ask(book, "scarce", tokens_in=300)
    found = parked(admit(book, "scarce", job="j", deadline=2, tokens_in=0))
    assert found.until == EPOCH + 1
    book.park("j", "send j")
    answers(book, under_way, tokens=10)
    answers(book, permit(book.admit(visit("j", "two"))), tokens=600)
    ended = over(admit(book, "scarce", deadline=2, tokens_in=300)).view
    assert (ended.status, ended.shown["retry_at"] is None) == (Status.EXHAUSTED, False)


def test_a_probe_that_another_makes_is_waited_for(book: Book) -> None:
    """A second, and then it is looked at again."""
    fails(book, *(ask(book, "a") for _ in range(5)))
    book.tick(30)
    assert ask(book, "a", owner="two").probe
    found = parked(admit(book, "a"))
    assert (found.reason, found.until) == (Reason.BREAKER_OPEN, EPOCH + 31)


def test_what_can_never_run_is_not_waited_for(book: Book) -> None:
    """A stage that does not fit the request, or whose time is over."""
    throttle(book, "a", 20)
    found = parked(admit(book, "gone", "a", "blind", job="j", images=True))
    assert found.stage == "a"
    assert skips(book, "j") == [("gone", "unsupported"), ("a", "throttled"), ("blind", "capability")]
    assert over(admit(book, "gone", "blind", images=True)).view.shown["retry_at"] is None


def test_a_job_for_another_lane_is_parked_for_it(book: Book) -> None:
    """It is sent on to that lane, where it may run."""
    book.switch("lane", "off", 20)
    found = waits(book, "lane", job="j")
    assert (found.stage, found.lane) == ("lane", "ollama")
    book.tick(20)
    assert book.feed() == ["j"]
    assert permit(book.admit(visit("j", "three", "ollama"))).stage == "lane"


def test_a_stage_of_another_lane_is_tried_again_there(book: Book) -> None:
    """The plan has been walked here; the job goes where the stage is."""
    book.switch("lane", "off", 5)
    first = ask(book, "lane", "a", job="j")
    book.tick(5)
    fails(book, first)
    assert isinstance(book.admit(first.visit), Elsewhere)
    assert permit(book.admit(visit("j", "three", "ollama"))).stage == "lane"


def test_a_job_is_parked_once_it_was_told_so(book: Book) -> None:
    """And no longer: who asks again, since the reply was lost, is told that it was; what has gone on is left."""
    assert not book.park("nowhere")
    throttle(book, "a", 5)
    parked(admit(book, "a", job="j"))
    assert book.park("j", "the message")
    assert book.signature("j") == "the message"
    book.tick(5)
    going_on = permit(book.admit(visit("j", "two")))
    assert book.park("j")
    assert (book.signature("j"), book.feed()) == (None, []), "a worker has it"
    answers(book, going_on)
    assert not book.park("j"), "it has ended, and whoever waits for it is to hear of that"


def test_a_job_that_was_told_to_wait_and_asks_again_at_once_is_told_so_again(book: Book) -> None:
    """The reply was lost; it has no owner, and nobody else was told of it."""
    throttle(book, "a", 5)
    first = ask(book, "b", "a", job="j")
    book.born(first.visit.owner)
    fails(book, first)
    until = [parked(book.admit(first.visit)).until for _ in range(2)]
    assert until == [EPOCH + 5] * 2
    book.tick(5)
    assert permit(book.admit(first.visit)).stage == "a"
    assert book.view("j")["status"] == "running"
    assert book.admit(visit("j", "two")) == Taken(known=True)
