"""Captured calls: the slowest calls of each row, and a random sample.

The rows of a window count every call. A captured call is one of these calls with its start, duration, split
and arguments. A window keeps a bounded number of them, and counts the slow calls that it dropped.
"""

from __future__ import annotations

import operator
import pickle
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple

MOST_KEPT: Final = 1024
"""Maximum number of slow calls in a window, and maximum number of randomly sampled calls."""

Why = Literal["slow", "sample"]


class CapturedCall(NamedTuple):
    """One captured call. The row with the same ``tenant`` to ``nested`` and ``device`` counts it as well."""

    tenant: str
    pid: int
    process: str
    layer: str
    operation: str
    nested: bool
    tid: int
    """Thread that made the call."""
    start_ns: int
    """Unix time in ns at which the call began."""
    duration_ns: int
    split_ns: tuple[int, ...] | None
    """Time of the call in ns by part, in the order of ``model.window.SPLITS``; the parts add up to
    ``duration_ns``. None if splits were not measured."""
    bytes: int
    """Bytes that the call was asked to copy, set, allocate or send; 0 if there are none, or if their number
    is unknown."""
    returned: int
    """Return value of the function; 0 is success."""
    arguments: str
    """Selected arguments, such as ``stream=0x7f2c10 blocks=128x1x1``; '' if none."""
    kernel: str
    """Name of the CUDA kernel that the call launched; '' if it launched none, or an unknown one."""
    why: Why
    """``slow``: the call took longer than nearly all recent calls of its row. ``sample``: chosen at
    random."""
    device: str = ""
    """Label of the device that the call ran on; '' if unknown."""

    @property
    def row(self) -> tuple[str, int, str, str, str, bool, str]:
        """Key of the row that counts the call: its ``RowKey`` without the host."""
        return (*self[:6], self.device)

    @property
    def end_ns(self) -> int:
        """Unix time in ns at which the call returned."""
        return self.start_ns + self.duration_ns


class CapturedCalls:
    """The captured calls of a window. Immutable."""

    __slots__ = ("_kept", "_parts", "_passed_over")

    def __init__(self, kept: Iterable[CapturedCall] = (), passed_over: int = 0) -> None:
        self._kept = tuple(kept)
        self._passed_over = passed_over
        self._parts: Callable[[], Iterable[CapturedCalls]] | None = None

    @staticmethod
    def later(parts: Callable[[], Iterable[CapturedCalls]]) -> CapturedCalls:
        """Returns ``added_calls(parts())``, which is computed when the result is first read."""
        calls = CapturedCalls()
        calls._parts = parts
        return calls

    @property
    def kept(self) -> tuple[CapturedCall, ...]:
        """Captured calls in order of time: at most ``MOST_KEPT`` slow ones and ``MOST_KEPT`` sampled ones."""
        self._work_out()
        return self._kept

    @property
    def passed_over(self) -> int:
        """Number of slow calls that were dropped because there were too many. The rows still count these
        calls."""
        self._work_out()
        return self._passed_over

    def _work_out(self) -> None:
        if self._parts is not None:
            found = added_calls(self._parts())
            self._kept, self._passed_over, self._parts = found.kept, found.passed_over, None

    def __bool__(self) -> bool:
        return bool(self.kept) or self.passed_over > 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CapturedCalls):
            return NotImplemented
        return (self.kept, self.passed_over) == (other.kept, other.passed_over)

    def __hash__(self) -> int:
        return hash((self.kept, self.passed_over))

    def __repr__(self) -> str:
        return f"CapturedCalls({self.kept!r}, {self.passed_over!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return CapturedCalls, (self.kept, self.passed_over)


def added_calls(parts: Iterable[CapturedCalls]) -> CapturedCalls:
    """Merges the captured calls of several windows.

    If there are too many slow calls, the slowest call of each row is kept first, then the second slowest of
    each row, and so on; ``passed_over`` counts the calls that are dropped. If there are too many sampled
    calls, one random call of each row is kept first, then a second one of each row, and so on. The order of
    ``parts`` does not matter.
    """
    some = [part for part in parts if part]
    if len(some) == 1:
        return some[0]
    return bounded((call for part in some for call in part.kept), sum(part.passed_over for part in some))


def bounded(kept: Iterable[CapturedCall], passed_over: int = 0, most: int | None = None) -> CapturedCalls:
    """Keeps at most ``most`` slow and ``most`` sampled calls (default: ``MOST_KEPT``), sorted by time.

    ``passed_over`` is the number of slow calls dropped earlier. The result's ``passed_over`` also counts the
    slow calls that this function drops.
    """
    most = MOST_KEPT if most is None else most
    slow: list[CapturedCall] = []
    taken: list[CapturedCall] = []
    for call in kept:
        (slow if call.why == "slow" else taken).append(call)
    stay = [*_first(slow, _slowness, most), *_first(taken, _chance, most)]
    stay.sort(key=_by_time)
    return CapturedCalls(stay, passed_over + max(len(slow) - most, 0))


def _first(
    calls: list[CapturedCall], weight: Callable[[CapturedCall], tuple[int, ...]], most: int
) -> Sequence[CapturedCall]:
    """Selects at most ``most`` of ``calls``: first the call of greatest ``weight`` in each row, then the
    second of each row, and so on. Returns all of ``calls`` if there are no more than ``most``."""
    if len(calls) <= most:
        return calls
    rows: dict[tuple[Any, ...], list[CapturedCall]] = {}
    for call in calls:
        rows.setdefault(call.row, []).append(call)
    ranked = []
    for row in rows.values():
        row.sort(key=weight, reverse=True)
        ranked += [((-rank, weight(call)), call) for rank, call in enumerate(row)]
    ranked.sort(key=operator.itemgetter(0), reverse=True)
    return [call for _, call in ranked[:most]]


def _slowness(call: CapturedCall) -> tuple[int, ...]:
    return call.duration_ns, call.start_ns, call.tid


def _chance(call: CapturedCall) -> tuple[int, ...]:
    # Multiplicative hash (Knuth, The Art of Computer Programming 3, 6.4) of start and TID: random but
    # repeatable.
    return (call.start_ns + call.tid) * 0x9E3779B97F4A7C15 >> 32 & 0xFFFFFFFF, call.start_ns, call.tid


def _by_time(call: CapturedCall) -> tuple[int, ...]:
    return call.start_ns, call.tid, call.duration_ns


def with_call_tenants(calls: CapturedCalls, renamed: Callable[[str], str]) -> CapturedCalls:
    """Replaces each tenant id in ``calls`` by ``renamed(id)``."""
    return CapturedCalls(
        [call._replace(tenant=renamed(call.tenant)) for call in calls.kept], calls.passed_over
    )


def pack_calls(calls: CapturedCalls) -> bytes:
    """Compresses ``calls`` for storage in memory; b"" if there are none."""
    if not calls:
        return b""
    columns = tuple(zip(*calls.kept, strict=True))
    return zlib.compress(pickle.dumps((columns, calls.passed_over), pickle.HIGHEST_PROTOCOL), 1)


def unpack_calls(packed: bytes) -> CapturedCalls:
    """Reverses ``pack_calls``."""
    if not packed:
        return CapturedCalls()
    columns, passed_over = pickle.loads(zlib.decompress(packed))
    return CapturedCalls(map(CapturedCall._make, zip(*columns, strict=True)), passed_over)
