"""Writes counts of things, and names of processes, the same way in every output."""

from __future__ import annotations

import re
from typing import Final

SEVERAL: Final = re.compile(r" \((\d+ processes)\)$")
"""The end of a name that stands for several processes, such as ``cc1 (8 processes)``. The number changes."""


def numbered(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun, such as ``1 call`` and ``1,200 calls``. ``plural`` is the plural of the
    noun; by default, the noun with an ``s``."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def counted(count: int, plural: str) -> str:
    """Return a count with words that begin with a plural noun, such as ``3 calls not counted``; of 1, with
    its singular."""
    noun, _, rest = plural.partition(" ")
    one = noun.removesuffix("es" if noun.endswith("ches") else "s")
    return f"{count:,} {one if count == 1 else noun} {rest}".rstrip()


def with_pid(process: str, pid: int) -> str:
    """Return the name of a process with its PID, such as ``train 412``. Return only the name if the PID is
    not known, or if the name already is the PID (``pid 412``), because the process ended before its name was
    read."""
    if pid <= 0 or process == f"pid {pid}":
        return process
    return f"{process} {pid}" if process else f"pid {pid}"


def program(process: str, pid: int) -> str:
    """Return the name of a process with its PID in parentheses, such as ``train (pid 412)``. Return only the
    PID if no name is known, and only the name if ``pid`` is 0."""
    pid_text = f"pid {pid}"
    if not pid:
        return process
    return pid_text if process in ("", pid_text) else f"{process} ({pid_text})"


def program_of(process: str, pid: int, tenant: str) -> str:
    """Return the name of a process with its PID and its tenant, such as ``train (pid 412) of pod-a``. A
    tenant outside containers has the name of its program, and is then left out."""
    said = program(process, pid)
    return f"{said} of {tenant}" if tenant and tenant != process.partition(" (")[0] else said
