"""Divides the charges of a window among its rows: how much of the time of a row each culprit took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from stalltop.diagnosis.facts import Facts, Row
from stalltop.diagnosis.links import Who
from stalltop.model.devices.labels import UNKNOWN


class RowCharges:
    """Culprits of the rows of one window, from the charges of the window."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._blamed: defaultdict[tuple[int, str, str, str, str], dict[Who, float]] = defaultdict(dict)
        """For each process, layer, operation, device and part of the split: the culprits, and the ns that
        each took."""
        self._known: set[tuple[int, str, str, str]] = set()
        """The same keys, without the device."""
        for charge in facts.window.evidence.charges:
            self._known.add((charge.pid, charge.layer, charge.operation, charge.kind))
            by = self._blamed[charge.pid, charge.layer, charge.operation, charge.device, charge.kind]
            who = Who(charge.culprit_tenant, charge.culprit_pid, charge.culprit_process)
            by[who] = by.get(who, 0.0) + charge.ns

    def of(self, row: Row, part: str) -> Mapping[Who, float]:
        """Returns the culprits of ``part`` of a row's time, with their ns."""
        key = row.key
        own: Mapping[Who, float] = {}
        if (key.pid, key.layer, key.operation, part) not in self._known:
            return own
        if key.device:
            own = self._blamed.get((key.pid, key.layer, key.operation, key.device, part), {})
        # Charges without a device are divided among the rows of the operation in proportion to their waits.
        of_all = self._blamed.get((key.pid, key.layer, key.operation, UNKNOWN, part), {})
        if not of_all:
            return own
        of_row = share(self._facts, row, part)
        if of_row == 1.0 and not own:
            return of_all
        return {who: own.get(who, 0.0) + of_row * of_all.get(who, 0.0) for who in {**own, **of_all}}


def mean_waits(facts: Facts, pid: int) -> Mapping[Who, float]:
    """Returns how long a process waited for a CPU on average, ns, by the process that had the CPU."""
    sums: defaultdict[Who, list[int]] = defaultdict(lambda: [0, 0])
    for charge in facts.charges_of(pid):
        if charge.kind == "runqueue":
            of_culprit = sums[Who(charge.culprit_tenant, charge.culprit_pid, charge.culprit_process)]
            of_culprit[0] += charge.ns
            of_culprit[1] += charge.times
    return {who: ns / times for who, (ns, times) in sums.items() if times}


def share(facts: Facts, row: Row, part: str) -> float:
    """Returns which share of an operation's waits belongs to ``row``, 0 to 1. An operation has one row for
    each device. Only waits of one kind are compared: those that the split counts in ``part``."""
    rows = facts.rows_alike(row.key)
    if len(rows) == 1:  # the usual case
        return 1.0
    alike = [other.split_ns.get(part, 0) for other in rows]
    # If no row has time yet, because a call with charges is still open, all rows get equal parts.
    return row.split_ns.get(part, 0) / sum(alike) if any(alike) else 1 / len(alike)


def scaled(by: Mapping[Who, float], most: float) -> Mapping[Who, float]:
    """Returns ``by``, which has the ns of each culprit, scaled down so that their sum is at most ``most``."""
    total = sum(by.values())
    if total <= most or total <= 0:
        return by
    return {who: ns * most / total for who, ns in by.items()}
