"""Where parked jobs wait, in the memory of one process: a line a stage, scored as the sorted sets of Redis are."""

from __future__ import annotations

from worker.state.rules import LOOKS_AGAIN_MS, MOST_SENT, SENT_AGAIN_MS


class Lines:
    """Scores in milliseconds: in a line, when the job came or is sent again; of all parked, when to look again."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[str, int]] = {}
        self._parked: dict[str, int] = {}

    def join(self, job: str, stage: str, came: int, deadline: int, now: int) -> None:
        self._lines.setdefault(stage, {})[job] = came
        self._parked[job] = min(deadline, now + LOOKS_AGAIN_MS)

    def leave(self, job: str) -> None:
        """A worker has claimed it, or nobody will."""
        if self._parked.pop(job, None) is not None:
            for line in self._lines.values():
                line.pop(job, None)

    def hurry(self, job: str, now: int) -> None:
        """It was cancelled: it is sent on as if its deadline had come."""
        if job in self._parked:
            self._parked[job] = now

    def late(self, now: int) -> list[str]:
        """Those whose deadline has come, sent on for their end, and not for a stage as well."""
        found = _sent(self._parked, MOST_SENT, now)
        for line in self._lines.values():
            line.update({job: now + SENT_AGAIN_MS for job in found if job in line})
        return found

    def waits(self, stage: str) -> bool:
        return bool(self._lines.get(stage))

    def on_their_way(self, stage: str, now: int) -> int:
        return sum(score > now for score in self._lines[stage].values())

    def next(self, stage: str, room: int, now: int) -> list[str]:
        """The first of the line, as many as there is room for, sent on."""
        return _sent(self._lines[stage], room, now)


def _sent(scores: dict[str, int], most: int, now: int) -> list[str]:
    first = sorted((score, job) for job, score in scores.items() if score <= now)[:most]
    for _, job in first:
        scores[job] = now + SENT_AGAIN_MS
    return [job for _, job in first]
