"""The JSON object that ``diff --json`` prints: what changed between two windows. See docs/diff.md."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from stalltop.model.chain import Chain
from stalltop.model.comparing.chain_difference import shares
from stalltop.model.comparing.compared_windows import ComparedWindows
from stalltop.model.comparing.difference import ComparedSide, of_rows
from stalltop.model.rows.pivot import PERCENTS
from stalltop.model.window import SPLITS, Window

SCHEMA: Final = "stalltop.diff/1"
"""Name and version of the JSON object."""


def diff_document(diff: ComparedWindows) -> dict[str, Any]:
    """Return ``diff`` as dicts, lists, strings and numbers, for JSON. None stands for a value that is not
    known."""
    found = diff.compared.difference
    intervals = {
        percent: [of_rows(side, percent) for side in (found.then, found.now)] for percent in PERCENTS
    }

    def row(i: int) -> dict[str, Any]:
        return {
            **dict(zip(diff.by, diff.compared.labels[i], strict=True)),
            "state": "new" if found.new[i] else "gone" if found.gone[i] else "both",
            "between_calls": bool(found.between[i]),
            "nested": bool(found.nested[i]),
            "lost_ns_per_s": float(found.lost_ns_per_s[i]),
            "more_ns_per_s": float(found.more_ns_per_s[i]),
            "share": _known(found.share[i]),
            "sure": bool(found.changed[i]),
            **{
                f"p{percent:.0f}": {
                    "ratio": _known(found.ratio(percent)[i]),
                    "sure": bool(found.sure(percent)[i]),
                    **{
                        name: _percentile(side, i, percent, low[i], high[i])
                        for name, side, (low, high) in (
                            ("then", found.then, intervals[percent][0]),
                            ("now", found.now, intervals[percent][1]),
                        )
                    },
                }
                for percent in PERCENTS
            },
            "then": _side(found.then, i),
            "now": _side(found.now, i),
        }

    return {
        "schema": SCHEMA,
        "then": _window(diff.then),
        "now": _window(diff.now),
        "by": list(diff.by),
        "rows": [row(i) for i in diff.order],
        "faults": [
            {
                "state": change.state,
                "then": _fault(change.then),
                "now": _fault(change.now),
                "more_ms_per_s": change.more_ms_per_s,
                "ratio": change.ratio,
                "share": share,
                "confidence": change.confidence,
            }
            for change, share in zip(diff.faults, shares(diff.faults), strict=True)
        ],
        "lines": [
            {
                **change.frame._asdict(),
                "then_ns_per_s": change.then_ns_per_s,
                "now_ns_per_s": change.now_ns_per_s,
                "more_ns_per_s": change.more_ns_per_s,
            }
            for change in diff.lines
        ],
        "conditions": [
            {
                "condition": condition.text,
                "holds": met.sure,
                "rows": [list(diff.compared.labels[i]) for i in met.rows],
                "unsure": [list(diff.compared.labels[i]) for i in met.unsure],
                "faults": met.faults or 0,
            }
            for condition, met in diff.conditions
        ],
    }


def _window(window: Window) -> dict[str, Any]:
    return {
        "host": window.host,
        "start": _known(window.start),
        "seconds": _known(window.seconds),
        "simulated": window.simulated,
        "lost_calls": window.lost,
    }


def _side(side: ComparedSide, row: int) -> dict[str, Any] | None:
    at = int(side.at[row])
    if at < 0:
        return None
    groups = side.groups
    return {
        "calls": int(groups.calls[at]),
        "calls_per_s": float(groups.calls[at]) / side.seconds,
        "errors": int(groups.errors[at]),
        "bytes": int(groups.bytes[at]),
        "total_ns": int(groups.total_ns[at]),
        "max_ns": int(groups.max_ns[at]),
        "split_ns": None
        if groups.split_ns is None
        else dict(zip(SPLITS, groups.split_ns[at].tolist(), strict=True)),
    }


def _percentile(
    side: ComparedSide, row: int, percent: float, low: float, high: float
) -> dict[str, Any] | None:
    at = int(side.at[row])
    if at < 0 or not side.groups.calls[at]:
        return None
    return {
        "ns": int(side.groups.percentiles_ns[at, PERCENTS.index(percent)]),
        "least_ns": int(low),
        "most_ns": int(high) if math.isfinite(high) else None,
    }


def _fault(chain: Chain | None) -> dict[str, Any] | None:
    if chain is None:
        return None
    names = ("id", "cause", "title", "severity", "summary", "tenant", "process", "layer", "operation")
    figures = ("lost_ms_per_s", "confidence", "calls", "p99_ns", "normal_p99_ns")
    return {name: getattr(chain, name) for name in (*names, *figures)}


def _known(value: float | np.floating[Any]) -> float | None:
    return float(value) if math.isfinite(value) else None
