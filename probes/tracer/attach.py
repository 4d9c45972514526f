"""Attaches the entry and return programs to functions of a file. They then run in every process that maps the
file, now or later."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from stalltop.probes.programs.bpf_calls import UPROBE_SESSION, attach_uprobe_multi

_NO_LINK: Final = -1
"""Stands for the missing link of return probes if the link of entry probes serves returns, too."""
_CLOSERS: Final = 32
"""Number of descriptors that are closed at the same time."""


class Point(NamedTuple):
    """A place where a function is probed."""

    offset: int
    """Offset from the start of the file, bytes."""
    cookie: int
    """``Function.id`` of the function that is there."""


class Attachment:
    """Probes in a file; they stay until ``close``, or until stalltop ends."""

    def __init__(
        self,
        count: int,
        failed: Sequence[tuple[Point, str]],
        links: Sequence[int],
        close: Callable[[Sequence[int]], None],
    ) -> None:
        self.count = count
        """Number of probes in place: two per function."""
        self.failed = tuple(failed)
        """Functions that could not be probed, each with the Linux kernel's reason."""
        self._links = list(links)
        self._close = close
        self._lock = threading.Lock()

    def joined(self, other: Attachment) -> Attachment:
        """Moves the probes of this Attachment and of ``other`` into a new one, and returns the new one. It
        has this one's ``count`` and ``failed``."""
        return Attachment(self.count, self.failed, [*self.take(), *other.take()], self._close)

    @property
    def attached(self) -> bool:
        """Returns whether there are probes that have not been removed."""
        return bool(self._links)

    def take(self) -> list[int]:
        """Returns the descriptors of the links; the caller has to close them."""
        with self._lock:
            links, self._links = self._links, []
        return links

    def close(self) -> None:
        """Removes the probes. May be called twice, and from any thread."""
        links = self.take()
        if links:
            self._close(links)


class Attacher(Protocol):
    """One way of attaching."""

    def attach(self, path: str, points: Sequence[Point]) -> Attachment:
        """Probes ``points`` of the file at ``path``. Failures are in the result's ``failed``."""
        ...

    def close(self, links: Sequence[int]) -> None:
        """Removes the probes behind these descriptors."""
        ...


class MultiAttacher:
    """Attaches by ``uprobe_multi`` links, Linux 6.6 and later: one link for all functions of a file."""

    def __init__(self, entry: int, returns: int) -> None:
        self._entry = entry
        self._returns = returns

    def attach(self, path: str, points: Sequence[Point]) -> Attachment:
        """Probes ``points`` of the file at ``path``. Failures are in the result's ``failed``."""
        links: list[int] = []
        failed: list[tuple[Point, str]] = []
        count = 0
        # If one function cannot be probed, the Linux kernel refuses the whole link. So the group is halved
        # until that function is alone.
        groups = [list(points)] if points else []
        while groups:
            group = groups.pop()
            try:
                links += self._link(path, group)
                count += 2 * len(group)
            except OSError as error:
                if len(group) == 1:
                    failed.append((group[0], error.strerror or str(error)))
                else:
                    middle = len(group) // 2
                    groups += [group[middle:], group[:middle]]
        return Attachment(count, failed, links, self.close)

    def close(self, links: Sequence[int]) -> None:
        """Removes the probes behind these descriptors; takes some 0.1 s, however many there are."""
        # Every second descriptor is that of return probes. Entry probes are removed before return probes.
        # So the return of a call that has begun is still seen.
        close_together(links[0::2])
        close_together(links[1::2])

    def _link(self, path: str, points: Sequence[Point]) -> tuple[int, int]:
        offsets = [point.offset for point in points]
        cookies = [point.cookie for point in points]
        # Return probes are attached first: if a probe sees the beginning of a call, another one sees its
        # return. Calls that begin before the entry probe is attached are not counted.
        returns = attach_uprobe_multi(self._returns, path, offsets, cookies, returns=True)
        try:
            entry = attach_uprobe_multi(self._entry, path, offsets, cookies, returns=False)
        except OSError:
            os.close(returns)
            raise
        return entry, returns


class SessionAttacher(MultiAttacher):
    """Attaches by sessions (``bpf/timed.h``), Linux 6.13 and later: one link for entries and
    returns."""

    def __init__(self, session: int) -> None:
        super().__init__(session, session)

    def _link(self, path: str, points: Sequence[Point]) -> tuple[int, int]:
        offsets = [point.offset for point in points]
        cookies = [point.cookie for point in points]
        link = attach_uprobe_multi(
            self._entry, path, offsets, cookies, returns=False, attach_type=UPROBE_SESSION
        )
        return link, _NO_LINK


def close_together(descriptors: Sequence[int]) -> None:
    """Closes descriptors of programs, all at the same time.

    At each close, the Linux kernel waits some 0.05 s until no CPU runs the program any more. Closing many at
    the same time takes hardly longer than closing one.
    """
    left = list(descriptors)

    def work() -> None:
        while True:
            try:
                descriptor = left.pop()
            except IndexError:
                return
            if descriptor == _NO_LINK:
                continue
            with contextlib.suppress(OSError):
                os.close(descriptor)

    threads = []
    # RuntimeError: no more threads can be started, for instance when the interpreter ends.
    with contextlib.suppress(RuntimeError):
        for _ in range(min(len(left), _CLOSERS) - 1):
            thread = threading.Thread(target=work, name="closing", daemon=True)
            thread.start()
            threads.append(thread)
    work()
    for thread in threads:
        thread.join()
