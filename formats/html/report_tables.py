"""Tables that only reports have: slow captured calls, and CUDA kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stalltop.formats.html.page import section, split_bar
from stalltop.formats.html.tags import Html, joined, tag
from stalltop.formats.tables.sheet import SheetRow
from stalltop.formats.text import chains as chain_text
from stalltop.model.cuda_kernels import KernelCount
from stalltop.model.text import figures
from stalltop.model.text.words import with_pid
from stalltop.model.window import Window

MOST_LISTED: Final = 50
"""Maximum number of calls, and of CUDA kernels, that a table lists."""


_BAR: Final = "time went to"


def _listing(
    title: str, heads: Sequence[str], left: int, rows: Sequence[Sequence[str]], rest: Sequence[str]
) -> Html:
    """Return a section with a table, and the lines ``rest`` below the table. The first ``left`` columns of
    the table are names."""
    if not rows:
        return Html()

    def cells(kind: str, row: Sequence[str]) -> list[Html]:
        return [
            tag(kind, cell, class_="name" if at < left or heads[at] == _BAR else "")
            for at, cell in enumerate(row)
        ]

    body = [joined(Html("\n"), tag("tr", *cells("td", row))) for row in rows]
    table = tag("table", tag("thead", tag("tr", *cells("th", heads))), tag("tbody", *body))
    notes = [tag("p", line, class_="dim") for line in rest]
    return section(title, tag("div", table, class_="scroll"), *notes)


def slow_calls(whole: Window) -> Html:
    """Return a table of the slowest captured calls."""
    # Nested calls are left out, because their time is part of the outermost calls around them. They are
    # listed only if no outermost call was captured.
    calls = [call for call in whole.calls.kept if not call.nested] or list(whole.calls.kept)
    calls.sort(key=lambda call: -call.duration_ns)
    rows = []
    for call in calls[:MOST_LISTED]:
        bar = split_bar(SheetRow((), split_ns=call.split_ns)) if call.split_ns is not None else Html()
        rows.append(
            [
                chain_text.name_of(call.tenant, whole),
                with_pid(call.process, call.pid),
                f"({call.operation})" if call.nested else call.operation,
                call.kernel,
                call.arguments,
                call.device,
                str(call.tid),
                figures.clock(call.start_ns / 1e9),
                figures.duration(call.duration_ns).strip(),
                bar,
            ]
        )
    heads = (
        "container",
        "process",
        "operation",
        "kernel",
        "arguments",
        "GPU",
        "thread",
        "began",
        "took",
        _BAR,
    )
    rest = _more(len(calls) - len(rows))
    if whole.calls.passed_over:
        rest.append(
            f"{whole.calls.passed_over:,} more slow calls were only counted: there were too many to capture"
        )
    return _listing("Slow calls, one by one", heads, 5, rows, rest)


def _more(count: int) -> list[str]:
    return [f"and {count:,} more"] if count > 0 else []


def kernels(whole: Window) -> Html:
    """Return a table of launches by container and CUDA kernel. Those with the most time in the launching
    calls come first."""
    sums: dict[tuple[str, str], list[KernelCount]] = {}
    for count in whole.kernels:
        sums.setdefault((count.tenant, count.kernel), []).append(count)
    ordered = sorted(sums.items(), key=lambda item: -sum(count.total_ns for count in item[1]))
    rows = []
    for (tenant, kernel), counts in ordered[:MOST_LISTED]:
        calls, total = sum(count.calls for count in counts), sum(count.total_ns for count in counts)
        rows.append(
            [
                chain_text.name_of(tenant, whole),
                kernel or "not known",
                figures.count(calls).strip(),
                figures.count(sum(count.errors for count in counts)).strip(),
                figures.duration(total / calls if calls else None).strip(),
                figures.duration(max(count.max_ns for count in counts)).strip(),
                figures.duration(total).strip(),
            ]
        )
    heads = ("container", "kernel", "launches", "err", "mean launch", "longest launch", "time in launches")
    return _listing("Kernels", heads, 2, rows, _more(len(ordered) - len(rows)))
