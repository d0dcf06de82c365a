"""What all workers together may ask of a stage: places, rates and money, whichever member keeps the state.

`two` has two places; `slow` takes 60 requests a minute, two at once; `scarce` 6,000 tokens a minute, 600 at once, and
makes at most 300; `left` and `right` share one place; a call of `priced` and `capped` costs 0.01 USD where it is given
1,000 tokens and makes as many, and `capped` may cost 0.02 a day, the chain `cheap` 0.01.
"""

from __future__ import annotations

from tests.worker.state.books import Book, RedisBook
from tests.worker.state.calls import admit, answers, ask, fails, lets, settle, skips, visit
from tests.worker.state.test_contract import answered, over, permit
from worker.failover.answer import Status
from worker.failover.attempt import Reason
from worker.failover.state import Lesson, Permit, Settlement

TO_MIDNIGHT = 6_400
"""Seconds from the books' first instant to the end of its day in UTC."""


def at(book: Book, stage: str, *, job: str = "", owner: str = "one", **fields: object) -> Permit | None:
    """A call of it under way, None where it was passed over for its limits or its budget."""
    admitted = ask(book, stage, "b", job=job, owner=owner, **fields)
    if admitted.stage == stage:
        return admitted
    settle(book, admitted, Reason.CANCELLED)
    return None


def running(book: Book, stage: str, **fields: object) -> Permit:
    found = at(book, stage, **fields)
    assert found is not None
    return found


def test_no_more_calls_are_under_way_than_a_stage_has_places(book: Book) -> None:
    """Whatever comes of a call, its place is free when it is settled."""
    first, _ = running(book, "two"), running(book, "two", owner="two")
    assert at(book, "two", job="third") is None
    assert skips(book, "third") == [("two", "limit")]
    fails(book, first)
    again = running(book, "two")
    assert at(book, "two") is None
    answers(book, again)
    running(book, "two")


def test_a_dead_workers_places_come_back(book: Book) -> None:
    """At once when it is known to be dead, whoever asks next."""
    running(book, "two"), running(book, "two")
    assert at(book, "two", owner="two") is None
    book.dies(visit("any").owner)
    running(book, "two", owner="two"), running(book, "two", owner="two")
    assert at(book, "two", owner="three") is None


def test_a_place_ends_some_time_after_its_call_must_have(book: Book) -> None:
    """A worker may live and have lost the job: 60 s for the call, and ten."""
    running(book, "two"), running(book, "two")
    book.tick(69.999)
    assert at(book, "two") is None
    book.tick(0.001)
    running(book, "two")


def test_a_job_with_little_time_holds_its_place_for_that_little(book: Book) -> None:
    """Its call is cut off at the deadline."""
    running(book, "two", deadline=5), running(book, "two", deadline=5)
    book.tick(14.999)
    assert at(book, "two") is None
    book.tick(0.001)
    running(book, "two")


def test_a_grant_that_was_lost_takes_its_place_once(book: Book) -> None:
    """It is asked for again by the same visit."""
    first = running(book, "two", job="lost")
    for _ in range(3):
        permit(book.admit(first.visit))
    running(book, "two")
    assert at(book, "two") is None


def test_a_job_that_another_worker_took_over_holds_one_place(book: Book) -> None:
    """The dead one's is given back with its claim."""
    first = running(book, "two", job="lost")
    book.dies(first.visit.owner)
    permit(book.admit(visit("lost", "two")))
    running(book, "two", owner="two")
    assert at(book, "two", owner="two") is None


def test_stages_behind_one_account_share_its_places(book: Book) -> None:
    """One that is taken by either is taken for both."""
    left = running(book, "left")
    assert at(book, "right") is None
    fails(book, left)
    running(book, "right")
    assert at(book, "left") is None


def test_requests_go_out_at_the_rate_that_a_stage_takes(book: Book) -> None:
    """Two at once as its burst says, then one a second, to the millisecond; a pause saves up no more than the burst."""
    for _ in range(2):
        running(book, "slow"), running(book, "slow")
        assert at(book, "slow") is None
        book.tick(0.999)
        assert at(book, "slow") is None
        book.tick(0.001)
        running(book, "slow")
        assert at(book, "slow") is None
        book.tick(3600)


