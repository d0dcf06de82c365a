"""A job's record and ledger as the one object that every way out of Staffel shows."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from staffel_wire.errors import UNANSWERED, StaffelError

ENDED = frozenset({"answered", *UNANSWERED})
WAITS = frozenset({"queued", "parked"})
"""No worker has such a job."""


def pairs(flat: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """A hash as Redis returns it from a script: name, value, name, value."""
    return dict(flat) if isinstance(flat, Mapping) else dict(zip(flat[::2], flat[1::2], strict=True))


def as_object(
    job: str, record: Mapping[str, str], ledger: Mapping[str, str], now_ms: float,
    position: Mapping[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The object of `staffel ask --json`. Times in seconds; instants in ISO 8601, UTC, by the server's clock."""
    answer = json.loads(record.get("answer") or "{}")
    rows = attempts(ledger)
    ended = float(record.get("ended_at") or now_ms)
    queued = float(record.get("queued_ms") or 0)
    status = record.get("status") or "unknown"
    if status in WAITS:
        queued += now_ms - float(record.get("enqueued_at") or now_ms)
    submitted = float(record.get("submitted_at") or ended)
    return {
        "job": job,
        "status": status,
        "text": answer.get("text"),
        "stage": answer.get("stage"),
        "finish_reason": answer.get("finish_reason"),
        "truncated": answer.get("truncated", False),
        "usage": answer.get("usage"),
        "cost_usd": total_cost(rows),
        "queued_s": round(queued / 1000, 3),
        "duration_s": round((ended - submitted) / 1000, 3),
        "retry_at": _retry_at(record, now_ms),
        "parked_for": record.get("parked_for") if status == "parked" else None,
        "position": None if position is None else dict(position),
        "follows": record.get("follows"),
        "why": record.get("why"),
        "priority": record.get("priority") or "interactive",
        "attempts": rows,
    }


def _retry_at(record: Mapping[str, str], now_ms: float) -> str | None:
    """From when on it is worth asking; nothing where that has passed and the job waits on, for others came first."""
    at, status = float(record.get("retry_at") or 0), record.get("status")
    told = status == "exhausted" or (status == "parked" and at > now_ms)
    return _instant(at / 1000) if told and at else None


def attempts(ledger: Mapping[str, str]) -> list[dict[str, Any]]:
    """The ledger's rows in their order, times made readable."""
    rows = sorted((json.loads(row) for row in ledger.values()), key=lambda row: int(row["n"]))
    return [_attempt(row) for row in rows]


def _attempt(row: Mapping[str, Any]) -> dict[str, Any]:
    usage = row.get("usage")
    return {
        "n": int(row["n"]), "of": int(row["of"]), "stage": row["stage"], "model": row["model"],
        "outcome": row["outcome"], "reason": row.get("reason"), "status": row.get("status"),
        "started_at": iso(float(row["started_at"])), "duration_s": rounded(row.get("duration_s")),
        "first_token_s": rounded(row.get("first_token_s")), "completed": row.get("completed", False),
        "committed": row.get("committed", False), "retry_after_s": row.get("retry_after_s"),
        "usage": usage, "cost_usd": row.get("cost_usd"), "worker": row.get("worker"),
        "detail": row.get("detail"),
    }  # fmt: skip


