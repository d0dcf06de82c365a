"""What measures is built of the same parts as what is measured."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import benchmarks
import chaos


@pytest.mark.parametrize(
    "name",
    [
        found.name
        for package in (benchmarks, chaos)
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    ],
)
def test_it_can_be_imported(name: str) -> None:
    """Nobody runs the benchmarks with each change: one had been broken by a new name for a day."""
    importlib.import_module(name)
