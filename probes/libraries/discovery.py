"""Finds the files that hold traced functions, in every mount namespace, and has each file probed once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from stalltop.model.window import Library, Missing
from stalltop.probes.confined.examiner import Examiner, ProcessFiles, Version
from stalltop.probes.confined.link import Answerer, Here, NoAnswerError, UnavailableError
from stalltop.probes.confined.questions import Questions, QuestionSubject
from stalltop.probes.libraries import untraced
from stalltop.probes.libraries.hot_probes import HotProbes
from stalltop.probes.libraries.known_files import KnownFiles
from stalltop.probes.libraries.probed_file import Attach, ProbedFile
from stalltop.probes.libraries.processes import Processes
from stalltop.probes.libraries.unprobed import Unprobed
from stalltop.probes.operations import DRIVER, RUNTIME
from stalltop.probes.process_maps import MappedFiles, Mapping

RECHECK_SECONDS: Final = 20.0
"""Seconds between two checks of the processes that use a probed file: the Linux kernel does not report when a
process unloads a file."""
START_SECONDS: Final = 1.0
"""Time limit of the first search, s."""
BUDGET_SECONDS: Final = 0.25
"""Time limit of one update, s; the next update continues with the remaining processes."""
CLOSE_SECONDS: Final = 0.5
"""Time for which `close` waits for a running update, s."""
_AT_ONCE: Final = 16
"""Maximum number of processes that are asked about together. An update may take longer by the time that
reading their mappings takes (``process_maps.READ_SECONDS`` each)."""
LEAST_FILES: Final = 4
"""Number of new files of a process that one update finishes in any case: CUDA's runtime and driver, and NCCL.
So a process with these alone does not wait for its next turn behind one with hundreds of files."""
_TRIES: Final = 5
"""Maximum number of consecutive times that a process is read. It is read again if one of its files could not
be opened: its mappings may have changed since they were read."""


class Libraries:
    """Keeps probes on every CUDA and NCCL file that is in use.

    ``update`` is called often, from one thread; the other methods may be called from any thread.
    """

    def __init__(
        self, attach: Attach, processes: Processes | None = None, asks: Answerer | None = None
    ) -> None:
        """``asks`` examines files and memory of processes; by default, that is done in this process."""
        self._processes = processes or Processes()
        self._questions = Questions(asks or Here())
        self._unavailable: Missing | None = None
        """Why no process can be examined."""
        self._left_alone: frozenset[int] = frozenset()
        """Processes that are not read now, because other files of their owners did not answer."""
        self._lock = threading.Lock()
        self._closed = False
        self._files = KnownFiles(attach, self._questions, self._dropped)
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
            self.unprobed.mapped(to_read.mapped, self._files.probed(), unreported=to_read.unreported)
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
            changed |= self._look(now + (BUDGET_SECONDS if budget_seconds is None else budget_seconds))
            # Afterwards, because removing the probes of a process that had many files takes long: no new
            # process waits for that in the same update.
            changed |= self._files.drop_unused(time.monotonic())
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
        return HotProbes(self._lock, lambda: [] if self._closed else [*self._files.probed()])

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
            self._files.close()
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
            self._unavailable = untraced.unavailable(error)
            return True
        return changed

    def _look_again(self, pid: int, process: ProcessFiles | OSError, until: float) -> bool:
        """Reads what is new in a process. Returns whether anything was or is known of it."""
        known = self._is_known(pid)
        if isinstance(process, NoAnswerError):
            self._waiting.pop(pid, None)
            self._unopened[pid] = untraced.unopened(pid, f"/proc/{pid}", process)
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
            self._unopened[pid] = untraced.unopened(pid, f"/proc/{pid}/exe", is_probed)
            return
        self._unseen_programs.discard(pid)
        if is_probed and version is not None:
            self._programs[pid] = version
        if before is not None or pid in self._programs:
            self._waiting.setdefault(pid, _TRIES)

    def _is_probed_program(self, pid: int, version: Version) -> bool | NoAnswerError:
        """Returns whether the program of ``pid`` is probed, or has a problem. Probes it now if it is new."""
        if self._files.is_plain(version):
            return False
        program = self._questions.program(pid)
        if program is None:
            return False
        with self._questions.found(pid, [program]) as (where,):
            file = self._files.of(pid, program, where)
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
            self._unread[pid] = untraced.unread(pid)
        interrupted, new = False, 0
        before = {mapping: file for file, mapping in self._users.get(pid, {}).items()}
        mappings = [mapping for mapping in mappings if not self._files.is_plain(mapping)]
        with self._questions.found(pid, mappings) as found:
            for mapping, where in zip(mappings, found, strict=True):
                if new >= LEAST_FILES and time.monotonic() >= until:
                    interrupted = True
                    users = self._users.get(pid, {}) | users
                    break
                new += mapping not in before
                file = self._files.of(pid, mapping, where)
                if isinstance(file, NoAnswerError) and mapping in before:
                    file = before[mapping]
                if isinstance(file, OSError):
                    self._unopened[pid] = untraced.unopened(pid, mapping.path, file)
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
                self._unplaced[pid] = untraced.unplaced(pid, file.path)

    def _forget(self, pid: int) -> bool:
        """Forgets ``pid``; returns whether anything was known of it."""
        known = self._is_known(pid)
        had_driver = any(DRIVER in mapping.layers for mapping in self._users.get(pid, {}).values())
        self.unprobed.gone(pid, self._files.probed(), had_driver=had_driver)
        self._set_users(pid, {})
        self._programs.pop(pid, None)
        self._watched.discard(pid)
        self._unplaced.pop(pid, None)
        self._unopened.pop(pid, None)
        self._unread.pop(pid, None)
        self._waiting.pop(pid, None)
        self._unseen_programs.discard(pid)
        return known

    def _dropped(self, file: ProbedFile) -> None:
        self.unprobed.dropped(file)
        for pid in file.users:
            self._users.get(pid, {}).pop(file, None)
            self._waiting[pid] = _TRIES

    def _publish(self) -> None:
        files = sorted(self._files.probed(), key=lambda file: file.path)
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
            *untraced.without_runtime(self._questions, self._users),
            *untraced.not_read(self._unavailable, self._left_alone),
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
