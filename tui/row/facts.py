"""Collects what a window knows about one row of a table: calls, owners, charges, problems. Pure functions.

A row is given by its path: the steps of the view's path, and the steps that name the row itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stalltop.model.calls import CapturedCall
from stalltop.model.chain import Chain
from stalltop.model.devices.device import Device, DeviceProcess
from stalltop.model.devices.labels import UNKNOWN
from stalltop.model.evidence import HOST_LAYER, Charge, ProcessUse
from stalltop.model.row_key import RowKey
from stalltop.model.rows.pivot import Groups, pivot
from stalltop.model.window import SPLITS, OpenCall, Rows, Window
from stalltop.tui.problems.chains import keys_of, steady
from stalltop.tui.problems.culprit_rows import culprits_of
from stalltop.tui.views.path import Path, below, decided, scope
from stalltop.tui.views.processes import processes_of


@dataclass(frozen=True, eq=False)
class RowFacts:
    """What ``window`` knows about the row at ``path``."""

    path: Path
    window: Window
    rows: Rows
    """The rows of the window that the table's row sums up, including the time between its calls."""
    groups: Groups
    """The calls of the row as one group, which may be empty."""
    charges: tuple[Charge, ...]
    """The charges for time that the row lost, in calls and between them."""
    open_calls: tuple[OpenCall, ...]
    """The open calls of the row, the oldest first; then calls whose thread ended inside them."""
    chains: tuple[Chain, ...]
    """The problems that the row has, the worst first; then ``takes``."""
    takes: tuple[Chain, ...]
    """The problems of others that have a process of the row as a main culprit."""
    tenants: tuple[str, ...]
    """Ids of the row's tenants, the one with the most time first."""
    processes: tuple[ProcessUse, ...]
    """The row's processes, the one with the most time first. A field of a process is 0 if nothing is
    known."""
    devices: tuple[tuple[Device, tuple[DeviceProcess, ...]], ...]
    """The devices on which the row's processes hold a context, each with these processes."""
    nested: bool
    """Whether all calls of the row are nested in other traced calls."""

    @cached_property
    def kept(self) -> tuple[CapturedCall, ...]:
        """The captured calls of the row, in order of time. They are read and sorted only for whoever shows
        them."""
        return _kept(self.window, self.path)

    @property
    def name(self) -> str:
        """Return the name of the row."""
        return self.path[-1].label if self.path else self.window.host

    @property
    def between(self) -> bool:
        """Return whether the row is the time between calls."""
        return bool(self.groups.between[0])


def facts(window: Window, path: Path) -> RowFacts:
    """Return what ``window`` knows about the row at ``path``. Any field may be empty, because the row may not
    exist in this window."""
    own = below(path, window)
    scoped = scope(window, path)
    # If a charge names no device, it belongs to the rows of its operation on all devices.
    counted = {key._replace(nested=False, device=UNKNOWN) for key in scoped.rows.keys}
    charges = tuple(
        charge
        for charge in window.evidence.charges
        if own(key := RowKey(window.host, *charge.row)) or (not charge.device and key in counted)
    )
    open_calls = tuple(sorted(scoped.open_calls, key=lambda call: (call.ended, -call.age_ns, call.tid)))
    nested = (key.nested for key in window.rows.keys if own(key))
    named = [chain for chain in window.chains if any(own(key) for key in keys_of(chain, window))]
    takes = steady(
        chain
        for chain in window.chains
        if chain not in named and any(own(key) for key, _ in culprits_of(chain, window))
    )
    processes = processes_of(window, path, scoped)
    pids = {(use.tenant, use.pid) for use in processes}
    held = (
        (device, tuple(holder for holder in device.processes if (holder.tenant, holder.pid) in pids))
        for device in window.devices.devices
    )
    return RowFacts(
        path=path,
        window=window,
        rows=scoped.rows,
        groups=pivot(scoped, (), all_rows=decided(path)),
        charges=charges,
        open_calls=open_calls,
        chains=(*steady(named), *takes),
        takes=takes,
        tenants=tuple(dict.fromkeys(use.tenant for use in processes)),
        processes=processes,
        devices=tuple((device, holders) for device, holders in held if holders),
        nested=next(nested, False) and all(nested),
    )


def _kept(window: Window, path: Path) -> tuple[CapturedCall, ...]:
    """Return the captured calls of the row. Nested calls are among them only if the path contains an
    operation or a layer."""
    own, all_calls = below(path, window), decided(path)
    rows: dict[RowKey, bool] = {}
    found = []
    for call in window.calls.kept:
        key = RowKey(window.host, *call.row)
        counted = rows.get(key)
        if counted is None:
            counted = rows[key] = (all_calls or key.outermost) and own(key)
        if counted:
            found.append(call)
    return tuple(found)


def waits_ns(facts: RowFacts) -> dict[str, int]:
    """Return the time (ns) of each part of the split, summed over the outermost calls of the row and the time
    between them. Returns an empty dict if splits are not measured."""
    split = facts.rows.split_ns
    if split is None:
        return {}
    counted = np.fromiter(
        (key.outermost or key.layer == HOST_LAYER for key in facts.rows.keys), np.bool_, len(facts.rows)
    )
    return dict(zip(SPLITS, split[counted].sum(axis=0).tolist(), strict=True))
