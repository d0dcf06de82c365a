"""The table's sums are honest: no cost is guessed, and none is counted twice."""

from __future__ import annotations

import pytest

from staffel.batch.summaries import Row, Status
from staffel.batch.table import total_usd


def row(job: str | None, cost: float | None) -> Row:
    return Row("a.txt", "a.txt", Status.ANSWERED, job=job, cost_usd=cost)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row("1", 0.25), row("2", 0.5)], "0.7500"),
        ([row("1", 0.25), row("1", 0.25)], "0.2500"),
        ([row("1", 0.25), row("2", None)], "> 0.2500"),
        ([row("1", None)], "?"),
        ([row(None, 0.0)], "0.0000"),
    ],
    ids=["sum", "one job", "partly known", "unknown", "no job"],
)
def test_the_cost_of_a_batch_is_what_is_known_of_its_jobs(rows: list[Row], expected: str) -> None:
    """Two copies of a text share a job; a stage without a price costs nobody knows what."""
    assert total_usd(rows) == expected
