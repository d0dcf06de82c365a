"""Variables on top of the file, and the settings that come of both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from config.file import General
from config.problems import ConfigError
from config.settings import Environment, Settings, environment, settings

FILE = """
[stages.primary]
provider = "openai"
base_url = "https://api.example.com/v1"
model = "gpt"
timeout = 20
[stages.primary.breaker]
min_calls = 3
[stages.my-local]
provider = "ollama"
base_url = "http://127.0.0.1:11434"
model = "small"
[chains.default]
stages = ["primary", "my-local"]
"""

NO_X = "there is no 'x'; there are default, my-local, primary"
NO_BROKER = "another broker than Redis is not supported yet; leave it unset"


@pytest.fixture(autouse=True)
def _file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "staffel.toml").write_text(FILE)
    monkeypatch.setenv("STAFFEL_CONFIG", str(tmp_path / "staffel.toml"))
    monkeypatch.setenv("STAFFEL_STATE_DIR", str(tmp_path / "state"))


def with_variables(monkeypatch: pytest.MonkeyPatch, **variables: str) -> Settings:
    for name, value in variables.items():
        monkeypatch.setenv(f"STAFFEL_{name}", value)
    return settings()


def mistakes(monkeypatch: pytest.MonkeyPatch, **variables: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        with_variables(monkeypatch, **variables)
    return [str(problem) for problem in caught.value.problems]


def test_a_variable_overrides_a_key_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """And leaves its neighbours as they are."""
    found = with_variables(monkeypatch, STAGES__PRIMARY__TIMEOUT="5", CHAINS__DEFAULT__DEADLINE="30", ANSWER_TTL="60")
    primary = found.stages["primary"]
    assert (primary.timeout, primary.model, found.chains["default"].deadline) == (5.0, "gpt", 30.0)
    assert (found.general.answer_ttl, found.general.ledger_ttl) == (60, 604_800)


def test_every_key_above_the_tables_has_its_variable() -> None:
    """A new one once had none."""
    assert set(General.model_fields) <= set(Environment.model_fields)


def test_a_nested_key_is_overridden_beside_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """The breaker's own table is merged, not replaced: the mistake told is the file's other key."""
    path = Path(str(environment().config))
    path.write_text(FILE.replace("min_calls = 3", "window = 0"))
    assert mistakes(monkeypatch, STAGES__PRIMARY__BREAKER__MIN_CALLS="10") == [
        "stages.primary.breaker.window: must be greater than 0"
    ]


def test_a_list_is_written_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """As pydantic-settings takes it; without the brackets it is refused with what to write."""
    found = with_variables(monkeypatch, CHAINS__DEFAULT__STAGES='["my-local", "primary"]')
    assert found.chains["default"].plan == ("my-local", "primary")
    assert mistakes(monkeypatch, CHAINS__DEFAULT__STAGES="my-local,primary") == [
        'chains.default.stages: must be a list such as ["one", "two"] (set by STAFFEL_CHAINS__DEFAULT__STAGES)'
    ]


def test_an_underscore_finds_a_stage_with_a_hyphen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell takes no hyphen in a variable's name."""
    assert with_variables(monkeypatch, STAGES__MY_LOCAL__NUM_CTX="512").stages["my-local"].num_ctx == 512


def test_a_stage_that_has_the_underscore_itself_is_meant_before_one_with_a_hyphen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whichever of the two came last in the file was overridden."""
    two = FILE.replace("my-local", "my_local") + FILE[FILE.index("[stages.my-local]") : FILE.index("[chains")]
    two += '[chains.second]\nstages = ["my-local"]\n'
    Path(str(environment().config)).write_text(two)
    found = with_variables(monkeypatch, STAGES__MY_LOCAL__NUM_CTX="512").stages
    assert (found["my_local"].num_ctx, found["my-local"].num_ctx) == (512, 4096)


@pytest.mark.parametrize(
    ("value", "local"), [("true", True), ("1", True), ("yes", True), ("false", False), ("0", False), ("off", False)]
)
def test_a_switch_may_be_written_as_people_write_switches(
    monkeypatch: pytest.MonkeyPatch, value: str, local: bool
) -> None:
    """All that pydantic takes for a boolean."""
    assert with_variables(monkeypatch, STAGES__MY_LOCAL__LOCAL=value).stages["my-local"].local is local


def test_a_model_may_be_called_by_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable of digits arrives as a number, and was refused where text belongs."""
    assert with_variables(monkeypatch, STAGES__PRIMARY__MODEL="123").stages["primary"].model == "123"


