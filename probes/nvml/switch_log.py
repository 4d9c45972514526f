"""Reads the driver's log of context switches of one GPU: which process had the GPU for how long.

A GPU that several processes share by time-slicing executes one context at a time. It logs each switch with a
time; the driver adds the PID (NV_EVENT_BUFFER with FECS records: cl90cd.h, cl90cdfecs.h, ctrl90cd.h and
ctrl2080gr.h of NVIDIA's open kernel modules; Turing and newer, driver 535 and newer, without MIG). Others see
the PIDs of other users' processes as 0: only root gets all of them.

A context remains loaded until another one has work: a process that is alone on the GPU causes no record, even
if it is idle.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from stalltop.probes.nvml.resource_manager import ResourceManager

_EVENT_BUFFER: Final = 0x90CD
_BIND: Final = 0x20801238
_ENABLE, _UPDATE_GET, _FLUSH = 0x90CD0101, 0x90CD0102, 0x90CD0104
_KEEP_OLDEST: Final = 1
RECORD: Final = struct.Struct("<HHIBBHIIHBBQ")
"""NV_EVENT_BUFFER_RECORD_HEADER (type, subtype, place of more data), then NV_EVENT_BUFFER_FECS_RECORD_V2
(tag, VM, sequence number, context, PID, reserved, MIG GPU and compute instance, time in ns)."""
_PAYLOAD_BYTES: Final = 24
_HEADER: Final = struct.Struct("<IIQQQ")
"""NV_EVENT_BUFFER_HEADER: get, put, records in all, dropped records, dropped data."""
RECORDS: Final = 1 << 15
"""Room for records: 1 MiB. A second of slices of 0.1 ms fills it to two thirds."""
HIDDEN_PID: Final = 0
"""NV_EVENT_BUFFER_HIDDEN_PID: what a reader without rights gets for the processes of other users."""
MOST_PROCESSES: Final = 4096
LOADED, UNLOADED = 6, 7
"""Tags SIMPLE_START and SIMPLE_END: the context of a process was loaded, or removed."""


class Switch(NamedTuple):
    """A record of the log."""

    tag: int
    """``LOADED`` or ``UNLOADED``."""
    pid: int
    time_ns: int
    """Time of the GPU's clock."""


class RecordsLostError(Exception):
    """The log had no room for all records since the previous read."""


class Residency:
    """Sums, by process, the time in which its context was loaded."""

    def __init__(self) -> None:
        self.total_ns = Counter[int]()
        """Time since the start by PID, for at most ``MOST_PROCESSES``: those that were loaded last."""
        self.logged_ns = 0
        """Time since the start in which the log was read."""
        self.switches = 0
        """Number of contexts that were loaded since the start."""
        self._pid: int | None = None
        """Process whose context is loaded; None if unknown."""
        self._since_ns = self._read_ns = 0

    @property
    def hidden(self) -> bool:
        """True if the driver hides who had the GPU, because the reader is not root."""
        return HIDDEN_PID in self.total_ns

    def begin(self, now_ns: int) -> None:
        """Begins, or begins anew after records were lost: which context is loaded is unknown."""
        self._pid, self._since_ns, self._read_ns = None, now_ns, now_ns

    def add(self, records: Iterable[Switch], now_ns: int) -> None:
        """Adds ``records``, oldest first, and the time until ``now_ns`` of the context that is loaded."""
        for tag, pid, time_ns in records:
            if tag == UNLOADED:
                # The first record may end a slice that began before the log was read.
                self._count(pid, time_ns)
                self._pid = None
            elif tag == LOADED:
                self._pid = pid
                self.switches += 1
            else:
                continue
            self._since_ns = time_ns
        if self._pid is not None:
            self._count(self._pid, now_ns)
            self._since_ns = max(now_ns, self._since_ns)
        self.logged_ns += max(now_ns - self._read_ns, 0)
        self._read_ns = now_ns

    def _count(self, pid: int, until_ns: int) -> None:
        total = self.total_ns.pop(pid, 0)
        self.total_ns[pid] = total + max(until_ns - self._since_ns, 0)
        if len(self.total_ns) > MOST_PROCESSES:
            del self.total_ns[next(iter(self.total_ns))]


class SwitchLog:
    """The open log of one GPU, which is read at intervals.

    Raises DriverCallError if the driver refuses, and OSError if its files cannot be opened.
    """

    def __init__(self, driver: ResourceManager, residency: Residency) -> None:
        """Opens the log through ``driver``, which it closes. Sums go to ``residency``."""
        self._driver, self._residency = driver, residency
        self._get = 0
        try:
            header, self._header = driver.memory(_HEADER.size)
            records, self._records = driver.memory(RECORDS * RECORD.size)
            # NV_EVENT_BUFFER_ALLOC_PARAMETERS
            wanted = struct.pack(
                "2Q2IQ2IQ6I",
                *(0, 0, RECORD.size, RECORDS, 0, 0, 0, 0),
                *(0, driver.subdevice, 0, header, records, 0),
            )
            self._buffer = driver.make(_EVENT_BUFFER, driver.client, wanted)
            # NV2080_CTRL_GR_FECS_BIND_EVTBUF_FOR_UID_V2_PARAMS: for the processes of all users.
            bound = struct.pack("4IB3xI", self._buffer, _PAYLOAD_BYTES, 0, 0, True, 0)
            driver.control(driver.subdevice, _BIND, bound)
            driver.control(self._buffer, _ENABLE, struct.pack("B3xI", True, _KEEP_OLDEST))
            residency.begin(driver.time_ns())
        except BaseException:
            driver.close()
            raise

    def read(self) -> None:
        """Adds what the GPU logged since the previous read.

        Raises RecordsLostError if records are missing; then none of them is added. Raises DriverCallError and
        OSError.
        """
        self._driver.control(self._buffer, _FLUSH)
        now_ns = self._driver.time_ns()
        _, put, _, dropped, _ = _HEADER.unpack_from(self._header)
        records = [] if dropped else list(self._until(put))
        self._get = put
        # This also sets the number of dropped records to 0.
        self._driver.control(self._buffer, _UPDATE_GET, struct.pack("2I", put, 0))
        if dropped:
            self._residency.begin(now_ns)
            raise RecordsLostError
        self._residency.add(records, now_ns)

    def _until(self, put: int) -> Iterator[Switch]:
        """Yields the records before number ``put`` that were not read yet."""
        at = self._get
        while at != put:
            _, _, _, tag, _, _, _, pid, _, _, _, time_ns = RECORD.unpack_from(self._records, at * RECORD.size)
            yield Switch(tag, pid, time_ns)
            at = (at + 1) % RECORDS

    def close(self) -> None:
        """Ends the log. The GPU stops logging when nobody reads any more. May be called twice."""
        self._driver.close()


def opened(minor: int, pci_bus_id: str, residency: Residency) -> SwitchLog:
    """Opens the log of a GPU. Raises DriverCallError and OSError."""
    return SwitchLog(ResourceManager(minor, pci_bus_id), residency)
