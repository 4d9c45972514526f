"""What the confined process does: every access to files and memory that other users control.

Each public method of `Examiner` is a question that the confined process answers (``confined.link``). Types of
the arguments and the answer are read from its annotations.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from stalltop.model.errors import described
from stalltop.model.text.clean import clean
from stalltop.probes.binaries.code_symbols import CodeSymbols
from stalltop.probes.binaries.elf import ElfError, RefusedError, read_image
from stalltop.probes.binaries.file_identity import FileIdentity
from stalltop.probes.binaries.mapped_file import found, found_program
from stalltop.probes.binaries.placement import places
from stalltop.probes.binaries.static_runtime import has_static_runtime, holds_runtime
from stalltop.probes.confined.coding import Descriptor
from stalltop.probes.cuda_devices.process_sight import Sight, sight_of
from stalltop.probes.nccl_ras.status import RasCommunicator, received_status
from stalltop.probes.process_maps import Kind, MappedFiles, Mapping, map_lines, mapped_by, program_of
from stalltop.probes.regular_file import opened
from stalltop.probes.stacks.code_objects import PythonFrame, SourceLine
from stalltop.probes.stacks.native_frames import NativeFrames, NativeStack
from stalltop.probes.stacks.python_processes import PythonProcess, PythonProcesses
from stalltop.probes.tenants.container_sockets import DaemonError, answer
from stalltop.probes.tenants.environment import Environments
from stalltop.probes.tenants.host_files import inside
from stalltop.probes.tenants.jobs import Job, job_of, prepared_job
from stalltop.probes.tenants.names import NameFiles, Names, docker_names
from stalltop.probes.tenants.unix_socket import opened_socket

_ORIGINAL_BYTES: Final = 4
"""Number of bytes of code that are compared to see whether a probe is in place."""
_MOST_READ: Final = 1 << 16
"""Maximum number of bytes that one question reads of a process's memory."""
_PAGE_BYTES: Final = 4096
_MOST_COMMAND_BYTES: Final = 4096
_PYTHON: Final = re.compile(r"python[\d.]*[a-z]?$")
"""How the paths of Python's interpreters end."""


class Version(NamedTuple):
    """Identity and state of a file. A file that is replaced or rewritten gets another version."""

    device: int
    inode: int
    size_bytes: int
    modified_ns: int


class FoundFile(NamedTuple):
    """The file of a mapping."""

    version: Version
    file: Descriptor
    """The file, opened only to name it (``O_PATH``). Neither opening it again through ``/proc/self/fd`` nor
    closing it asks the file system."""


class ProcessFiles(NamedTuple):
    """Files of a process."""

    program: Version | None
    """The program that it runs; None for a Linux kernel thread."""
    mapped: MappedFiles


class RunningProgram(NamedTuple):
    """What a process runs."""

    command: bytes
    """The beginning of its command line."""
    is_python: bool
    """Whether that is an interpreter of Python, or a program that contains one."""


class FilePlace(NamedTuple):
    """A place in a file where a traced function can be probed."""

    offset: int
    symbol: str
    layer: str
    original: bytes
    """Code at ``offset``, 4 bytes."""


class Problem(NamedTuple):
    """Why a file is not probed, and what to do."""

    reason: str
    remedy: str


class FileReading(NamedTuple):
    """Where to probe a file."""

    places: tuple[FilePlace, ...]
    problem: Problem | None


