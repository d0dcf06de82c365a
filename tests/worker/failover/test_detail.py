"""What a person may see of a host's own words."""

from __future__ import annotations

import json
import time
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from config.stages import Stage
from worker.failover.detail import MOST, detail
from worker.failover.request import Request

KEY = "sk-proj-Ab3dEf9hIjKlMnOpQrSt"
STAGE = Stage("a", "openai", "https://llm.internal.example.com:8443/tenant/v1", "m", SecretStr(KEY))
PROMPT = "My daughter Annika was born on 3 May 2011 in Göttingen.\nIs “she” of age?"


def shown(text: str, stage: Stage = STAGE, prompt: str = PROMPT, **more: Any) -> str | None:
    return detail(text, stage, Request([{"role": "user", "content": prompt}], **more))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model 'x' not found", "model 'x' not found"),
        ("  two\r\n lines\tof\u2028text ", "two lines of text"),
        ("red \x1b[31m\u202etxet\u200b\u0085\x9b!", "red [31mtxet !"),
        ("Modell nicht gefunden, größer: 日本語", "Modell nicht gefunden, größer: 日本語"),
        ("", None),
        (" \n\u200b", None),
        ("...", None),
        (PROMPT, None),
        ("<html><body>502</body></html>", None),
        ("Error\n<!DOCTYPE html>", None),
    ],
)
def test_the_hosts_words_are_shown_in_one_plain_line(text: str, expected: str | None) -> None:
    """Nothing in it moves a cursor, turns the direction of writing or hides."""
    assert shown(text) == expected


def test_no_more_than_two_hundred_characters_are_kept() -> None:
    """The cut is marked."""
    kept = shown("w1 " * 500) or ""
    assert len(kept) <= MOST
    assert kept.endswith("…")
    assert shown("a" * 3 + " b" * 98) == "a" * 3 + " b" * 98


@pytest.mark.parametrize(
    "told",
    [
        KEY,
        KEY.upper(),
        KEY[:12],
        KEY[-8:],
        f"{KEY[:5]}***{KEY[-2:]}",
        "sk-pr**********************QrSt",
        "sk-pro…QrSt",
        "sk-...QrSt",
        "Bearer abc.def",
        "sk-anotherone1234",
        f"{KEY[:9]}\u200b{KEY[9:]}",
        "https://llm.internal.example.com:8443/tenant/v1/chat/completions",
        "LLM.internal.example.com:8443",
        "llm.internal.example.com/tenant/v1",
        "http://10.0.0.7:11434/api/chat",
        "10.0.0.7:11434",
        "[fe80::1%eth0]:11434",
        "localhost:11434",
        "fe80::1",
        "2001:db8:0:0:0:0:0:1",
        "www.example.org/x",
        "ollama.svc.local:11434",
        "iVBORw0KGgo" * 12,
    ],
)
def test_no_key_and_no_address_is_shown(told: str) -> None:
    """Hosts and proxies put them into their errors, whole, in part or with stars."""
    assert shown(f"refused ({told}) by them") in {"refused (…) by them", "refused (… by them"}


def test_a_short_key_is_taken_out_as_well() -> None:
    """Stand-ins for a key at home are short; one of a letter is only taken as a word."""
    assert shown("key abcd1 is bad", Stage("a", "openai", api_key=SecretStr("abcd1"))) == "key … is bad"
    assert shown("key x is extra", Stage("a", "openai", api_key=SecretStr("x"))) == "key … is extra"


@pytest.mark.parametrize(
    "echo",
    [
        "Annika was born on 3 May",
        "ANNIKA WAS BORN ON 3 MAY",
        "Annika  was\nborn\ton 3 May",
        "in Göttingen. Is “she” of age?",
        json.dumps("in Göttingen.\nIs “she” of age?")[1:-1],
        json.dumps(json.dumps("in Göttingen.\nIs “she” of age?"))[3:-3],
        "2011 in G\\xf6ttingen",
        "daugh\u200bter Annika",
    ],
)
def test_nothing_of_the_prompt_is_shown(echo: str) -> None:
    """Also where the host has escaped it, or folded its lines."""
    assert shown(f'Bad: "{echo}" <<') == 'Bad: "…" <<'


def test_every_part_of_a_request_is_the_callers() -> None:
    """A system message, a schema, an end mark and a provider's own field are written by people too."""
    request = Request(
        [{"role": "system", "content": "Be a pirate, always."}, {"role": "user", "content": "Why is the sky blue?"}],
        stop=["END OF THE STORY"],
        params={"a": {"user": ["customer 4711 of Miller"]}},
        response_schema={"type": "object", "properties": {"diagnosis_of_patient": {"description": "what he has got"}}},
    )
    for echo in ("Be a pirate, always", "is the sky blue", "END OF THE STORY", "customer 4711", "diagnosis_of_patient",
                 "what he has got"):  # fmt: skip
        assert detail(f"No! <{echo}> #", STAGE, request) == "No! <…> #"
    assert detail("additionalProperties is required", STAGE, request) == "additionalProperties is required"


