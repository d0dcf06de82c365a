"""What a person may see of a host's own words about a failure."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from urllib.parse import unquote, urlsplit

from config.stages import Stage
from worker.failover.request import Request

MOST = 200
"""Characters of a host's text that are kept."""

_READ = 400
_LONGEST_PROMPT = 300_000
"""Characters beyond which a prompt is not compared: the text stays unseen instead."""

_PROMPT_RUN = 10
_KEY_RUN = 8
_SHORTEST = 3
_GONE = "…"
_NAMED = ("properties", "$defs", "definitions")

_ESCAPED = re.compile(
    r"\\\\*(?:(?P<wide>u[0-9a-fA-F]{4}(?:\\+u[0-9a-fA-F]{4})*)|x(?P<byte>[0-9a-fA-F]{2})|(?P<letter>[nrt\"'/]))?"
)
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\ud800-\uf8ff\ufeff\ufff9-\uffff\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)
"""Controls, marks of direction, zero widths and halves of characters (categories Cc, Cf, Cs and Co), blanks aside."""

_URL = re.compile(r"[a-z][a-z0-9+.-]{0,20}:/{1,3}[^\s\"'<>]+|\bwww\.[^\s\"'<>]+", re.IGNORECASE)
_ADDRESS = re.compile(
    r"\[[0-9a-f:.]{0,45}:[0-9a-f:.]{0,45}(?:%[\w.-]{1,20})?\](?::\d+)?"
    r"|(?<![\w:])[0-9a-f:]{0,39}::[0-9a-f:]{1,39}(?![\w:])|(?<![\w:])(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}(?![\w:])"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?|(?<![\w.-])(?:[\w-]+\.)+[a-z][\w-]*:\d{2,5}\b|\blocalhost\b(?::\d+)?",
    re.IGNORECASE,
)
_SECRET = re.compile(
    r"\bBearer\s+[^\s\"',]+|\b(?:sk|pk|rk|gsk|xai|hf|key)[-_][\w-]{6,}|\bAIza[\w-]{6,}|[A-Za-z0-9+/_-]{64,}={0,2}",
    re.IGNORECASE,
)
_MASKED = re.compile(r"(?<![\w-])(?:[\w-]*+(?:[*•●∗]{3,}|#{3,})[\w*•●∗-]*|[\w-]*?[xX]{4,}[\w-]*)")
_SHORTENED = re.compile(r"(?<![\w-])([\w-]*+)(?:\.{2,}|…)([\w-]*)")
_NO_LETTERS = re.compile(r"[\W_]+")
_RUNS_OF_GONE = re.compile(rf"{_GONE}(?:[\s\"'`]*{_GONE})+")


def detail(text: str, stage: Stage, request: Request) -> str | None:
    """The host's message in one line, at most 200 characters, without the stage's key and address or the prompt.

    None where it says nothing. Of the prompt no ten characters in a row are left, and no whole message that is shorter;
    of the key no eight.
    """
    if _is_page(text):
        return None
    line = _without_key(_one_line(text[: 2 * _READ])[:_READ], stage.api_key.get_secret_value() if stage.api_key else "")
    line = _without_address(line, stage)
    texts = list(_prompt(request))
    if not line or sum(map(len, texts)) > _LONGEST_PROMPT:
        return None
    prompt = "\n".join(texts)
    line = _without_runs(_without_short(line, request), _folded(prompt), _PROMPT_RUN)
    line = _without_letters(line, prompt, _PROMPT_RUN)
    line = _RUNS_OF_GONE.sub(_GONE, line).strip()
    if not any(char.isalnum() for char in line):
        return None
    return line if len(line) <= MOST else f"{line[: MOST - 1].rstrip()}{_GONE}"


def _is_page(text: str) -> bool:
    start = text[:1000].lstrip("\ufeff \t\r\n").lower()
    return start.startswith("<") or "<!doctype" in start or "<html" in start


def _one_line(text: str) -> str:
    """One line without what moves a cursor or hides; escapes are undone, so that a prompt is known in them too."""
    if "\\" in text:
        text = _ESCAPED.sub(_unescaped, text)
    if "%" in text or "&" in text:
        text = html.unescape(unquote(text, errors="ignore"))
    line = " ".join(text.split())
    return line if line.isprintable() else " ".join(_UNSEEN.sub("", line).split())


def _unescaped(found: re.Match[str]) -> str:
    if found["wide"]:
        return bytes.fromhex(re.sub(r"\\+u|u", "", found["wide"])).decode("utf-16-be", "ignore")
    if found["byte"]:
        return chr(int(found["byte"], 16))
    return " " if found["letter"] in {"n", "r", "t"} else found["letter"] or "\\"


