"""Fixtures of the tests with receivers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.receivers.published import PublishedWindows


@pytest.fixture
def tracer(tracer_socket: Path) -> Iterator[PublishedWindows]:
    made = PublishedWindows(tracer_socket)
    yield made
    made.close()
