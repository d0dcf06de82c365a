"""A key that somebody put into the configuration, rightly or wrongly, is in no error and in no repr."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from config.file import Read
from config.problems import ConfigError
from config.settings import environment, settings

CANARY = "sk_canary_5f1d"
CHAIN = '[chains.default]\nstages = ["a"]\n'
STAGE = '[stages.a]\nprovider = "openai"\nmodel = "m"\nbase_url = "https://h/v1"\n'

WRONG_PLACES = [
    f'{STAGE}api_key = "{CANARY}"\n{CHAIN}',
    f'{STAGE}api_key_env = "{CANARY}"\n{CHAIN}',
    f'{STAGE}api_key_env = "-{CANARY}"\n{CHAIN}',
    f'{STAGE}timeout = "{CANARY}"\n{CHAIN}',
    f'{STAGE}price = "{CANARY}"\n{CHAIN}',
    f'{STAGE}keep_alive = "{CANARY}"\n{CHAIN}',
    f'{STAGE}breaker.window = "{CANARY}"\n{CHAIN}',
    f'{STAGE}params = "{CANARY}"\n{CHAIN}',
    f'{STAGE}lane = "{CANARY} "\n{CHAIN}',
    STAGE.replace("h/v1", f"{CANARY}@h/v1") + CHAIN,
    STAGE.replace("h/v1", f"h/v1?key={CANARY}") + CHAIN,
    STAGE.replace("https://h/v1", CANARY) + CHAIN,
    STAGE.replace('"openai"', f'"{CANARY}"') + CHAIN,
    f'answer_ttl = "{CANARY}"\n{STAGE}{CHAIN}',
    f'stages = "{CANARY}"\n{CHAIN}',
    f"{STAGE}{CHAIN}deadline = '{CANARY}'\n",
    f"{STAGE}api_key = {CANARY}\n{CHAIN}",
]


@pytest.mark.parametrize("text", WRONG_PLACES)
def test_a_key_in_a_wrong_place_is_not_repeated(read: Callable[..., Read], text: str) -> None:
    """The error goes to terminals, logs and tickets. A pasted key that could be a variable's name was shown."""
    with pytest.raises(ConfigError) as caught:
        read(text)
    error = caught.value
    assert CANARY not in f"{error} {error!r} {error.problems!r}"
    assert error.__cause__ is None
    assert error.__suppress_context__, "a traceback would show the parser's own words"


def test_a_key_is_in_no_repr(read: Callable[..., Read]) -> None:
    """Nor in the text of the stage: only who asks for the value gets it."""
    found = read(f'{STAGE}api_key_env = "A_KEY"\n{CHAIN}', A_KEY=f" {CANARY}\n")
    assert CANARY not in f"{found!r} {found}"
    key = found.stages["a"].api_key
    assert key is not None
    assert key.get_secret_value() == CANARY


def test_the_password_of_redis_is_in_no_repr(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Settings and environment showed it: a dataclass prints its fields."""
    (tmp_path / "staffel.toml").write_text(STAGE + CHAIN)
    monkeypatch.setenv("STAFFEL_REDIS_URL", f"redis://:{CANARY}@127.0.0.1:6379/0")
    monkeypatch.setenv("STAFFEL_BROKER_URL", f"redis://:{CANARY}@127.0.0.1:6379/0")
    found = settings(tmp_path / "staffel.toml")
    assert CANARY in found.redis_url
    assert CANARY not in f"{found!r} {environment()!r}"


@pytest.mark.parametrize(
    "name", ["ANSWER_TTL", "STAGES", "STAGES__A__TIMEOUT", "CHAINS__DEFAULT__STAGES", "STAGES__A", "BROKER_URL"]
)
def test_a_key_in_a_wrong_variable_is_not_repeated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    """Not even where the variable's value is no JSON."""
    (tmp_path / "staffel.toml").write_text(STAGE + CHAIN)
    monkeypatch.setenv(f"STAFFEL_{name}", CANARY)
    with pytest.raises(ConfigError) as caught:
        settings(tmp_path / "staffel.toml")
    assert CANARY not in f"{caught.value} {caught.value!r}"


@pytest.mark.parametrize("name", ["A_KEY", "a_key"])
@pytest.mark.parametrize("odd", ["\n", " ", "ü", "\x7f", "\udcff"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(read: Callable[..., Read], odd: str, name: str) -> None:
    """The file was called sound, and every call of the stage failed before it was sent."""
    with pytest.raises(ConfigError) as caught:
        read(f'{STAGE}api_key_env = "{name}"\n{CHAIN}', **{name: f"{CANARY}{odd}{CANARY}"})
    (problem,) = caught.value.problems
    assert (problem.path, "holds no key: a key has no blanks" in problem.text) == ("stages.a.api_key_env", True)
    assert CANARY not in f"{caught.value} {caught.value!r}"
