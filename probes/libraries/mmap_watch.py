"""Reports which processes have just mapped a file as executable, without reading any process.

On each CPU, one perf event (a software event that never counts) makes the Linux kernel write a record of
every executable mapping: ``PERF_RECORD_MMAP2``, with the process and the file's name. The records lie in a
ring, which is read from memory. So watching a host on which nothing is mapped takes almost no time.

Layouts: ``include/uapi/linux/perf_event.h`` (``perf_event_attr`` of 96 bytes; ``perf_event_mmap_page``).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import platform
import struct
import sys
import time
from dataclasses import dataclass
from typing import Final

from stalltop.probes.programs.online_cpus import online_cpus

_PERF_EVENT_OPEN: Final = {"x86_64": 298, "aarch64": 241}
_SOFTWARE: Final = 1
_DUMMY: Final = 9
_ATTR_SIZE: Final = 96
_SAMPLE_TIME: Final = 1 << 2
_FLAG_MMAP: Final = 1 << 8
_FLAG_SAMPLE_ID_ALL: Final = 1 << 18
_FLAG_MMAP2: Final = 1 << 23
_FLAG_USE_CLOCKID: Final = 1 << 25
_FLAGS: Final = _FLAG_MMAP | _FLAG_SAMPLE_ID_ALL | _FLAG_MMAP2 | _FLAG_USE_CLOCKID
_ATTRIBUTES: Final = struct.Struct("=IIQQQQQ44xi")
"""The fields type, size, config, sample_period, sample_type, read_format, flags and clockid of
``perf_event_attr``."""
_FLAG_FD_CLOEXEC: Final = 8

_RECORD_LOST: Final = 2
_RECORD_MMAP2: Final = 10
_HEADER: Final = struct.Struct("=IHH")  # the fields type, misc and size
_FILE: Final = struct.Struct("=IIQQ")  # major and minor device number, inode, generation of the inode
_FILE_AT: Final = 40
_NAME_AT: Final = (
    # The name comes after the header (8 bytes), pid, tid, address, length, offset, ``_FILE``, permissions,
    # flags.
    72
)
_TIME: Final = struct.Struct("=Q")  # It is the end of each record.
_HEAD_AT: Final = 1024
_TAIL_AT: Final = 1032
_POSITIONS: Final = struct.Struct("=QQ")  # the fields data_head and data_tail, which follow each other

_MOST_PID: Final = 1 << 22  # PID_MAX_LIMIT in include/linux/threads.h
RING_BYTES: Final = 1 << 16
"""Size of the ring of each CPU, in bytes. It holds some 500 mappings between two reads. If there are more,
the rest is reported as lost, and every process is read."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """An executable mapping that a process made."""

    pid: int
    name: bytes
    """Path of the file as the Linux kernel knows it; '' for an anonymous mapping."""
    time_ns: int = 0
    """When the mapping was made, by the monotonic clock."""
    device: int = 0
    """Device number of the file. In overlayfs it may be that of the file system below it, depending on the
    Linux kernel's version."""
    inode: int = 0
    generation: int = 0
    """Distinguishes files that have the same inode number one after the other."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Mappings since the previous read."""

    mapped: tuple[Mapped, ...] = ()
    lost: bool = False
    """Whether some mappings are missing in ``mapped``, so that all processes have to be read."""


class MmapWatch:
    """Watches the whole host. Raises OSError if the Linux kernel does not allow that."""

    def __init__(self) -> None:
        self._rings: list[_Ring] = []
        try:
            for cpu in online_cpus():
                try:
                    self._rings.append(_Ring(cpu))
                except OSError as error:
                    if error.errno != errno.ENODEV:  # ENODEV: the CPU went offline after it was listed.
                        raise
            if not self._rings:
                raise OSError(errno.ENODEV, "no CPU could be watched")
        except BaseException:
            self.close()
            raise

    @property
    def changed(self) -> bool:
        """Returns whether a mapping was made since the previous read."""
        return any(ring.changed for ring in self._rings)

    def read(self) -> Changes:
        """Returns the mappings made since the previous read, in no particular order."""
        mapped: list[Mapped] = []
        lost = False
        for ring in self._rings:
            lost |= ring.read(mapped)
        return Changes(tuple(mapped), lost)

    def close(self) -> None:
        """Closes the events and their rings. May be called twice."""
        rings, self._rings = self._rings, []
        for ring in rings:
            ring.close()


class _Ring:
    """The records of one CPU."""

    def __init__(self, cpu: int) -> None:
        self._fd = _open_event(cpu)
        try:
            self._map = mmap.mmap(
                self._fd, mmap.PAGESIZE + RING_BYTES, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE
            )
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def changed(self) -> bool:
        """Returns whether there are records that were not read yet."""
        head, tail = _POSITIONS.unpack_from(self._map, _HEAD_AT)
        return bool(head != tail)

    def read(self, into: list[Mapped]) -> bool:
        """Appends new mappings; returns whether records were lost."""
        head, tail = _POSITIONS.unpack_from(self._map, _HEAD_AT)
        if head == tail:
            return False
        data = self._between(tail, head)
        struct.pack_into("=Q", self._map, _TAIL_AT, head)
        lost = False
        at = 0
        while at + _HEADER.size <= len(data):
            kind, _, size = _HEADER.unpack_from(data, at)
            if size < _HEADER.size:
                return True
            if kind == _RECORD_MMAP2:
                mapped = _mapped(data[at : at + size])
                # A process that is not in this PID namespace has no PID here.
                if 0 < mapped.pid <= _MOST_PID:
                    into.append(mapped)
            elif kind == _RECORD_LOST:
                lost = True
            at += size
        return lost

    def _between(self, tail: int, head: int) -> bytes:
        start, length = tail % RING_BYTES, head - tail
        first = min(length, RING_BYTES - start)
        at = mmap.PAGESIZE + start
        return self._map[at : at + first] + self._map[mmap.PAGESIZE : mmap.PAGESIZE + length - first]

    def close(self) -> None:
        with contextlib.suppress(BufferError):
            self._map.close()
        os.close(self._fd)


def _mapped(record: bytes) -> Mapped:
    pid = int.from_bytes(record[8:12], sys.byteorder)
    name = record[_NAME_AT : -_TIME.size].split(b"\0", 1)[0]
    major, minor, inode, generation = _FILE.unpack_from(record, _FILE_AT)
    (made,) = _TIME.unpack_from(record, len(record) - _TIME.size)
    device = os.makedev(major, minor)
    return Mapped(pid, b"" if name.startswith((b"//", b"[")) else name, made, device, inode, generation)


def _open_event(cpu: int) -> int:
    number = _PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, f"the number of perf_event_open is not known for {platform.machine()}")
    attributes = ctypes.create_string_buffer(
        _ATTRIBUTES.pack(_SOFTWARE, _ATTR_SIZE, _DUMMY, 0, _SAMPLE_TIME, 0, _FLAGS, time.CLOCK_MONOTONIC),
        _ATTR_SIZE,
    )
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(
        ctypes.c_long(number),
        attributes,
        ctypes.c_int(-1),
        ctypes.c_int(cpu),
        ctypes.c_int(-1),
        ctypes.c_ulong(_FLAG_FD_CLOEXEC),
    )
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(fd)
