"""What each behaviour does with a call. The table of them stands in the package's docstring."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from tests.hosts import answers, breaks, errors, silences
from tests.hosts.exchange import Exchange

BEHAVIOURS: Mapping[str, Callable[[Exchange], Awaitable[None]]] = MappingProxyType(
    {
        play.__name__.replace("_", "-"): play
        for play in (
            *(answers.ok, answers.thinking, answers.length, answers.length_empty, answers.empty, answers.repeat),
            *(answers.no_end, answers.no_done, answers.big, answers.gzip, answers.long_header),
            *(answers.null_choices, answers.empty_candidates),
            *(errors.status, errors.quote, errors.redirect),
            *(errors.error_200, errors.error_in_stream, errors.late_error),
            *(silences.silent, silences.head_only, silences.head_drip, silences.stall, silences.drip),
            *(silences.whitespace, silences.role_only, silences.blanks),
            *(breaks.cut, breaks.cut_head, breaks.late_cut, breaks.short),
            *(breaks.bad_chunks, breaks.not_http, breaks.unreadable),
        )
    }
)
