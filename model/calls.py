"""Calls kept one by one: the slowest of each row, and a few taken at random.

The rows of a window count every call; what is kept here are examples of them, each with its time, its split
and its arguments. How many are kept is bounded, and how many slow ones were not is told.
"""

from __future__ import annotations

import operator
import pickle
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple

MOST_KEPT: Final = 1024
"""Slow calls that a window keeps, and calls taken at random, so many of each."""

Why = Literal["slow", "sample"]


class KeptCall(NamedTuple):
    """One call, which is also counted in its row (``tenant`` to ``nested``, and ``device``)."""

    tenant: str
    pid: int
    process: str
    layer: str
    operation: str
    nested: bool
    tid: int
    """The thread that made it."""
    start_ns: int
    """Unix time, ns."""
    duration_ns: int
    split_ns: tuple[int, ...] | None
    """Where its time went, by ``model.window.SPLITS``: adds up to ``duration_ns``. None: not measured."""
    bytes: int
    """0 where it moves none, or none can be told."""
    returned: int
    """What the function returned: 0 is success."""
    arguments: str
    """Those worth telling, such as ``stream=0x7f2c10 blocks=128x1x1``; empty where there are none."""
    kernel: str
    """Name of the kernel that it launched; empty where that is not known or it launched none."""
    why: Why
    """``slow``: it took longer than nearly all calls of its row did lately. ``sample``: taken at random."""
    device: str = ""
    """Label of the device that it ran on; empty where that is not known."""

    @property
    def row(self) -> tuple[str, int, str, str, str, bool, str]:
        """The row that it is counted in: its ``RowKey`` without the host."""
        return (*self[:6], self.device)

    @property
    def end_ns(self) -> int:
        """Unix time, ns."""
        return self.start_ns + self.duration_ns


class Calls:
    """The calls of a window that are kept one by one. It never changes."""

    __slots__ = ("_kept", "_parts", "_passed_over")

    def __init__(self, kept: Iterable[KeptCall] = (), passed_over: int = 0) -> None:
        self._kept = tuple(kept)
        self._passed_over = passed_over
        self._parts: Callable[[], Iterable[Calls]] | None = None

    @staticmethod
    def later(parts: Callable[[], Iterable[Calls]]) -> Calls:
        """``added_calls`` of what ``parts`` gives, worked out once somebody asks for it."""
        calls = Calls()
        calls._parts = parts
        return calls

    @property
    def kept(self) -> tuple[KeptCall, ...]:
        """They, by time: at most ``MOST_KEPT`` slow ones and as many taken at random."""
        self._work_out()
        return self._kept

    @property
    def passed_over(self) -> int:
        """Calls as slow as those kept that were not kept: there were too many. They are in their rows."""
        self._work_out()
        return self._passed_over

    def _work_out(self) -> None:
        if self._parts is not None:
            found = added_calls(self._parts())
            self._kept, self._passed_over, self._parts = found.kept, found.passed_over, None

    def __bool__(self) -> bool:
        return bool(self.kept) or self.passed_over > 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Calls):
            return NotImplemented
        return (self.kept, self.passed_over) == (other.kept, other.passed_over)

    def __hash__(self) -> int:
        return hash((self.kept, self.passed_over))

    def __repr__(self) -> str:
        return f"Calls({self.kept!r}, {self.passed_over!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Calls, (self.kept, self.passed_over)


def added_calls(parts: Iterable[Calls]) -> Calls:
    """The calls of several windows as those of one.

    Slow ones that find no room count as passed over: first each row keeps its slowest, then its second, and
    so on. Which of those taken at random stay is left to chance, by the same order of rows. The order in
    which windows are added does not matter.
    """
    some = [part for part in parts if part]
    if len(some) == 1:
        return some[0]
    return bounded((call for part in some for call in part.kept), sum(part.passed_over for part in some))


def bounded(kept: Iterable[KeptCall], passed_over: int = 0, most: int | None = None) -> Calls:
    """As many of these calls as a window keeps, by time; ``most``: so many slow ones, and as many others."""
    most = MOST_KEPT if most is None else most
    slow: list[KeptCall] = []
    taken: list[KeptCall] = []
    for call in kept:
        (slow if call.why == "slow" else taken).append(call)
    stay = [*_first(slow, _slowness, most), *_first(taken, _chance, most)]
    stay.sort(key=_by_time)
    return Calls(stay, passed_over + max(len(slow) - most, 0))


def _first(
    calls: list[KeptCall], weight: Callable[[KeptCall], tuple[int, ...]], most: int
) -> Sequence[KeptCall]:
    """Those of ``calls`` that there is room for: the heaviest of each row, then the second of each ..."""
    if len(calls) <= most:
        return calls
    rows: dict[tuple[Any, ...], list[KeptCall]] = {}
    for call in calls:
        rows.setdefault(call.row, []).append(call)
    ranked = []
    for row in rows.values():
        row.sort(key=weight, reverse=True)
        ranked += [((-rank, weight(call)), call) for rank, call in enumerate(row)]
    ranked.sort(key=operator.itemgetter(0), reverse=True)
    return [call for _, call in ranked[:most]]


def _slowness(call: KeptCall) -> tuple[int, ...]:
    return call.duration_ns, call.start_ns, call.tid


def _chance(call: KeptCall) -> tuple[int, ...]:
    # A multiplicative hash (Knuth, The Art of Computer Programming 3, 6.4) of the moment: the same each time.
    return (call.start_ns + call.tid) * 0x9E3779B97F4A7C15 >> 32 & 0xFFFFFFFF, call.start_ns, call.tid


def _by_time(call: KeptCall) -> tuple[int, ...]:
    return call.start_ns, call.tid, call.duration_ns


def with_call_tenants(calls: Calls, renamed: Callable[[str], str]) -> Calls:
    """``calls`` with other ids of tenants."""
    return Calls([call._replace(tenant=renamed(call.tenant)) for call in calls.kept], calls.passed_over)


def pack_calls(calls: Calls) -> bytes:
    """``calls`` as a few compressed bytes for a while in memory; none where there are none."""
    if not calls:
        return b""
    columns = tuple(zip(*calls.kept, strict=True))
    return zlib.compress(pickle.dumps((columns, calls.passed_over), pickle.HIGHEST_PROTOCOL), 1)


def unpack_calls(packed: bytes) -> Calls:
    """What ``pack_calls`` gave these bytes for."""
    if not packed:
        return Calls()
    columns, passed_over = pickle.loads(zlib.decompress(packed))
    return Calls(map(KeptCall._make, zip(*columns, strict=True)), passed_over)
