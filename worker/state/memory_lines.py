"""Where parked jobs wait, in the memory of one process: a line a stage, scored as the sorted sets of Redis are."""

from __future__ import annotations

from worker.state.rules import LATER_MS, LOOKS_AGAIN_MS, MOST_SENT, SENT_AGAIN_MS


class Lines:
    """Scores in milliseconds: in a line, when the job came, or negative when it was sent on; when all look again."""

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
        """Those that are to look again, sent on; no queue keeps any message here."""
        found = [job for score, job in _sorted(self._parked) if score <= now][:MOST_SENT]
        for job in found:
            self._parked[job] = now + SENT_AGAIN_MS
        for line in self._lines.values():
            line.update({job: -now for job in found if job in line})
        return found

    def waits(self, stage: str) -> bool:
        return bool(self._lines.get(stage))

    def on_their_way(self, stage: str) -> int:
        return sum(score < 0 for score in self._lines[stage].values())

    def just_sent(self, stage: str, now: int) -> int:
        """How many of the line come before whoever is new."""
        return sum(-now <= score <= LATER_MS - now for score in self._lines.get(stage, {}).values())

    def next(self, stage: str, room: int, now: int) -> list[str]:
        """The first of the line, as many as there is room for, sent on."""
        line = self._lines[stage]
        found = [job for score, job in _sorted(line) if score >= 0][: max(0, room)]
        for job in found:
            line[job] = -now
            if job in self._parked:
                self._parked[job] = now + SENT_AGAIN_MS
        return found


def _sorted(scores: dict[str, int]) -> list[tuple[int, str]]:
    return sorted((score, job) for job, score in scores.items())
