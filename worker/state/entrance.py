"""Where a job comes in on Celery's side: the record is written before the message is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache

from redis import Redis

from staffel_wire import keys
from staffel_wire.catalogue import Catalogue, Entry, from_json
from staffel_wire.ends import cancelling
from staffel_wire.errors import Invalid, Unavailable
from staffel_wire.request import Request
from staffel_wire.scripts import source
from staffel_wire.submit import submitting, taken_by_another
from staffel_wire.url import shown_url, trouble
from worker.state.connection import AWAY, connect_sync

Door = Callable[[object, int], Request]
"""A caller's fields and the greatest size -> the request, or `Invalid`."""


def enter(
    url: str, door: Door, job: str, fields: object, expires: float | None,
    *, signature: Callable[[str], str] = lambda _queue: "",
) -> Entry:  # fmt: skip
    """Write the record of a new job; a job that is known already is left as it is.

    `expires` (s) shortens the deadline. `signature` says for a queue what sends the job again, as JSON, or '' where its
    message is plain. Raises `Invalid` where the request cannot be taken, `Unavailable` where
    Redis or the workers are not there.
    """
    try:
        redis = _redis(url)
        catalogue = _catalogue(redis)
        request = door(fields, catalogue.max_request_bytes)
        if expires is not None:
            request = request.model_copy(update={"deadline": min(expires, request.deadline or expires)})
        entry = catalogue.entry(request)
        others = {"celery": "1", **({"signature": text} if (text := signature(entry.queue)) else {})}
        names, given = submitting(job, request, entry, catalogue, "", mode="follow", others=others)
        state, which = redis.register_script(source("submit"))(keys=names, args=given)
    except AWAY as error:
        raise Unavailable(trouble(shown_url(url), error)) from None
    if state == "other":
        raise Invalid(taken_by_another(which))
    return entry


def withdraw(url: str, job: str) -> None:
    """End a job whose message could not be sent, since its caller is told so; nothing where Redis does not answer."""
    with suppress(*AWAY, Unavailable):
        redis = _redis(url)
        names, given = cancelling(job, _catalogue(redis))
        redis.register_script(source("cancel"))(keys=names, args=given)


@cache
def _redis(url: str) -> Redis:
    return connect_sync(url)


def _catalogue(redis: Redis) -> Catalogue:
    text = redis.get(keys.CATALOGUE)
    if text is None:
        raise Unavailable("no worker has started here yet: celery -A worker worker -Q cloud, or `staffel up`")
    return from_json(str(text))
