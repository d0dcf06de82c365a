"""How long a document may be: the windows of the stages, and a rough count of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from staffel_wire.catalogue import Offer

BYTES_PER_TOKEN = 3.5


def widest(offers: Sequence[Offer]) -> int | None:
    """The widest window (tokens) of these stages; None if one is not known, since any document may fit there."""
    windows = [offer.window for offer in offers if offer.window is not None]
    return max(windows) if windows and len(windows) == len(offers) else None


def tokens(request: Mapping[str, Any]) -> int:
    """Roughly what a request and its answer take: UTF-8 bytes of all that is said / 3.5, and the output's limit.

    For Latin letters without accents a byte is a character. Measured with the tokenizer of a small model (SmolLM2,
    49k words): English 3.2 to 3.6 bytes a token, German 2.3, Russian 2.4, Chinese 1.6; a larger vocabulary holds
    more in each. So what is far too long is told before it is sent, and what is a little too long for a small
    vocabulary is left to the stage, which counts exactly.
    """
    said = sum(len(str(request[part]).encode("utf-8", "replace")) for part in ("system", "prompt"))
    return round(said / BYTES_PER_TOKEN) + int(request["max_output_tokens"])


def too_long(request: Mapping[str, Any], window: int | None) -> str | None:
    """Why a request fits no stage, in a line; None if it may fit."""
    if window is None or (size := tokens(request)) <= window:
        return None
    return (
        f"about {size:,} tokens with its summary, the widest window of the chain is {window:,}: "
        "raise num_ctx, or add a stage with a wider window"
    )
