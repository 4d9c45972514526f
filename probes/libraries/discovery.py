"""Finds the files that hold traced functions, in every mount namespace, and has each file probed once."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from stalltop.model.text.clean import clean
from stalltop.model.text.words import numbered
from stalltop.model.window import Library, Missing
from stalltop.probes.confined.examiner import Examiner, FoundFile, ProcessFiles, Version
from stalltop.probes.confined.link import Answerer, Here, NoAnswerError, UnavailableError
from stalltop.probes.confined.questions import Questions, QuestionSubject
from stalltop.probes.libraries.hot_probes import HotProbes
from stalltop.probes.libraries.probed_file import Attach, ProbedFile, close_together
from stalltop.probes.libraries.processes import Processes
from stalltop.probes.libraries.unprobed import Unprobed
from stalltop.probes.operations import DRIVER, RUNTIME
from stalltop.probes.process_maps import Kind, MappedFiles, Mapping

LINGER_SECONDS: Final = 5.0
"""Time for which a file that no process uses keeps its probes, in seconds. The time is short because probes
keep the file system from being unmounted, and break programs that map the file after it was rewritten in
place. The time is not 0, so that the libraries of a job that restarts often need not be read again each
time."""
MOST_DROPPED: Final = 16
"""Maximum number of files whose probes one update removes, all together: that takes some 0.1 s, in which
nothing is discovered. A process may have had hundreds of files of its own."""
RECHECK_SECONDS: Final = 20.0
"""Seconds between two checks of the processes that use a probed file: the Linux kernel does not report when a
process unloads a file."""
START_SECONDS: Final = 1.0
"""Time limit of the first search, s."""
BUDGET_SECONDS: Final = 0.25
"""Time limit of one update, s; the next update continues with the remaining processes."""
CLOSE_SECONDS: Final = 0.5
"""Time for which `close` waits for a running update, s."""
_PLAIN_FILES: Final = 8192
"""Maximum number of files that are remembered as having nothing to probe. If there are more, the oldest are
forgotten, and are read again when a process that uses them is read."""
_REMEDIES: Final = {
    errno.EACCES: "give this user read access to its file system",
    errno.EPERM: "give this user read access to its file system",
    errno.ESTALE: "run stalltop as root, or restart the process",
    errno.ETIMEDOUT: "check the server, or the program, that serves that file system",
}
"""What helps against an error when a file is opened."""
_AT_ONCE: Final = 16
"""Maximum number of processes that are asked about together. An update may take longer by the time that
reading their mappings takes (``process_maps.READ_SECONDS`` each)."""
_TRIES: Final = 5
"""Maximum number of consecutive times that a process is read. It is read again if one of its files could not
be opened: its mappings may have changed since they were read."""


class _LibraryPlace(NamedTuple):
    """A mapping of a library, the same in every process."""

    device: int
    inode: int
    path: str
    offset: int
    size_bytes: int


class Libraries:
    """Keeps probes on every CUDA and NCCL file that is in use.

    ``update`` is called often, from one thread; the other methods may be called from any thread.
    """

    def __init__(
        self, attach: Attach, processes: Processes | None = None, asks: Answerer | None = None
    ) -> None:
        """``asks`` examines files and memory of processes; by default, that is done in this process."""
        self._attach = attach
        self._processes = processes or Processes()
        self._questions = Questions(asks or Here())
        self._unavailable: Missing | None = None
        """Why no process can be examined."""
        self._left_alone: frozenset[int] = frozenset()
        """Processes that are not read now, because other files of their owners did not answer."""
        self._lock = threading.Lock()
        self._closed = False
        self._files: dict[Version, ProbedFile] = {}
        """Files that are probed or have a problem (`ProbedFile.problem`), by version. A file that several
        mounts show has one version for each of these mounts."""
        self._plain: dict[Version | _LibraryPlace, None] = {}
        """Files with nothing to probe: by version; libraries that are not CUDA's own by place, so that they
        are not opened each time when a process is read."""
        self._users: dict[int, dict[ProbedFile, Mapping]] = {}
        self._programs: dict[int, Version] = {}
        """Processes whose program file (not a library) is probed."""
        self._unplaced: dict[int, Missing] = {}
        self._unopened: dict[int, Missing] = {}
        self._unread: dict[int, Missing] = {}
        """Processes with too many mappings. They are read only every ``RECHECK_SECONDS``."""
        self._waiting: dict[int, int] = {}
        """By process that has to be read again: the number of tries left."""
        self._watched: set[int] = set()
        """Processes that, at one of the times when they were read, had a probed CUDA runtime and had not
        loaded CUDA's driver yet."""
        self._unseen_programs: set[int] = set()
        self.unprobed = Unprobed()
        """Which processes could make calls before their libraries were probed."""
        self._remapped: set[int] | None = set()
        self._rechecked = time.monotonic()
        self._rows: tuple[Library, ...] = ()
        self._missing: tuple[Missing, ...] = ()
        self._traced: frozenset[int] = frozenset()

    def start(self) -> None:
        """Probes the files that are in use now. If the host has many thousands of processes, the first calls
        of ``update`` probe the remaining files."""
        self.update(START_SECONDS)

    @property
    def due(self) -> bool:
        """Returns whether ``update`` has something to do. Once a second it has; in between, if the Linux
        kernel reported a new mapping, or if processes are left from the previous update."""
        return bool(self._waiting or self._unseen_programs) or self._processes.due

    def update(self, budget_seconds: float | None = None) -> None:
        """Probes files that came into use since the previous call, and removes probes of files that are no
        longer used. What is left after ``budget_seconds`` (None: ``BUDGET_SECONDS``) is for the next
        call."""
        with self._lock:
            if self._closed:
                return  # Nothing may be probed after `close`, because nothing would remove the probes.
            now = time.monotonic()
            to_read = self._processes.to_read()
            if to_read.remapped is None or self._remapped is None:
                self._remapped = None
            else:
                self._remapped |= to_read.remapped
            changed = False
            self.unprobed.mapped(to_read.mapped, set(self._files.values()), unreported=to_read.unreported)
            for pid in to_read.gone:
                changed |= self._forget(pid)
            # A traced process that executes another program has lost its libraries.
            to_read.libraries |= to_read.programs & self._users.keys()
            if now - self._rechecked >= RECHECK_SECONDS:
                self._rechecked = now
                to_read.libraries |= self._users.keys() | self._unopened.keys() | self._unread.keys()
            else:
                to_read.libraries -= self._unread.keys()
            self._watched -= to_read.programs
            for pid in to_read.libraries:
                self._waiting[pid] = _TRIES
            self._unseen_programs |= to_read.programs - to_read.gone
            changed |= self._let_go(now)
            changed |= self._look(now + (BUDGET_SECONDS if budget_seconds is None else budget_seconds))
            if changed:
                self._publish()

    def library_rows(self) -> tuple[Library, ...]:
        """Returns one record for each probed file and each layer in the file."""
        return self._rows

    def missing(self) -> tuple[Missing, ...]:
        """Returns the files and processes that should be traced but are not, or only partly."""
        return self._missing

    def traced_pids(self) -> set[int]:
        """Returns the processes whose calls are counted."""
        return set(self._traced)

    def remapped(self) -> set[int] | None:
        """Returns the processes that have mapped code since the previous call; None if any process may
        have."""
        with self._lock:
            found, self._remapped = self._remapped, set()
            return found

    @property
    def hot(self) -> HotProbes:
        """Returns what changes the probes of hot functions."""
        return HotProbes(self._lock, lambda: [] if self._closed else [*self._files.values()])

    def watched_from_begin(self, pid: int) -> bool:
        """Returns whether the CUDA runtime of the process was probed before the process loaded CUDA's driver.

        If so, the process had not initialized CUDA when it was first seen, because the runtime loads the
        driver to initialize CUDA. False may also mean that this is not known.
        """
        return pid in self._watched

    def close(self) -> None:
        """Removes all probes. May be called twice, and while ``update`` runs.

        Does not wait for an update that hangs (in a file system that does not answer). If that update still
        attaches probes later, they are removed when the kernel side, which attaches them, is closed.
        """
        self._closed = True
        if not self._lock.acquire(timeout=CLOSE_SECONDS):
            return
        try:
            self._processes.close()
            for file in set(self._files.values()):
                file.close()
            self._files.clear()
        finally:
            self._lock.release()

    def _look(self, until: float) -> bool:
        changed = self._unavailable is not None
        self._unavailable = None
        try:
            self._questions.begin()
            wanted = self._waiting | dict.fromkeys(self._unseen_programs - self._unread.keys(), 0)
            answering = self._questions.answering([*wanted])
            left_alone = frozenset(wanted.keys() - {*answering})
            changed |= left_alone != self._left_alone
            self._left_alone = left_alone
            files_read = False
            for first in range(0, len(answering), _AT_ONCE):
                some = answering[first : first + _AT_ONCE]
                for pid, process in zip(some, self._questions.each(Examiner.process, some), strict=True):
                    has_files = isinstance(process, ProcessFiles) and bool(process.mapped.libraries)
                    # Each update finishes all processes without such files, which cost nothing more, and at
                    # least one with them: otherwise slow processes could keep it from finishing any.
                    if has_files and files_read and time.monotonic() >= until:
                        continue
                    files_read |= has_files
                    changed |= self._look_again(pid, process, until)
                if time.monotonic() >= until:
                    break
        except UnavailableError as error:
            self._unavailable = Missing(
                "new processes", error.strerror or str(error), "run: stalltop check; then restart stalltop"
            )
            return True
        return changed

    def _look_again(self, pid: int, process: ProcessFiles | OSError, until: float) -> bool:
        """Reads what is new in a process. Returns whether anything was or is known of it."""
        known = self._is_known(pid)
        if isinstance(process, NoAnswerError):
            self._waiting.pop(pid, None)
            self._unopened[pid] = _unopened(pid, f"/proc/{pid}", process)
            return True
        if isinstance(process, OSError):
            return self._forget(pid)
        if pid in self._unseen_programs:
            self._look_at_program(pid, process.program)
        tries = self._waiting.pop(pid, 0)
        if tries:
            left = self._look_at(pid, process.mapped, tries, until)
            if left:
                self._waiting[pid] = left
        return known or self._is_known(pid)

    def _is_known(self, pid: int) -> bool:
        return pid in self._users or pid in self._unopened or pid in self._unread

    def _look_at_program(self, pid: int, version: Version | None) -> None:
        """Probes the program of ``pid`` if it holds traced functions. Has the process read again if its
        present or its previous program is probed."""
        is_probed = version is not None and self._is_probed_program(pid, version)
        before = self._programs.pop(pid, None)
        if isinstance(is_probed, NoAnswerError):  # It stays unseen, and is looked at again later.
            self._unopened[pid] = _unopened(pid, f"/proc/{pid}/exe", is_probed)
            return
        self._unseen_programs.discard(pid)
        if is_probed and version is not None:
            self._programs[pid] = version
        if before is not None or pid in self._programs:
            self._waiting.setdefault(pid, _TRIES)

    def _is_probed_program(self, pid: int, version: Version) -> bool | NoAnswerError:
        """Returns whether the program of ``pid`` is probed, or has a problem. Probes it now if it is new."""
        if version in self._plain:
            return False
        program = self._questions.program(pid)
        if program is None:
            return False
        with self._questions.found(pid, [program]) as (where,):
            file = self._file(pid, program, where)
        return file if isinstance(file, NoAnswerError) else isinstance(file, ProbedFile)

    def _look_at(self, pid: int, mapped: MappedFiles, tries: int, until: float) -> int:
        """Notes which files ``pid`` uses, and probes new ones. Returns how many of the ``tries`` are left for
        reading the process again: all if its files were not finished before ``until``; one less if one of
        them could not be opened; 0 if it need not be read again."""
        mappings = [*mapped.libraries, *mapped.others]
        if pid in self._programs and (program := self._questions.program(pid)) is not None:
            mappings.append(program)
        users: dict[ProbedFile, Mapping] = {}
        examined: dict[Mapping, ProbedFile | None] = {}
        self._unopened.pop(pid, None)
        self._unread.pop(pid, None)
        if not mapped.complete:
            self._unread[pid] = Missing(
                f"/proc/{pid}/maps",
                "is too long to be read completely, so libraries of this process may not be traced",
                "reduce the number of its mappings",
                pid,
            )
        interrupted = False
        before = {mapping: file for file, mapping in self._users.get(pid, {}).items()}
        mappings = [mapping for mapping in mappings if _place(mapping) not in self._plain]
        with self._questions.found(pid, mappings) as found:
            for number, (mapping, where) in enumerate(zip(mappings, found, strict=True)):
                if number and time.monotonic() >= until:
                    interrupted = True
                    users = self._users.get(pid, {}) | users
                    break
                file = self._file(pid, mapping, where)
                if isinstance(file, NoAnswerError) and mapping in before:
                    file = before[mapping]
                if isinstance(file, OSError):
                    self._unopened[pid] = _unopened(pid, mapping.path, file)
                    continue
                examined[mapping] = file
                if file is not None:
                    users[file] = mapping
        self._set_users(pid, users)
        self._check_placed(pid, users)
        if not _has_driver(mapped.libraries) and _has_runtime_only(self._questions, pid, users):
            self._watched.add(pid)
        if interrupted:
            return tries
        self.unprobed.examined(pid, examined)
        return tries - 1 if pid in self._unopened else 0

    def _set_users(self, pid: int, users: dict[ProbedFile, Mapping]) -> None:
        before = self._users.pop(pid, {})
        for file in before.keys() - users.keys():
            file.lose_user(pid)
        for file in users:
            file.users.add(pid)
        if users:
            self._users[pid] = users

    def _check_placed(self, pid: int, users: dict[ProbedFile, Mapping]) -> None:
        self._unplaced.pop(pid, None)
        compared = [
            (file, mapping, *place)
            for file, mapping in users.items()
            if file.probed
            for place in file.compared(mapping)
        ]
        subjects = [
            QuestionSubject(pid, mapping.device, (mapping.thread, ((at, len(original)),)))
            for _, mapping, at, original in compared
        ]
        for (file, _, _, original), memory in zip(
            compared, self._questions.ask(Examiner.memory, subjects), strict=True
        ):
            # If the memory cannot be read, the process is ending.
            if not isinstance(memory, OSError) and memory == (original,):
                self._unplaced[pid] = Missing(
                    file.path,
                    "the kernel put no probe into this process's memory",
                    "the process may have mapped the file writable, or changed it: restart the process",
                    pid,
                )

    def _file(self, pid: int, mapping: Mapping, where: FoundFile | OSError) -> ProbedFile | OSError | None:
        """Returns the file of ``mapping``. Probes it now if it is new. Returns None if it has neither probes
        nor a problem, and an error if it cannot be opened (any more). Raises UnavailableError."""
        if isinstance(where, OSError):
            return where
        version = where.version
        if version in self._plain:
            return None
        file = self._files.get(version) or self._same(pid, where)
        if file is None:
            (reading,) = self._questions.ask(
                Examiner.read, [QuestionSubject(pid, mapping.device, (where.file, mapping))]
            )
            if isinstance(reading, OSError):
                return reading
            file = ProbedFile(os.dup(where.file), version, mapping, reading, self._attach)
        if file.probed or file.problem is not None:
            if version not in self._files:
                file.idle_since = time.monotonic()
                self._files[version] = file
            return file
        self._plain[_place(mapping) or version] = None
        while len(self._plain) > _PLAIN_FILES:
            del self._plain[next(iter(self._plain))]
        return None

    def _same(self, pid: int, where: FoundFile) -> ProbedFile | None:
        """Returns the known file that is the same as the one that was found, but was opened through another
        mount; None if there is none. Raises UnavailableError."""
        known = [file for file in set(self._files.values()) if file.probed]
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

    def _forget(self, pid: int) -> bool:
        """Forgets ``pid``; returns whether anything was known of it."""
        known = self._is_known(pid)
        had_driver = any(DRIVER in mapping.layers for mapping in self._users.get(pid, {}).values())
        self.unprobed.gone(pid, set(self._files.values()), had_driver=had_driver)
        self._set_users(pid, {})
        self._programs.pop(pid, None)
        self._watched.discard(pid)
        self._unplaced.pop(pid, None)
        self._unopened.pop(pid, None)
        self._unread.pop(pid, None)
        self._waiting.pop(pid, None)
        self._unseen_programs.discard(pid)
        return known

    def _let_go(self, now: float) -> bool:
        dropped = {
            file
            for file in self._files.values()
            if (not file.users and now - file.idle_since >= LINGER_SECONDS) or file.is_rewritten()
        }
        some = [*dropped][:MOST_DROPPED]
        close_together([probes for file in some for probes in file.take_all()])
        for file in some:
            self._drop(file)
        return bool(some)

    def _drop(self, file: ProbedFile) -> None:
        self.unprobed.dropped(file)
        file.close()
        for version in [version for version, other in self._files.items() if other is file]:
            del self._files[version]
        for pid in file.users:
            self._users.get(pid, {}).pop(file, None)
            self._waiting[pid] = _TRIES

    def _publish(self) -> None:
        files = sorted(set(self._files.values()), key=lambda file: file.path)
        self._rows = tuple(
            Library(file.path, layer, functions, len(file.users))
            for file in files
            if file.probed
            for layer, functions in sorted(file.functions.items())
        )
        self._traced = frozenset(
            pid
            for pid, users in self._users.items()
            if pid not in self._unplaced and any(file.probed for file in users)
        )
        self._missing = (
            *(
                replace(file.problem, pid=min(file.users))
                for file in files
                if file.problem is not None and file.users
            ),
            *self._unplaced.values(),
            *(missing for pid, missing in self._unopened.items() if pid not in self._waiting),
            *self._unread.values(),
            *_without_runtime(self._questions, self._users),
            *_not_read(self._unavailable, self._left_alone),
        )


