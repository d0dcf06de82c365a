"""Reading what hosts say when they do not answer."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest

from worker.failover.provider import Kind
from worker.providers.replies import MAX_RETRY_AFTER_S, failed, retry_after, words

NOW = 1_700_000_000.0
"""2023-11-14T22:13:20Z, a Tuesday."""


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7),
        ("0", 0),
        ("1.5", 1.5),
        (" 7 ", 7),
        ("Tue, 14 Nov 2023 22:13:50 GMT", 30),
        ("Tue, 14 Nov 2023 23:13:50 +0100", 30),
        ("Tue, 14 Nov 2023 22:13:50", 30),
        (format_datetime(datetime.fromtimestamp(NOW + 10, UTC)), 10),
        ("Tue, 14 Nov 2023 22:13:00 GMT", None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", MAX_RETRY_AFTER_S),
        ("Fri, 31 Dec 9999 23:59:59 -2300", None),
        ("1e99", MAX_RETRY_AFTER_S),
        ("inf", None),
        ("nan", None),
        ("-3", None),
        ("soon", None),
        ("", None),
        (None, None),
        ("Tue, 99 Nov 2023 22:13:50 GMT", None),
        ("Mon, 01 Jan 0001 00:00:00 +2359", None),
        ("1" * 400, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    """Nothing that a host writes there is believed beyond a day, and nothing raises: the calendar's end did."""
    assert retry_after(value, NOW) == seconds


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"error": {"message": "no", "code": "c", "type": "t"}}', ("c t", "no")),
        ('{"error": {"message": "no", "code": null, "type": "t"}}', ("t", "no")),
        ('{"error": {"message": "no", "code": 400}}', ("400", "no")),
        ('{"error": "no"}', ("", "no")),
        ('{"error": "{\\"error\\": {\\"code\\": 7, \\"message\\": \\"no\\"}}"}', ("7", "no")),
        ('[{"error": {"message": "no"}}]', ("", "no")),
        ('{"message": "no"}', ("", "no")),
        ('{"detail": "no"}', ("", "")),
        ('"no"', ("", "no")),
        ("null", ("", "None")),
        ("[]", ("", "[]")),
        ("no", ("", "no")),
        ("", ("", "")),
        ("{" * 5000, ("", "{" * 2000)),
        ('{"error": "{"}', ("", "{")),
    ],
)
def test_code_and_text_of_an_error_are_found_in_any_shape(body: str, expected: tuple[str, str]) -> None:
    """For the judge's table alone."""
    assert words(body) == expected


@pytest.mark.parametrize("nested", ["[" * 100_000, '{"error":' * 100_000])
def test_a_body_that_is_nested_beyond_all_measure_is_text(nested: str) -> None:
    """It ended in a RecursionError, which became a reply that nobody could read."""
    assert words(nested) == ("", nested[:2000])


@pytest.mark.parametrize(
    ("body", "html"),
    [("<!DOCTYPE html><p>", True), ("\n<HTML lang=en>", True), ('{"error": "no"}', False), ("no", False), ("", False)],
)
def test_a_page_is_told_from_an_error(body: str, html: bool) -> None:
    """It comes from something in front of the host."""
    fault = failed(502, {"retry-after": "7"}, body, NOW)
    assert (fault.kind, fault.status, fault.html, fault.retry_after_s) == (Kind.STATUS, 502, html, 7)
