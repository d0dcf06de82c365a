"""One narrow worker for all tests of batches."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.nodes import House, Valkey
from tests.staffel.summarize.house import Typed, batch_house


@pytest.fixture(scope="session")
def there(tmp_path_factory: pytest.TempPathFactory, valkey: Valkey, house: House) -> Iterator[House]:
    with batch_house(tmp_path_factory.mktemp("batch"), valkey, house.host) as made:
        yield made


@pytest.fixture
def summarize(there: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    return Typed(there, monkeypatch, capsys)


@pytest.fixture
def word() -> str:
    """Stands in a test's own documents, so that its calls are told apart."""
    return uuid.uuid4().hex
