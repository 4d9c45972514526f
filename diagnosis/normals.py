"""Learns the baselines of workloads from windows in which no fault slowed them down."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.diagnosis.facts import Facts
from stalltop.model.row_key import RowKey
from stalltop.model.tenant import Tenant
from stalltop.model.window import SPLITS


class Workload(NamedTuple):
    """Identifies the calls that share a baseline. It consists of names, because process ids and container
    ids change when a workload is started again."""

    tenant: str
    """Kind of the tenant, followed by its namespace, pod and name."""
    process: str
    layer: str
    operation: str
    """Name of the operation; begins with ``NESTED`` if the calls are made inside other traced calls."""


class Normal(NamedTuple):
    """Baselines of the rows of one window."""

    percentiles: Mapping[RowKey, tuple[int, int]]
    """(p50_ns, p99_ns) of the rows whose workload was seen in ``KNOWN_WINDOWS`` windows."""
    usual_ns: Mapping[RowKey, Mapping[str, float]]
    """Mean time in ns that a call spends in each part of its split, for the rows whose workload was seen in
    ``USUAL_WINDOWS`` windows."""

    def with_others(self, others: Normal) -> Normal:
        """Returns these baselines together with those of other rows."""
        return Normal({**self.percentiles, **others.percentiles}, {**self.usual_ns, **others.usual_ns})


KNOWN_WINDOWS: Final = 30
"""A baseline is used after this many windows without faults. Within half a minute, the start of a program is
over and its regular steps are seen."""
USUAL_WINDOWS: Final = 3
"""The usual split of a call is used after this many windows without faults. Three windows are enough to know
what a program always does."""
_SLOWEST: Final = 1 / 100
"""Least weight of a new window in a mean. If each window takes a second, a baseline follows a lasting change
of its workload within minutes."""
MOST_WORKLOADS: Final = 4096
"""Maximum number of workloads with a baseline. Those that have not been seen for longest are removed
first."""

_DROPPED: Final = 16
"""The part of all workloads, one sixteenth, that is removed at a time."""
_SAFE: Final = "[bcdfghjklmnpqrstvwxz2456789]"
_REPLICA: Final = re.compile(rf"(?:-{_SAFE}{{8,10}})?-{_SAFE}{{5}}$")
"""Matches what Kubernetes appends to the name of a pod: a hash of its ReplicaSet, and five random characters,
both without vowels (rand.SafeEncodeString)."""

NESTED: Final = "> "
"""Prefix of operations whose calls are made inside other traced calls. Such calls have a baseline of their
own: a function may do more or less work there than if the program calls it directly."""

_P50, _P99, _RATE, _SPLIT = 0, 1, 2, 3
_COLUMNS = _SPLIT + len(SPLITS)


class Normals:
    """Means of p50, p99, calls per second and split for each workload."""

    def __init__(self) -> None:
        self._place: dict[Workload, int] = {}
        """Index of each workload in ``_windows``, ``_means`` and ``_learned``."""
        self._learned: NDArray[np.int64] = np.zeros(0, np.int64)
        """Order in which workloads were last learned; the workload with the least number has not been seen
        for longest."""
        self._next = 0
        self._windows: NDArray[np.int64] = np.zeros(0, np.int64)
        self._means: NDArray[np.float64] = np.zeros((0, _COLUMNS))
        self._free: list[int] = []
        self._workloads: dict[RowKey, tuple[Tenant | None, Workload]] = {}
        """Workloads of the rows of earlier windows, each with the tenant that its name is from."""
        self._found: deque[tuple[Sequence[RowKey], Mapping[str, Tenant | None], list[int]]] = deque(maxlen=3)
        """The latest keys and their tenants, with the index of each key's workload; -1 if it has none.
        Consecutive windows mostly have the same rows."""

    def __len__(self) -> int:
        return len(self._place)

    def learn(self, facts: Facts, faulty: Iterable[str] = ()) -> None:
        """Learns from one window. Leaves out the rows of the tenants whose ids are in ``faulty``."""
        rows, left_out = facts.window.rows, frozenset(faulty)
        learned = rows.calls > 0
        if left_out:
            learned &= np.array([key.tenant not in left_out for key in rows.keys], np.bool_)
        kept = np.flatnonzero(learned)
        if not len(kept):
            return
        keys = rows.keys if len(kept) == len(rows) else tuple(rows.keys[row] for row in kept.tolist())
        places = self._placed_all(keys, facts.window.tenants)
        figures = _figures(facts, kept)
        # If several processes belong to one workload, their figures are averaged, with their numbers of calls
        # as weights. The rate of calls is the mean per process.
        place, of_row = np.unique(places, return_inverse=True)
        seen = np.zeros((len(place), _COLUMNS))
        if len(place) == len(keys):
            seen[of_row] = figures
        else:
            who = {(at, key.tenant, key.pid) for at, key in zip(of_row.tolist(), keys, strict=True)}
            processes = np.bincount([at for at, *_ in who])
            calls = rows.calls[kept].astype(np.float64)
            weights = calls / np.bincount(of_row, weights=calls)[of_row]
            weights_of = np.repeat(weights[:, None], _COLUMNS, axis=1)
            weights_of[:, _RATE] = (1.0 / processes)[of_row]
            np.add.at(seen, of_row, weights_of * figures)
        self._windows[place] += 1
        weight = np.maximum(1.0 / self._windows[place], _SLOWEST)[:, None]
        self._means[place] += weight * (seen - self._means[place])

    def of(self, keys: Sequence[RowKey], tenants: Mapping[str, Tenant]) -> Normal:
        """Returns the baselines of the rows with these keys. Rows without a baseline are left out."""
        percentiles: dict[RowKey, tuple[int, int]] = {}
        usual: dict[RowKey, dict[str, float]] = {}
        placed = [(key, at) for key, at in zip(keys, self._places(keys, tenants), strict=True) if at >= 0]
        places = np.array([at for _, at in placed], np.int64)
        # Converting whole columns at once is several times as fast as converting single elements.
        windows, means = self._windows[places].tolist(), self._means[places]
        usual_ns = means[:, _SPLIT:].tolist()
        ns = np.rint(np.exp(means[:, [_P50, _P99]])).astype(np.int64).tolist()
        for (key, _), seen, split, (p50_ns, p99_ns) in zip(placed, windows, usual_ns, ns, strict=True):
            if seen >= USUAL_WINDOWS:
                usual[key] = dict(zip(SPLITS, split, strict=True))
            if seen >= KNOWN_WINDOWS:
                percentiles[key] = (p50_ns, p99_ns)
        return Normal(percentiles, usual)

    def _workload(self, key: RowKey, tenants: Mapping[str, Tenant]) -> Workload:
        tenant, known = tenants.get(key.tenant), self._workloads.get(key)
        if known is None or known[0] is not tenant:
            if len(self._workloads) >= 2 * MOST_WORKLOADS:
                self._workloads.clear()
            known = self._workloads[key] = tenant, workload_of(key, tenants)
        return known[1]

    def _places(self, keys: Sequence[RowKey], tenants: Mapping[str, Tenant]) -> list[int]:
        """Returns the index of the workload of each key; -1 if that workload has no baseline yet."""
        for known_keys, known_tenants, known in self._found:
            if known_keys == keys and all(tenants.get(name) == one for name, one in known_tenants.items()):
                return known
        find, workload = self._place.get, self._workload
        places = [find(workload(key, tenants), -1) for key in keys]
        self._found.append((keys, {key.tenant: tenants.get(key.tenant) for key in keys}, places))
        return places

    def _placed_all(self, keys: Sequence[RowKey], tenants: Mapping[str, Tenant]) -> NDArray[np.int64]:
        """Returns the index of the workload of each key, and notes that these workloads are seen now."""
        places = np.array(self._places(keys, tenants), np.int64)
        known = places >= 0
        self._note(places[known])
        for new in np.flatnonzero(~known).tolist():
            places[new] = self._placed(self._workload(keys[new], tenants))
        self._note(places)
        return places

    def _note(self, places: NDArray[np.int64]) -> None:
        """Notes that workloads are learned now, the last of ``places`` as the latest."""
        self._learned[places] = np.arange(self._next, self._next + len(places))
        self._next += len(places)

    def _placed(self, workload: Workload) -> int:
        at = self._place.get(workload)
        if at is None:
            at = self._place[workload] = self._new_place()
        self._learned[at] = self._next
        self._next += 1
        return at

    def _new_place(self) -> int:
        self._found.clear()
        if len(self._place) >= MOST_WORKLOADS:
            self._drop_oldest()
        if not self._free:
            first = len(self._windows)
            more = max(64, first)
            self._windows = np.pad(self._windows, (0, more))
            self._learned = np.pad(self._learned, (0, more))
            self._means = np.pad(self._means, ((0, more), (0, 0)))
            self._free.extend(range(first + more - 1, first - 1, -1))
        at = self._free.pop()
        self._windows[at] = 0
        self._means[at] = 0.0
        return at

    def _drop_oldest(self) -> None:
        """Removes the workloads that have not been seen for longest: many at a time, because to find them
        takes as long as to find one, and where containers come and go, each brings new ones."""
        oldest = sorted(self._place, key=lambda workload: self._learned[self._place[workload]])
        for workload in oldest[: max(MOST_WORKLOADS // _DROPPED, 1)]:
            self._free.append(self._place.pop(workload))

    def to_plain(self) -> dict[str, Any]:
        """Returns the baselines as plain lists and numbers, for a file."""
        return {
            "columns": ["p50_ln_ns", "p99_ln_ns", "calls_per_s", *(f"{part}_ns" for part in SPLITS)],
            "workloads": [
                [*workload, int(self._windows[at]), *(round(mean, 6) for mean in self._means[at].tolist())]
                for workload, at in sorted(self._place.items(), key=lambda item: self._learned[item[1]])
            ],
        }

    @staticmethod
    def from_plain(plain: object) -> Normals:
        """Returns the ``Normals`` from which ``to_plain`` made ``plain``. Raises ValueError for any other
        ``plain``."""
        normals = Normals()
        if not isinstance(plain, dict) or plain.get("columns") != normals.to_plain()["columns"]:
            raise ValueError("these are not normals, or they have another version")
        workloads = plain.get("workloads")
        if not isinstance(workloads, list):
            raise ValueError("normals have no list of workloads")
        for entry in workloads[-MOST_WORKLOADS:]:
            workload, windows, means = _entry(entry)
            at = normals._placed(workload)
            normals._windows[at] = windows
            normals._means[at] = means
        return normals


def workload_of(key: RowKey, tenants: Mapping[str, Tenant]) -> Workload:
    """Returns the workload to which the baseline of a row belongs."""
    tenant = tenants.get(key.tenant)
    name = key.tenant
    if tenant is not None and tenant.name:
        name = _name_of(tenant.kind, tenant.namespace, tenant.pod, tenant.name)
    return Workload(name, key.process, key.layer, NESTED * key.nested + key.operation)


@lru_cache(MOST_WORKLOADS)
def _name_of(kind: str, namespace: str, pod: str, name: str) -> str:
    # The pod is part of the name, because containers of different pods may have the same name. The random end
    # of the pod's name is left out, so that the pods of one Deployment are one workload.
    own = name.removeprefix(f"{pod}/") if pod else name
    return f"{kind} {'/'.join(filter(None, (namespace, _REPLICA.sub('', pod), own)))}"


def _figures(facts: Facts, kept: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns the figures to learn from: one line for each of the rows ``kept``, with the columns of
    ``Normals._means``. Each row must have calls."""
    rows = facts.window.rows
    calls = rows.calls[kept].astype(np.float64)
    figures = np.zeros((len(kept), _COLUMNS))
    # The logarithms of durations are averaged, so that one slow window in a hundred hardly changes the mean.
    figures[:, [_P50, _P99]] = np.log(np.maximum(facts.percentiles_ns[kept], 1))
    figures[:, _RATE] = calls / facts.seconds
    if rows.split_ns is not None:
        figures[:, _SPLIT:] = rows.split_ns[kept] / calls[:, None]
    return figures


_TEXTS = len(Workload._fields)


def _entry(entry: object) -> tuple[Workload, int, list[float]]:
    if not isinstance(entry, list) or len(entry) != _TEXTS + 1 + _COLUMNS:
        raise ValueError("a workload's normals have the wrong length")
    texts, windows, means = entry[:_TEXTS], entry[_TEXTS], entry[_TEXTS + 1 :]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a workload's name is not text")
    if not isinstance(windows, int) or isinstance(windows, bool) or not 0 <= windows < 1 << 53:
        raise ValueError("a workload's number of windows is not valid")
    if not all(isinstance(mean, int | float) and not isinstance(mean, bool) for mean in means):
        raise ValueError("a workload's normals are not numbers")
    values = [float(mean) for mean in means]
    if not all(math.isfinite(value) and 0 <= value < 1e18 for value in values):
        raise ValueError("a workload's normals are out of range")
    if values[_P50] > 64 or values[_P99] > 64:
        raise ValueError("a workload's normal durations are out of range")
    return Workload(*texts), windows, values
