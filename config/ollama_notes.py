"""What a file alone shows of its Ollama stages that will make a host load its models again and again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from config.ollama import full_name, is_elsewhere, is_same, load_options
from config.problems import Problem
from config.stages import StageTable, address_of


def notes(tables: Mapping[str, StageTable]) -> Iterator[Problem]:
    first: dict[tuple[str, int], str] = {}
    for name, table in tables.items():
        if table.provider != "ollama" or (host := address_of(table.base_url)) is None:
            continue
        yield from _own(f"stages.{name}", table)
        if is_elsewhere(table.base_url, table.model):
            continue
        other = first.setdefault(host, name)
        if other != name:
            yield from _beside(f"stages.{name}", table, other, tables[other])


def _own(path: str, table: StageTable) -> Iterator[Problem]:
    cold, first_token = table.cold_load_timeout, table.first_token_timeout
    warm, key = (first_token, "first_token_timeout") if first_token else (table.timeout, "timeout")
    if cold is not None and cold < warm:
        text = (
            f"{cold:g} s for the first token of a call that has to load the model, but one whose model is there has "
            f"{warm:g} s ({key}); write {warm:g} or more"
        )
        yield Problem(f"{path}.cold_load_timeout", text)
    if "keep_alive" in table.params:
        yield Problem(f"{path}.params.keep_alive", "does nothing; write it as the stage's own key, keep_alive")


def _beside(path: str, table: StageTable, other: str, first: StageTable) -> Iterator[Problem]:
    """Against the first stage of the host: what one load gives, another takes away."""
    if not is_same(table.model, first.model):
        text = (
            f"{full_name(table.model)}, but {other} has {full_name(first.model)} on the same host: where not both fit "
            "into its memory, each change is a load; write the same model, or give it a host of its own"
        )
        yield Problem(f"{path}.model", text)
        return
    mine, its = (_loaded_with(one) for one in (table, first))
    for key in mine | its:
        if mine.get(key) == its.get(key):
            continue
        here, there = _shown(mine.get(key)), _shown(its.get(key))
        what = "the last call's counts for both" if key == "keep_alive" else "each change loads it anew"
        instead = "write the same at both" if key.startswith("params.") else f"write {key} = {there}"
        text = f"{here}, but {other} has the same model on the same host with {there}: {what}; {instead}"
        yield Problem(f"{path}.{key}", text)


def _loaded_with(table: StageTable) -> dict[str, object]:
    """All that must be the same, by its key in the stage's table."""
    options = {f"params.options.{name}": value for name, value in load_options(table.params).items()}
    shift = {"params.shift": table.params["shift"]} if "shift" in table.params else {}
    return {"num_ctx": table.num_ctx, "keep_alive": table.keep_alive, **options, **shift}


def _shown(value: object) -> str:
    return "none" if value is None else json.dumps(value)
