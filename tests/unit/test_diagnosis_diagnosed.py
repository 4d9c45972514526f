"""A source whose windows are diagnosed, whatever the diagnosis makes of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from stalltop.diagnosis.diagnosed import Diagnosed
from stalltop.diagnosis.engine import Diagnosis
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.model.window import Window
from tests.unit.windows import Calls, key, row_table, window


class Source:
    """Windows that follow each other."""

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
    """A rule that finds something, but for the fourth and fifth window, on which it fails."""
    if facts.window.end in (1_005.0, 1_006.0):
        raise ZeroDivisionError("float division by zero")
    yield Suspicion("lock_contention", "docker:aa", "train loses time", 3e8, 0.9)


def test_a_rule_that_fails_costs_the_chains_of_its_window_only() -> None:
    source = Source()
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


def test_a_source_that_fails_is_no_matter_of_the_diagnosis() -> None:
    source = Source()
    diagnosed = Diagnosed(source, Diagnosis(rules=()))
    for _ in range(8):
        diagnosed.read()
    with pytest.raises(OSError, match="gone"):
        diagnosed.read()
    diagnosed.close()
    assert source.closed


def test_a_tenant_that_has_ended_keeps_its_name_while_a_chain_speaks_of_it() -> None:
    class Ending(Source):
        def read(self) -> Window:
            one = super().read()
            return one if self.reads <= 3 else replace(window([], start=one.start), tenants={})

    diagnosed = Diagnosed(Ending(), Diagnosis(rules=(lost,)))
    windows = [diagnosed.read() for _ in range(8)]
    assert windows[7].chains
    assert windows[7].tenants == {"docker:aa": windows[0].tenants["docker:aa"]}
