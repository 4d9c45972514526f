"""Reads what a stalltop holds: memory, descriptors, threads, and objects in the Linux kernel."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MB: Final = 1e6
_IDS: Final = re.compile(r"^(map|prog|link)_id:\s+(\d+)$", re.MULTILINE)
"""Lines of ``/proc/PID/fdinfo`` that name a BPF object. That of a link names its program, too."""
_BPF: Final = {"x86_64": 321, "aarch64": 280}
"""Number of the system call bpf(2)."""
_BY_ID: Final = {"prog": 13, "map": 14, "link": 30}
"""Commands of bpf(2) that open an object by its id (enum bpf_cmd in include/uapi/linux/bpf.h)."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one stalltop and its own processes hold at one time."""

    seconds: float
    """Time since the begin of the run, s."""
    resident_mb: float
    """Resident memory of the process, MB."""
    helpers_mb: float
    """Memory of its own processes together that they share with nobody (``RssAnon``), MB."""
    helpers: int
    """Number of its own processes."""
    descriptors: int
    threads: int
    maps: int
    programs: int
    links: int
    cpu_seconds: float
    """CPU time of the process and of its own processes since their start, s."""
    own_mb: float = 0.0
    """Part of the resident memory that is not of files or BPF maps (``RssAnon``), MB."""


def footprint(pid: int, seconds: float) -> tuple[Footprint, set[tuple[str, int]]]:
    """Returns what the process ``pid`` holds now, ``seconds`` after the begin of the run, and kind and id of
    its BPF objects. Raises OSError if the process has ended."""
    status = _status(pid)
    children = _children(pid)
    helpers_kb = 0
    cpu = _cpu_seconds(pid, ended_children=True)
    for child in children:
        with contextlib.suppress(OSError, KeyError):
            helpers_kb += int(_status(child)["RssAnon"].split()[0])
            cpu += _cpu_seconds(child)
    objects = bpf_objects(pid)
    kinds = [kind for kind, _ in objects]
    found = Footprint(
        seconds=seconds,
        resident_mb=int(status["VmRSS"].split()[0]) * 1024 / _MB,
        helpers_mb=helpers_kb * 1024 / _MB,
        helpers=len(children),
        descriptors=len(os.listdir(f"/proc/{pid}/fd")),
        threads=int(status["Threads"]),
        maps=kinds.count("map"),
        programs=kinds.count("prog"),
        links=kinds.count("link"),
        cpu_seconds=cpu,
        own_mb=int(status["RssAnon"].split()[0]) * 1024 / _MB,
    )
    return found, objects


def bpf_objects(pid: int) -> set[tuple[str, int]]:
    """Returns kind (map, prog, link) and id of each BPF object that a process has open."""
    found = set()
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            ids = {kind: int(number) for kind, number in _IDS.findall(info.read_text())}
            if "link" in ids:
                found.add(("link", ids["link"]))
            else:
                found |= set(ids.items())
    return found


def existing(objects: set[tuple[str, int]]) -> set[tuple[str, int]]:
    """Returns those of ``objects`` that the Linux kernel still has."""
    return {one for one in objects if _exists(*one)}


def _exists(kind: str, number: int) -> bool:
    attributes = ctypes.create_string_buffer(struct.pack("=III", number, 0, 0))
    libc = ctypes.CDLL(None, use_errno=True)
    opened = libc.syscall(_BPF[platform.machine()], _BY_ID[kind], attributes, 12)
    if opened < 0:
        return False
    os.close(opened)
    return True


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _children(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += [int(child) for child in task.read_text().split()]
    return found[1:]


def _cpu_seconds(pid: int, *, ended_children: bool = False) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = sum(map(int, fields[11 : 15 if ended_children else 13]))
    return ticks / os.sysconf("SC_CLK_TCK")
