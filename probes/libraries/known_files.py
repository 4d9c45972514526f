"""Remembers the files that processes have mapped: those that are probed, each once, and those without
anything to probe, so that they are not read again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from stalltop.probes.confined.examiner import Examiner, FoundFile, Version
from stalltop.probes.confined.questions import Questions, QuestionSubject
from stalltop.probes.libraries.probed_file import Attach, ProbedFile, close_together
from stalltop.probes.process_maps import Kind, Mapping

LINGER_SECONDS: Final = 5.0
"""Time for which a file that no process uses keeps its probes, in seconds. The time is short because probes
keep the file system from being unmounted, and break programs that map the file after it was rewritten in
place. The time is not 0, so that the libraries of a job that restarts often need not be read again each
time."""
MOST_DROPPED: Final = 16
"""Maximum number of files whose probes `KnownFiles.drop_unused` removes, all together: that takes some 0.1 s,
in which nothing is discovered. A process may have had hundreds of files of its own."""
_PLAIN_FILES: Final = 8192
"""Maximum number of files that are remembered as having nothing to probe. If there are more, the oldest are
forgotten, and are read again when a process that uses them is read."""


class _LibraryPlace(NamedTuple):
    """A mapping of a library, the same in every process."""

    device: int
    inode: int
    path: str
    offset: int
    size_bytes: int


class KnownFiles:
    """The files that are known. Used from one thread at a time."""

    def __init__(self, attach: Attach, questions: Questions, dropped: Callable[[ProbedFile], None]) -> None:
        """``dropped`` is called with each file before its probes are removed."""
        self._attach = attach
        self._questions = questions
        self._dropped = dropped
        self._probed: dict[Version, ProbedFile] = {}
        """Files that are probed or have a problem (`ProbedFile.problem`), by version. A file that several
        mounts show has one version for each of these mounts."""
        self._plain: dict[Version | _LibraryPlace, None] = {}
        """Files with nothing to probe: by version; libraries that are not CUDA's own by place, so that they
        are not opened each time when a process is read."""

    def probed(self) -> set[ProbedFile]:
        """Returns the files that are probed, or have a problem."""
        return set(self._probed.values())

    def is_plain(self, file: Version | Mapping) -> bool:
        """Returns whether it is known that there is nothing to probe in a file, or in that of a mapping."""
        return (_place(file) if isinstance(file, Mapping) else file) in self._plain

    def of(self, pid: int, mapping: Mapping, where: FoundFile | OSError) -> ProbedFile | OSError | None:
        """Returns the file of ``mapping``. Probes it now if it is new. Returns None if it has neither probes
        nor a problem, and an error if it cannot be opened (any more). Raises UnavailableError."""
        if isinstance(where, OSError):
            return where
        version = where.version
        if version in self._plain:
            return None
        file = self._probed.get(version) or self._same(pid, where)
        if file is None:
            (reading,) = self._questions.ask(
                Examiner.read, [QuestionSubject(pid, mapping.device, (where.file, mapping))]
            )
            if isinstance(reading, OSError):
                return reading
            file = ProbedFile(os.dup(where.file), version, mapping, reading, self._attach)
        if file.probed or file.problem is not None:
            if version not in self._probed:
                file.idle_since = time.monotonic()
                self._probed[version] = file
            return file
        self._plain[_place(mapping) or version] = None
        while len(self._plain) > _PLAIN_FILES:
            del self._plain[next(iter(self._plain))]
        return None

    def drop_unused(self, now: float) -> bool:
        """Removes the probes of files that no process has used for a while, or that were rewritten. Returns
        whether there were any."""
        unused = {
            file
            for file in self._probed.values()
            if (not file.users and now - file.idle_since >= LINGER_SECONDS) or file.is_rewritten()
        }
        some = [*unused][:MOST_DROPPED]
        close_together([probes for file in some for probes in file.take_all()])
        for file in some:
            self._drop(file)
        return bool(some)

    def close(self) -> None:
        """Removes all probes."""
        for file in self.probed():
            file.close()
        self._probed.clear()

    def _same(self, pid: int, where: FoundFile) -> ProbedFile | None:
        """Returns the known file that is the same as the one that was found, but was opened through another
        mount; None if there is none. Raises UnavailableError."""
        known = [file for file in self.probed() if file.probed]
        subjects = [
            QuestionSubject(min(file.users, default=pid), file.device, (where.file, file.file))
            for file in known
        ]
        found = None
        for file, same in zip(known, self._questions.ask(Examiner.same, subjects), strict=True):
            if same is True:
                if file.version[2:] == where.version[2:]:
                    found = file
                else:  # The file was rewritten in place, so its known functions are not valid any more.
                    self._drop(file)
        return found

    def _drop(self, file: ProbedFile) -> None:
        self._dropped(file)
        file.close()
        for version in [version for version, other in self._probed.items() if other is file]:
            del self._probed[version]


def _place(mapping: Mapping) -> _LibraryPlace | None:
    """Returns where a library that is not CUDA's own is mapped; None for other files."""
    if mapping.kind is not Kind.OTHER:
        return None
    return _LibraryPlace(
        mapping.device, mapping.inode, mapping.path, mapping.offset, mapping.end - mapping.start
    )