@pytest.mark.parametrize(
    "echo",
    [
        unicodedata.normalize("NFD", "Annika was born on 3 May 2011 in Göttingen"),
        "A n n i k a  w a s  b o r n",
        "Ａｎｎｉｋａ ｗａｓ ｂｏｒｎ",
        "Annika%20was%20born%20on%203%20May",
        "Annika+was+born+on+3+May",
        "Annika&nbsp;was&nbsp;born&#32;on 3 May",
        '["Annika", "was", "born", "on"]',
        "ANNIKA-WAS-BORN-ON-3-MAY",
    ],
)
def test_a_prompt_in_another_spelling_is_not_shown_either(echo: str) -> None:
    """Hosts normalise what they get, and put it into addresses, pages and lists."""
    told = unicodedata.normalize("NFKC", shown(f"Rejected: {echo}!") or "").lower()
    assert "annika" not in "".join(char for char in told if char.isalnum())


def test_a_word_of_another_script_is_a_word_sooner() -> None:
    """Nine signs are a sentence there."""
    assert shown("拒绝: 安妮卡生于哥廷根!", prompt="我女儿安妮卡生于哥廷根。") == "拒绝: …!"


@pytest.mark.parametrize("spelled", [" ".join(KEY), KEY.replace("-", "/"), "\ufe0f".join(KEY), KEY.swapcase()])
def test_a_key_in_another_spelling_is_not_shown(spelled: str) -> None:
    """Whoever copies it from a log takes the blanks out."""
    assert "9hIj" not in (shown(f"Bad key {spelled}.") or "").replace(" ", "")


def test_the_path_of_an_address_is_part_of_it() -> None:
    """It may be a customer's name."""
    stage = Stage("a", "openai", "https://h.example.com/deploy/secret-tenant/v1", "m")
    assert "tenant" not in (shown("No route POST /deploy/secret-tenant/v1/chat", stage) or "")


def test_many_short_messages_cost_no_time() -> None:
    """One pattern of as many messages took seconds, in which no other call of the worker went on."""
    request = Request([{"role": "user", "content": f"word{number}"} for number in range(30_000)])
    began = time.process_time()
    assert detail("Do not say word77 again", STAGE, request) == "Do not say … again"
    assert time.process_time() - began < 2


def test_a_prompt_that_is_shorter_than_any_run_is_not_shown_either() -> None:
    """A name or a number may be all that was asked about."""
    assert shown("No: 'Miller 4'!", prompt="Miller 4") == "No: '…'!"
    assert shown("No: miller 4.", prompt=" Miller\t4\n") == "No: …."
    assert shown("prompt: ok, misprompted", prompt="prompt") == "…: ok, misprompted"
    assert shown("it is a fit", prompt="it") == "it is a fit"


def test_a_prompt_beyond_all_measure_is_not_compared() -> None:
    """The host's text then stays unseen."""
    assert shown("no", prompt="x" * 300_001) is None
    assert shown("no", prompt="x" * 300_000) == "no"


def test_a_long_prompt_costs_no_more_than_a_few_hundred_searches_of_it() -> None:
    """It is compared on the loop that all other jobs run on. To look for each run of the line would be twice that."""
    prompt = " ".join(f"word{number:x}" for number in range(12_000))
    line = "The parameter qqq is of no use to zzz and never was. " * 4
    costs, searches = [], []
    for _ in range(9):
        costs.append(_taken(lambda: shown(line, prompt=prompt)))
        searches.append(_taken(lambda: [f"qqq {number}" in prompt for number in range(600)]))
    assert min(costs) < min(searches)


def _taken(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@given(st.text(max_size=300), st.text(max_size=300), st.data())
def test_no_ten_characters_of_a_prompt_are_ever_shown(prompt: str, around: str, data: Any) -> None:
    """And nothing raises, whatever the two hold."""
    start = data.draw(st.integers(0, len(prompt)))
    kept = shown(around + prompt[start : start + 40] + around, prompt=prompt)
    assert kept is None or len(kept) <= MOST
    small, line = " ".join(prompt.lower().split()), (kept or "").lower()
    runs = {line[place : place + 10] for place in range(len(line) - 9)}
    assert not [run for run in runs if "…" not in run and run in small]
    assert all(unicodedata.category(char) not in {"Cc", "Cf", "Cs"} for char in kept or "")
