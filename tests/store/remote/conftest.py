"""One server for all tests of a session; every test has a place of its own in a bucket."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.store.remote import s3_server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3_server.Server]:
    if reason := s3_server.missing():
        pytest.skip(reason)
    with s3_server.running(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def bucket(server: s3_server.Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The place of a store that does not exist yet, with credentials in the environment."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return f"s3://test/{uuid.uuid4().hex}/store"