class Examiner:
    """Answers questions about files and memory of processes, and about what container runtimes know. All
    questions may hang, and raise OSError."""

    def __init__(self) -> None:
        self._symbols = CodeSymbols()
        self._environments = Environments()
        self._pythons = PythonProcesses()
        self._native = NativeFrames()
        self._names: dict[str, NameFiles] = {}

    def mapped(self, pid: int) -> MappedFiles:
        """Returns the libraries that a process has mapped."""
        return mapped_by(pid)

    def process(self, pid: int) -> ProcessFiles:
        """Returns the program that a process runs, and the libraries that it has mapped."""
        mapped = mapped_by(pid)
        try:
            with found_program(pid) as fd:
                return ProcessFiles(version_of(fd), mapped)
        except FileNotFoundError:  # It is a Linux kernel thread.
            return ProcessFiles(None, mapped)

    def program(self, pid: int) -> Mapping | None:
        """Returns the first executable mapping of the process's own program; None if it is not found."""
        return program_of(pid)

    def find(self, mapping: Mapping) -> FoundFile:
        """Finds the file of ``mapping``."""
        with found(mapping) as fd:
            return FoundFile(version_of(fd), Descriptor(os.dup(fd)))

    def same(self, file: Descriptor, other: Descriptor) -> bool:
        """Returns whether two files that were opened through different mounts are the same real file."""
        with contextlib.ExitStack() as stack:
            for fd in (file, other):
                stack.callback(os.close, fd)
            identities = []
            for fd in (file, other):
                identity = FileIdentity(stack.enter_context(opened(fd)))
                stack.callback(identity.close)
                identities.append(identity)
            return identities[0].same(identities[1])

    def read(self, file: Descriptor, mapping: Mapping) -> FileReading:
        """Finds the functions to probe in the file of ``mapping``. Errors in the file are a `Problem`."""
        try:
            with opened(file) as reading:
                return _read(reading, mapping)
        except RefusedError as reason:
            return _without(f"its symbols are not read: {reason}", "rebuild it, or remove its symbols")
        except ElfError as reason:
            if mapping.kind is not Kind.LIBRARY:
                return FileReading((), None)
            return _without(
                f"its symbols cannot be read: {reason}", "reinstall the package that it belongs to"
            )
        except OSError:
            raise
        except Exception as error:  # If this file cannot be handled, the other files are still probed.
            return _without(f"cannot be probed: {clean(described(error))}", "run: stalltop check")
        finally:
            os.close(file)

    def static_runtime(self, pid: int) -> bool:
        """Returns whether the program of process ``pid`` contains the CUDA runtime; False if it cannot be
        read."""
        return has_static_runtime(pid)

    def running(self, root: str, pid: int) -> RunningProgram:
        """Returns what a process runs; ``root`` contains ``/proc``."""
        folder = f"{root}/proc/{pid}"
        with open(f"{folder}/cmdline", "rb", buffering=0) as file:
            command = file.read(_MOST_COMMAND_BYTES)
        python = False
        with contextlib.suppress(OSError):  # A Linux kernel thread has no program.
            program = os.readlink(f"{folder}/exe").removesuffix(" (deleted)")
            python = bool(_PYTHON.search(program)) or any(b"/libpython" in part for part in map_lines(folder))
        return RunningProgram(command, python)

    def sight(self, pid: int) -> Sight:
        """Returns the environment and the device files of a process."""
        return sight_of(pid, Path("/"), self._environments)

    def names(self, root: str, container_id: str, pod_uid: str, uid: int | None) -> Names:
        """Returns the names in the state files below ``root`` (`NameFiles.look_up`)."""
        with _any_error_as_os_error():  # A state file may contain anything.
            return self._names.setdefault(root, NameFiles(Path(root))).look_up(container_id, pod_uid, uid)

    def user(self, root: str, uid: int) -> str:
        """Returns the name of a user, from the files below ``root``."""
        return self._names.setdefault(root, NameFiles(Path(root))).user(uid)

    def job(self, pid: int) -> Job | None:
        """Returns the job of a process."""
        return job_of(pid)

    def prepared_job(self, root: str, number: str, mapping: str) -> Job | None:
        """Returns a job as files below ``root`` describe it (`jobs.prepared_job`)."""
        return prepared_job(number, Path(root), mapping)

    def socket(self, root: str, path: str) -> Descriptor | None:
        """Finds the socket at ``path`` below ``root``; None if there is none. The descriptor names it
        (``O_PATH``)."""
        found = opened_socket(inside(Path(root), path))
        return None if found is None else Descriptor(found)

    def told(self, connection: Descriptor) -> Names | None:
        """Returns the names that the container daemon at the other end of ``connection`` answers; None if it
        does not know the container. Raises OSError (EPROTO) if there is no valid answer."""
        try:
            with _any_error_as_os_error():
                state = answer(connection)
                return None if state is None else docker_names(state)
        except DaemonError as error:
            raise OSError(errno.EPROTO, str(error)) from None
        finally:
            os.close(connection)

    def ras_status(self, connection: Descriptor) -> tuple[RasCommunicator, ...]:
        """Returns the communicators that NCCL's RAS at the other end of ``connection`` tells of."""
        try:
            with _any_error_as_os_error():
                return received_status(connection)
        finally:
            os.close(connection)

    def memory(self, pid: int, places: tuple[tuple[int, int], ...]) -> tuple[bytes, ...]:
        """Returns what is at ``places`` (address, number of bytes) in the memory of a process."""
        try:
            with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
                return tuple(
                    os.pread(memory.fileno(), min(size, _MOST_READ), address) for address, size in places
                )
        except OverflowError as error:
            raise OSError(str(error)) from None

    def text(self, pid: int, address: int, most_bytes: int) -> bytes:
        """Returns the text at ``address`` in the memory of a process, up to its zero byte or ``most_bytes``;
        empty if it cannot be read."""
        most = min(most_bytes, _MOST_READ)
        found = b""
        try:
            with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
                # The text is read page by page, because the next page may not be mapped.
                while len(found) < most:
                    at = address + len(found)
                    size = min(_PAGE_BYTES - at % _PAGE_BYTES, most - len(found))
                    piece = os.pread(memory.fileno(), size, at)
                    text, end, _ = piece.partition(b"\0")
                    found += text
                    if end or not piece:
                        break
        except (OSError, OverflowError):
            return b""
        return found

    def symbol(self, pid: int, address: int) -> bytes | None:
        """Returns the symbol of the function at ``address`` of a process; empty if there is none, None if
        there is no code."""
        return self._symbols.symbol(pid, address)

    def registered(self, pid: int, address: int) -> bytes:
        """Returns the name under which the code of a process registers the function at ``address`` as a CUDA
        kernel; empty if there is none. May take seconds."""
        return self._symbols.registered(pid, address)

    def python(self, pid: int) -> PythonProcess | None:
        """Returns where a process has the Python frames of its threads; None if it runs no Python code."""
        return self._pythons.process(pid)

    def lines(self, pid: int, frames: tuple[PythonFrame, ...]) -> tuple[SourceLine, ...]:
        """Returns the line of source code of each of ``frames``; none if they are not known."""
        return self._pythons.lines(pid, frames)

    def python_stack(self, pid: int, tid: int) -> tuple[PythonFrame, ...]:
        """Returns the Python frames of a thread, innermost first, read from outside."""
        return self._pythons.frames(pid, tid)

    def native_stack(self, pid: int, addresses: tuple[int, ...]) -> NativeStack:
        """Returns the native frames at ``addresses``, as far as they are certain."""
        return self._native.stack(pid, addresses)


