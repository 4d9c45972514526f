"""Represents one real file with its probes, or with the reason why it has none."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, Self

from stalltop.model.errors import StalltopError, described
from stalltop.model.text.clean import clean
from stalltop.model.window import Missing
from stalltop.probes.budget.hot import HOT
from stalltop.probes.libraries.elf import ElfError, RefusedError, read_image
from stalltop.probes.libraries.file_identity import FileIdentity
from stalltop.probes.libraries.placement import ProbePlace, places
from stalltop.probes.libraries.static_runtime import holds_runtime
from stalltop.probes.process_maps import Kind, Mapping
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


class Version(NamedTuple):
    """Identity and state of a file. A file that is replaced or rewritten gets another version."""

    device: int
    inode: int
    size_bytes: int
    modified_ns: int


class ProbedFile:
    """A file that was searched for functions to probe, and the processes that use it.

    ``problem`` says why it is not probed, or only partly. A program or another library without traced
    functions has neither probes nor a problem; nor has a library that may be built without them. A library
    that should define traced functions and does not has a problem; so has one that contains the CUDA runtime
    without symbols.
    """

    def __init__(self, fd: int, version: Version, mapping: Mapping, attach: Attach) -> None:
        """Reads the file open at ``fd`` and probes it. Errors in the file are not raised: ``problem`` then
        says what is wrong with the file."""
        self.version = version
        self.path = clean(mapping.path) + (" (deleted)" if mapping.deleted else "")
        self.users: set[int] = set()
        self.idle_since = 0.0
        self.functions: dict[str, int] = {}
        """By layer: the number of probed functions whose calls are counted."""
        self.problem: Missing | None = None
        self.probes: Probes | None = None
        """The probes of all functions that have none of their own."""
        self.hot: dict[str, Probes] = {}
        """By symbol: the probes of a function that has probes of its own (``HOT``), while they are in
        place."""
        self.identity: FileIdentity | None = None
        self._attach = attach
        self._hot_points: dict[str, list[Point]] = {}
        self._compares_hot = False
        self._originals: tuple[tuple[int, bytes], ...] = ()
        self._fd = -1
        try:
            self._probe(fd, mapping)
        except RefusedError as reason:
            self._missing(f"its symbols are not read: {reason}", "rebuild it, or remove its symbols")
        except ElfError as reason:
            if mapping.kind is Kind.LIBRARY:
                self._missing(
                    f"its symbols cannot be read: {reason}", "reinstall the package that it belongs to"
                )
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

    def is_rewritten(self) -> bool:
        """Returns whether the file's content has changed. If so, its probes are at wrong places and must be
        removed."""
        if self._fd < 0:
            return False
        try:
            status = os.fstat(self._fd)
        except OSError:  # The file system is not available now.
            return False
        return (status.st_size, status.st_mtime_ns) != self.version[2:]

    def is_in_place(self, mapping: Mapping) -> bool:
        """Returns whether the process of ``mapping`` really has a probe: at the place of a probe, its memory
        differs from the file.

        Also returns True if the process's memory cannot be read any more, because then the process is ending;
        and if ``mapping`` contains none of the places that are compared, or if the probes that are compared
        may be removed for a time.
        """
        if self._compares_hot and self.hot.keys() != self._hot_points.keys():
            return True
        for offset, original in self._originals:
            address = mapping.address(offset)
            if address is not None:
                try:
                    with open(f"/proc/{mapping.thread}/mem", "rb", buffering=0) as memory:
                        return os.pread(memory.fileno(), len(original), address) != original
                except (OSError, OverflowError):
                    return True
        return True

    def take(self, symbol: str) -> Probes | None:
        """Returns the probes of the hot function ``symbol``, which the caller has to close; None if they are
        not in place."""
        return self.hot.pop(symbol, None)

    def attach(self, symbol: str) -> None:
        """Puts the probes of the hot function ``symbol`` in place again. Does nothing if they are there."""
        if symbol not in self.hot and self._fd >= 0:
            self.hot[symbol] = self._attach(f"/proc/self/fd/{self._fd}", self._hot_points[symbol])

    def exchange(self, symbol: str, attach: Attach | None) -> Probes | None:
        """Probes the hot function ``symbol`` by ``attach``; None: in the usual way. Returns its probes that
        were in place before, which the caller has to close. Returns None, and changes nothing, if there were
        none or if the function cannot be probed."""
        before = self.hot.get(symbol)
        if before is None or self._fd < 0:
            return None
        probes = (attach or self._attach)(f"/proc/self/fd/{self._fd}", self._hot_points[symbol])
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

    def close(self) -> None:
        """Removes the probes and closes the file. May be called twice."""
        probes, self.probes = self.probes, None
        hot, self.hot = self.hot, {}
        identity, self.identity = self.identity, None
        fd, self._fd = self._fd, -1
        if probes is not None:
            close_together([probes, *hot.values()])
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)
        if identity is not None:
            identity.close()

    def _probe(self, fd: int, mapping: Mapping) -> None:
        if mapping.kind is Kind.OTHER and not holds_runtime(fd):
            return
        image = read_image(fd, mapping.layers)
        chosen = places(fd, image)
        if not chosen:
            if mapping.kind is Kind.OTHER:
                self._missing(
                    "holds the CUDA runtime without symbols: only its driver calls are counted",
                    "keep the library's symbols, or link it with -cudart shared",
                )
            elif mapping.kind is Kind.LIBRARY and len(mapping.layers) == 1:
                self._missing("it defines none of the traced functions", "its symbols may have been stripped")
            return
        self.identity = FileIdentity(fd)
        self._fd = os.dup(fd)
        others = self._divided(chosen)
        # Probes of hot functions are compared only if there are no others, because they may be removed.
        self._compares_hot = not others
        compared = [point.offset for point in others] or [place.offset for place in chosen]
        self._originals = tuple((offset, os.pread(fd, 4, offset)) for offset in (compared[0], compared[-1]))
        path = f"/proc/self/fd/{fd}"
        self.probes = self._attach(path, others)
        for symbol, points in self._hot_points.items():
            self.hot[symbol] = self._attach(path, points)
        attached = (self.probes, *self.hot.values())
        failed = {point.offset: reason for probes in attached for point, reason in probes.failed}
        self._count(place for place in chosen if place.offset not in failed)
        if failed:
            first = next(place for place in chosen if place.offset in failed)
            self._missing(
                f"{len(failed)} of {len(chosen)} functions could not be probed, the first of them "
                f"{first.found.symbol}: {failed[first.offset]}",
                "run: stalltop check",
            )
        if not any(probes.count for probes in attached):
            self.close()

    def _divided(self, chosen: Iterable[ProbePlace]) -> list[Point]:
        """Notes the points of hot functions; returns all others."""
        others = []
        # Several names may have one address. Only the first is probed, or a call would be counted twice.
        for place in {place.offset: place for place in reversed([*chosen])}.values():
            function = place.found.function
            point = Point(place.offset, function.id)
            if function.operation and function.symbol in HOT:
                self._hot_points.setdefault(function.symbol, []).append(point)
            else:
                others.append(point)
        return others

    def _count(self, chosen: Iterable[ProbePlace]) -> None:
        for place in chosen:
            layer = place.found.function.layer
            if not place.found.function.operation:
                continue
            self.functions[layer] = self.functions.get(layer, 0) + 1

    def _missing(self, reason: str, remedy: str) -> None:
        self.problem = Missing(self.path, reason, remedy)


def close_together(probes: Sequence[Probes]) -> None:
    """Removes ``probes``, which takes hardly longer than removing one of them. The first ones go first."""
    if probes:
        functools.reduce(lambda first, other: first.joined(other), probes).close()
