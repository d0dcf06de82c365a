"""The browser of the tests: what is said where there is none, and that its own log is read rightly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.nodes.browser import elsewhere, installed

KINDS = {"TCP_CONNECT_ATTEMPT": 1, "UDP_CONNECT": 2, "UDP_BYTES_SENT": 3, "OTHER": 4}


@pytest.mark.parametrize(("ci", "end"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_no_browser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ci: str, end: type[BaseException]) -> None:
    """At home its tests are skipped with a line that says what to install; in CI they fail."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", ci)
    with pytest.raises(end, match="apt-get install chromium chromium-driver"):
        installed()


def test_who_was_met(tmp_path: Path) -> None:
    """Every connection and every datagram counts; a route that was only asked for does not."""
    events = [
        event(1, 1, address="127.0.0.1:5555"), event(2, 1, address="[::1]:80"), event(3, 1, address="192.0.2.1:443"),
        event(4, 2, address="[2001:db8::1]:443"), event(5, 2, address="192.0.2.2:53"), event(5, 3), event(6, 3),
        event(7, 4, address="192.0.2.9:80"), event(8, 1),
    ]  # fmt: skip
    log = tmp_path / "net.json"
    log.write_text(json.dumps({"constants": {"logEventTypes": KINDS}, "events": events}))
    assert elsewhere(log) == {"192.0.2.1:443", "192.0.2.2:53", "unknown:0"}


def event(source: int, kind: int, **params: Any) -> dict[str, Any]:
    return {"source": {"id": source}, "type": kind, "params": params}
