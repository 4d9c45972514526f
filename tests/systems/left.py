"""Finds what a step has left behind: BPF objects, probes, files, cgroups and processes."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from stalltop.probes.programs import bpf_calls

_KINDS = {"program": (11, 13), "map": (12, 14), "link": (31, 30)}
"""For each kind of BPF object, two commands of bpf(): get the next id, and get a descriptor by id (enum
bpf_cmd of linux/bpf.h)."""
_INFO_BY_FD = 15
_NAME_AT = {"program": 64, "map": 24}
"""Offsets of ``name`` in struct bpf_prog_info and bpf_map_info (linux/bpf.h)."""
_SYSTEMD = "sd_"
"""Prefix of the BPF programs that systemd loads and removes with its units."""
_SYSTEM_CGROUPS = ("/init.scope", "/system.slice/systemd-", "/system.slice/dbus", "/user.slice")
"""Cgroups whose processes systemd starts and ends at any time."""
SECONDS = 30.0
"""Longest time, in seconds, until the BPF programs and cgroups of ended processes are removed."""


class Left:
    """A snapshot of the system, made before a step and compared after it."""

    def __init__(self) -> None:
        self._there = set(_everything())

    def since(self) -> list[str]:
        """Return descriptions of objects that were added since the snapshot and still exist after
        ``SECONDS``."""
        end = time.monotonic() + SECONDS
        while True:
            left = sorted(set(_everything()) - self._there)
            if not left or time.monotonic() > end:
                return left
            time.sleep(0.5)


def _everything() -> Iterator[str]:
    for kind in _KINDS:
        yield from _in_kernel(kind)
    for events in ("uprobe_events", "kprobe_events"):
        for line in Path("/sys/kernel/tracing", events).read_text().splitlines():
            yield f"{events}: {line}"
    for folder in ("/tmp", "/var/tmp", "/dev/shm", "/run/stalltop", "/sys/fs/bpf"):
        with contextlib.suppress(OSError):
            yield from (f"file {entry.path}" for entry in os.scandir(folder))
    yield from _cgroups()
    yield from _processes()


def _in_kernel(kind: str) -> Iterator[str]:
    next_command, open_command = _KINDS[kind]
    number = 0
    while True:
        buffer = ctypes.create_string_buffer(struct.pack("=III", number, 0, 0), 12)
        try:
            bpf_calls._system_call(
                bpf_calls._number(0), ctypes.c_int(next_command), buffer, ctypes.c_uint(12)
            )
        except OSError as error:
            if error.errno == errno.ENOENT:
                return
            raise
        number = struct.unpack_from("=I", buffer, 4)[0]
        name = _name(kind, number, open_command)
        if name is not None and not name.startswith(_SYSTEMD):
            yield f"BPF {kind} {number} {name}".rstrip()


def _name(kind: str, number: int, command: int) -> str | None:
    """Return the name of a BPF object; '' if the object has no name, None if the object no longer exists."""
    try:
        fd = bpf_calls._bpf(command, struct.pack("=III", number, 0, 0))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    try:
        if kind not in _NAME_AT:
            return ""
        info = ctypes.create_string_buffer(128)
        bpf_calls._bpf(_INFO_BY_FD, struct.pack("=IIQ", fd, len(info), ctypes.addressof(info)))
        at = _NAME_AT[kind]
        return info.raw[at : at + 16].split(b"\0")[0].decode()
    finally:
        os.close(fd)


def _cgroups() -> Iterator[str]:
    for folder, _, _ in os.walk("/sys/fs/cgroup"):
        path = folder.removeprefix("/sys/fs/cgroup")
        if not path.startswith(_SYSTEM_CGROUPS):
            yield f"cgroup {path}"


def _processes() -> Iterator[str]:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            cgroup = Path("/proc", pid, "cgroup").read_text().strip().removeprefix("0::")
            words = Path("/proc", pid, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if words and not cgroup.startswith(
                _SYSTEM_CGROUPS
            ):  # threads of the Linux kernel have no command line
                yield f"process {pid} {words.strip()}"
