"""Reading what hosts say when they do not answer. Nothing here raises, whatever a body holds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from worker.failover.provider import Fault, Kind, Words
from worker.failover.rules import is_limit
from worker.providers.retry_after import of_field, of_headers, of_text

_MOST = 2000
_DEEPEST = 8
_WIDEST = 20
_BLANK = "\ufeff \t\r\n"
_STATUSES = range(400, 600)

_CODE = re.compile(r"[A-Za-z0-9][\w.:/=-]{0,199}")
_CODES = (
    *("code", "type", "status", "reason", "error_code", "error_type", "limit_source"),
    *("quotaId", "quota_limit", "blockReason"),
)
_TEXTS = ("error", "message", "msg", "detail", "details", "raw", "description", "error_description", "title")
_INNER = (*_TEXTS, "errors", "innererror", "inner_error", "innerError", "violations", "fieldViolations", "metadata")
_NO_FIELD = re.compile(r"None|\w+_error")
"""What LiteLLM and Cerebras write where others give no `param`."""
_DELAYS = ("retryDelay", "retry_after", "retry_after_seconds")
_NUMBERS = ("code", "status", "status_code", "statusCode")


def failed(status: int, headers: Mapping[str, str], body: str, now: float) -> Fault:
    """The fault that a reply with an error status is; `now` in epoch seconds, for a Retry-After that is a date.

    What the body says is found in an object of any protocol or gateway, also as JSON in a text, or is any text.
    """
    heard = _heard(body)
    fault = Fault(Kind.STATUS, status=status, words=heard.words)
    after = of_headers(headers, now)
    fault.retry_after_s = heard.pause_s(fault) if after is None else after
    return fault


def said(found: object) -> Fault:
    """The fault that an error inside an answer is: what it holds, parsed or as a text."""
    heard = _heard(found)
    fault = Fault(Kind.IN_STREAM, words=heard.words)
    fault.retry_after_s = heard.pause_s(fault)
    return fault


class _Heard:
    """What has been found in an error so far, the outermost first. Every message is one line of `texts`."""

    def __init__(self) -> None:
        self.codes: list[str] = []
        self.texts: list[str] = []
        self.param = ""
        self.number: int | None = None
        self.delay: object = None
        self.formed = False
        self.html = False

    @property
    def words(self) -> Words:
        text = "\n".join(self.texts)[:_MOST]
        formed = self.formed and (bool(self.codes or text) or self.number is not None)
        return Words(tuple(self.codes[:_WIDEST]), text, self.param, self.number, formed, self.html)

    def pause_s(self, fault: Fault) -> float | None:
        """Seconds until the host wants to be asked again, as its body says.

        A sentence is believed of a host without room alone: a repeated prompt may say "try again in 23 hours" as well.
        """
        asked = of_field(self.delay)
        return of_text(" ".join(self.texts)) if asked is None and is_limit(fault) else asked

    def hear(self, found: object, depth: int = 0) -> None:
        if depth > _DEEPEST or len(self.texts) > _WIDEST:
            return
        if isinstance(found, str):
            self._hear_text(found, depth)
        elif isinstance(found, list | tuple):
            for part in islice(found, _WIDEST):
                self.hear(part, depth + 1)
        elif isinstance(found, Mapping):
            self.formed = True
            self._hear_object(found)
            for inner in _inside(found):
                self.hear(inner, depth + 1)

    def _hear_text(self, text: str, depth: int) -> None:
        parsed = _parsed(text)
        if isinstance(parsed, Mapping | list):
            self.hear(parsed, depth + 1)
            return
        line = " ".join(text[: 2 * _MOST].split())[:_MOST]
        if line and line not in self.texts:
            self.texts.append(line)

    def _hear_object(self, found: Mapping[str, object]) -> None:
        for name in _NUMBERS:
            self.number = self.number or _number(found.get(name))
        self.codes += [code for code in _codes(found) if code not in self.codes]
        self.param = self.param or _param(found)
        for name in _DELAYS:
            if self.delay is None and found.get(name) is not None:
                self.delay = found[name]


def _heard(found: object) -> _Heard:
    heard = _Heard()
    if isinstance(found, str) and is_page(found):
        heard.html = True
    elif isinstance(found, str | Mapping | list | tuple):
        heard.hear(found)
    return heard


def is_page(text: str) -> bool:
    """Whether this is a page of something in front of the host, or XML of something else: nothing that a host says."""
    start = text[:1000].lstrip(_BLANK).lower()
    return start.startswith("<") or (
        not start.startswith(("{", "[", '"')) and ("<!doctype" in start or "<html" in start)
    )


def _parsed(text: str) -> object:
    if not text[:1000].lstrip(_BLANK).startswith(("{", "[", '"')):
        return None
    try:
        found = json.loads(text.lstrip(_BLANK))
    except (ValueError, RecursionError):
        return None
    return [found] if isinstance(found, str) and found != text else found


def _inside(found: Mapping[str, object]) -> Iterator[object]:
    """The parts of an error that say more: messages, and objects and lists that it holds."""
    loc = found.get("loc")
    for name in _INNER:
        inner = found.get(name)
        if isinstance(inner, Mapping | list | tuple):
            yield inner
        elif isinstance(inner, str) and name in _TEXTS:
            # As Anthropic writes it, for a field that FastAPI and pydantic name apart from what is wrong with it.
            yield f"{_path(loc)}: {inner}" if name == "msg" and _path(loc) else inner


def _codes(found: Mapping[str, object]) -> Iterator[str]:
    for name in _CODES:
        value = found.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**9:
            value = str(value)
        if isinstance(value, str) and value != "error" and _number(value) is None and _CODE.fullmatch(value):
            yield value
    if isinstance(told := found.get("error"), str) and "_" in told and _CODE.fullmatch(told):
        yield told
    if "0" in (found.get("quotaValue"), found.get("quota_limit_value")):
        yield "quotaValue=0"
    # OpenRouter's moderation (what it flagged is the prompt) and Zhipu's.
    if not found.keys().isdisjoint(("flagged_input", "reasons", "contentFilter")):
        yield "moderation"


def _number(value: object) -> int | None:
    """An HTTP status that a body names, as a number or in digits."""
    if isinstance(value, str) and re.fullmatch(r"[45][0-9]{2}", value):
        return int(value)
    return value if type(value) is int and value in _STATUSES else None


def _param(found: Mapping[str, object]) -> str:
    if isinstance(param := found.get("param") or found.get("field"), str) and not _NO_FIELD.fullmatch(param):
        return param[:200]
    return _path(found.get("loc"))


def _path(loc: object) -> str:
    """`["body", "options", "seed"]` as `options.seed`."""
    if not isinstance(loc, list | tuple):
        return ""
    steps: Iterable[str] = (str(step)[:100] for step in loc[:_WIDEST] if isinstance(step, str))
    return ".".join(step for step in steps if step != "body")[:200]
