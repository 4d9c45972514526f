"""Estimates the clock offsets of several hosts from their recordings, and shifts windows to another clock.

**By collectives.** All ranks of an NCCL communicator enter its collectives in the same order, so the n-th
entry of a rank on one host corresponds to the n-th entry of a rank on another host. Every window says how
many collectives a rank had entered and how long ago the last entry was. These two figures are a point (n,
time) on the clock of the rank's host. Times between two points are interpolated linearly. The median
difference of two hosts' times for the same n is taken as the offset of their clocks. Programs may enter
collectives before the device runs them, on some hosts earlier than on others. This distorts the estimate. The
stated error of the offset is therefore half the range of the middle 90 % of the differences, and at least the
time from one collective to the next.

**By the time server.** The Linux kernel estimates the error of a synchronised clock
(``System.clock_error_ns``). The offset of two synchronised clocks is taken as 0; its error is the sum of
their errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.model.calls import CapturedCalls
from stalltop.model.hosts.collectives import shifted_entries
from stalltop.model.window import Window

LEAST_POINTS: Final = 5
"""Minimum number of differences for an estimate."""
_MIDDLE: Final = (5.0, 95.0)
"""Percentiles of the differences. The error is half the range between these two; differences outside the
range are outliers."""

How = Literal["reference", "given", "collectives", "time server", "not known"]


class CollectiveEntry(NamedTuple):
    """The last entry into a collective of one rank in one window."""

    communicator: str
    rank: int
    entered: int
    """Number of collectives that the rank had entered since the communicator was created."""
    time_ns: int
    """Unix time in ns of the last entry, on the host's clock."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Offset of a host's clock from that of the first host."""

    offset_ns: int | None
    """Time of this clock minus time of the first host's clock at the same moment; None if unknown."""
    error_ns: int | None
    """Maximum error of the offset; None if unknown."""
    how: How
    """How the offset was determined; ``reference`` is the first host itself, ``given`` an offset that the
    user gave."""
    points: int = 0
    """Number of differences from which the offset was estimated; 0 if it was not estimated by collectives."""


class Recollection(NamedTuple):
    """Data about the clock of one host, from the recording of this host."""

    entries: Sequence[CollectiveEntry] = ()
    error_ns: int | None = None
    """Largest ``System.clock_error_ns``; None if the clock was not always synchronised."""


def clocks(hosts: Mapping[str, Recollection], given_ns: Mapping[str, int] | None = None) -> dict[str, Clock]:
    """Determines the clock of every host relative to the first one.

    ``given_ns`` has offsets that the user gave, in ns by host. The clock of a host that shares no
    communicator with the first host is estimated through other hosts: the first host shares a communicator
    with host B, and host B with this host.
    """
    names = list(hosts)
    given_ns = given_ns or {}
    found = {names[0]: Clock(0, 0, "reference")} if names else {}
    found |= {name: Clock(given_ns[name], 0, "given") for name in names[1:] if name in given_ns}
    while len(found) < len(names):
        # Through the hosts whose clocks are known, the clocks of others can be estimated. The next host is
        # the one with the smallest error.
        best: tuple[int, str, Clock] | None = None
        for name in names:
            if name in found:
                continue
            for known, clock in found.items():
                one = between(hosts[known].entries, hosts[name].entries)
                if one is None or clock.offset_ns is None or clock.error_ns is None:
                    continue
                error = clock.error_ns + one.error_ns
                if best is None or error < best[0]:
                    best = (
                        error,
                        name,
                        Clock(clock.offset_ns + one.offset_ns, error, "collectives", one.points),
                    )
        if best is None:
            break
        found[best[1]] = best[2]
    for name in names:
        if name not in found:
            found[name] = _by_time_server(hosts[names[0]], hosts[name])
    return {name: found[name] for name in names}


def _by_time_server(first: Recollection, other: Recollection) -> Clock:
    if first.error_ns is None or other.error_ns is None:
        return Clock(None, None, "not known")
    return Clock(0, first.error_ns + other.error_ns, "time server")


