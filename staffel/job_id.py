"""What can be a job's id."""

from __future__ import annotations

from staffel.errors import Invalid

_LONGEST = 200


def checked(job: object) -> str:
    """The id, if it can be part of a key, a message and a line on a terminal; else raises `Invalid`."""
    if not isinstance(job, str) or not job.isprintable() or not 0 < len(job) <= _LONGEST:
        raise Invalid(f"job: an id is printable text of 1 to {_LONGEST} characters")
    return job
