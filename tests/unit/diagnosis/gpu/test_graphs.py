"""Tests the cause ``graph_unlaunched``: graphs that are instantiated and never launched."""

from __future__ import annotations

from stalltop.diagnosis.series import Series
from stalltop.diagnosis.suspicion import Suspicion
from tests.unit.diagnosis.programs import found
from tests.windows.evidence import row, window


def _graphs_over(seconds: int, launch: bool = False) -> list[Suspicion]:
    series = Series()
    for at in range(seconds):
        rows = [row("cudaLaunchKernel", 100, running=1), row("cudaStreamSynchronize", 10, gpu=100)]
        if at < 3:
            rows.append(row("cudaGraphInstantiate", 4, running=8))
        if launch and at == 5:
            rows.append(row("cudaGraphLaunch", 1, running=1))
        made = window(rows, start=1000.0 + at)
        series.add(made)
    return found(made, series=series.points)


def test_graphs_never_launched_are_reported_after_a_minute() -> None:
    (told,) = _graphs_over(70)
    assert told.cause == "graph_unlaunched"
    assert told.links[1].text.startswith("12 graphs made, none launched")


def test_young_graphs_may_still_be_launched() -> None:
    assert _graphs_over(30) == []


def test_launched_graphs_are_no_fault() -> None:
    assert _graphs_over(70, launch=True) == []