def test_a_request_that_never_reached_its_host_is_not_counted(book: Book) -> None:
    """One that failed there is: the host has counted it."""
    first, second = running(book, "slow"), running(book, "slow")
    settle(book, first, Reason.SERVER_ERROR, failed=True)
    assert at(book, "slow") is None
    settle(book, second, Reason.CONNECT, failed=True, reached=False)
    running(book, "slow")
    assert at(book, "slow") is None


def test_a_grant_that_was_lost_is_counted_once(book: Book) -> None:
    """Nothing was sent for the first."""
    first = running(book, "slow", job="lost")
    permit(book.admit(first.visit))
    running(book, "slow")
    assert at(book, "slow") is None


def test_tokens_are_reserved_as_estimated_and_settled_as_used(book: Book) -> None:
    """What an answer did not use others may have at once."""
    first = running(book, "scarce", tokens_in=100)
    assert at(book, "scarce", tokens_in=0) is None, "400 of 600 are reserved, and it may make 300"
    running(book, "scarce", tokens_in=0, tokens_out=200)
    assert at(book, "scarce", tokens_in=1, tokens_out=0) is None
    answers(book, first, tokens=150)
    running(book, "scarce", tokens_in=250, tokens_out=0)
    assert at(book, "scarce", tokens_in=1, tokens_out=0) is None
    book.tick(1)
    running(book, "scarce", tokens_in=100, tokens_out=0)


def test_tokens_that_were_more_than_estimated_are_owed(book: Book) -> None:
    """The host has counted them, from the call's begin on."""
    first = running(book, "scarce", tokens_in=100, tokens_out=100)
    book.tick(5)
    answers(book, first, tokens=1300)
    book.tick(2)
    assert at(book, "scarce", tokens_in=1, tokens_out=0) is None
    book.tick(0.01)
    running(book, "scarce", tokens_in=1, tokens_out=0)


def test_tokens_that_nobody_counted_stay_reserved_for_an_answer_and_not_for_a_failure(book: Book) -> None:
    """The answer has used some; what failed, most likely, none."""
    first = running(book, "scarce", tokens_in=300, tokens_out=0)
    second = running(book, "scarce", tokens_in=300, tokens_out=0)
    answers(book, first)
    assert at(book, "scarce", tokens_in=1, tokens_out=0) is None
    fails(book, second)
    running(book, "scarce", tokens_in=300, tokens_out=0)
    assert at(book, "scarce", tokens_in=1, tokens_out=0) is None


def test_a_request_that_is_larger_than_the_burst_waits_until_all_of_it_is_there(book: Book) -> None:
    """Else it would never be let through; it leaves a debt."""
    running(book, "scarce", tokens_in=1, tokens_out=0)
    assert at(book, "scarce", tokens_in=1000, tokens_out=0) is None
    book.tick(0.01)
    running(book, "scarce", tokens_in=1000, tokens_out=0)
    book.tick(4)
    assert at(book, "scarce", tokens_in=1, tokens_out=0) is None
    book.tick(0.01)
    running(book, "scarce", tokens_in=1, tokens_out=0)


def test_what_a_caller_asks_for_is_no_more_than_the_stage_gives(book: Book) -> None:
    """Its own bound is reserved, however much is asked for."""
    running(book, "scarce", tokens_in=0, tokens_out=100_000)
    running(book, "scarce", tokens_in=0, tokens_out=300)
    assert at(book, "scarce", tokens_in=1, tokens_out=0) is None


def test_a_stage_costs_no_more_than_its_day_allows(book: Book) -> None:
    """Checked before each call with what it may cost: calls under way count. A skip, and no failure."""
    running(book, "capped", tokens_in=1000), running(book, "capped", tokens_in=1000)
    assert at(book, "capped", tokens_in=1000, job="third") is None
    assert skips(book, "third") == [("capped", "budget")]
    assert at(book, "capped", tokens_in=1, tokens_out=0) is None


def test_what_a_call_has_cost_replaces_what_it_might_have(book: Book) -> None:
    """In billionths of a USD; unknown stays as estimated, and what was refused has cost nothing."""
    first, second = running(book, "capped", tokens_in=1000), running(book, "capped", tokens_in=1000)
    answers(book, first, usd=0.009999999)
    assert at(book, "capped", tokens_in=1, tokens_out=0) is None
    settle(book, second, Reason.SERVER_ERROR, failed=True)
    assert at(book, "capped", tokens_in=1000) is None, "nobody knows what it has cost"
    book.tick(TO_MIDNIGHT)
    third = running(book, "capped", tokens_in=1000)
    running(book, "capped", tokens_in=1000)
    settle(book, third, Reason.THROTTLED, usd=0.0)
    running(book, "capped", tokens_in=1000)


