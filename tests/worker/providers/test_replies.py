"""Reading what hosts say when they do not answer."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.failover.provider import Kind, Words
from worker.providers.replies import failed, said
from worker.providers.retry_after import MAX_RETRY_AFTER_S, retry_after

NOW = 1_700_000_000.0
"""2023-11-14T22:13:20Z, a Tuesday."""


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7),
        ("0", 0),
        ("1.5", 1.5),
        (" 7 ", 7),
        ("7, 7", 7),
        ("20s", 20),
        ("6m0s", 360),
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


def told(message: str = "no", **more: Any) -> str:
    return json.dumps({"error": {"message": message, **more}})


ASKED = "Please try again in 23 hours"
ODD: list[object] = ["-3s", "NaN", "soon", None, True, [], {}, 1e999, -1, 10**400]


def delayed(delay: object) -> str:
    return told(details=[{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}])


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"retry-after-ms": "1500", "retry-after": "7"}, "", 1.5),
        ({"x-ms-retry-after-ms": "250", "retry-after": "7"}, "", 0.25),
        ({"retry-after-ms": "nan", "x-ms-retry-after-ms": "-1", "retry-after": "7"}, "", 7),
        ({"Retry-After": "7"}, delayed("46s"), 7),
        ({"retry-after": "soon"}, delayed("46s"), 46),
        ({}, f"[{delayed('3600.5s')}]", 3600.5),
        ({}, delayed("999999s"), MAX_RETRY_AFTER_S),
        ({}, delayed("0s"), 0),
        ({}, delayed(46), 46),
        *(({}, delayed(odd), None) for odd in ODD),
        ({}, told(metadata={"retry_after_seconds": 12}), 12),
        ({}, told("Rate limit reached. Please try again in 20ms. Visit x"), 0.02),
        ({}, told("Please try again in 6m0s."), 360),
        ({}, told("Please try again in 1h2m3.5s."), 3723.5),
        ({}, told("Please retry in 10h17m5.7s."), 37025.7),
        ({}, told("Try again in 12 seconds"), 12),
        ({}, told("Please retry after 26 seconds."), 26),
        ({}, told("try again in 2 minutes and 5 seconds"), 125),
        ({}, told("try again in 40h"), MAX_RETRY_AFTER_S),
        ({}, "Please retry in 5s", 5),
        ({}, told("try again in a moment"), None),
        ({}, told("try again in 3 models"), None),
        ({}, "<html>retry in 5s", None),
        ({"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-remaining-requests": "3"}, "", None),
        ({}, "", None),
    ],
)
def test_a_host_may_ask_for_a_pause_in_many_spellings(
    headers: dict[str, str], body: str, seconds: float | None
) -> None:
    """The head in milliseconds, the head, a field of the body, a sentence in it; in this order."""
    expected = seconds if seconds is None else pytest.approx(seconds)
    assert failed(429, headers, body, NOW).retry_after_s == expected


@pytest.mark.parametrize(
    ("status", "body", "believed"),
    [
        *((status, told(ASKED), status in {429, 503, 529}) for status in (400, 402, 408, 429, 500, 502, 503, 504, 529)),
        (429, ASKED, True),
        (500, ASKED, False),
        (502, told(ASKED, code=429), True),
        (500, told(ASKED, code="rate_limit_exceeded"), True),
        (500, told(ASKED, type="overloaded_error"), True),
        (400, told(ASKED, status="RESOURCE_EXHAUSTED"), True),
        (None, told(ASKED), False),
        (None, told(ASKED, code=503), True),
        (None, told(ASKED, type="rate_limit_error"), True),
        (None, told(ASKED, status="RESOURCE_EXHAUSTED"), True),
        (None, told(ASKED, type="invalid_request_error"), False),
    ],
)
def test_a_sentence_about_trying_again_is_believed_of_a_host_without_room(
    status: int | None, body: str, believed: bool
) -> None:
    """Any other may repeat a prompt that says so. A head and a field are no prompt; in a stream, there is no status."""
    fault = said(body) if status is None else failed(status, {}, body, NOW)
    assert fault.retry_after_s == (23 * 3600 if believed else None)
    assert failed(status or 500, {"retry-after": "7"}, body, NOW).retry_after_s == 7
    assert said({"error": [json.loads(delayed("46s")), ASKED]}).retry_after_s == 46


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (told(code="c", type="t"), Words(("c", "t"), "no", formed=True)),
        (told(code=None, type="t", param="p"), Words(("t",), "no", "p", formed=True)),
        *((told(param=no), Words((), "no", formed=True)) for no in ("None", "validation_error")),
        (told(code=400), Words((), "no", number=400, formed=True)),
        (told(code="429"), Words((), "no", number=429, formed=True)),
        (told(code=1113), Words(("1113",), "no", formed=True)),
        (told(code=200), Words(("200",), "no", formed=True)),
        (told(code="A whole sentence"), Words((), "no", formed=True)),
        (told(code=True, type=[], param={}), Words((), "no", formed=True)),
        (told("a\nb\t c"), Words((), "a b c", formed=True)),
        ('{"error": "no"}', Words((), "no", formed=True)),
        ('{"error": "rate_limit_exceeded", "message": "no"}',
         Words(("rate_limit_exceeded",), "rate_limit_exceeded\nno", formed=True)),
        (json.dumps({"error": told(code=7)}), Words(("7",), "no", formed=True)),
        (f"[{told()}]", Words((), "no", formed=True)),
        (told(details=[{"reason": "API_KEY_INVALID"}], status="INVALID_ARGUMENT"),
         Words(("INVALID_ARGUMENT", "API_KEY_INVALID"), "no", formed=True)),
        (told(details={"error_code": "x_y"}, type="t"), Words(("t", "x_y"), "no", formed=True)),
        (told(innererror={"code": "Inner"}, status=400), Words(("Inner",), "no", number=400, formed=True)),
        (told(metadata={"raw": told("inner", type="t")}, code=502),
         Words(("t",), "no\ninner", number=502, formed=True)),
        (told(metadata={"raw": "plain", "flagged_input": "PROMPT"}),
         Words(("moderation",), "no\nplain", formed=True)),
        ('{"type": "error", "error": {"type": "t", "message": "no"}}', Words(("t",), "no", formed=True)),
        ('{"object": "error", "message": "no", "type": "t", "code": 404}',
         Words(("t",), "no", number=404, formed=True)),
        ('{"message": "no"}', Words((), "no", formed=True)),
        ('{"message": "no", "status": 503}', Words((), "no", number=503, formed=True)),
        ('{"detail": "no"}', Words((), "no", formed=True)),
        ('{"errors": [{"message": "no", "code": "c"}, "more"]}', Words(("c",), "no\nmore", formed=True)),
        ('{"detail": [{"msg": "no", "loc": ["body", "options", 0, "seed"], "type": "t"}]}',
         Words(("t",), "options.seed: no", "options.seed", formed=True)),
        ('"no"', Words((), "no")),
        ("null", Words((), "null")),
        ("[]", Words()),
        ("{}", Words()),
        ('{"error": {}}', Words()),
        ('{"foo": "bar"}', Words()),
        ("no", Words((), "no")),
        ("", Words()),
        ('{"error": "{"}', Words((), "{", formed=True)),
        ("<!DOCTYPE html><p>", Words(html=True)),
        ("\ufeff\n<HTML lang=en>", Words(html=True)),
        ("Error 502\n<html>", Words(html=True)),
        (told("<html>"), Words((), "<html>", formed=True)),
        (told("x" * 5000), Words((), "x" * 2000, formed=True)),
    ],
)  # fmt: skip
def test_what_an_error_says_is_found_in_any_shape(body: str, expected: Words) -> None:
    """Each of these comes from some vendor or gateway."""
    assert said(body).words == expected


@pytest.mark.parametrize("nested", ["[" * 100_000, '{"error":' * 100_000, "{" * 5000])
def test_a_body_that_is_nested_beyond_all_measure_is_text(nested: str) -> None:
    """It ended in a RecursionError, which became a reply that nobody could read."""
    assert said(nested).words == Words(text=nested[:2000])


def test_an_error_deep_inside_itself_is_read_to_a_depth() -> None:
    """A host that wraps the error of a host that wraps an error is read; one that never ends is left."""
    deep: Any = {"message": "no"}
    for _ in range(900):
        deep = {"error": deep}
    assert said(deep).words == Words()
    assert said({"error": {"error": {"error": {"message": "no"}}}}).words.text == "no"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=50) | st.just(10**400),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["error", "message", "code", "status", "type", "details", "detail", "loc", "msg", "raw",
                             "param", "metadata", "retryDelay", "violations", "quotaValue", "errors"])
            | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)  # fmt: skip


@given(_JSON)
def test_no_json_makes_the_reader_raise(found: Any) -> None:
    """An error in the reading of an error would be told as a reply that nobody could read."""
    heard = said(found).words
    assert len(heard.text) <= 2000
    assert heard.number is None or 400 <= heard.number < 600


@given(st.text(), st.text(max_size=40), st.integers(100, 999))
def test_no_body_and_no_head_makes_the_reader_raise(body: str, value: str, status: int) -> None:
    """Nor does a pause come out that is no number of seconds within a day."""
    for name in ("retry-after", "retry-after-ms", "x-ms-retry-after-ms"):
        fault = failed(status, {name: value}, body, NOW)
        assert (fault.kind, fault.status) == (Kind.STATUS, status)
        assert fault.retry_after_s is None or 0 <= fault.retry_after_s <= MAX_RETRY_AFTER_S