def test_params_are_given_one_by_one_or_as_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers stay numbers: a host would refuse "0.5"."""
    assert with_variables(monkeypatch, STAGES__PRIMARY__PARAMS__TOP_P="0.5").stages["primary"].params == {"top_p": 0.5}
    found = with_variables(monkeypatch, STAGES__PRIMARY__PARAMS='{"a": [1]}')
    assert found.stages["primary"].params["a"] == [1]


def test_a_variable_that_is_empty_counts_as_unset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As compose files hand variables through that nobody set: an empty STAFFEL_CONFIG was the folder itself."""
    monkeypatch.chdir(tmp_path)
    found = with_variables(monkeypatch, CONFIG="", STATE_DIR="", ANSWER_TTL="", STAGES__PRIMARY__TIMEOUT="")
    assert found.stages["primary"].timeout == 20
    assert found.state_dir == Path("~/.local/state/staffel").expanduser()


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("STAGES__PRIMARY__TIMEOUT", "soon", "stages.primary.timeout: must be a number"),
        ("STAGES__PRIMARY__TIMOUT", "5", "stages.primary.timout: is no key here; did you mean timeout?"),
        ("STAGES__PRIMARY__BREAKER__WINDOW", "0", "stages.primary.breaker.window: must be greater than 0"),
        ("STAGES__MY_LOCAL__LOCAL", "maybe", "stages.my-local.local: must be true or false"),
        ("STAGES__MY_LOCAL", "5", "stages.my-local: must be a table"),
        ("ANSWER_TTL", "0", "answer_ttl: must be greater than or equal to 1"),
        ("CHAINS__DEFAULT__STAGES", '["primary", "my-local", "x"]', f"chains.default.stages.2: {NO_X}"),
    ],
)
def test_a_mistake_in_a_variable_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, line: str
) -> None:
    """The file was named as its source, in which there was nothing to find."""
    assert mistakes(monkeypatch, **{name: value}) == [f"{line} (set by STAFFEL_{name})"]


def test_a_typo_in_a_stages_name_names_the_variable_that_made_the_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes a stage of its own, which nobody wrote into the file."""
    assert mistakes(monkeypatch, STAGES__PRIMRY__TIMEOUT="5") == [
        "stages.primry.provider: missing; it must be given",
        "stages.primry: is in no chain; add it to one, or take it out (set by STAFFEL_STAGES__PRIMRY__TIMEOUT)",
    ]


def test_a_mistake_of_the_file_is_not_laid_on_a_variable_of_the_same_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable is named only where the file has no part in it."""
    path = Path(str(environment().config))
    path.write_text(FILE.replace('stages = ["primary", "my-local"]', 'stages = ["primary"]'))
    assert mistakes(monkeypatch, STAGES__MY_LOCAL__NUM_CTX="512") == [
        "stages.my-local: is in no chain; add it to one, or take it out"
    ]


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("ANSWER_TTL", "long", "STAFFEL_ANSWER_TTL: must be a whole number"),
        ("STAGES", '{"my-local": ', "STAFFEL_STAGES: must be JSON, or left out"),
        ("STAGES", "[1]", "STAFFEL_STAGES: must be a table"),
        ("BROKER_URL", "amqp://u:hidden@h", f"STAFFEL_BROKER_URL: {NO_BROKER}"),
    ],
)
def test_a_variable_that_cannot_be_read_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, line: str
) -> None:
    """Where the file is not to blame, it is not named."""
    with pytest.raises(ConfigError) as caught:
        with_variables(monkeypatch, **{name: value})
    assert str(caught.value) == f"the environment cannot be used:\n  {line}"


def test_the_embedded_servers_address_is_found_where_no_other_is_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its run file says it; whatever else stands there is no address."""
    (tmp_path / "state").mkdir()
    assert settings().redis_url == ""
    for broken in ("", "[]", "{}", '{"url"', "7"):
        (tmp_path / "state" / "redis.json").write_text(broken)
        assert settings().redis_url == ""
    (tmp_path / "state" / "redis.json").write_text(json.dumps({"url": "redis://:pw@127.0.0.1:7/0"}))
    assert settings().redis_url == "redis://:pw@127.0.0.1:7/0"
    assert with_variables(monkeypatch, REDIS_URL="redis://other:6379/0").redis_url == "redis://other:6379/0"


def test_the_redis_url_as_broker_url_is_the_same_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only another one is not supported yet."""
    url = "redis://127.0.0.1:6379/0"
    assert with_variables(monkeypatch, REDIS_URL=url, BROKER_URL=url).redis_url == url


@pytest.mark.parametrize("name", ["STATE_DIR", "CONFIG"])
def test_a_home_that_nobody_has_is_told_with_its_variable(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """`~nobody-here/x` was a RuntimeError of pathlib, and a traceback."""
    with pytest.raises(ConfigError) as caught:
        with_variables(monkeypatch, **{name: "~nobody-here/x"})
    line = f"STAFFEL_{name}: there is no home folder for ~nobody-here; write the whole path"
    assert str(caught.value) == f"the environment cannot be used:\n  {line}"


@pytest.mark.parametrize("name", ["STAGES", "CHAINS", "STAGES__PRIMARY__PARAMS"])
def test_a_variable_that_is_nested_too_deeply_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Python's reader of JSON gives up with a RecursionError, which was a traceback."""
    with pytest.raises(ConfigError, match=f"STAFFEL_{name}: is nested too deeply to be read"):
        with_variables(monkeypatch, **{name: "[" * 100_000})
