"""The whole system before a real model: a command, Redis, the lane's worker, and the host it calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime

import pytest

from tests.contract.targets import SCHEMA, SCRIPTED, Target, names
from tests.eventually import eventually
from tests.nodes import House, serving

WINDOW = 512
STAYS_S = 420
#: Not the scripted host, before which the system stands in all its other tests.
REAL_MODELS = pytest.mark.parametrize("target", [name for name in names() if name != SCRIPTED], indirect=True)


@pytest.fixture
def home(make_house: Callable[..., House], target: Target) -> Iterator[House]:
    """Its only stage is this host; the lane's worker is on."""
    home = make_house(stages={}, chains={})
    home.config.write_text(
        f'[stages.small]\nprovider = "ollama"\nbase_url = "{target.url}"\nmodel = "{target.model}"\n'
        f'local = true\nnum_ctx = {WINDOW}\nkeep_alive = "7m"\ntimeout = 60\nfirst_token_timeout = 60\n'
        '[chains.default]\nstages = ["small"]\ndeadline = 90\n'
    )
    with serving(home, ("-Q", "ollama")):
        yield home


@REAL_MODELS
def test_a_command_is_answered_by_a_cold_model(home: House, target: Target) -> None:
    """It is loaded as the stage says, its tokens are counted as it counts them, and the answer keeps to the schema."""
    target.unload()
    eventually(lambda: not target.resident(), "the model has left")
    schema = home.folder / "schema.json"
    schema.write_text(json.dumps(SCHEMA))
    asked = ("--schema", str(schema), "--temperature", "0", "--max-output-tokens", "100")
    done = home.staffel("ask", "--json", *asked, "How old is he?")
    assert done.code == 0, done.out + done.err
    (attempt,) = done.json["attempts"]
    assert (done.json["stage"], attempt["stage"]) == ("small", "small")
    assert isinstance(json.loads(done.json["text"])["age"], int)
    assert attempt["usage"]["input_tokens"] > 10
    assert 0 < attempt["usage"]["output_tokens"] <= 100
    (model,) = target.resident()
    assert model["context_length"] == WINDOW
    left = datetime.fromisoformat(model["expires_at"]) - datetime.now().astimezone()
    assert STAYS_S - 60 < left.total_seconds() <= STAYS_S


@REAL_MODELS
def test_a_prompt_that_does_not_fit_is_never_answered_from_half_of_it(home: House, target: Target) -> None:
    """Ollama would, with status 200: the host is asked not to, and the job says why it has no answer."""
    done = home.staffel("ask", "--json", "word " * 600)
    assert (done.code, done.json["text"]) == (4, None), done.out + done.err
    (attempt,) = done.json["attempts"]
    assert (attempt["reason"], attempt["status"]) == ("too_long", 400)
