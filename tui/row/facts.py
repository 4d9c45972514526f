"""All that a window knows about one row of a table: its calls, whose they are, who took their time.

Pure functions. A row is the way down to it: the steps of the view's path, and those that name the row itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stalltop.model.calls import KeptCall
from stalltop.model.chain import Chain
from stalltop.model.devices.device import Device, DeviceProcess
from stalltop.model.devices.labels import UNKNOWN
from stalltop.model.evidence import HOST_LAYER, Charge, ProcessUse
from stalltop.model.row_key import RowKey
from stalltop.model.rows.pivot import Groups, pivot
from stalltop.model.window import SPLITS, OpenCall, Rows, Window
from stalltop.tui.chain.chains import keys_of, steady
from stalltop.tui.tables.groups import PathStep, below, decided, scope

Path = tuple[PathStep, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RowFacts:
    """What is known of the row at ``path`` in ``window``."""

    path: Path
    window: Window
    rows: Rows
    """The window's rows that it holds, the time between its calls too."""
    groups: Groups
    """Its calls as one group, which may be empty."""
    charges: tuple[Charge, ...]
    """Who was charged with its time, in calls and between them."""
    open_calls: tuple[OpenCall, ...]
    """The oldest first."""
    chains: tuple[Chain, ...]
    """Those that speak of it, the worst first."""
    tenants: tuple[str, ...]
    """Ids of whose it is, the one with the most time first."""
    processes: tuple[ProcessUse, ...]
    """Its processes, the one with the most time first; 0 stands where nothing else is known of one."""
    devices: tuple[tuple[Device, tuple[DeviceProcess, ...]], ...]
    """Devices on which its processes hold a context, and these."""
    kept: tuple[KeptCall, ...]
    """Calls of it that were kept one by one, by time."""
    nested: bool
    """Whether all its calls are made inside other traced calls."""

    @property
    def name(self) -> str:
        """What the row is called."""
        return self.path[-1].label if self.path else self.window.host

    @property
    def between(self) -> bool:
        """Whether it is no calls but the time between them."""
        return bool(self.groups.between[0])


def facts(window: Window, path: Path) -> RowFacts:
    """What ``window`` knows about the row at ``path``; much may be empty, and the row may not be there."""
    own = below(path, window)
    scoped = scope(window, path)
    # What is not told apart by device is of each row of the operation, where there are any.
    counted = {key._replace(nested=False, device=UNKNOWN) for key in scoped.rows.keys}
    charges = tuple(
        charge
        for charge in window.evidence.charges
        if own(key := RowKey(window.host, *charge.row)) or (not charge.device and key in counted)
    )
    open_calls = tuple(sorted(scoped.open_calls, key=lambda call: (call.ended, -call.age_ns, call.tid)))
    chains = steady(chain for chain in window.chains if any(own(key) for key in keys_of(chain, window)))
    processes = _processes(window, path, scoped)
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
        chains=chains,
        tenants=tuple(dict.fromkeys(use.tenant for use in processes)),
        processes=processes,
        devices=tuple((device, holders) for device, holders in held if holders),
        kept=_kept(window, path),
        nested={key.nested for key in window.rows.keys if own(key)} == {True},
    )


def _kept(window: Window, path: Path) -> tuple[KeptCall, ...]:
    """Those that the row's figures stand for: calls inside others only where an operation is chosen."""
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


def _processes(window: Window, path: Path, scoped: Window) -> tuple[ProcessUse, ...]:
    """Processes with a row or an open call in ``scoped``; where no operation is chosen, also those of its
    tenants that only work for others or only are charged."""
    spent: dict[tuple[str, int, str], int] = {}
    for key, ns in zip(scoped.rows.keys, scoped.rows.total_ns.tolist(), strict=True):
        who = (key.tenant, key.pid, key.process)
        spent[who] = spent.get(who, 0) + (ns if key.outermost or decided(path) else 0)
    for call in scoped.open_calls:
        spent.setdefault((call.tenant, call.pid, call.process), 0)
    uses = {(use.tenant, use.pid, use.process): use for use in window.evidence.processes}
    if not decided(path):
        own = below(path, window)
        for who in uses:
            if own(RowKey(window.host, *who, "", "")):
                spent.setdefault(who, 0)
    order = sorted(spent, key=lambda who: (-spent[who], who[1], who[0]))
    return tuple(uses.get(who) or ProcessUse(*who) for who in order)


def waits_ns(facts: RowFacts) -> dict[str, int]:
    """Time by part of the split that somebody may be charged with, ns: in calls that stand for themselves,
    and between them. Empty where splits are not measured."""
    split = facts.rows.split_ns
    if split is None:
        return {}
    counted = np.fromiter(
        (key.outermost or key.layer == HOST_LAYER for key in facts.rows.keys), np.bool_, len(facts.rows)
    )
    return dict(zip(SPLITS, split[counted].sum(axis=0).tolist(), strict=True))
