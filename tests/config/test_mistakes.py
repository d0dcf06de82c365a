"""Every mistake of a file is told, all of them at once, each under its key with what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from config.file import General, load
from config.limits import Breaker
from config.problems import ConfigError

Problems = Callable[..., dict[str, str]]

STAGE = '[stages.a]\nprovider = "scripted"\n'
CHAIN = '[chains.default]\nstages = ["a"]\n'
VARIABLE = 'must be the name of a variable such as "OPENAI_API_KEY", never the key itself'
LANE = "a lane has small letters, digits, _, - and dots, and starts with a letter"
NAME = "a name has small letters, digits, _ and -, and starts with a letter"
VERSION = 'must be a version such as "2023-06-01"'
KINDS = "must be 'openai', 'anthropic', 'gemini', 'ollama' or 'scripted'"
GENERAL = f"is no key here; there are {', '.join(General.model_fields)}, stages, chains"
BREAKER = f"is no key here; there are {', '.join(Breaker.model_fields)}"
OPENAI = '[stages.a]\nprovider = "openai"\nbase_url = "https://api.example.com/v1"\nmodel = "m"\n'


def test_all_mistakes_of_a_file_are_told_at_once(problems: Problems) -> None:
    """Someone who mends one after the other would start a worker a dozen times."""
    found = problems(
        """
        max_request_byte = 1
        [stages.primary]
        provider = "bedrock"
        timeot = 20
        api_key_env = "NOT_SET"
        [stages.backup]
        provider = "openai"
        base_url = "https://user:pw@example.com/v1"
        idle_timeout = "soon"
        [stages.local]
        provider = "ollama"
        base_url = "http://localhost:11434"
        model = "m"
        reserve = 60
        [stages.other]
        provider = "ollama"
        base_url = "http://127.0.0.1:11434"
        model = "m"
        lane = "second"
        price = { input = 1 }
        [stages.nowhere]
        provider = "scripted"
        [chains.default]
        stages = ["primary", "bakup", "local", "other"]
        deadline = 50
        [chains.one]
        stages = ["two", "backup"]
        [chains.two]
        stages = ["one"]
        deadline = -1
        """
    )
    assert found == {
        "max_request_byte": "is no key here; did you mean max_request_bytes?",
        "stages.primary.provider": KINDS,
        "stages.primary.timeot": "is no key here; did you mean timeout?",
        "stages.primary.api_key_env": "the variable NOT_SET is not set; set it, or name the one that holds the key",
        "stages.backup.model": "missing; write the model's name as the provider spells it",
        "stages.backup.base_url": "must hold no user, key or query; keys go into the variable of api_key_env",
        "stages.backup.idle_timeout": "must be a number",
        "stages.other.lane": "'second', but local has the same host on 'ollama'; one Ollama host has one lane",
        "stages.other.price.output": "missing; it must be given",
        "stages.nowhere": "is in no chain; add it to one, or take it out",
        "chains.default.stages.1": "there is no 'bakup'; did you mean 'backup'?",
        "chains.default.deadline": "50 s are all reserved (60 s) for later stages; raise it, or lower a reserve",
        "chains.two.stages.0": "a ring: one -> two -> one; take one link out",
        "chains.two.deadline": "must be greater than 0",
    }


@pytest.mark.parametrize(
    ("text", "path", "sentence"),
    [
        ("timeot = 3", "timeot", "is no key here; did you mean timeout?"),
        ("api_key = 'sk-1'", "api_key", "is no key here; did you mean api_key_env?"),
        ("breaker.min_cals = 3", "breaker.min_cals", "is no key here; did you mean min_calls?"),
        ("price = { input = 1, output = 1, ouput = 2 }", "price.ouput", "is no key here; did you mean output?"),
        ("breaker.zebra = 3", "breaker.zebra", BREAKER),
        ("timeout = 0", "timeout", "must be greater than 0"),
        ("timeout = inf", "timeout", "must be a finite number"),
        ("reserve = nan", "reserve", "must be a finite number"),
        ("reserve = -1", "reserve", "must be greater than or equal to 0"),
        ("timeout = 'soon'", "timeout", "must be a number"),
        ("num_ctx = 1.5", "num_ctx", "must be a whole number"),
        ("num_ctx = 10", "num_ctx", "must be greater than or equal to 256"),
        ("local = 'maybe'", "local", "must be true or false"),
        ("params = 3", "params", "must be a table"),
        ("breaker = 3", "breaker", "must be a table"),
        ("retires_on = 5", "retires_on", "must be a date such as 2027-04-14"),
        ("limit_group = 5", "limit_group", 'must be text, in "quotes"'),
        ("api_key_env = 'sk-1'", "api_key_env", VARIABLE),
        ("lane = 'My Lane'", "lane", LANE),
        ("lane = '.gpu'", "lane", LANE),
        (
            "lane = 'ollama.batch'",
            "lane",
            "'ollama.batch' is where batch jobs of 'ollama' wait; write \"ollama\", and `priority` in requests",
        ),
    ],
)
def test_a_wrong_key_of_a_stage_is_told_with_what_to_write(
    problems: Problems, text: str, path: str, sentence: str
) -> None:
    """A typo names the key that was meant; a wrong value says what is right, and does not repeat itself."""
    assert problems(f"{STAGE}{text}\n{CHAIN}") == {f"stages.a.{path}": sentence}


@pytest.mark.parametrize("key", ["timeout", "num_ctx", "max_in_flight", "model", "keep_alive", "breaker.min_calls"])
def test_a_switch_is_no_number(problems: Problems, key: str) -> None:
    """`timeout = true` was read as one second: pydantic counts true as 1."""
    found = problems(f"{STAGE}{key} = true\n{CHAIN}")
    assert list(found) == [f"stages.a.{key}"]
    assert "true or false" in found[f"stages.a.{key}"] or "must be a time" in found[f"stages.a.{key}"]


@pytest.mark.parametrize("value", ["'30 minutes'", "'300'", "''", "1.5", "[1]"])
def test_a_keep_alive_that_ollama_would_refuse_is_refused_at_start(problems: Problems, value: str) -> None:
    """It was passed on, Ollama answered 400, and 400 ends every walk as the request's own fault."""
    (path,) = found = problems(f"{STAGE}keep_alive = {value}\n{CHAIN}")
    assert path == "stages.a.keep_alive"
    assert found[path] == 'must be a time such as "30m" or "24h", or a number of seconds (-1: for ever)'


