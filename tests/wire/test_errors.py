"""Errors on their way from a worker to a caller."""

from __future__ import annotations

import pickle

import pytest
from celery.app.base import Celery
from celery.utils.serialization import get_pickleable_exception

from staffel_wire import errors
from staffel_wire.errors import UNANSWERED, Invalid, Refused, StaffelError

KINDS = [errors.Refused, errors.Invalid, errors.Exhausted, errors.Expired, errors.Cancelled, errors.Unavailable]
LATER = "2026-11-30T20:15:03.000Z"
ROWS = [{"stage": "primary", "outcome": "failed"}]


def raised(kind: type[StaffelError]) -> StaffelError:
    return kind("exhausted: primary timeout 2.0 s", job="j", attempts=ROWS, retry_at=LATER)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_survives_being_made_from_its_arguments(kind: type[StaffelError]) -> None:
    """So Celery makes it again from a JSON result; an error of two arguments would fail there."""
    error = raised(kind)
    again = kind(*error.args)
    assert (str(again), again.job, again.attempts, again.retry_at) == (str(error), None, (), None)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_survives_celerys_result_backend(kind: type[StaffelError]) -> None:
    """Type and text, through the JSON that the backend stores."""
    with Celery("t", backend="cache+memory://", set_as_current=False) as app:
        app.conf.result_serializer = "json"
        backend = app.backend
        stored = backend.encode(backend.prepare_exception(raised(kind)))
        again = backend.exception_to_python(backend.decode(stored))
    assert type(again) is kind
    assert str(again) == "exhausted: primary timeout 2.0 s"


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_survives_pickling_with_all_that_it_carries(kind: type[StaffelError]) -> None:
    """As between the processes of a pool."""
    again = pickle.loads(pickle.dumps(raised(kind)))
    assert (type(again), str(again)) == (kind, "exhausted: primary timeout 2.0 s")
    assert (again.job, again.attempts, again.retry_at) == ("j", tuple(ROWS), LATER)
    assert type(get_pickleable_exception(raised(kind))) is kind


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_without_a_text_says_what_its_class_means(kind: type[StaffelError]) -> None:
    """The first line of its docstring."""
    assert str(kind()) == (kind.__doc__ or "").splitlines()[0]


def test_each_error_has_the_exit_code_of_the_command_line() -> None:
    """3 exhausted, 4 refused, 5 expired, 6 Redis or workers not there, 130 cancelled, 2 before a job exists."""
    codes = {kind.__name__: kind.exit_code for kind in KINDS}
    assert codes == {"Refused": 4, "Invalid": 2, "Exhausted": 3, "Expired": 5, "Cancelled": 130, "Unavailable": 6}
    assert issubclass(Invalid, Refused)
    assert issubclass(Invalid, ValueError)


def test_every_end_without_an_answer_has_its_error() -> None:
    """And the tree at the top of the file names all there are."""
    assert set(UNANSWERED) == {"refused", "exhausted", "expired", "cancelled"}
    tree = errors.__doc__ or ""
    assert all(kind.__name__ in tree for kind in [StaffelError, *KINDS])