@contextlib.contextmanager
def _any_error_as_os_error() -> Iterator[None]:
    """Raises OSError (EIO) in the place of an error that nobody expects, which would end the process."""
    try:
        yield
    except (OSError, MemoryError, DaemonError):
        raise
    except Exception as error:
        raise OSError(errno.EIO, clean(described(error))) from None


def version_of(fd: int) -> Version:
    """Returns the version of an open file. Raises OSError."""
    status = os.fstat(fd)
    return Version(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _read(fd: int, mapping: Mapping) -> FileReading:
    """Raises ElfError and OSError."""
    if mapping.kind is Kind.OTHER and not holds_runtime(fd):
        return FileReading((), None)
    chosen = places(fd, read_image(fd, mapping.layers))
    if not chosen:
        if mapping.kind is Kind.OTHER:
            return _without(
                "its runtime calls, as the CUDA runtime in it has no symbols",
                "keep the library's symbols, or link it with -cudart shared",
            )
        if mapping.kind is Kind.LIBRARY and len(mapping.layers) == 1:
            return _without("it defines none of the traced functions", "its symbols may have been stripped")
    return FileReading(
        tuple(
            FilePlace(
                place.offset,
                place.found.symbol,
                place.found.function.layer,
                os.pread(fd, _ORIGINAL_BYTES, place.offset),
            )
            for place in chosen
        ),
        None,
    )


def _without(reason: str, remedy: str) -> FileReading:
    return FileReading((), Problem(reason, remedy))
