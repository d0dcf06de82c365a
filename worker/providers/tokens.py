"""How many tokens a text is for a host whose tokenizer nobody knows: rather too many than too few.

Held against the tokenizer of SmolLM2 (English only, so a poor one elsewhere), whose count it reaches in every language,
code and data tried: 1.3 to 1.5 times in English prose and code, 1.3 times in Chinese. A quarter of the bytes, the rule
of thumb, was 0.8 to 0.95 of it in prose and code, 0.5 in Chinese, 0.25 in hexadecimal and digits.
"""

from __future__ import annotations

import re

_RUNS = re.compile(r"[A-Za-z0-9]+|[^\x00-\x7f]+| (?=[A-Za-z])|[ \t]+|.", re.DOTALL)
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]")

_A_TOKEN = 3
"""Letters of a word in each of its tokens; in capitals 2."""
_LONGEST_WORD = 20
_SHORTEST_CODE = 4
"""Letters and digits in turn, or letters in a mixed case, of so many are no word but base64, a digest or an id."""


def at_most(text: str) -> int:
    return sum(_of_run(found[0]) for found in _RUNS.finditer(text))


def _of_run(run: str) -> int:
    """A blank before a word is a part of the word's first token; a digit is a token of its own.

    Of a letter beyond ASCII all its bytes but one: two tokens for a Chinese sign, three for an emoji.
    """
    if run[0] > "\x7f":
        return len(run.encode(errors="surrogatepass")) - len(run)
    if run == " ":
        return 0
    if not run.isalnum():
        return -(-len(run) // _A_TOKEN)
    parts = _PARTS.findall(run)
    if len(run) >= _SHORTEST_CODE and len(parts) > 1 and len(run) < _A_TOKEN * len(parts):
        return len(run)
    return sum(_of_part(part) for part in parts)


def _of_part(part: str) -> int:
    if len(part) > _LONGEST_WORD:
        return len(part)
    return -(-len(part) // (2 if part.isupper() else _A_TOKEN))
