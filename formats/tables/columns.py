"""Rows of windows as one flat table: a row of every window is a line. What CSV and Parquet are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from stalltop.model.evidence import HOST_LAYER
from stalltop.model.row_key import RowKey
from stalltop.model.rows.pivot import PERCENTS, bounded
from stalltop.model.tenant import Tenant
from stalltop.model.text.figures import printable
from stalltop.model.window import SPLITS, Window

Kind = Literal["text", "count", "number", "flag"]
"""``count``: an unsigned integer; ``flag``: true or false. Any of them but text may be not known (None)."""
_UNKNOWN: Final = Tenant(id="", name="")


@dataclass(frozen=True, slots=True)
class FlatColumn:
    """One column of the table."""

    name: str
    """With its unit, where it has one."""
    kind: Kind
    about: str
    """What it says, in a few words: docs/export.md has the same."""


def _names(*columns: tuple[str, Kind, str]) -> tuple[FlatColumn, ...]:
    return tuple(FlatColumn(*column) for column in columns)


COLUMNS: Final = (
    *_names(
        ("window_start_s", "number", "Unix time, seconds"),
        ("window_seconds", "number", "how long it lasted"),
        ("window_host", "text", "whose window it is"),
        ("host", "text", "the row's own host: another one only where windows of several were put together"),
        ("container", "text", "what a person calls it"),
        ("tenant", "text", "its id, which no other one of the host has"),
        ("runtime", "text", "docker, containerd, slurm …"),
        ("container_id", "text", "the runtime's id"),
        ("namespace", "text", "of the pod"),
        ("pod", "text", "the pod"),
        ("process", "text", "name of the process"),
        ("pid", "count", "process id; 0 for processes that ended long ago, added up"),
        ("layer", "text", "runtime, driver, nccl, or host for the time between calls"),
        ("operation", "text", "what was called"),
        ("inside", "flag", "made inside another traced call, whose time holds theirs"),
        ("calls", "count", "calls that returned"),
        ("errors", "count", "of these, with an error"),
        ("bytes", "count", "moved or allocated"),
        ("calls_per_s", "number", "calls a second"),
        ("bytes_per_s", "number", "bytes a second"),
        ("p50_ns", "count", "median duration"),
        ("p95_ns", "count", "95th percentile"),
        ("p99_ns", "count", "99th percentile"),
        ("max_ns", "count", "the longest"),
        ("total_ns", "count", "all calls together"),
        ("share", "number", "of the time of all outermost calls of the window, 0 to 1"),
    ),
    *(FlatColumn(f"{name}_ns", "count", f"part of total_ns: {name}") for name in SPLITS),
    FlatColumn("simulated", "flag", "no such tenants were traced"),
    FlatColumn(
        "device",
        "text",
        "number of the GPU on its host, or 0:3 for MIG device 3 of GPU 0; empty: not measured",
    ),
    FlatColumn("pod_uid", "text", "of the pod: another pod of the same name has another"),
)
"""All of them, in their order. Names are a contract: columns may be added, never renamed."""


def table(window: Window) -> list[Sequence[Any]]:
    """The values of every column of ``COLUMNS`` for all rows of ``window``; None where one is not known.

    Text is printable: what could steer a terminal is a question mark.
    """
    rows = window.rows
    n = len(rows)
    columns: dict[str, Sequence[Any]] = {
        "window_start_s": [window.start] * n,
        "window_seconds": [window.seconds] * n,
        "window_host": [printable(window.host)] * n,
        "simulated": [window.simulated] * n,
        **_who(rows.keys, window.tenants),
        **{name: getattr(rows, name).tolist() for name in ("calls", "errors", "bytes", "max_ns", "total_ns")},
    }
    seconds = window.seconds if window.seconds > 0 else 1.0
    columns["calls_per_s"] = (rows.calls / seconds).tolist()
    columns["bytes_per_s"] = (rows.bytes / seconds).tolist()
    percentiles = bounded(rows.histograms.percentiles(PERCENTS), rows.max_ns)
    for name, values in zip(("p50_ns", "p95_ns", "p99_ns"), percentiles.T.tolist(), strict=True):
        columns[name] = [
            value if calls else None for value, calls in zip(values, columns["calls"], strict=True)
        ]
    columns["share"] = _shares(window)
    for number, name in enumerate(SPLITS):
        columns[f"{name}_ns"] = [None] * n if rows.split_ns is None else rows.split_ns[:, number].tolist()
    return [columns[column.name] for column in COLUMNS]


def _who(keys: Sequence[RowKey], tenants: Mapping[str, Tenant]) -> dict[str, Sequence[Any]]:
    owners = [tenants.get(key.tenant, _UNKNOWN) for key in keys]

    def of_key(get: Callable[[RowKey], str]) -> list[str]:
        return [printable(get(key)) for key in keys]

    def of_owner(get: Callable[[Tenant], str]) -> list[str]:
        return [printable(get(owner)) for owner in owners]

    return {
        "host": of_key(lambda key: key.host),
        "container": [printable(owner.name or key.tenant) for owner, key in zip(owners, keys, strict=True)],
        "tenant": of_key(lambda key: key.tenant),
        "runtime": of_owner(lambda owner: owner.runtime),
        "container_id": of_owner(lambda owner: owner.container_id),
        "namespace": of_owner(lambda owner: owner.namespace),
        "pod": of_owner(lambda owner: owner.pod),
        "process": of_key(lambda key: key.process),
        "pid": [key.pid for key in keys],
        "layer": of_key(lambda key: key.layer),
        "operation": of_key(lambda key: key.operation),
        "inside": [key.nested for key in keys],
        "device": of_key(lambda key: key.device),
        "pod_uid": of_owner(lambda owner: owner.pod_uid),
    }


def _shares(window: Window) -> list[float | None]:
    """Time between calls is no part of the time of calls."""
    keys, total = window.rows.keys, window.rows.total_ns
    outermost = np.fromiter((key.outermost for key in keys), np.bool_, len(keys))
    whole = float(total[outermost].sum(dtype=np.float64))
    return [
        None if key.layer == HOST_LAYER else ns / whole if whole else 0.0
        for key, ns in zip(keys, total.tolist(), strict=True)
    ]
