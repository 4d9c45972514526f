"""Gives the tracks of a trace their numbers: the tracks of hosts, containers, processes and threads.

The Trace Event Format has only processes and threads, each with a number. In a trace, hosts and containers
are therefore processes as well. They get numbers that no Linux process has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from stalltop.model.text.figures import printable
from stalltop.model.text.words import with_pid

LEAST_MADE_UP: Final = 5_000_000
"""Lowest number that a host, a container, or a further line of slices gets. It is above all PIDs, which are
at most 2^22 on Linux."""
_REMEMBERED: Final = 64
"""A new slice of a line is compared with this many of the last slices."""
_OF_CONTAINER: Final = 1_000
"""Number of sort indices that are reserved for one container and its processes."""

Event = dict[str, Any]


class SliceLine:
    """One line of slices. Slices on a line follow each other, or one contains the other."""

    def __init__(self) -> None:
        self._slices: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED)
        self._end = 0
        """The latest time at which a slice ends."""

    def takes(self, start_ns: int, end_ns: int, *, within: bool) -> bool:
        """Add the slice and return True, if it overlaps no other slice of the line; else return False. If
        ``within`` is True, one slice may contain the other."""
        for start, end in self._slices if start_ns < self._end else ():
            apart = end_ns <= start or end <= start_ns
            nested = (start <= start_ns and end_ns <= end) or (start_ns <= start and end <= end_ns)
            if not (apart or (within and nested)):
                return False
        self._slices.append((start_ns, end_ns))
        self._end = max(self._end, end_ns)
        return True


class Tracks:
    """Numbers and names of all tracks. When a track is new, the events that name it are added to
    ``named``."""

    def __init__(self) -> None:
        self.named: list[Event] = []
        """Events that ``take_named`` returns next."""
        self._numbers: dict[tuple[str, ...], int] = {}
        self._taken: set[int] = set()
        self._orders: dict[tuple[str, ...], int] = {}
        self._children: dict[tuple[str, ...], int] = {}
        self._lines: dict[tuple[int, int, str], list[tuple[int, SliceLine]]] = {}
        self._next = LEAST_MADE_UP

    def host(self, host: str) -> int:
        """Return the track of a host."""
        return self._process((host,), f"host {host}", 0)

    def container(self, host: str, tenant: str, name: str) -> int:
        """Return the track of a container, or of the host if ``tenant`` is ''."""
        return self._process((host, tenant), f"container {name}", 0) if tenant else self.host(host)

    def process(self, host: str, tenant: str, name: str, pid: int, process: str) -> int:
        """Return the track of a process, which is below that of its container."""
        key = (host, tenant, str(pid), process)
        return self._process(key, with_pid(process, pid) + (f" ({name})" if name else ""), pid)

    def line(self, track: int, tid: int, name: str, start_ns: int, end_ns: int, *, within: bool) -> int:
        """Add a slice to the first line of thread ``tid`` that has room for it. If no line has room, add it
        to a new line beside them. Returns the number of the line."""
        lines = self._lines.setdefault((track, tid, name), [])
        for number, line in lines:
            if line.takes(start_ns, end_ns, within=within):
                return number
        number = tid if 0 < tid < LEAST_MADE_UP and not lines else self._new()
        line = SliceLine()
        line.takes(start_ns, end_ns, within=within)
        lines.append((number, line))
        shown = name if len(lines) == 1 else f"{name}, beside ({len(lines)})"
        self.named.append(_named("thread_name", track, {"name": printable(shown)}, tid=number))
        return number

    def _process(self, key: tuple[str, ...], name: str, pid: int) -> int:
        number = self._numbers.get(key)
        if number is not None:
            return number
        # If the PID is taken (reused, or that of a process on another host), the process gets a new number.
        number = pid if 0 < pid < LEAST_MADE_UP and pid not in self._taken else self._new()
        self._taken.add(number)
        self._numbers[key] = number
        self.named += [
            _named("process_name", number, {"name": printable(name)}),
            _named("process_sort_index", number, {"sort_index": self._order(key)}),
        ]
        return number

    def _order(self, key: tuple[str, ...]) -> int:
        """Return a sort index. Hosts and containers are in the order of their appearance, and each process is
        below its container."""
        if len(key) <= 2:
            self._orders[key] = len(self._orders) * _OF_CONTAINER
            return self._orders[key]
        container = key[:2]
        self._children[container] = self._children.get(container, 0) + 1
        below = self._orders.setdefault(container, len(self._orders) * _OF_CONTAINER)
        return below + min(self._children[container], _OF_CONTAINER - 1)

    def _new(self) -> int:
        self._next += 1
        return self._next - 1

    def take_named(self) -> Iterator[Event]:
        """Yield the events that name new tracks. Each event is yielded once."""
        yield from self.named
        self.named.clear()


def _named(what: str, track: int, values: dict[str, Any], tid: int = 0) -> Event:
    # Viewers show thread 0 as the idle task. So the name of a process is given to its main thread.
    return {"ph": "M", "name": what, "pid": track, "tid": tid or track, "ts": 0, "args": values}
