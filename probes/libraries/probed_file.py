"""Represents one real file with its probes, or with the reason why it has none."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from stalltop.model.errors import StalltopError, described
from stalltop.model.text.clean import clean
from stalltop.model.window import Missing
from stalltop.probes.libraries.elf import ElfError, read_image
from stalltop.probes.libraries.file_identity import FileIdentity
from stalltop.probes.libraries.placement import ProbePlace, places
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

    ``problem`` says why it is not probed, or only partly. A program without traced functions has neither
    probes nor a problem; nor has a library that may be built without them. A library that should define
    traced functions and does not has a problem.
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
        self.identity: FileIdentity | None = None
        self._originals: tuple[tuple[int, bytes], ...] = ()
        self._fd = -1
        try:
            self._probe(fd, mapping, attach)
        except ElfError as reason:
            if mapping.library:
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
        and if ``mapping`` contains none of the places that are compared.
        """
        for offset, original in self._originals:
            address = mapping.address(offset)
            if address is not None:
                try:
                    with open(f"/proc/{mapping.thread}/mem", "rb", buffering=0) as memory:
                        return os.pread(memory.fileno(), len(original), address) != original
                except (OSError, OverflowError):
                    return True
        return True

    def close(self) -> None:
        """Removes the probes and closes the file. May be called twice."""
        probes, self.probes = self.probes, None
        identity, self.identity = self.identity, None
        fd, self._fd = self._fd, -1
        if probes is not None:
            probes.close()
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)
        if identity is not None:
            identity.close()

    def _probe(self, fd: int, mapping: Mapping, attach: Attach) -> None:
        image = read_image(fd, mapping.layers)
        chosen = places(fd, image)
        if not chosen:
            if mapping.library and len(mapping.layers) == 1:
                self._missing("it defines none of the traced functions", "its symbols may have been stripped")
            return
        self._originals = tuple(
            (place.offset, os.pread(fd, 4, place.offset)) for place in (chosen[0], chosen[-1])
        )
        self.identity = FileIdentity(fd)
        self._fd = os.dup(fd)
        points = [Point(place.offset, place.found.function.id) for place in chosen]
        self.probes = probes = attach(f"/proc/self/fd/{fd}", points)
        failed = {point.offset: reason for point, reason in probes.failed}
        self._count(place for place in chosen if place.offset not in failed)
        if failed:
            first = next(place for place in chosen if place.offset in failed)
            self._missing(
                f"{len(failed)} of {len(chosen)} functions could not be probed, the first of them "
                f"{first.found.symbol}: {failed[first.offset]}",
                "run: stalltop check",
            )
        if not probes.count:
            self.close()

    def _count(self, chosen: Iterable[ProbePlace]) -> None:
        for place in chosen:
            layer = place.found.function.layer
            if not place.found.function.operation:
                continue
            self.functions[layer] = self.functions.get(layer, 0) + 1

    def _missing(self, reason: str, remedy: str) -> None:
        self.problem = Missing(self.path, reason, remedy)
