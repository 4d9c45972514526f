"""Represents one real file with its probes, or with the reason why it has none."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, Self

from stalltop.model.errors import StalltopError, described
from stalltop.model.text.clean import clean
from stalltop.model.window import Missing
from stalltop.probes.budget.hot import HOT
from stalltop.probes.confined.examiner import FilePlace, FileReading, Version
from stalltop.probes.file_state import size_and_change
from stalltop.probes.operations import Function, match
from stalltop.probes.process_maps import Mapping
from stalltop.probes.tracer.attach import Point


class Probes(Protocol):
    """Attached probes, as ``KernelSide.attach`` returns them."""

    @property
    def count(self) -> int:
        """Returns the number of probes, two per function."""
        ...

    @property
    def failed(self) -> Sequence[tuple[Point, str]]:
        """Returns the functions that could not be probed, each with the reason."""
        ...

    def joined(self, other: Self) -> Self:
        """Moves the probes of both into one object, so that they can be removed together."""
        ...

    def close(self) -> None:
        """Removes the probes."""
        ...


Attach = Callable[[str, Sequence[Point]], Probes]


class ProbedFile:
    """A file that was searched for functions to probe, and the processes that use it.

    ``problem`` says why it is not probed, or only partly. A program or another library without traced
    functions has neither probes nor a problem; nor has a library that may be built without them. A library
    that should define traced functions and does not has a problem; so has one that contains the CUDA runtime
    without symbols.
    """

    def __init__(
        self, file: int, version: Version, mapping: Mapping, reading: FileReading, attach: Attach
    ) -> None:
        """Probes the places in ``reading``. ``file`` is the file of ``mapping``, opened by ``O_PATH``; it
        belongs to this object. Errors are not raised: ``problem`` then says what is wrong with the file."""
        self.version = version
        self.device = mapping.device
        """Device number of the file system, as in ``/proc/PID/maps``."""
        self.inode = mapping.inode
        """Inode number, as in ``/proc/PID/maps``."""
        self.path = clean(mapping.path) + (" (deleted)" if mapping.deleted else "")
        self.users: set[int] = set()
        self.idle_since = 0.0
        self.functions: dict[str, int] = {}
        """By layer: the number of probed functions whose calls are counted."""
        self.problem: Missing | None = None
        self.probes: Probes | None = None
        """The probes of all functions that have none of their own."""
        self.probed_ns = 0
        """When all probes were in place, by the monotonic clock."""
        self.hot: dict[str, Probes] = {}
        """By symbol: the probes of a function that has probes of its own (``HOT``), while they are in
        place."""
        self._attach = attach
        self._hot_points: dict[str, list[Point]] = {}
        self._compares_hot = False
        self._originals: tuple[tuple[int, bytes], ...] = ()
        self._file = file
        try:
            self._probe(reading)
        except OSError as error:
            self._missing(f"cannot be probed: {error.strerror or error}", "run: stalltop check")
        except StalltopError as told:
            self._missing(told.reason, told.remedy)
        except Exception as error:  # If this file cannot be handled, the other files are still probed.
            self._missing(f"cannot be probed: {clean(described(error))}", "run: stalltop check")
        if self.probes is None:
            self.close()

    @property
    def probed(self) -> bool:
        """Returns whether functions of the file are counted."""
        return self.probes is not None

    @property
    def file(self) -> int:
        """The file, opened by ``O_PATH``; -1 if it is not probed."""
        return self._file

    def lose_user(self, pid: int) -> None:
        """Notes that process ``pid`` does not use the file any more."""
        self.users.discard(pid)
        if not self.users:
            self.idle_since = time.monotonic()

    def is_rewritten(self) -> bool:
        """Returns whether the file's content has changed. If so, its probes are at wrong places and must be
        removed.

        Never waits: a server is not asked, so on a network file system a change is noticed when a process
        that uses the file is read again.
        """
        return self._file >= 0 and size_and_change(self._file) not in (None, self.version[2:])

    def compared(self, mapping: Mapping) -> tuple[tuple[int, bytes], ...]:
        """Returns addresses in the process of ``mapping`` at which there are probes, so that its memory
        differs from the file, each with the bytes that the file has there.

        Empty if ``mapping`` contains none of the places that are compared, or if the probes that are compared
        may be removed for a time.
        """
        if self._compares_hot and self.hot.keys() != self._hot_points.keys():
            return ()
        for offset, original in self._originals:
            address = mapping.address(offset)
            if address is not None:
                return ((address, original),)
        return ()

    def take(self, symbol: str) -> Probes | None:
        """Returns the probes of the hot function ``symbol``, which the caller has to close; None if they are
        not in place."""
        return self.hot.pop(symbol, None)

    def attach(self, symbol: str) -> None:
        """Puts the probes of the hot function ``symbol`` in place again. Does nothing if they are there."""
        if symbol not in self.hot and self._file >= 0:
            self.hot[symbol] = self._attach(f"/proc/self/fd/{self._file}", self._hot_points[symbol])

    def exchange(self, symbol: str, attach: Attach | None) -> Probes | None:
        """Probes the hot function ``symbol`` by ``attach``; None: in the usual way. Returns its probes that
        were in place before, which the caller has to close. Returns None, and changes nothing, if there were
        none or if the function cannot be probed."""
        before = self.hot.get(symbol)
        if before is None or self._file < 0:
            return None
        probes = (attach or self._attach)(f"/proc/self/fd/{self._file}", self._hot_points[symbol])
        if probes.failed:
            probes.close()
            return None
        self.hot[symbol] = probes
        return before

    def hot_cookies(self, symbol: str) -> set[int]:
        """Returns the ids of the functions at the points of the hot function ``symbol``."""
        return {point.cookie for point in self._hot_points[symbol]}

    def hot_symbols(self) -> tuple[str, ...]:
        """Returns the functions that have probes of their own, whether these are in place or not."""
        return tuple(self._hot_points)

    def take_all(self) -> list[Probes]:
        """Returns all probes, which the caller has to close. The file then counts as not probed."""
        probes, self.probes = self.probes, None
        hot, self.hot = self.hot, {}
        return [] if probes is None else [probes, *hot.values()]

    def close(self) -> None:
        """Removes the probes and closes the file. May be called twice."""
        file, self._file = self._file, -1
        close_together(self.take_all())
        if file >= 0:
            with contextlib.suppress(OSError):
                os.close(file)

    def _probe(self, reading: FileReading) -> None:
        if reading.problem is not None:
            self._missing(clean(reading.problem.reason), clean(reading.problem.remedy))
        chosen = [
            (place, function)
            for place in reading.places
            if (function := match(place.symbol, place.layer)) is not None
        ]
        if not chosen:
            return
        others = self._divided(chosen)
        # Probes of hot functions are compared only if there are no others, because they may be removed.
        self._compares_hot = not others
        originals = {place.offset: place.original for place, _ in chosen}
        compared = [point.offset for point in others] or [*originals]
        self._originals = tuple((offset, originals[offset]) for offset in (compared[0], compared[-1]))
        path = f"/proc/self/fd/{self._file}"
        self.probes = self._attach(path, others)
        for symbol, points in self._hot_points.items():
            self.hot[symbol] = self._attach(path, points)
        self.probed_ns = time.monotonic_ns()
        attached = (self.probes, *self.hot.values())
        failed = {point.offset: reason for probes in attached for point, reason in probes.failed}
        self._count(function for place, function in chosen if place.offset not in failed)
        if failed:
            first = next(place for place, _ in chosen if place.offset in failed)
            self._missing(
                f"{len(failed)} of {len(chosen)} functions could not be probed, the first of them "
                f"{clean(first.symbol)}: {failed[first.offset]}",
                "run: stalltop check",
            )
        if not any(probes.count for probes in attached):
            self.close()

    def _divided(self, chosen: Iterable[tuple[FilePlace, Function]]) -> list[Point]:
        """Notes the points of hot functions; returns all others."""
        others = []
        # Several names may have one address. Only the first is probed, or a call would be counted twice.
        for place, function in {place.offset: (place, function) for place, function in chosen}.values():
            point = Point(place.offset, function.id)
            if function.operation and function.symbol in HOT:
                self._hot_points.setdefault(function.symbol, []).append(point)
            else:
                others.append(point)
        return others

    def _count(self, functions: Iterable[Function]) -> None:
        for function in functions:
            if function.operation:
                self.functions[function.layer] = self.functions.get(function.layer, 0) + 1

    def _missing(self, reason: str, remedy: str) -> None:
        self.problem = Missing(self.path, reason, remedy)


def close_together(probes: Sequence[Probes]) -> None:
    """Removes ``probes``, which takes hardly longer than removing one of them. The first ones go first."""
    if probes:
        functools.reduce(lambda first, other: first.joined(other), probes).close()
