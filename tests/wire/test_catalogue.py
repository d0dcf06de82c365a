"""What workers publish and clients plan with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from staffel_wire.catalogue import Catalogue, Entry, Offer, Plan, from_json
from staffel_wire.errors import Invalid
from staffel_wire.request import parse

CLOUD, LOCAL = Offer("primary", "cloud", local=False), Offer("local", "ollama", local=True, window=8192)
CATALOGUE = Catalogue(
    {
        "default": Plan((CLOUD, LOCAL), 90.0),
        "clouds": Plan((CLOUD,), 5.0),
    },
    max_request_bytes=1000,
    answer_ttl=60,
    ledger_ttl=120,
    slots=7,
)


def entry(**fields: Any) -> Entry:
    return CATALOGUE.entry(parse({"prompt": "Why?", **fields}))


def test_a_catalogue_reads_as_it_was_written() -> None:
    """With every number of it."""
    assert from_json(CATALOGUE.to_json()) == CATALOGUE


def test_what_a_newer_worker_added_is_passed_over() -> None:
    """Clients and workers are not deployed in the same second."""
    data = json.loads(CATALOGUE.to_json())
    data["colour"] = "green"
    data["chains"]["default"]["colour"] = "green"
    for offer in data["chains"]["default"]["offers"]:
        offer["colour"] = "green"
    assert from_json(json.dumps(data)) == CATALOGUE


def test_what_an_older_worker_did_not_write_has_its_default() -> None:
    """The same, the other way round."""
    data = {"chains": {"a": {"offers": [{"stage": "s", "lane": "cloud", "local": False}], "deadline": 5}}}
    assert from_json(json.dumps(data)) == Catalogue({"a": Plan((Offer("s", "cloud", local=False),), 5)})


def test_a_catalogue_holds_neither_address_nor_key() -> None:
    """It is read by clients that shall have neither."""
    assert set(json.loads(CATALOGUE.to_json())["chains"]["default"]["offers"][0]) == {
        "stage",
        "lane",
        "local",
        "window",
    }


def test_a_request_enters_on_the_lane_of_the_first_stage_that_may_serve_it() -> None:
    """The plan is whole even so: what is skipped is told in the ledger."""
    assert entry() == Entry(("primary", "local"), "cloud", 90.0)
    assert entry(local_only=True) == Entry(("primary", "local"), "ollama", 90.0)
    assert entry(deadline=3) == Entry(("primary", "local"), "cloud", 3.0)
    assert entry(chain="clouds").deadline == 5.0


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"chain": "other"}, "chain: there is no 'other'; there are clouds, default"),
        ({"chain": "a\nb" * 100}, f"chain: there is no {('a' + chr(10) + 'b') * 20!r}; there are clouds, default"),
        ({"chain": "clouds", "local_only": True}, "local_only: no stage of 'clouds' is in the house (local = true)"),
        ({"params": {"primry": {}}}, "params.primry: there is no such stage; there are local, primary"),
        ({"params": {"a\nb": {}}}, "params.a?b: there is no such stage; there are local, primary"),
    ],
)
def test_a_request_that_no_chain_can_take_is_refused_with_one_line(fields: dict[str, Any], line: str) -> None:
    """Before a job exists. A stage's name with a line break in it made two lines."""
    with pytest.raises(Invalid) as caught:
        entry(**fields)
    assert str(caught.value) == line


def test_params_for_a_stage_of_another_chain_are_taken() -> None:
    """So that one set of fields serves several chains."""
    assert entry(chain="clouds", params={"local": {"top_k": 1}}).plan == ("primary",)
