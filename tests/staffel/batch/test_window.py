"""What is too long for every stage is told before it is sent, and what may fit is not held back."""

from __future__ import annotations

from pathlib import Path

import pytest

from staffel.batch.window import tokens, too_long, widest
from staffel.documents import read
from staffel_wire.catalogue import Offer
from tasks.summarize import MAX_OUTPUT_TOKENS, request_of

EXAMPLES = Path(__file__).parents[3] / "examples" / "documents"


def offer(window: int | None) -> Offer:
    return Offer("a", "cloud", local=False, window=window)


@pytest.mark.parametrize(
    ("windows", "expected"), [((4096, 8192, 2048), 8192), ((4096, None), None), ((None,), None), ((), None)]
)
def test_the_widest_window_counts_and_one_that_is_not_known_may_be_any(
    windows: tuple[int | None, ...], expected: int | None
) -> None:
    """None stands for no limit."""
    assert widest([offer(window) for window in windows]) == expected


def test_a_document_is_measured_with_its_instruction_and_its_summary() -> None:
    """Bytes / 3.5: an umlaut is two, which is what such texts take in tokens."""
    bare = tokens(request_of(""))
    assert MAX_OUTPUT_TOKENS < bare < MAX_OUTPUT_TOKENS + 100
    assert tokens(request_of("a" * 3500)) - bare == pytest.approx(1000, abs=1)
    assert tokens(request_of("ü" * 3500)) - bare == pytest.approx(2000, abs=1)


def test_the_line_says_how_long_it_is_and_what_to_do() -> None:
    """A request that just fits has none."""
    request = request_of("a" * 35_000)
    size = tokens(request)
    assert too_long(request, None) is None
    assert too_long(request, size) is None
    assert too_long(request, size - 1) == (
        f"about {size:,} tokens with its summary, the widest window of the chain is {size - 1:,}: "
        "raise num_ctx, or add a stage with a wider window"
    )


@pytest.mark.parametrize(
    ("name", "counted"),
    [("council-notice.txt", 753), ("pump-incident-report.md", 787), ("mieterbrief.txt", 1190)],
)
def test_the_estimate_holds_back_nothing_that_fits_a_small_model(name: str, counted: int) -> None:
    """`counted` by SmolLM2's own tokenizer; the estimate may be short of it and is hardly above it."""
    request = request_of(read(EXAMPLES / name).text)
    estimate = tokens(request) - tokens(request_of(""))
    assert 0.6 * counted < estimate < 1.05 * counted
