"""When a worker that lives is at fault for taking nothing."""

from __future__ import annotations

from dataclasses import replace

from worker.watch import Consumption, Mode, Watch

LIMIT = 60.0
IDLE = Consumption(Mode.CONSUMES, turned_at=0, taken=7, slots=4, busy=1)


class Looking:
    """A watch that is asked once a second of a hand-wound clock."""

    def __init__(self) -> None:
        self.watch, self.now = Watch(LIMIT), 1000.0

    def looks(self, seconds: int, seen: Consumption = IDLE, waiting: int = 3, *, turns: bool = True) -> str:
        """The last word."""
        told = ""
        for _ in range(seconds):
            self.now += 1
            told = self.watch.judge(replace(seen, turned_at=self.now if turns else seen.turned_at), waiting, self.now)
        return told


def test_messages_that_wait_beside_free_slots_for_a_minute_are_a_fault() -> None:
    """It says how many, how much room there is, and for how long."""
    looking = Looking()
    assert not looking.looks(60)
    assert looking.looks(1) == "3 jobs wait, 3 of 4 slots are free, nothing was taken for 60 s"


def test_whoever_takes_one_message_now_and_then_is_only_slow() -> None:
    """The count starts anew with each."""
    looking = Looking()
    for taken in range(10):
        assert not looking.looks(50, replace(IDLE, taken=taken))


def test_an_empty_queue_and_full_slots_are_no_fault() -> None:
    """Nobody waits, or nobody could be served; and the minute does not begin before both are over."""
    looking = Looking()
    assert not looking.looks(500, waiting=0)
    assert not looking.looks(500, replace(IDLE, busy=4))
    assert not looking.looks(59)
    assert looking.looks(1)


def test_an_outage_of_redis_is_nobodys_fault() -> None:
    """Celery may come back half a minute after us, so that the count starts when Redis is there again."""
    looking = Looking()
    looking.looks(59)
    looking.watch.away()
    looking.now += 600
    assert not looking.looks(60, turns=False)
    assert "stood still" in looking.looks(1, turns=False)


def test_a_main_loop_that_stands_still_is_a_fault_also_where_nobody_waits() -> None:
    """Nothing of Celery's works then: no cancel, no acknowledgement, no end."""
    looking = Looking()
    looking.looks(10, waiting=0)
    stood = replace(IDLE, turned_at=looking.now, busy=4)
    assert not looking.looks(59, stood, 0, turns=False)
    assert looking.looks(1, stood, 0, turns=False) == "its main loop has stood still for 60 s"


def test_a_queue_that_an_operator_cancelled_is_told_as_that() -> None:
    """It is said, so that nobody looks for another reason; whoever hears it ends nothing."""
    looking = Looking()
    assert "an operator has cancelled its queue" in looking.looks(61, replace(IDLE, mode=Mode.CANCELLED))


def test_a_worker_that_drains_takes_nothing_on_purpose() -> None:
    """Its main loop only waits then."""
    assert not Looking().looks(5000, replace(IDLE, mode=Mode.DRAINING), turns=False)


def test_a_process_that_was_paused_is_not_at_fault_for_the_time() -> None:
    """It was stopped for longer than the limit, and looked before its main loop had turned."""
    looking = Looking()
    assert not looking.looks(30)
    looking.now += 600
    assert not looking.looks(1, replace(IDLE, turned_at=1030), turns=False)
    assert not looking.looks(59)
