"""What an Ollama host loads: which model, and the settings of which another value loads it anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

LOAD_TIME = (
    "num_batch", "num_gpu", "main_gpu", "use_mmap", "num_thread", "draft_num_predict",
    "low_vram", "f16_kv", "logits_all", "vocab_only", "use_mlock", "numa",
)  # fmt: skip
"""Options that belong to a loaded model, as `num_ctx` does: `Runner` in ollama's api/types.go, `needsReload` in
server/sched.go; the last six are those of older versions. `shift` is one as well, beside the options."""

_CLOUD = "ollama.com"


def full_name(model: str) -> str:
    """As the host lists it: the tag `latest` where none is named."""
    name = model.strip()
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def is_same(model: str, other: str) -> bool:
    """Ollama takes small and large letters for the same."""
    return full_name(model).lower() == full_name(other).lower()


def options_of(params: Mapping[str, Any]) -> Mapping[str, Any]:
    found = params.get("options")
    return found if isinstance(found, Mapping) else {}


def load_options(params: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a stage's own options that the load takes."""
    return {name: value for name, value in options_of(params).items() if name in LOAD_TIME}


def is_elsewhere(base_url: str, model: str) -> bool:
    """Whether Ollama's own cloud runs the model, also where a host in the house passes the call on.

    It is in no memory here, and its window is not ours to set.
    """
    host = urlsplit(base_url).hostname or ""
    tag = full_name(model).rpartition(":")[2].lower()
    return host == _CLOUD or host.endswith(f".{_CLOUD}") or tag == "cloud" or tag.endswith("-cloud")
