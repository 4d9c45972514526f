"""Tests the rows of operations that are not traced all of the time, because of the budget."""

from __future__ import annotations

from dataclasses import replace

from stalltop.model.text.glyphs import UNICODE
from stalltop.model.window import Coverage, Library, Missing, Reduction, Window
from stalltop.tui.chain.warnings_page import warnings_page
from stalltop.tui.views.groups import grouped
from tests.windows.by_hand import Calls, key, window

TWIN = Reduction("cuLaunchKernel", 0.0, nested=True)
SAMPLED = Reduction("cudaMemcpyAsync", 0.1)
TIMED = Reduction("cudaLaunchKernel", 1.0, timed_in=8)
COPY = key(operation="cudaMemcpyAsync HtoD", layer="runtime")
OTHER = key(operation="cudaLaunchKernel", layer="runtime")


def reduced() -> Window:
    one = window([Calls(COPY, [20]), Calls(OTHER, [10, 10])])
    libraries = (
        Library("/usr/lib/libcudart.so.12", "runtime", 90, 1, (SAMPLED, TIMED)),
        Library("/usr/lib/libcuda.so.1", "driver", 118, 1, (TWIN,)),
    )
    over = Missing("probes in train.py 7", "they take 7 % of a CPU, the budget is 2 %", "sample", cost=True)
    return replace(one, coverage=Coverage(libraries=libraries, missing=(over,), processes=1))


def test_operations_say_how_much_of_them_is_counted() -> None:
    rows = grouped(reduced(), ("operation",))
    assert sorted(label for (label,) in rows.labels) == [
        "cuLaunchKernel (off, budget)",
        "cudaLaunchKernel (timed 1 in 8)",
        "cudaMemcpyAsync HtoD (sampled 10 %)",
    ]
    assert rows.at.tolist()[-1] == -1  # it has no figures
    assert len(grouped(reduced(), ("operation",), nested=False)) == 2


def test_tables_of_other_rows_stay_as_they_are() -> None:
    one = reduced()
    assert (
        grouped(one, ("process",)).labels == grouped(replace(one, coverage=Coverage()), ("process",)).labels
    )


def test_the_page_of_warnings_says_what_is_not_counted_and_why() -> None:
    lines = warnings_page(reduced(), (), UNICODE)
    text = "\n".join("".join(part for part, _ in line.parts) for line in lines)
    assert "over budget: probes in train.py 7: they take 7 % of a CPU, the budget is 2 %" in text
    assert "cuLaunchKernel: off, budget; its calls are made inside calls that are counted" in text
    assert "cudaLaunchKernel: timed 1 in 8; all calls are counted, their times are those of a sample" in text
    assert "cudaMemcpyAsync: sampled 10 %; its figures are not scaled up" in text
