"""Answers questions about files and memory of other users (`Examiner`), as the confined process that
``link`` starts.

A message from stalltop is a list of questions, each ``[name, arguments]``; it brings the open files of all
its questions. Each question has one answer, in the same order: ``[value]`` or ``[errno, text]``. The process
ends when its socket, which is its standard input, is closed.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import gc
import os
import signal
import socket
import typing
from typing import Any, Final

from stalltop.probes.binaries import file_identity
from stalltop.probes.confined.coding import decoded, encoded
from stalltop.probes.confined.examiner import Examiner
from stalltop.probes.confined.messages import Received, packed, send
from stalltop.probes.confined.sandbox import SandboxError, confine

CONNECTION: Final = 0
"""Descriptor of the socket."""
READY: Final = ""
"""The first answer, if the process is confined; otherwise why it is not."""


class Signature(typing.NamedTuple):
    """Types of a question."""

    arguments: tuple[Any, ...]
    answer: Any


@functools.cache
def signature(name: str) -> Signature:
    """Returns the types of the question ``name``. Raises ValueError if there is none."""
    method = None if name.startswith("_") else vars(Examiner).get(name)
    if method is None:
        raise ValueError(f"no question has the name {name}")
    hints = typing.get_type_hints(method)
    answer = hints.pop("return")
    return Signature(tuple(hints.values()), answer)


def main() -> None:
    """Answers questions until the socket is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = socket.socket(fileno=CONNECTION)
    try:
        _prepare()
        confine(CONNECTION)
    except (OSError, SandboxError, ImportError) as error:
        send(connection, packed(f"the process cannot be confined: {error}"))
        return
    gc.freeze()
    send(connection, packed(READY))
    received = Received(connection)
    examiner = Examiner()
    with contextlib.suppress(OSError):
        while True:
            while (questions := received.take()) is None:
                received.receive()
            descriptors = [received.descriptors.popleft() for _ in range(len(received.descriptors))]
            for name, arguments in questions:
                _answer(connection, examiner, name, arguments, descriptors)


def _answer(
    connection: socket.socket, examiner: Examiner, name: str, arguments: list[Any], descriptors: list[int]
) -> None:
    types = signature(name)
    files: list[int] = []
    given = [
        decoded(kind, argument, descriptors)
        for kind, argument in zip(types.arguments, arguments, strict=True)
    ]
    try:
        answer = [encoded(types.answer, getattr(examiner, name)(*given), files)]
    except OSError as error:
        answer = [error.errno or errno.EIO, error.strerror or str(error)]
    except MemoryError:
        answer = [errno.ENOMEM, os.strerror(errno.ENOMEM)]
    try:
        send(connection, packed(answer), files)
    finally:
        for fd in files:
            os.close(fd)


def _prepare() -> None:
    """Loads what the sandbox forbids to load later."""
    import capstone

    from stalltop.probes.binaries.placement import skipped_bytes

    capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    skipped_bytes(b"\x48\x89\xe5\xc3")
    with contextlib.suppress(OSError):
        file_identity.pagemap()


if __name__ == "__main__":
    main()