def iso(seconds: float, timespec: str = "milliseconds") -> str:
    """An instant as everything of ours shows it, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def _instant(seconds: float) -> str | None:
    return iso(seconds) if seconds else None


def to_the_second(instant: str) -> str:
    """An instant as a person reads it, rounded up: what may be done from it on may be done then."""
    return iso(math.ceil(datetime.fromisoformat(instant).timestamp()), "seconds")


def rounded(seconds: float | None) -> float | None:
    """As numbers are shown, to a thousandth."""
    return None if seconds is None else round(float(seconds), 3)


def total_cost(rows: Iterable[Mapping[str, Any]]) -> float | None:
    """USD of all attempts; None where the cost of one is not known."""
    costs = [row.get("cost_usd") for row in rows if row["outcome"] != "started"]
    known = [cost for cost in costs if cost is not None]
    return None if len(known) < len(costs) else round(float(sum(known)), 9)


def span(seconds: float, rounded: Callable[[float], int] = math.ceil) -> str:
    """How long that is, in the one or two units that matter; rounded up, unless it is said how."""
    left = max(0, rounded(seconds))
    if left < 100:  # noqa: PLR2004 - two digits
        return f"{left} s"
    minutes = rounded(left / 60)
    if minutes < 60:  # noqa: PLR2004 - an hour
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:  # noqa: PLR2004 - a day
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def line(found: Mapping[str, Any]) -> str:
    """What a person reads in Flower and in the log: `2 failed → local 0.6 s`."""
    # A ledger may live shorter than its answer.
    took = next((row["duration_s"] for row in found["attempts"] if row["outcome"] == "answered"), found["duration_s"])
    return _after(found, f"{found['stage']} {took:.1f} s" if found["status"] == "answered" else _state(found))


def handoff(found: Mapping[str, Any], stage: str) -> str:
    """The same of a job that goes to another lane: `1 failed → waits for local: 4th of 17 on ollama, about 38 s`."""
    return _after(found, f"waits for {stage}{_stands(found)}")


def place(position: Mapping[str, Any]) -> str:
    """`4th of 17 on ollama, about 38 s (30 s to 47 s)`."""
    n = position["place"]
    ending = "th" if 10 < n % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")  # noqa: PLR2004 - English
    about = "" if position["eta_s"] is None else f", about {span(position['eta_s'])}"
    return f"{n}{ending} of {position['of']} on {position['lane']}{about}{between(position)}"


def between(told: Mapping[str, Any]) -> str:
    """The range of an expected time, in parentheses and rounded to hold what it held; empty where none is known."""
    low, high = told["eta_from_s"], told["eta_to_s"]
    return "" if low is None else f" ({span(low, math.floor)} to {span(high)})"


def _stands(found: Mapping[str, Any]) -> str:
    return f": {place(found['position'])}" if found["position"] else ""


def _after(found: Mapping[str, Any], state: str) -> str:
    rows = found["attempts"]
    failed = sum(row["outcome"] in {"failed", "unknown"} for row in rows)
    passed = sum(row["outcome"] == "skipped" for row in rows)
    before = ", ".join([f"{failed} failed"] * bool(failed) + [f"{passed} skipped"] * bool(passed))
    return f"{before} → {state}" if before else state


def _state(found: Mapping[str, Any]) -> str:
    if found["status"] != "parked":
        return f"{found['status']}{_stands(found)}"
    if found["follows"]:
        return f"shares the end of {found['follows']}"
    until = f" until {to_the_second(found['retry_at']).partition('T')[2]}" if found["retry_at"] else ""
    return f"parked for {found['parked_for']}{until}"


def may_be_asked_again(found: Mapping[str, Any]) -> str:
    """What is said after an exhausted job: from when on it may be asked again; empty where nothing is known."""
    known = found["status"] == "exhausted" and found["retry_at"]
    return f"; may be asked again from {to_the_second(found['retry_at'])}" if known else ""


def story(rows: Iterable[Mapping[str, Any]]) -> str:
    """What each stage did, on one line: `primary server_error (500) 0.0 s; backup throttled (429) 0.1 s (Slow.)`."""
    return "; ".join(_told(row) for row in rows) or "no stage was asked"


def _told(row: Mapping[str, Any]) -> str:
    status = f" ({row['status']})" if row.get("status") not in {None, 200} else ""
    took = "" if row["outcome"] == "skipped" or row["duration_s"] is None else f" {row['duration_s']:.1f} s"
    word = row["reason"] if row["outcome"] != "skipped" else f"skipped: {row['reason']}"
    said = f" ({row['detail']})" if row.get("detail") else ""
    return f"{row['stage']} {word or row['outcome']}{status}{took}{said}"


def unanswered(found: Mapping[str, Any]) -> StaffelError:
    """The error that stands for a job that ended without an answer."""
    kind = UNANSWERED[found["status"]]
    why = f" ({found['why']})" if found["why"] else ""
    text = f"{found['status']}: {story(found['attempts'])}{why}{may_be_asked_again(found)}"
    return kind(text, job=found["job"], attempts=found["attempts"], retry_at=found["retry_at"])
