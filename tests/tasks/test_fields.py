"""What a caller gives a task becomes one request, whole."""

from __future__ import annotations

from typing import Any

import pytest

from staffel_wire.errors import Invalid
from tasks import ask, summarize
from tasks.job import JobTask

LIMIT = 10_000


@pytest.mark.parametrize(
    ("args", "kwargs", "chain", "local_only"),
    [
        (("hi",), {}, "default", False),
        (("hi",), {"chain": "house", "local_only": True}, "house", True),
        (({"prompt": "hi"},), {"local_only": True}, "default", True),
        ((), {"prompt": "hi", "chain": "house"}, "house", False),
    ],
)
def test_keywords_go_on_top_of_what_was_given(
    args: tuple[Any, ...], kwargs: dict[str, Any], chain: str, local_only: bool
) -> None:
    """Beside a text or an object, keywords were dropped: `local_only=True` was, and the prompt left the house."""
    request = ask.door(ask.fields(args, kwargs), LIMIT)
    assert (request.prompt, request.chain, request.local_only) == ("hi", chain, local_only)


def test_a_text_alone_is_the_document_of_a_summary() -> None:
    """`summarize.delay("…", chain="house")`: the text is no prompt, and the chain counts."""
    request = summarize.door(summarize.fields(("A document.",), {"chain": "house"}), LIMIT)
    assert request.chain == "house"
    assert str(request.prompt).endswith("A document.")


@pytest.mark.parametrize("task", [ask, summarize])
@pytest.mark.parametrize("args", [("hi", "there"), (1, 2, 3)])
def test_more_than_one_argument_is_refused(task: JobTask, args: tuple[Any, ...]) -> None:
    """A second argument was dropped without a word."""
    with pytest.raises(Invalid, match="one request is one object or one text"):
        task.fields(args, {})


@pytest.mark.parametrize("task", [ask, summarize])
@pytest.mark.parametrize("args", [(None,), (5,), ([{"prompt": "hi"}],)])
def test_what_is_no_request_is_refused(task: JobTask, args: tuple[Any, ...]) -> None:
    """Keywords do not make one of it."""
    with pytest.raises(Invalid):
        task.door(task.fields(args, {"chain": "default"}), LIMIT)
