"""One real file with its probes, or with the reason why it has none."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from stalltop.model.errors import Told, described
from stalltop.model.text.clean import clean
from stalltop.model.window import Missing
from stalltop.probes.libraries.elf import Unreadable, read_image
from stalltop.probes.libraries.file_identity import FileIdentity
from stalltop.probes.libraries.placement import Place, places
from stalltop.probes.process_maps import Mapping
from stalltop.probes.tracer.attach import Point


class Probes(Protocol):
    """Probes in place: what ``KernelSide.attach`` returns."""

    @property
    def count(self) -> int:
        """Probes, two a function."""
        ...

    @property
    def failed(self) -> Sequence[tuple[Point, str]]:
        """Functions that could not be probed, with the reason."""
        ...

    def close(self) -> None:
        """Remove them."""
        ...


Attach = Callable[[str, Sequence[Point]], Probes]


class Version(NamedTuple):
    """A file as it was: a file replaced or rewritten is another one."""

    device: int
    inode: int
    size_bytes: int
    modified_ns: int


class ProbedFile:
    """A file that was looked at, and the processes that use it.

    ``problem`` says why it is not probed, or not wholly; a file that holds nothing to probe and need not
    has neither probes nor problem.
    """

    def __init__(self, fd: int, version: Version, mapping: Mapping, attach: Attach) -> None:
        """Look at the file open at ``fd`` and probe it. Raises nothing that comes from the file."""
        self.version = version
        self.path = clean(mapping.path) + (" (deleted)" if mapping.deleted else "")
        self.users: set[int] = set()
        self.idle_since = 0.0
        self.functions: dict[str, int] = {}
        """Functions probed, by layer."""
        self.problem: Missing | None = None
        self.probes: Probes | None = None
        self.identity: FileIdentity | None = None
        self._originals: tuple[tuple[int, bytes], ...] = ()
        self._fd = -1
        try:
            self._probe(fd, mapping, attach)
        except Unreadable as reason:
            if mapping.library:
                self._missing(f"its symbols cannot be read: {reason}", "reinstall what it belongs to")
        except OSError as error:
            self._missing(f"cannot be probed: {error.strerror or error}", "run: stalltop check")
        except Told as told:
            self._missing(told.reason, told.remedy)
        except Exception as error:  # one odd file of somebody's costs that file, not everybody's counts
            self._missing(f"cannot be probed: {clean(described(error))}", "run: stalltop check")
        if self.probes is None:
            self.close()

    @property
    def probed(self) -> bool:
        """Whether its functions are counted."""
        return self.probes is not None

    def is_rewritten(self) -> bool:
        """Whether the file's content is not what it was: its probes lie anywhere then, and must go."""
        if self._fd < 0:
            return False
        try:
            status = os.fstat(self._fd)
        except OSError:  # a file system that is gone for now
            return False
        return (status.st_size, status.st_mtime_ns) != self.version[2:]

    def is_in_place(self, mapping: Mapping) -> bool:
        """Whether the process of this mapping really has a probe: its memory differs from the file there.

        True also where its memory cannot be read any more, which ends by itself with the process.
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
        """Remove the probes and let go of the file. May be called twice."""
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

    def _count(self, chosen: Iterable[Place]) -> None:
        for place in chosen:
            layer = place.found.function.layer
            if not place.found.function.operation:
                continue
            self.functions[layer] = self.functions.get(layer, 0) + 1

    def _missing(self, reason: str, remedy: str) -> None:
        self.problem = Missing(self.path, reason, remedy)
