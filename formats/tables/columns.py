"""The flat table from which CSV and Parquet are made. It has a line for every row of every window."""

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
"""``count`` is an unsigned integer, ``flag`` is true or false. A value that is not known is None, or '' if it
is a text."""
_UNKNOWN: Final = Tenant(id="", name="")


@dataclass(frozen=True, slots=True)
class FlatColumn:
    """A column of the flat table."""

    name: str
    """The head of the column. It ends in the unit if there is one."""
    kind: Kind
    about: str
    """What the column means, in a few words, as in docs/export.md."""


def _names(*columns: tuple[str, Kind, str]) -> tuple[FlatColumn, ...]:
    return tuple(FlatColumn(*column) for column in columns)


COLUMNS: Final = (
    *_names(
        ("window_start_s", "number", "beginning of the window, Unix time in seconds"),
        ("window_seconds", "number", "length of the window in seconds"),
        ("window_host", "text", "host of the window"),
        (
            "host",
            "text",
            "host of the row; differs from window_host only if windows of several hosts were merged",
        ),
        ("container", "text", "name of the container"),
        ("tenant", "text", "id of the container, unique on its host"),
        ("runtime", "text", "container runtime: docker, containerd, slurm …"),
        ("container_id", "text", "id of the container in its runtime"),
        ("namespace", "text", "namespace of the pod"),
        ("pod", "text", "name of the pod, else its UID"),
        ("process", "text", "name of the process"),
        ("pid", "count", "process id; 0 for the sum of processes that ended long ago"),
        ("layer", "text", "runtime, driver, nccl, or host for the time between calls"),
        ("operation", "text", "operation, such as cudaLaunchKernel"),
        ("inside", "flag", "true: the calls were made inside other traced calls, whose time includes theirs"),
        ("calls", "count", "calls that returned"),
        ("errors", "count", "calls that returned an error"),
        ("bytes", "count", "bytes moved, allocated or sent"),
        ("calls_per_s", "number", "calls a second"),
        ("bytes_per_s", "number", "bytes a second"),
        ("p50_ns", "count", "median duration"),
        ("p95_ns", "count", "95th percentile of the durations"),
        ("p99_ns", "count", "99th percentile of the durations"),
        ("max_ns", "count", "duration of the longest call"),
        ("total_ns", "count", "sum of all durations"),
        ("share", "number", "part of the time of all outermost calls of the window, 0 to 1"),
    ),
    *(FlatColumn(f"{name}_ns", "count", f"part of total_ns: {name}") for name in SPLITS),
    FlatColumn("simulated", "flag", "true: the figures are simulated, not measured"),
    FlatColumn(
        "device",
        "text",
        "GPU of the calls: its number on its host, or 0:3 for MIG device 3 of GPU 0; empty: not measured",
    ),
    FlatColumn("pod_uid", "text", "UID of the pod; a new pod of the same name has another one"),
)
"""All columns in their order. Scripts depend on the names: columns may be added, but never renamed."""


def table(window: Window) -> list[Sequence[Any]]:
    """Return the values of each of ``COLUMNS`` for all rows of ``window``. A value that is not known is None,
    or '' if it is a text. In texts, question marks replace characters that are not printable."""
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
    """Return the share of each row in the time of all outermost calls, 0 to 1; None for the time between
    calls."""
    keys, total = window.rows.keys, window.rows.total_ns
    outermost = np.fromiter((key.outermost for key in keys), np.bool_, len(keys))
    whole = float(total[outermost].sum(dtype=np.float64))
    return [
        None if key.layer == HOST_LAYER else ns / whole if whole else 0.0
        for key, ns in zip(keys, total.tolist(), strict=True)
    ]
