"""Tests stacks of calls, line by line, against those that the calling programs record themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernel.stacks.comparing import compared
from tests.kernel.stacks.tracing import collected, compile_library
from tests.unit.probes.stacks.interpreters import interpreters

CALLER = Path(__file__).with_name("python_caller.py")
ROUNDS = 340
LEAST_SHARE = 0.995
LEAST_CALLS = 10_000


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_library(tmp_path_factory.mktemp("worked"))


@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_stacks_are_those_that_the_calls_recorded(interpreter: Path, library: Path, tmp_path: Path) -> None:
    record = tmp_path / "stacks.json"
    collecting = collected([interpreter, "-I", CALLER, library, record, str(ROUNDS)], library)
    tally = compared([record], collecting)
    print(tally)
    assert tally.share >= LEAST_SHARE, tally
    assert tally.without == 0, tally
    assert tally.right + tally.wrong + tally.incomplete + tally.without > 0.9 * tally.recorded, tally
    assert tally.right >= LEAST_CALLS, tally
