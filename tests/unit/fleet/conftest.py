"""Starts NATS servers for the tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from stalltop.fleet.connection import ServerAccess
from stalltop.fleet.local_server import LocalServer

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def shared_server() -> Iterator[LocalServer]:
    with LocalServer() as server:
        yield server


@pytest.fixture
def access(shared_server: LocalServer) -> ServerAccess:
    """Returns access to a server that other tests use too: a test has a cluster of its own there."""
    return ServerAccess((shared_server.url,))


@pytest.fixture
def cluster() -> str:
    return f"cluster-{next(_NUMBERS)}"


@pytest.fixture
def server() -> Iterator[LocalServer]:
    """Returns a server of the test's own, which it may end."""
    with LocalServer() as server:
        yield server