@pytest.mark.parametrize(
    ("text", "path", "sentence"),
    [
        (f"foo = 1\n{STAGE}{CHAIN}", "foo", GENERAL),
        (f"{STAGE}{CHAIN}[stage.b]\nprovider = 'scripted'", "stage", "is no key here; did you mean stages?"),
        (f"answer_ttl = 0\n{STAGE}{CHAIN}", "answer_ttl", "must be greater than or equal to 1"),
        (f"max_request_bytes = 10\n{STAGE}{CHAIN}", "max_request_bytes", "must be greater than or equal to 1000"),
        (f"stages.a = 3\n{CHAIN}", "stages.a", "must be a table"),
        (f"chains.default = 3\n{STAGE}", "chains.default", "must be a table"),
        (f"[stages.a]\nmodel = 'm'\n{CHAIN}", "stages.a.provider", "missing; it must be given"),
        (f"[stages.a]\nprovider = 'bedrock'\n{CHAIN}", "stages.a.provider", KINDS),
        (f"[stages.a]\nprovider = ['openai']\n{CHAIN}", "stages.a.provider", KINDS),
        (f"{STAGE}[chains.a]\nstages = ['a']", "chains.a", "a stage has this name too; give the chain another"),
        (f"{STAGE}takes = true\n{CHAIN}", "stages.a.takes", "must be a table"),
        (f"{STAGE}takes.sed = true\n{CHAIN}", "stages.a.takes.sed", "is no key here; did you mean seed?"),
        (f"{STAGE}takes.seed = 3\n{CHAIN}", "stages.a.takes.seed", "must be true or false"),
        (f"{STAGE}max_reply_bytes = 10\n{CHAIN}", "stages.a.max_reply_bytes", "must be greater than or equal to 1000"),
        (f"{STAGE}stream = 'often'\n{CHAIN}", "stages.a.stream", "must be true or false"),
        (f"{STAGE}api_version = 'a b'\n{CHAIN}", "stages.a.api_version", VERSION),
        ("[stages.'A b']\nprovider = 'scripted'\n[chains.default]\nstages = ['A b']", "stages.A b", NAME),
    ],
)
def test_a_wrong_table_is_told_with_what_to_write(problems: Problems, text: str, path: str, sentence: str) -> None:
    """The table's name is the key's path then. A provider that is a list once ended in a TypeError."""
    found = problems(text)
    assert found.get(path) == sentence
    assert set(found) - {path} <= {"stages.a"}, "nothing that follows from the mistake, but a stage that is unused now"


@pytest.mark.parametrize(
    "url", ["", "api.example.com/v1", "ftp://api.example.com", "https://", "https://[::1/v1", "http://h:99999", "http://h:x"]
)  # fmt: skip
def test_a_base_url_that_is_no_address_is_told(problems: Problems, url: str) -> None:
    """A port out of range passed at first and came up as a traceback where the address was used."""
    found = problems(OPENAI.replace("https://api.example.com/v1", url) + CHAIN)
    assert found == {"stages.a.base_url": 'must be an address such as "https://api.example.com/v1"'}


@pytest.mark.parametrize(
    ("provider", "version", "sentence"),
    [
        ("anthropic", "v1beta", 'must be a version such as "2023-06-01"'),
        ("gemini", "2023-06-01", 'must be a version such as "v1beta"'),
        ("openai", "newest", 'must be a version such as "2024-10-21"'),
        ("ollama", "v1", "ollama has no versions; leave it out"),
    ],
)  # fmt: skip
def test_a_version_is_one_of_the_providers(problems: Problems, provider: str, version: str, sentence: str) -> None:
    """A host calls every request wrong for another one, and the walk would stop at each."""
    text = OPENAI.replace("'openai'", f"'{provider}'").replace('"openai"', f'"{provider}"')
    found = problems(f"{text}api_version = '{version}'\n{CHAIN}")
    assert found == {"stages.a.api_version": sentence}


