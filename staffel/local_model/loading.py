"""The options that a model is loaded with: another value loads it anew."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Loading:
    """Ollama's load-time options, with its words (its api/types.go, `Runner`).

    `num_ctx` is tokens. `num_gpu` counts layers, -1 as many as fit; `num_thread` 0 is as many as there are cores for
    us. `shift` says whether an answer that fills the window drops the start of the prompt and goes on.
    """

    num_ctx: int
    num_batch: int = 0
    num_gpu: int = -1
    main_gpu: int = 0
    num_thread: int = 0
    use_mmap: bool | None = None
    shift: bool = True

    def fits(self, wanted: Loading) -> bool:
        """Whether a model loaded so can serve `wanted`: one that leaves the GPU to us takes any."""
        if wanted.num_gpu < 0:
            return asdict(self) | {"num_gpu": -1} == asdict(wanted) | {"num_gpu": -1}
        return self == wanted

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
