"""Stages behind one account: what one stage of a `limit_group` writes of its limits holds for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from config.limits import Limits
from config.problems import Problem
from config.stages import Stage, StageTable

_KEYS = tuple(field.name for field in fields(Limits))


def shared(
    stages: Mapping[str, Stage], tables: Mapping[str, StageTable]
) -> tuple[dict[str, Stage], tuple[Problem, ...]]:
    """The stages with the limits of their groups, and every value that is not the one the group has already."""
    groups: dict[str, dict[str, tuple[str, Any]]] = {}
    problems = []
    for name, table in tables.items():
        if table.limit_group is None:
            continue
        group = groups.setdefault(table.limit_group, {})
        for key, value in _written(table):
            first, known = group.setdefault(key, (name, value))
            if known != value:
                text = (
                    f"{value:.12g}, but {first} of the same limit_group has {known:.12g}; write that, or leave it out"
                )
                problems.append(Problem(f"stages.{name}.{key}", text))
    limited = {name: _limited(stage, groups.get(stage.limit_group or "", {})) for name, stage in stages.items()}
    return limited, tuple(problems)


def _written(table: StageTable) -> Iterator[tuple[str, Any]]:
    """A default was written by nobody, and binds nobody else."""
    for key in _KEYS:
        if key in table.model_fields_set and (value := getattr(table, key)) is not None:
            yield key, value


def _limited(stage: Stage, group: Mapping[str, tuple[str, Any]]) -> Stage:
    return replace(stage, limits=replace(stage.limits, **{key: value for key, (_, value) in group.items()}))