@pytest.mark.parametrize("url", ["https://u:p@h/v1", "https://key@h/v1", "https://h/v1?key=k", "https://h/v1#k"])
def test_a_base_url_with_a_key_in_it_is_refused_and_not_repeated(problems: Problems, url: str) -> None:
    """Addresses are shown here and there, keys nowhere."""
    found = problems(OPENAI.replace("https://api.example.com/v1", url) + CHAIN)
    assert found == {
        "stages.a.base_url": "must hold no user, key or query; keys go into the variable of api_key_env",
    }


def test_a_key_variable_that_is_empty_counts_as_missing(problems: Problems) -> None:
    """As an unset variable of a compose file arrives."""
    text = f"{OPENAI}api_key_env = 'A_KEY'\n{CHAIN}"
    sentence = "the variable A_KEY is not set; set it, or name the one that holds the key"
    assert problems(text, A_KEY=" ") == problems(text) == {"stages.a.api_key_env": sentence}


OLLAMA = "[stages.{}]\nprovider = 'ollama'\nmodel = 'm'\nbase_url = '{}'\nlane = '{}'\n"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://localhost:11434", "http://127.0.0.1:11434/"),
        ("http://127.0.0.1:11434", "http://[::1]:11434"),
        ("http://GPU.lan:11434", "http://gpu.lan:11434"),
        ("http://gpu.lan", "http://gpu.lan:80"),
    ],
)
def test_one_ollama_host_on_two_lanes_is_refused_however_it_is_spelled(
    problems: Problems, one: str, other: str
) -> None:
    """Two lanes would run two requests at a time on a host that is given one; [::1] and port 80 passed at first."""
    text = OLLAMA.format("a", one, "ollama") + OLLAMA.format("b", other, "gpu")
    found = problems(f"{text}[chains.default]\nstages = ['a', 'b']")
    assert found == {"stages.b.lane": "'gpu', but a has the same host on 'ollama'; one Ollama host has one lane"}


def test_two_ollama_hosts_may_have_a_lane_each(read: Callable[..., object]) -> None:
    """Also two servers on one machine, told apart by their ports."""
    text = OLLAMA.format("a", "http://localhost:11434", "ollama") + OLLAMA.format("b", "http://localhost:11435", "gpu")
    assert read(f"{text}[chains.default]\nstages = ['a', 'b']")


def test_a_file_that_is_not_there_is_told_with_the_command_that_writes_one(tmp_path: Path) -> None:
    """The first thing that a new user meets."""
    with pytest.raises(ConfigError, match=r"staffel\.toml cannot be used:\n  is not there; `staffel init` writes one"):
        load(tmp_path / "staffel.toml", {}, {})


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"a = = 1", "is not TOML: Invalid value (at line 1, column 5)"),
        (b"\xff\xfe", "cannot be read: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (b"", "stages: must hold at least one table, [stages.NAME]"),
    ],
)
def test_a_file_that_is_no_configuration_is_told_in_a_line(tmp_path: Path, content: bytes, sentence: str) -> None:
    """Never with a traceback."""
    path = tmp_path / "staffel.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(path, {}, {})
    assert str(caught.value).splitlines()[:2] == [f"{path} cannot be used:", f"  {sentence}"]


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """Nor is anything else that cannot be read."""
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(tmp_path, {}, {})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"a = {'1' * 5000}", "holds a number that is far too long"),
        (f"a = {'[' * 5000}{']' * 5000}", "is nested too deeply to be read"),
    ],
)
def test_a_file_that_pythons_reader_gives_up_on_is_one_mistake(problems: Problems, text: str, line: str) -> None:
    """It raised a ValueError and a RecursionError that are no TOMLDecodeError, and were tracebacks."""
    assert problems(text) == {"": line}


@pytest.mark.parametrize("value", ["2027-04-14", "07:32:00", "nan", "inf", "[1, {deep = -inf}]"])
def test_params_that_json_cannot_hold_are_refused(problems: Problems, value: str) -> None:
    """The file was called sound, and every call of the stage failed."""
    found = problems(f"{STAGE}params = {{ odd = {value} }}\n{CHAIN}")
    assert found == {"stages.a.params": "must hold only what JSON can: no date or time, no nan or inf, not too deep"}


@pytest.mark.parametrize("host", ["😀..com", "a" * 300, "a..b"])
def test_a_host_that_no_name_server_can_be_asked_for_is_no_address(problems: Problems, host: str) -> None:
    """It was sound, and a UnicodeError where `staffel check` tried to reach it."""
    text = OPENAI.replace("api.example.com", host) + CHAIN
    assert problems(text) == {"stages.a.base_url": 'must be an address such as "https://api.example.com/v1"'}
