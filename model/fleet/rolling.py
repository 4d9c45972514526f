"""Merges windows of many hosts into one window of a rack: by tenant and operation, without processes and
hosts. All counts and histograms add up exactly, so the percentiles of merged windows are those of all calls
together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from stalltop.model.merge.merging import add_losses, merge_rows
from stalltop.model.row_key import RowKey
from stalltop.model.rows.pivot import pivot
from stalltop.model.tenant import Tenant
from stalltop.model.window import Rows, Window

_BETWEEN: Final = "/"


def rolled_tenant(tenant: Tenant) -> str:
    """Returns the id of ``tenant`` among the hosts of a rack: its namespace and name. Ids of containers
    differ from host to host."""
    return f"{tenant.namespace}{_BETWEEN}{tenant.name}" if tenant.namespace else tenant.name


def period_of(window: Window, seconds: float) -> float:
    """Returns the start of the period of ``seconds`` that a window counts for: the one of its middle."""
    return math.floor((window.start + window.seconds / 2) / seconds) * seconds


def rolled(windows: Sequence[Window], rack: str, start: float, seconds: float) -> Window:
    """Merges ``windows`` of any hosts, which may be merged windows themselves, into one window of ``rack``
    that begins at ``start`` and is ``seconds`` long."""
    tenants: dict[str, Tenant] = {}
    parts = []
    for window in windows:
        names = {key.tenant: _named(window, key.tenant, tenants) for key in window.rows.keys}
        keys = [
            RowKey(rack, names[key.tenant], 0, "", key.layer, key.operation, key.nested)
            for key in window.rows.keys
        ]
        parts.append(_added(replace(window.rows, keys=tuple(keys))))
    return Window(
        start,
        seconds,
        rack,
        merge_rows(parts),
        tenants,
        loss=add_losses([window.loss for window in windows]),
        simulated=any(window.simulated for window in windows),
    )


def side_by_side(windows: Sequence[Window], name: str) -> Window:
    """Merges windows of one period and different racks into one window of the fleet ``name``. Its rows keep
    the racks as their hosts."""
    first = windows[0]
    tenants = {key: tenant for window in windows for key, tenant in window.tenants.items()}
    rows = merge_rows([window.rows for window in windows])
    loss = add_losses([window.loss for window in windows])
    simulated = any(window.simulated for window in windows)
    return Window(first.start, first.seconds, name, rows, tenants, loss=loss, simulated=simulated)


def _named(window: Window, key: str, tenants: dict[str, Tenant]) -> str:
    tenant = window.tenants.get(key, Tenant(key, key))
    name = rolled_tenant(tenant)
    tenants.setdefault(name, Tenant(name, tenant.name, tenant.kind, namespace=tenant.namespace))
    return name


def _added(rows: Rows) -> Rows:
    """Adds up rows that have equal keys."""
    half = len(rows) // 2
    return merge_rows([rows.take(np.arange(half)), rows.take(np.arange(half, len(rows)))])


def percentiles_by_tenant(windows: Iterable[Window], percents: Sequence[float]) -> dict[str, list[int]]:
    """Returns the durations (ns) at ``percents`` of all outermost calls of each tenant in ``windows`` of
    racks, by the tenant's id: exactly, from merged histograms."""
    windows = list(windows)
    if not windows:
        return {}
    whole = rolled(windows, "", windows[0].start, sum(one.seconds for one in windows))
    groups = pivot(whole, ("container",))
    found = groups.histograms.percentiles(percents)
    return {key: found[at].tolist() for at, (key,) in enumerate(groups.keys)}
