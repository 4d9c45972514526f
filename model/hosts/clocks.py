"""How far the clocks of several hosts are apart, by what they recorded, and windows on another clock.

**By collectives.** All ranks of an NCCL communicator make its collectives in the same order, so the n-th
entry of a rank on one host belongs to the n-th of a rank on another. Every window says how many a rank had
entered and how long ago the last entry was: a point (n, time) on its host's clock. Between two points time
is taken to pass evenly. The median difference of two hosts' times for the same n is the difference of their
clocks. Programs enter collectives ahead of the device, one host perhaps further than another, so that this
is off by what they run ahead of each other: the error that is stated is half the spread of the middle 90 %
of the differences, and the time from one collective to the next at least.

**By the time server.** The kernel keeps how far a synchronised clock may be off (``System.clock_error_ns``).
Two such clocks are taken to be equal; the error is the sum of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.model.calls import Calls
from stalltop.model.window import Window

LEAST_POINTS: Final = 5
"""Differences that an estimate takes at least."""
_MIDDLE: Final = (5.0, 95.0)
"""Percentiles between which differences are believed."""

How = Literal["reference", "given", "collectives", "time server", "not known"]


class Entry(NamedTuple):
    """What one window says of one rank."""

    communicator: str
    rank: int
    entered: int
    """Collectives since the communicator was made."""
    time_ns: int
    """When it entered the last of them: Unix time on its host's clock."""


@dataclass(frozen=True, slots=True)
class Clock:
    """A host's clock against that of the first host."""

    offset_ns: int | None
    """Its time minus the first host's at the same moment; None where that is not known."""
    error_ns: int | None
    """How far off that may be; None where that is not known."""
    how: How
    points: int = 0
    """Differences that it was estimated from."""


class Recollection(NamedTuple):
    """What a host recorded of its clock."""

    entries: Sequence[Entry] = ()
    error_ns: int | None = None
    """The largest ``System.clock_error_ns``; None where the clock was not synchronised all the time."""


def clocks(hosts: Mapping[str, Recollection], given_ns: Mapping[str, int] | None = None) -> dict[str, Clock]:
    """The clock of every host against that of the first one.

    ``given_ns`` are offsets that somebody knows. Hosts without a communicator in common with the first are
    estimated through others that have one.
    """
    names = list(hosts)
    given_ns = given_ns or {}
    found = {names[0]: Clock(0, 0, "reference")} if names else {}
    found |= {name: Clock(given_ns[name], 0, "given") for name in names[1:] if name in given_ns}
    while len(found) < len(names):
        # Of all hosts that are not known yet, the one that is known best through one that is.
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
    """How far one clock is ahead of another."""

    offset_ns: int
    error_ns: int
    points: int


def between(a: Sequence[Entry], b: Sequence[Entry]) -> Estimate | None:
    """How far ``b``'s clock is ahead of ``a``'s; None where they have too little in common."""
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


def _curves(entries: Sequence[Entry]) -> dict[str, _Curve]:
    """For each communicator: collectives and when they were entered by the first local rank, both rising."""
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
        if (np.diff(time) > 0).all():  # a clock that was set back in between says nothing
            curves[communicator] = n, time
    return curves


def shifted(window: Window, seconds: float) -> Window:
    """``window`` with all its times later by ``seconds``, which may be negative: by another clock."""
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
        ),
        calls=Calls((call._replace(start_ns=call.start_ns + ns) for call in calls.kept), calls.passed_over),
        chains=tuple(
            replace(chain, since=chain.since + seconds, seen=chain.seen + seconds) for chain in window.chains
        ),
    )


def renamed(window: Window, host: str) -> Window:
    """``window``, of one host, with another name of that host."""
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
