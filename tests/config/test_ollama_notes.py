"""What makes an Ollama host load its models again and again, as far as the file shows it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from config.file import Read
from config.ollama import full_name, is_same

Reading = Callable[..., Read]

HOST = "provider = 'ollama'\ntimeout = 5\nbase_url = 'http://{}:11434'\n"


def notes(read: Reading, first: str, second: str, host: str = "gpu", other: str = "gpu") -> dict[str, str]:
    stages = f"[stages.a]\n{HOST.format(host)}{first}\n[stages.b]\n{HOST.format(other)}{second}\n"
    found = read(f"{stages}[chains.default]\nstages = ['a', 'b']\n").notes
    assert len({note.path for note in found}) == len(found), "one line a key"
    return {note.path: note.text for note in found}


def test_two_models_on_one_host_are_told(read: Reading) -> None:
    """Where not both fit, each change is a load of a minute; the first stage's is the one that is kept."""
    text = (
        "n:8b, but a has m:latest on the same host: where not both fit into its memory, each change is a load; write "
        "the same model, or give it a host of its own"
    )
    assert notes(read, "model = 'm'", "model = 'n:8b'\nnum_ctx = 8192") == {"stages.b.model": text}


@pytest.mark.parametrize(
    ("first", "second", "key", "text"),
    [
        ("", "num_ctx = 8192", "num_ctx", "8192, but a {} 4096: {}; write num_ctx = 4096"),
        ("num_ctx = 8192", "", "num_ctx", "4096, but a {} 8192: {}; write num_ctx = 8192"),
        ("", "params = { options = { num_gpu = 0 } }", "params.options.num_gpu",
         "0, but a {} none: {}; write the same at both"),
        ("params = { options = { use_mmap = true } }", "params = { options = { use_mmap = false } }",
         "params.options.use_mmap", "false, but a {} true: {}; write the same at both"),
        ("params = { shift = false }", "", "params.shift", "none, but a {} false: {}; write the same at both"),
    ],
)  # fmt: skip
def test_one_model_that_is_loaded_in_two_ways_is_told(
    read: Reading, first: str, second: str, key: str, text: str
) -> None:
    """It is not there twice: each call loads it anew, and nobody sees why the host is slow."""
    told = text.format("has the same model on the same host with", "each change loads it anew")
    assert notes(read, f"model = 'm'\n{first}", f"model = 'M:latest'\n{second}") == {f"stages.b.{key}": told}


def test_two_times_to_stay_are_told(read: Reading) -> None:
    """They are no load, but the last call's holds for both."""
    text = 'has the same model on the same host with "30m": the last call\'s counts for both; write keep_alive = "30m"'
    assert notes(read, "model = 'm'", "model = 'm'\nkeep_alive = 0") == {"stages.b.keep_alive": f"0, but a {text}"}


@pytest.mark.parametrize(
    ("second", "host", "other"),
    [
        ("model = 'm'\nmax_output_tokens = 5\nparams = { options = { top_k = 1 } }", "gpu", "gpu"),
        ("model = 'n'\nlane = 'other'", "gpu", "gpu2"),
        ("model = 'n:cloud'\nnum_ctx = 8192", "gpu", "gpu"),
    ],
)
def test_what_loads_nothing_anew_is_no_matter(read: Reading, second: str, host: str, other: str) -> None:
    """The same model as it is, another host, or a model that runs in Ollama's cloud."""
    assert notes(read, "model = 'm'", second, host, other) == {}


def test_all_names_of_this_machine_are_one_host(read: Reading) -> None:
    """A load does not ask by which name it was called."""
    assert set(notes(read, "model = 'm'", "model = 'n'", "localhost", "127.0.0.1")) == {"stages.b.model"}


@pytest.mark.parametrize(
    ("text", "cold", "warm"),
    [
        ("cold_load_timeout = 4", 4, "5 s (timeout); write 5 or more"),
        ("cold_load_timeout = 2\nfirst_token_timeout = 3", 2, "3 s (first_token_timeout); write 3 or more"),
    ],
)
def test_a_load_that_has_less_time_than_an_answer_is_told(read: Reading, text: str, cold: int, warm: str) -> None:
    """It would be thrown away each time."""
    told = f"{cold} s for the first token of a call that has to load the model, but one whose model is there has {warm}"
    assert notes(read, f"model = 'm'\n{text}", "model = 'm'") == {"stages.a.cold_load_timeout": told}
    assert notes(read, "model = 'm'\ncold_load_timeout = 4\nfirst_token_timeout = 3", "model = 'm'") == {}


def test_a_time_to_stay_among_the_params_is_told(read: Reading) -> None:
    """It is sent with every call as the stage's own key says."""
    text = "does nothing; write it as the stage's own key, keep_alive"
    assert notes(read, "model = 'm'\nparams = { keep_alive = 0 }", "model = 'm'") == {
        "stages.a.params.keep_alive": text
    }


@pytest.mark.parametrize(
    ("clocks", "seconds"),
    [
        ("timeout = 5", 60),
        ("timeout = 300", 300),
        ("timeout = 300\nfirst_token_timeout = 90", 90),
        ("timeout = 300\nfirst_token_timeout = 9", 60),
        ("timeout = 300\ncold_load_timeout = 9", 9),
    ],
)
def test_a_load_has_a_minute_and_never_less_than_an_answers_start(read: Reading, clocks: str, seconds: float) -> None:
    """Where nothing is written of it."""
    stage = f"[stages.a]\nprovider = 'ollama'\nbase_url = 'http://gpu'\nmodel = 'm'\n{clocks}\n"
    found = read(f"{stage}[chains.default]\nstages = ['a']\n").stages["a"]
    assert (found.cold_load_timeout, found.cool_off) == (seconds, 1.0)


def test_the_models_of_a_host_are_told_apart_as_the_host_does() -> None:
    """No tag is the tag `latest`, a registry's port is none, and large letters are small ones."""
    assert full_name("m") == "m:latest"
    assert full_name("gpu:5000/m") == "gpu:5000/m:latest"
    assert is_same("Qwen3:8B", "qwen3:8b")
    assert not is_same("m:8b", "m")
