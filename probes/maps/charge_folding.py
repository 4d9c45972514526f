"""Reduces a large number of charges to the important ones. Many threads on few CPUs cause thousands of pairs
of victim and culprit."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.probes import layout
from stalltop.probes.maps.raw import OTHERS

LEAST_NS: Final = 100_000
"""Limit in ns. If the charges for one operation of a process and one part of its split add up to less than
this, none of them is reported."""
SMALL_NS: Final = 1_000_000
"""Limit in ns. If the charges for one operation of a process and one part of its split add up to less than
this, their culprits are reported as one sum."""
SHARE: Final = 0.02
"""Share of the charges for one operation of a process and one part of its split. A culprit with a smaller
share is added to a sum for its cgroup. A cgroup with a smaller share is added to a sum for all such
cgroups."""
_ANYWHERE: Final = 0
"""Stands in place of the cgroup in a sum over culprits in several cgroups."""


class Folded(NamedTuple):
    """Charges, one column for each field."""

    victims: NDArray[np.void]
    """Process, operation and part of the split whose time was lost, dtype ``layout.CHARGE_KEY``. The culprits
    in these keys have no meaning: the next columns identify the culprit."""
    culprits: NDArray[np.int64]
    cgroups: NDArray[np.uint64]
    ns: NDArray[np.int64]
    times: NDArray[np.int64]


def part_of(keys: NDArray[np.void]) -> NDArray[np.uint32]:
    """Returns, for each key (``layout.CHARGE_KEY``), its part of the split: a column of
    ``model.window.SPLITS``."""
    parts: NDArray[np.uint32] = keys["part"] & np.uint32((1 << layout.HOW_SHIFT) - 1)
    return parts


def fold(keys: NDArray[np.void], ns: NDArray[np.uint64], times: NDArray[np.uint64]) -> Folded:
    """Adds up charges with the same victim (process, operation and part of the split) and the same culprit.
    Leaves out or sums up small charges by the limits ``LEAST_NS``, ``SMALL_NS`` and ``SHARE``. ``keys`` may
    be empty."""
    spent = ns.astype(np.float64)
    victim = keys["tgid"].astype(np.uint64) << np.uint64(32)
    victim |= keys["operation"].astype(np.uint64) << np.uint64(8) | part_of(keys).astype(np.uint64)
    _, row = np.unique(victim, return_inverse=True)
    cgroups, cgroup = np.unique(keys["culprit_cgroup_id"], return_inverse=True)
    in_cgroup = row * len(cgroups) + cgroup

    of_row = np.bincount(row, spent)[row] if len(row) else spent
    of_cgroup = np.bincount(in_cgroup, spent)[in_cgroup] if len(row) else spent
    anywhere = (of_row < SMALL_NS) | (of_cgroup < SHARE * of_row)
    together = anywhere | (spent < SHARE * of_row)
    culprit = np.where(together, OTHERS, keys["culprit_tgid"].astype(np.int32).astype(np.int64))
    place = np.where(anywhere, -1, cgroup)

    kept = np.flatnonzero(of_row >= LEAST_NS)
    # A PID has 22 bits; there are at most 2^14 charges, so at most as many victims and cgroups.
    identity = (row * (len(cgroups) + 1) + place + 1) << 23 | (culprit - OTHERS)
    _, first, group = np.unique(identity[kept], return_index=True, return_inverse=True)
    first = kept[first]
    sums = np.zeros((2, len(first)), np.int64)
    np.add.at(sums[0], group, ns[kept].astype(np.int64))
    np.add.at(sums[1], group, times[kept].astype(np.int64))
    return Folded(
        keys[first],
        culprit[first],
        np.where(anywhere[first], _ANYWHERE, keys["culprit_cgroup_id"][first]).astype(np.uint64),
        sums[0],
        sums[1],
    )
