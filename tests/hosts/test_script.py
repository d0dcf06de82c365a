"""The language of behaviours."""

from __future__ import annotations

import pytest

import tests.hosts
from tests.hosts import literal
from tests.hosts.behaviours import BEHAVIOURS
from tests.hosts.script import KNOWN, Step, read_script


def test_a_script_is_a_step_for_each_call() -> None:
    """Commas part the calls, colons the parameters, and a number alone is a status."""
    assert read_script("status:429:retry-after=7, stall:after=3,ok:echo") == (
        Step("status", {"status": "429", "retry-after": "7"}),
        Step("stall", {"after": "3"}),
        Step("ok", {"echo": ""}),
    )


@pytest.mark.parametrize("text", ["a, b: c", "\\", "ends in a comma,", 'a=b\n"ü"/?#%2F', "\\,"])
def test_any_text_can_be_a_value(text: str) -> None:
    """What `literal` wrote is read back as it was."""
    assert read_script(f"ok:text={literal(text)},silent") == (Step("ok", {"text": text}), Step("silent"))


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("okay", "no behaviour 'okay'; there are: ok,"),
        ("", "no behaviour ''"),
        ("ok,", "no behaviour ''"),
        ("stall:every=1", "stall has no parameter 'every'; it takes: after, delay"),
        ("ok:header=1", "ok has no parameter 'header'"),
        ("drip:every=soon", "drip:every needs a number, not 'soon'"),
        ("stall:after=-1", "stall:after needs a number, not '-1'"),
        ("status", "status needs a number: status:500"),
    ],
)
def test_a_mistake_in_a_script_is_named(script: str, complaint: str) -> None:
    """A test with a typo must not pass because of it."""
    with pytest.raises(ValueError, match=r".") as caught:
        read_script(script)
    assert complaint in str(caught.value)


def test_each_known_behaviour_exists_and_stands_in_the_docstring() -> None:
    """The table that people read is the table that is played."""
    assert set(KNOWN) == set(BEHAVIOURS)
    rows = {
        line.split()[0] for line in str(tests.hosts.__doc__).split("---------")[-1].splitlines() if line[:1].strip()
    }
    assert set(KNOWN) <= rows
