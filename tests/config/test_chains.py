"""Chains, and chains in chains, become flat plans."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from config.file import Read

Problems = Callable[..., dict[str, str]]
Reading = Callable[..., Read]

STAGES = "".join(f'[stages.{name}]\nprovider = "scripted"\n' for name in "abc")


def test_a_chain_in_a_chain_is_unrolled_in_its_place(read: Reading) -> None:
    """A chain is a stage to whoever holds it; the order is that of a person who reads the file."""
    found = read(
        STAGES
        + "[chains.default]\nstages = ['a', 'clouds', 'c']\n[chains.clouds]\nstages = ['inner']\n"
        + "[chains.inner]\nstages = ['b', 'a']\ndeadline = 5\n"
    )
    assert {name: chain.plan for name, chain in found.chains.items()} == {
        "default": ("a", "b", "c"),
        "clouds": ("b", "a"),
        "inner": ("b", "a"),
    }
    assert (found.chains["default"].deadline, found.chains["inner"].deadline) == (90, 5)


def test_a_stage_that_comes_twice_is_asked_once(read: Reading) -> None:
    """Where it stands first: who failed a moment ago would fail again."""
    found = read(STAGES + "[chains.default]\nstages = ['a', 'b', 'a', 'rest', 'c']\n[chains.rest]\nstages = ['b']\n")
    assert found.chains["default"].plan == ("a", "b", "c")


def test_a_ring_of_chains_is_told_once_however_many_ways_lead_into_it(problems: Problems) -> None:
    """It was told once for each chain of the ring, which reads like so many mistakes."""
    found = problems(
        STAGES
        + "[chains.default]\nstages = ['a', 'one']\n[chains.one]\nstages = ['b', 'two']\n"
        + "[chains.two]\nstages = ['c', 'one', 'default']\n[chains.self]\nstages = ['self', 'a']\n"
    )
    assert found == {
        "chains.two.stages.1": "a ring: one -> two -> one; take one link out",
        "chains.two.stages.2": "a ring: default -> one -> two -> default; take one link out",
        "chains.self.stages.0": "a ring: self -> self; take one link out",
    }


def test_a_name_that_leads_nowhere_names_the_one_that_was_meant(problems: Problems) -> None:
    """Chains are candidates as well as stages, and where nothing is close, all are named."""
    found = problems(
        STAGES + "[chains.default]\nstages = ['a', 'cluds', 'c']\n[chains.clouds]\nstages = ['b', 'zebra']\n"
    )
    assert found == {
        "chains.default.stages.1": "there is no 'cluds'; did you mean 'clouds'?",
        "chains.clouds.stages.1": "there is no 'zebra'; there are a, b, c, clouds, default",
    }


@pytest.mark.parametrize("stages", ["[]", "3", "'a, b, c'", "['a', 'b', 'c', 1]", "['a', 'b', 'c', ['a']]", "[{}]"])
def test_a_chain_that_is_no_list_of_names_is_one_mistake(problems: Problems, stages: str) -> None:
    """Every stage of it was told to be in no chain besides; a list in a list was a TypeError in another chain."""
    found = problems(STAGES + f"[chains.default]\nstages = ['a', 'b', 'c', 'odd']\n[chains.odd]\nstages = {stages}\n")
    (path,) = found
    assert path.startswith("chains.odd.stages")


def test_a_mistake_in_a_chain_does_not_hide_another_in_the_same_one(problems: Problems) -> None:
    """Its stages are looked at although its deadline is wrong."""
    found = problems(STAGES + "[chains.default]\nstages = ['a', 'b', 'x']\ndeadline = 0\n")
    assert set(found) == {"chains.default.deadline", "chains.default.stages.2", "stages.c"}


def test_reserves_that_leave_the_first_stage_nothing_are_refused(problems: Problems, read: Reading) -> None:
    """The last runner may keep almost all of the time, not all of it; a stage's own reserve is not taken from it."""
    stages = '[stages.a]\nprovider = "scripted"\nreserve = 500\n[stages.b]\nprovider = "scripted"\nreserve = 90\n'
    sentence = "90 s are all reserved (90 s) for later stages; raise it, or lower a reserve"
    found = problems(stages + "[chains.default]\nstages = ['a', 'b']\ndeadline = 90\n")
    assert found == {"chains.default.deadline": sentence}
    assert read(stages + "[chains.default]\nstages = ['a', 'b']\ndeadline = 91\n")
    assert read(stages + "[chains.default]\nstages = ['a', 'alone']\ndeadline = 91\n[chains.alone]\nstages = ['b']\n")


def test_a_ladder_of_chains_may_be_longer_than_pythons_stack(read: Reading) -> None:
    """Fifteen hundred chains in one another were a RecursionError."""
    ladder = "".join(f"[chains.c{n}]\nstages = ['c{n + 1}']\n" for n in range(1500))
    found = read(STAGES + ladder + "[chains.c1500]\nstages = ['b', 'a', 'c']\n")
    assert found.chains["c0"].plan == ("b", "a", "c")


def test_chains_that_double_are_unrolled_once(read: Reading) -> None:
    """Forty chains that each name the next one twice were 2 ** 40 steps: `staffel check` never ended."""
    doubling = "".join(f"[chains.c{n}]\nstages = ['c{n + 1}', 'a', 'c{n + 1}']\n" for n in range(40))
    found = read(STAGES + doubling + "[chains.c40]\nstages = ['c', 'b']\n")
    assert found.chains["c0"].plan == ("c", "b", "a")
