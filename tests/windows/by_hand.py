"""Makes windows by hand, and tables to compare them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import NamedTuple

import numpy as np

from stalltop.model.evidence import RECORDS, Evidence
from stalltop.model.histograms.hdr import COUNTERS, index_of
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.row_key import RowKey
from stalltop.model.tenant import Tenant
from stalltop.model.window import SPLITS, Coverage, Rows, Window


class Calls(NamedTuple):
    """Describes one row: durations of its calls in ns, errors and bytes."""

    key: RowKey
    durations: Sequence[int]
    errors: int = 0
    bytes: int = 0


def key(
    operation: str = "cudaLaunchKernel",
    *,
    tenant: str = "docker:aa",
    pid: int = 100,
    process: str = "python3",
    layer: str = "runtime",
    nested: bool = False,
    host: str = "gpu7",
    device: str = "",
) -> RowKey:
    return RowKey(host, tenant, pid, process, layer, operation, nested, device)


def rows(calls: Sequence[Calls], *, split: bool = False) -> Rows:
    """Returns rows with the exact counts of ``calls``; with ``split``, all time counts as running."""
    dense = np.zeros((len(calls), COUNTERS), np.uint64)
    for number, row in enumerate(calls):
        for duration in row.durations:
            dense[number, index_of(duration)] += np.uint64(1)

    def column(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        return np.array(values, np.uint64)

    total = column([sum(row.durations) for row in calls])
    splits = np.zeros((len(calls), len(SPLITS)), np.uint64)
    splits[:, 0] = total
    return Rows(
        keys=tuple(row.key for row in calls),
        calls=column([len(row.durations) for row in calls]),
        errors=column([row.errors for row in calls]),
        bytes=column([row.bytes for row in calls]),
        total_ns=total,
        max_ns=column([max(row.durations, default=0) for row in calls]),
        histograms=Histograms.from_dense(dense),
        split_ns=splits if split else None,
    )


TENANTS = {
    "docker:aa": Tenant(
        "docker:aa", "train", runtime="docker", container_id="aa", cgroup_id=71, cgroup_path="/docker/aa"
    ),
    "cri:bb": Tenant(
        *("cri:bb", "serve"),
        kind="pod",
        runtime="containerd",
        container_id="bb",
        pod="llm-0",
        namespace="prod",
        container="server",
        pod_uid="6f1c-99",
        user="1000",
        labels=(("app", "llm"), ("tier", "prod")),
    ),
}


def window(
    calls: Sequence[Calls] = (),
    *,
    start: float = 1_000.0,
    seconds: float = 1.0,
    host: str = "gpu7",
    split: bool = False,
    loss: dict[str, int] | None = None,
    cost_percent: float = 0.5,
    simulated: bool = False,
) -> Window:
    return Window(
        start=start,
        seconds=seconds,
        host=host,
        rows=rows(calls, split=split),
        tenants=dict(TENANTS),
        loss=loss or {},
        coverage=Coverage(attached=4, functions=2, cost_percent=cost_percent, way="multi"),
        simulated=simulated,
    )


def row_table(rows_: Rows) -> dict[RowKey, tuple[object, ...]]:
    """Returns every count of every row, by the row's key. The results for two windows are equal if and only
    if the windows have equal rows, in any order."""
    dense = rows_.histograms.dense()
    return {
        key_: (
            int(rows_.calls[i]),
            int(rows_.errors[i]),
            int(rows_.bytes[i]),
            int(rows_.total_ns[i]),
            int(rows_.max_ns[i]),
            dense[i].tobytes(),
            None if rows_.split_ns is None else rows_.split_ns[i].tobytes(),
        )
        for i, key_ in enumerate(rows_.keys)
    }


def same_window(one: Window, other: Window) -> None:
    """Checks that ``one`` and ``other`` are equal in every field, with their rows in the same order."""
    assert one.rows.keys == other.rows.keys
    assert row_table(one.rows) == row_table(other.rows)
    for field in fields(Window):
        if field.name != "rows":
            assert getattr(one, field.name) == getattr(other, field.name), field.name


def evidence_table(evidence: Evidence) -> tuple[object, ...]:
    """Returns all of ``evidence`` in a fixed order. The results for two evidences are equal if and only if
    the evidences are equal."""
    lists = [
        records if name == "events" else sorted(records, key=repr)
        for name in RECORDS
        for records in (getattr(evidence, name),)
    ]
    ports = sorted(evidence.network_ports, key=repr)
    return (*lists, ports, evidence.swap_in_bytes, evidence.swap_out_bytes, evidence.unknown)
