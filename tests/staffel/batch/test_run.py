"""How much of a batch is in the queue at once, and which job a text has."""

from __future__ import annotations

import pytest

from staffel.batch.run import job_of, kind_of, places
from staffel.batch.summaries import Status
from staffel_wire.catalogue import Offer
from staffel_wire.record import ENDED
from tasks.summarize import request_of

CLOUD, LANE, ATTIC = Offer("a", "cloud", local=False), Offer("b", "ollama", local=True), Offer("c", "attic", local=True)


@pytest.mark.parametrize(
    ("offers", "lanes", "expected"),
    [
        ((CLOUD,), {"cloud"}, 800),
        ((LANE,), {"cloud", "ollama"}, 4),
        ((CLOUD, CLOUD, LANE), {"cloud", "ollama"}, 804),
        ((CLOUD, LANE), {"cloud"}, 800),
        ((LANE, ATTIC), {"ollama", "attic"}, 8),
        ((LANE,), set(), 4),
    ],
)
def test_four_times_what_the_served_lanes_run_at_once_is_in_the_queue(
    offers: tuple[Offer, ...], lanes: set[str], expected: int
) -> None:
    """A lane that nobody serves takes nothing, and one that two stages share runs no more for that."""
    assert places(offers, lanes, 200) == expected


def test_the_job_of_a_text_follows_from_all_that_changes_its_answer() -> None:
    """Else a run would join another question's answer; more time, or another place, is the same question."""

    def job(**fields: object) -> str:
        return job_of("digest", kind_of(lambda text: request_of(text, **fields)))

    assert job(chain="default", deadline=1.0) == job(chain="default", deadline=2.0, priority="batch")
    others = {job(chain="default"), job(chain="other"), job(chain="default", local_only=True), job(temperature=1.0)}
    assert len(others) == 4
    assert job_of("another", kind_of(request_of)) != job_of("digest", kind_of(request_of))


def test_every_end_of_a_job_is_a_status_of_a_document() -> None:
    """The words are those of the job."""
    assert set(Status) >= ENDED