def _not_read(unavailable: Missing | None, left_alone: Collection[int]) -> Iterable[Missing]:
    """Yields what says that libraries are not read: of all processes, or of those ``left_alone``."""
    if unavailable is not None:
        yield unavailable
    elif left_alone:
        yield Missing(
            f"libraries of {numbered(len(left_alone), 'process', 'processes')}",
            "are not read now: other files of the same users or containers do not answer",
            _REMEDIES[errno.ETIMEDOUT],
            min(left_alone),
        )


def _without_runtime(
    questions: Questions, processes: dict[int, dict[ProbedFile, Mapping]]
) -> Iterable[Missing]:
    """Returns the programs that contain the CUDA runtime without symbols."""
    stripped: dict[str, list[int]] = {}
    asked: list[int] = []
    for pid, users in sorted(processes.items()):
        layers = {layer for file in users if file.probed for layer in file.functions}
        if "driver" in layers and "runtime" not in layers:
            asked.append(pid)
    try:
        answers = questions.each(Examiner.static_runtime, asked)
    except UnavailableError:
        return
    for pid, contained in zip(asked, answers, strict=True):
        if contained is True:
            with contextlib.suppress(OSError):
                stripped.setdefault(os.readlink(f"/proc/{pid}/exe"), []).append(pid)
    for program, pids in stripped.items():
        several = f" ({len(pids)} processes)" if len(pids) > 1 else ""
        yield Missing(
            clean(program),
            f"its runtime calls{several}, as the CUDA runtime in it has no symbols",
            "keep the program's symbols, or link it with -cudart shared",
            pids[0],
        )


def _has_runtime_only(questions: Questions, pid: int, users: Iterable[ProbedFile]) -> bool:
    """Returns whether the process has CUDA's runtime, with probes, in one of its files (``users``), and has
    not mapped CUDA's driver yet.

    Reads the process's mappings once more, because they may have changed since its files were read.
    """
    if not any(file.probed and RUNTIME in file.functions for file in users):
        return False
    (mapped,) = questions.each(Examiner.mapped, [pid])
    return not isinstance(mapped, OSError) and not _has_driver(mapped.libraries)


def _has_driver(mappings: Iterable[Mapping]) -> bool:
    return any(DRIVER in mapping.layers for mapping in mappings)


def _place(mapping: Mapping) -> _LibraryPlace | None:
    """Returns where a library that is not CUDA's own is mapped; None for other files."""
    if mapping.kind is not Kind.OTHER:
        return None
    return _LibraryPlace(
        mapping.device, mapping.inode, mapping.path, mapping.offset, mapping.end - mapping.start
    )


def _unopened(pid: int, path: str, error: OSError) -> Missing:
    return Missing(
        clean(path),
        f"cannot be opened: {error.strerror or error}",
        _REMEDIES.get(error.errno or 0, "run: stalltop check"),
        pid,
    )
