"""Tests that what stalltop costs includes its helper processes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from stalltop.tui.reading import own_cost
from stalltop.tui.reading.own_cost import OwnCost

MIB = 1 << 20
SPINNING = "x = b'x' * (64 << 20); print(flush=True)\nwhile True: pass"


@pytest.fixture
def helper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has written to 64 MiB of memory and uses a CPU."""
    with subprocess.Popen([sys.executable, "-c", SPINNING], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_helpers_are_part_of_the_cost(
    helper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_cost, "_LEAST_SECONDS", 0.0)
    pids = [helper.pid]
    alone, together = OwnCost(), OwnCost(lambda: pids)
    before = together.read()
    time.sleep(0.5)
    without, found = alone.read(), together.read()
    assert before is not None
    assert without is not None
    assert found is not None
    assert found.percent > without.percent + 1.0
    assert 64 * MIB <= found.memory_bytes - without.memory_bytes < 96 * MIB
    # It ends, also while it is still listed.
    helper.kill()
    helper.wait()
    last = together.read()
    assert last is not None
    assert last.memory_bytes < found.memory_bytes - 60 * MIB