def test_a_day_ends_at_midnight_in_utc(book: Book) -> None:
    """A refund counts in the day of its reservation alone."""
    old = running(book, "capped", tokens_in=1000, deadline=90_000)
    running(book, "capped", tokens_in=1000)
    book.tick(TO_MIDNIGHT - 0.001)
    assert at(book, "capped", tokens_in=1000) is None
    book.tick(0.001)
    running(book, "capped", tokens_in=1000), running(book, "capped", tokens_in=1000)
    answers(book, old, usd=0.0)
    assert at(book, "capped", tokens_in=1000) is None


def test_a_chain_costs_no_more_than_its_day_allows(book: Book) -> None:
    """With the price of the stage that is looked at; another chain goes on with the same stage."""
    first = running(book, "priced", chain="cheap", tokens_in=1000)
    assert at(book, "priced", chain="cheap", tokens_in=1000, job="second") is None
    assert skips(book, "second") == [("priced", "budget")]
    running(book, "priced", chain="default", tokens_in=1000)
    answers(book, first, usd=0.002)
    running(book, "priced", chain="cheap", tokens_in=0, tokens_out=1000)


def test_a_job_that_no_budget_allows_ends_and_says_when_the_next_day_begins(book: Book) -> None:
    """No job is parked until tomorrow."""
    running(book, "capped", tokens_in=1000), running(book, "capped", tokens_in=1000)
    ended = over(admit(book, "capped", tokens_in=1000, deadline=86_000)).view
    assert (ended.status, ended.shown["retry_at"]) == (Status.EXHAUSTED, "2023-11-15T00:00:00.000Z")


def test_a_grant_that_was_lost_costs_once(book: Book) -> None:
    """Nothing was sent for the first."""
    first = running(book, "capped", tokens_in=1000, job="lost")
    permit(book.admit(first.visit))
    running(book, "capped", tokens_in=1000)
    assert at(book, "capped", tokens_in=1000) is None


def test_a_call_whose_worker_died_has_cost_what_it_might_have(book: Book) -> None:
    """Nobody saw what came of it; the host has counted its request and its tokens."""
    for stage in ("capped", "slow"):
        first = running(book, stage, tokens_in=1000, job=f"lost {stage}", owner="two")
        book.dies(first.visit.owner)
        permit(book.admit(visit(f"lost {stage}")))
        assert at(book, stage, tokens_in=1000) is None


def test_an_old_owner_gives_back_nothing(book: Book) -> None:
    """Its place is the new owner's, under another fence."""
    old = running(book, "left", job="lost", owner="two")
    book.dies(old.visit.owner)
    permit(book.admit(visit("lost")))
    fails(book, old)
    assert at(book, "left") is None


def test_a_settlement_that_is_sent_twice_counts_once(book: Book) -> None:
    """Its reply was lost."""
    first = running(book, "scarce", tokens_in=300, tokens_out=300)
    for _ in range(3):
        settle(book, first, Reason.MALFORMED, worked=True, tokens=300)
    running(book, "scarce", tokens_in=300, tokens_out=0)
    assert at(book, "scarce", tokens_in=1, tokens_out=0) is None


def test_a_stage_without_limits_is_never_passed_over_for_them(book: Book) -> None:
    """As before there were any."""
    for _ in range(30):
        assert lets(book, "a")


def test_the_call_of_a_job_that_ended_meanwhile_is_counted_all_the_same(redis_book: RedisBook) -> None:
    """A poll had ended it at its deadline, and its worker settles late: what it had reserved stayed so for the day."""
    late = running(redis_book, "capped", tokens_in=1000, job="late", deadline=30)
    running(redis_book, "capped", tokens_in=1000)
    redis_book.tick(31 + 10)
    assert redis_book.polled("late")[1] == ["expired", "cloud"]
    assert at(redis_book, "capped", tokens_in=1000) is None
    view = redis_book.settled(late, answered(late), Settlement(lesson=Lesson(worked=True, usd=0.0))).view
    assert view is not None
    assert view.status is Status.EXPIRED
    running(redis_book, "capped", tokens_in=1000)