class Estimate(NamedTuple):
    """Estimated offset of one clock from another."""

    offset_ns: int
    error_ns: int
    points: int


def between(a: Sequence[CollectiveEntry], b: Sequence[CollectiveEntry]) -> Estimate | None:
    """Estimates how far the clock of the host of ``b`` is ahead of the clock of the host of ``a``. Returns
    None if there are fewer than ``LEAST_POINTS`` differences."""
    curves_a, curves_b = _curves(a), _curves(b)
    differences: list[NDArray[np.float64]] = []
    steps: list[float] = []
    for communicator in sorted(curves_a.keys() & curves_b.keys()):
        for one, other, sign in (
            (curves_a[communicator], curves_b[communicator], 1.0),
            (curves_b[communicator], curves_a[communicator], -1.0),
        ):
            n, time = other
            inside = (n >= one[0][0]) & (n <= one[0][-1])
            if len(one[0]) > 1 and inside.any():
                differences.append(sign * (time[inside] - np.interp(n[inside], *one)))
                steps.append(float((one[1][-1] - one[1][0]) / (one[0][-1] - one[0][0])))
    points = np.concatenate(differences) if differences else np.zeros(0)
    if len(points) < LEAST_POINTS:
        return None
    low, high = np.percentile(points, _MIDDLE)
    error = max(float(high - low) / 2, float(np.median(steps)))
    return Estimate(round(float(np.median(points))), round(error), len(points))


_Curve = tuple[NDArray[np.float64], NDArray[np.float64]]


def _curves(entries: Sequence[CollectiveEntry]) -> dict[str, _Curve]:
    """Returns, for each communicator, the numbers of the collectives that its lowest local rank entered and
    the times of these entries, both ascending. Communicators whose times do not ascend are left out."""
    first: dict[str, int] = {}
    for entry in entries:
        first[entry.communicator] = min(first.get(entry.communicator, entry.rank), entry.rank)
    points: dict[str, dict[int, int]] = {}
    for entry in entries:
        if entry.rank == first[entry.communicator] and entry.entered > 0:
            points.setdefault(entry.communicator, {}).setdefault(entry.entered, entry.time_ns)
    curves = {}
    for communicator, found in points.items():
        n = np.array(sorted(found), np.float64)
        time = np.array([found[int(each)] for each in n], np.float64)
        if (np.diff(time) > 0).all():  # otherwise the clock was set back between entries
            curves[communicator] = n, time
    return curves


def shifted(window: Window, seconds: float) -> Window:
    """Returns ``window`` with all its times shifted by ``seconds``, which may be negative."""
    if not seconds:
        return window
    ns = round(seconds * 1e9)
    evidence, calls = window.evidence, window.calls
    return replace(
        window,
        start=window.start + seconds,
        evidence=replace(
            evidence,
            events=tuple(replace(event, time=event.time + seconds) for event in evidence.events),
            ranks=tuple(replace(rank, entries=shifted_entries(rank.entries, ns)) for rank in evidence.ranks),
        ),
        calls=CapturedCalls(
            (call._replace(start_ns=call.start_ns + ns) for call in calls.kept), calls.passed_over
        ),
        chains=tuple(
            replace(chain, since=chain.since + seconds, seen=chain.seen + seconds) for chain in window.chains
        ),
    )


def renamed(window: Window, host: str) -> Window:
    """Returns ``window``, which must be a window of one host, with ``host`` as the name of the host."""
    rows = replace(window.rows, keys=tuple(key._replace(host=host) for key in window.rows.keys))
    return replace(
        window,
        host=host,
        rows=rows,
        normals={key._replace(host=host): found for key, found in window.normals.items()},
        chains=tuple(
            replace(chain, rows=tuple(key._replace(host=host) for key in chain.rows))
            for chain in window.chains
        ),
    )
