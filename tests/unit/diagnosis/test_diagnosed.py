"""Tests the source that adds chains to windows when the diagnosis or the wrapped source fails."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from stalltop.diagnosis.diagnosed import Diagnosed
from stalltop.diagnosis.engine import Diagnosis
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.model.window import Window
from tests.windows.by_hand import Calls, key, row_table, window


class FailingSource:
    """Yields consecutive windows, and fails at the ninth read."""

    def __init__(self) -> None:
        self.reads = 0
        self.closed = False

    def read(self) -> Window:
        self.reads += 1
        if self.reads == 9:
            raise OSError("the source is gone")
        return window([Calls(key(), [1_000] * 10)], start=1_000.0 + self.reads)

    def close(self) -> None:
        self.closed = True


def lost(facts: Facts) -> Iterable[Suspicion]:
    """Finds a fault in each window, but fails on the fourth and fifth."""
    if facts.window.end in (1_005.0, 1_006.0):
        raise ZeroDivisionError("float division by zero")
    yield Suspicion("lock_contention", "docker:aa", "train loses time", 3e8, 0.9)


def test_a_failing_rule_costs_only_the_chains_of_its_windows() -> None:
    source = FailingSource()
    diagnosed = Diagnosed(source, Diagnosis(rules=(lost,)))
    windows = [diagnosed.read() for _ in range(8)]
    assert [len(one.rows) for one in windows] == [1] * 8
    assert row_table(windows[4].rows) == row_table(windows[0].rows)
    told = [one.evidence.unknown for one in windows]
    assert [bool(lines) for lines in told] == [False] * 3 + [True] * 2 + [False] * 3
    assert told[3][0].startswith("causes: the diagnosis failed with ZeroDivisionError: float division")
    assert windows[2].chains
    assert windows[7].chains
    assert windows[7].chains[0].since == windows[2].chains[0].since


def test_a_failing_source_is_not_hidden_by_the_diagnosis() -> None:
    source = FailingSource()
    diagnosed = Diagnosed(source, Diagnosis(rules=()))
    for _ in range(8):
        diagnosed.read()
    with pytest.raises(OSError, match="gone"):
        diagnosed.read()
    diagnosed.close()
    assert source.closed


def test_an_ended_tenant_keeps_its_name_while_a_chain_names_it() -> None:
    class Ending(FailingSource):
        def read(self) -> Window:
            one = super().read()
            return one if self.reads <= 3 else replace(window([], start=one.start), tenants={})

    diagnosed = Diagnosed(Ending(), Diagnosis(rules=(lost,)))
    windows = [diagnosed.read() for _ in range(8)]
    assert windows[7].chains
    assert windows[7].tenants == {"docker:aa": windows[0].tenants["docker:aa"]}
