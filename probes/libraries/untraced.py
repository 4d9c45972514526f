"""Says which processes and files are not traced, or only partly, why, and what to do."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from stalltop.model.text.clean import clean
from stalltop.model.text.words import numbered
from stalltop.model.window import Missing
from stalltop.probes.confined.examiner import Examiner
from stalltop.probes.confined.link import UnavailableError
from stalltop.probes.confined.questions import Questions
from stalltop.probes.libraries.probed_file import ProbedFile

_REMEDIES: Final = {
    errno.EACCES: "give this user read access to its file system",
    errno.EPERM: "give this user read access to its file system",
    errno.ESTALE: "run stalltop as root, or restart the process",
    errno.ETIMEDOUT: "check the server, or the program, that serves that file system",
}
"""What helps against an error when a file is opened."""


def unopened(pid: int, path: str, error: OSError) -> Missing:
    """Says that a file of a process cannot be opened."""
    return Missing(
        clean(path),
        f"cannot be opened: {error.strerror or error}",
        _REMEDIES.get(error.errno or 0, "run: stalltop check"),
        pid,
    )


def unread(pid: int) -> Missing:
    """Says that a process has too many mappings."""
    return Missing(
        f"/proc/{pid}/maps",
        "is too long to be read completely, so libraries of this process may not be traced",
        "reduce the number of its mappings",
        pid,
    )


def unplaced(pid: int, path: str) -> Missing:
    """Says that a file is probed, but not in the memory of one of the processes that have mapped it."""
    return Missing(
        path,
        "the kernel put no probe into this process's memory",
        "the process may have mapped the file writable, or changed it: restart the process",
        pid,
    )


def unavailable(error: OSError) -> Missing:
    """Says that no process can be examined."""
    return Missing(
        "new processes", error.strerror or str(error), "run: stalltop check; then restart stalltop"
    )


def not_read(nothing: Missing | None, left_alone: Collection[int]) -> Iterable[Missing]:
    """Yields what says that libraries are not read: of all processes, or of those ``left_alone``."""
    if nothing is not None:
        yield nothing
    elif left_alone:
        yield Missing(
            f"libraries of {numbered(len(left_alone), 'process', 'processes')}",
            "are not read now: other files of the same users or containers do not answer",
            _REMEDIES[errno.ETIMEDOUT],
            min(left_alone),
        )


def without_runtime(questions: Questions, processes: Mapping[int, Iterable[ProbedFile]]) -> Iterable[Missing]:
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
