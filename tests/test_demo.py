"""The README's first command, with the real local model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent


@pytest.mark.timeout(600)
def test_the_demo_keeps_its_promises(tmp_path: Path) -> None:
    """Three scenes and two documents: exit 0 says that all were answered and that hosts and ledger count alike."""
    documents = tmp_path / "documents"
    documents.mkdir()
    for name in ("delivery-delay.eml", "mieterbrief.txt"):
        (documents / name).write_bytes((ROOT / "examples" / "documents" / name).read_bytes())
    done = subprocess.run(
        [str(BIN / "staffel"), "demo", "--documents", str(documents)], cwd=tmp_path, capture_output=True, text=True,
        timeout=580, check=False, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for said in ("server_error (500)", "throttled (429)", "timeout 2.0 s", "the walk itself s", "weak by design"):
        assert said in done.stdout
    assert "local 5" in done.stdout, "three scenes and two documents reached the local model once each"
    assert not list(tmp_path.glob("staffel-demo-*")), "the demo left its folder behind"