def _without_key(line: str, key: str) -> str:
    if len(key) >= _KEY_RUN:
        line = _without_letters(_without_runs(line, _folded(key), _KEY_RUN), key, _KEY_RUN)
    elif key:
        line = re.sub(re.escape(key) if len(key) > _SHORTEST else rf"(?<!\w){re.escape(key)}(?!\w)", _GONE, line)
    line = _MASKED.sub(_GONE, line)
    if key:
        line = _SHORTENED.sub(lambda found: _GONE if _is_part(found[1], found[2], key) else found[0], line)
    return _SECRET.sub(_GONE, line)


def _is_part(head: str, tail: str, key: str) -> bool:
    """Whether these are the two ends of the key, or one of them: "sk-…cdef"."""
    begins, ends = bool(head) and key.startswith(head), bool(tail) and key.endswith(tail)
    return (begins and (bool(tail) or len(head) > 1)) or (ends and (bool(head) or len(tail) > 1))


def _without_address(line: str, stage: Stage) -> str:
    line = _URL.sub(_GONE, line)
    try:
        parts = urlsplit(stage.base_url)
        host, path = parts.hostname, parts.path
    except ValueError:
        host, path = None, ""
    line = _without_letters(line, path, _KEY_RUN)
    if host:
        line = re.sub(
            rf"(?<![\w-]){re.escape(host)}(?![\w-])(?::\d+)?(?:/[^\s\"'<>]*)?", _GONE, line, flags=re.IGNORECASE
        )
    return _ADDRESS.sub(_GONE, line)


def _prompt(request: Request) -> Iterator[str]:
    """Every text that the caller wrote; images are left to the rule that no long run of letters is shown."""
    names = [name for params in request.params.values() for name in params]
    return _texts(_contents(request), request.response_schema, request.params, names, list(request.stop))


def _contents(request: Request) -> list[str | None]:
    return [message.get("content") for message in request.messages]


def _texts(*given: object) -> Iterator[str]:
    """Texts inside of values, and the names that a schema gives to properties. Without recursion: a schema is deep."""
    left = list(given)
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            left += value.values()
            left += [name for names in map(value.get, _NAMED) if isinstance(names, Mapping) for name in names]
        elif isinstance(value, list | tuple):
            left += value


def _without_short(line: str, request: Request) -> str:
    """The line without a message or an end mark that is too short to be seen as a run, where it stands as a whole."""
    texts = {_one_line(text) for text in _texts(_contents(request), list(request.stop)) if len(text) < 2 * _PROMPT_RUN}
    small = _lower(line)
    said = [text for text in texts if _SHORTEST <= len(text) < _PROMPT_RUN and _lower(text) in small]
    short = sorted(map(re.escape, said), key=len, reverse=True)
    return re.sub(rf"(?<!\w)(?:{'|'.join(short)})(?!\w)", _GONE, line, flags=re.IGNORECASE) if short else line


def _folded(text: str) -> str:
    """For comparing: the text as it would be in a host's line, in small letters."""
    return _lower(_one_line(text))


def _lower(text: str) -> str:
    """Small letters, each in its place: one of Turkish becomes two characters elsewhere."""
    small = text.lower()
    return small if len(small) == len(text) else "".join(char.lower()[0] for char in text)


def _without_letters(line: str, secret: str, shortest: int) -> str:
    """The line without any run of so many letters and digits that it shares with the secret, whatever stands between
    them: a host may spell what it quotes in another way, accents taken apart, spaced out, in full width.

    Of letters outside of ASCII half as many are enough: there a word has fewer.
    """
    bare = _bare(secret)
    letters = [(char, place) for place, whole in enumerate(line) for char in _bare(whole)]
    small = "".join(char for char, _ in letters)
    gone: set[int] = set()
    for length in (shortest, shortest // 2):
        for start in range(len(small) - length + 1):
            run = small[start : start + length]
            if (length == shortest or not any(char.isascii() for char in run)) and run in bare:
                gone.update(range(letters[start][1], letters[start + length - 1][1] + 1))
    kept = [_GONE if place in gone else char for place, char in enumerate(line)]
    return re.sub(f"{_GONE}+", _GONE, "".join(kept))


def _bare(text: str) -> str:
    return _NO_LETTERS.sub("", unicodedata.normalize("NFKD", text).casefold())


def _without_runs(line: str, secret: str, shortest: int) -> str:
    """The line without any run of so many characters that it shares with the secret.

    A run of that length holds a whole block of half of it, on a grid: only around a block that is shared is looked, and
    there only where what all runs on this side of it have in common is shared as well. A look costs a whole search.
    """
    small, half = _lower(line), shortest // 2
    shared = cache(secret.__contains__)
    gone = [False] * len(line)
    for block in range(0, len(line) - half + 1, half):
        if not shared(small[block : block + half]):
            continue
        for start in range(max(0, block - half), min(block, len(line) - shortest) + 1):
            common = small[block - 2 : block + half] if start <= block - 2 else small[block : block + shortest - 1]
            if shared(common) and shared(small[start : start + shortest]):
                gone[start : start + shortest] = [True] * shortest
    kept = [_GONE if out else char for char, out in zip(line, gone, strict=True)]
    return re.sub(f"{_GONE}+", _GONE, "".join(kept))
