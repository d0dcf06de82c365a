"""Which of a lane's queues is asked first."""

from __future__ import annotations

from collections.abc import Iterable

from worker.held import QueueOrder


def taken(turns: QueueOrder, waiting: Iterable[str]) -> list[str]:
    """The queues from which a worker takes, where these never run out."""
    there, found = set(waiting), []
    for _ in range(30):
        queue = next(name for name in turns.consume(2) if name in there)
        found.append(turns.rotate(queue))
    return found


def turns() -> QueueOrder:
    made = QueueOrder()
    made.update(["ollama.batch", "ollama"])
    return made


def test_of_ten_jobs_one_is_a_batch_job() -> None:
    """Where both wait all the time."""
    assert taken(turns(), ["ollama", "ollama.batch"]) == (["ollama"] * 9 + ["ollama.batch"]) * 3


def test_who_is_alone_has_the_lane() -> None:
    assert taken(turns(), ["ollama"]) == ["ollama"] * 30
    assert taken(turns(), ["ollama.batch"]) == ["ollama.batch"] * 30


def test_a_batch_has_one_turn_at_once_however_long_there_was_none() -> None:
    """After 30 interactive jobs the first batch job has waited for nobody; the second waits for nine."""
    one = turns()
    taken(one, ["ollama"])
    assert taken(one, ["ollama", "ollama.batch"])[:11] == ["ollama.batch", *["ollama"] * 9, "ollama.batch"]


def test_both_are_asked_at_once_each_time() -> None:
    """A worker with nothing to do blocks in one BRPOP for both."""
    one = turns()
    assert one.consume(2) == ["ollama", "ollama.batch"]
    assert one.consume(0) == []
