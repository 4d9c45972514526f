"""Tests the sums over the driver's log of context switches, and reading it from a stand-in for the driver."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from stalltop.model.devices.device import DeviceProcess
from stalltop.probes.nvml.asking import Asking
from stalltop.probes.nvml.gpu import Gpu
from stalltop.probes.nvml.resource_manager import DriverCallError
from stalltop.probes.nvml.switch_log import (
    LOADED,
    RECORD,
    RECORDS,
    UNLOADED,
    RecordsLostError,
    Residency,
    Switch,
    SwitchLog,
)


def turns(*slices: tuple[int, int, int]) -> list[Switch]:
    return [
        switch
        for pid, since, until in slices
        for switch in (Switch(LOADED, pid, since), Switch(UNLOADED, pid, until))
    ]


def test_every_slice_is_added_to_its_process() -> None:
    residency = Residency()
    residency.begin(1_000)
    residency.add(turns((7, 1_010, 1_030), (9, 1_031, 1_051), (7, 1_052, 1_060)), 1_100)
    assert dict(residency.total_ns) == {7: 28, 9: 20}
    assert residency.switches == 3


def test_the_first_record_may_end_a_slice_that_began_before() -> None:
    residency = Residency()
    residency.begin(1_000)
    residency.add([Switch(UNLOADED, 7, 1_004), *turns((9, 1_005, 1_007))], 1_010)
    assert dict(residency.total_ns) == {7: 4, 9: 2}


def test_a_context_that_remains_loaded_is_counted_until_each_read_and_no_longer() -> None:
    residency = Residency()
    residency.begin(1_000)
    residency.add([Switch(LOADED, 7, 1_010)], 1_100)
    assert dict(residency.total_ns) == {7: 90}
    residency.add([], 1_200)
    # The slice ended before the read at 1200: the time of a record may be before the last read.
    residency.add([Switch(UNLOADED, 7, 1_199), Switch(LOADED, 9, 1_205)], 1_300)
    assert dict(residency.total_ns) == {7: 190, 9: 95}


def test_who_was_loaded_is_unknown_after_a_loss() -> None:
    residency = Residency()
    residency.begin(1_000)
    residency.add([Switch(LOADED, 7, 1_010)], 1_100)
    residency.begin(1_100)
    residency.add(turns((9, 1_500, 1_600)), 1_700)
    assert dict(residency.total_ns) == {7: 90, 9: 100}


class FakeDriver:
    """Stands for the resource manager of a driver with one GPU."""

    def __init__(self, *, refuses: DriverCallError | None = None) -> None:
        self.client, self.subdevice, self.now_ns = 1, 2, 0
        self.header = bytearray(32)
        self.records = bytearray(RECORDS * RECORD.size)
        self.put = self.dropped = self.got = 0
        self.enabled = self.closed = False
        self._refuses = refuses

    def memory(self, size_bytes: int) -> tuple[int, bytearray]:
        memory = self.header if size_bytes == len(self.header) else self.records
        assert size_bytes == len(memory)
        return 3 if memory is self.header else 4, memory

    def make(self, kind: int, parent: int, parameters: bytes) -> int:
        assert (kind, parent, len(parameters)) == (0x90CD, self.client, 72)
        told = struct.unpack("2Q2IQ2IQ6I", parameters)
        assert told[2:4] == (32, RECORDS)
        assert told[9:] == (self.subdevice, 0, 3, 4, 0)
        return 5

    def control(self, of: int, command: int, parameters: bytes = b"") -> bytes:
        if command == 0x20801238:
            if self._refuses is not None:
                raise self._refuses
            assert struct.unpack("4IB3xI", parameters) == (5, 24, 0, 0, True, 0)
        elif command == 0x90CD0101:
            self.enabled = True
        elif command == 0x90CD0102:
            self.got, self.dropped = struct.unpack("2I", parameters)[0], 0
        else:
            assert command == 0x90CD0104
            struct.pack_into("<IIQQQ", self.header, 0, self.got, self.put, 0, self.dropped, 0)
        return parameters

    def time_ns(self) -> int:
        return self.now_ns

    def close(self) -> None:
        self.closed = True

    def log(self, *switches: Switch) -> None:
        for tag, pid, time_ns in switches:
            RECORD.pack_into(
                self.records, self.put * RECORD.size, 2, 0, 0, tag, 0, 0, 0xD0, pid, 0, 0, 0, time_ns
            )
            self.put = (self.put + 1) % RECORDS


def open_log(driver: Any, residency: Residency) -> SwitchLog:
    return SwitchLog(driver, residency)


def test_records_are_read_across_the_end_of_the_buffer() -> None:
    driver, residency = FakeDriver(), Residency()
    log = open_log(driver, residency)
    assert driver.enabled
    for turn in range(RECORDS + 10):
        driver.log(*turns((7, 100 * turn, 100 * turn + 60)))
        if turn % 1_000 == 0:
            driver.now_ns = 100 * turn + 80
            log.read()
    driver.now_ns = 100 * (RECORDS + 10)
    log.read()
    assert residency.total_ns[7] == 60 * (RECORDS + 10)
    assert driver.got == driver.put


def test_nothing_is_added_for_the_time_in_which_records_were_lost() -> None:
    driver, residency = FakeDriver(), Residency()
    log = open_log(driver, residency)
    for end in (1_000, 2_000):  # twice the same number of lost records
        driver.log(Switch(LOADED, 7, end - 990))
        driver.now_ns, driver.dropped = end, 3
        with pytest.raises(RecordsLostError):
            log.read()
    assert (dict(residency.total_ns), residency.logged_ns) == ({}, 0)
    driver.log(*turns((9, 2_500, 2_600)))
    driver.now_ns = 3_000
    log.read()
    assert (dict(residency.total_ns), residency.logged_ns) == ({9: 100}, 1_000)


def test_a_refused_log_frees_what_it_made() -> None:
    driver = FakeDriver(refuses=DriverCallError("not supported", unsupported=True))
    with pytest.raises(DriverCallError, match="not supported"):
        open_log(driver, Residency())
    assert driver.closed


class SharedGpu:
    """Stands for NVML with one GPU, on which the processes ``listed`` have contexts."""

    class NVMLError(Exception):
        """Error of the bindings."""

    def __init__(self, *listed: int) -> None:
        self.listed = listed


def with_residency(
    driver: FakeDriver, kinds: tuple[str, ...] = ("C", "C"), mig: bool | None = None
) -> tuple[Gpu, Any]:
    """Returns a GPU whose log of context switches is that of ``driver``, and a function that reads it for
    processes of these ``kinds``."""
    gpu = Gpu(0, Asking(SharedGpu()), open_log=lambda minor, place, sums: open_log(driver, sums))
    gpu._mig = mig
    processes = tuple(DeviceProcess(7 + 2 * at, kind) for at, kind in enumerate(kinds))
    told = {"minor": 0, "pci_bus_id": "00000000:1B:00.0"}
    return gpu, lambda: gpu._with_residency(told, processes)


def test_the_log_is_read_while_processes_share_the_gpu() -> None:
    driver = FakeDriver()
    gpu, look = with_residency(driver)
    look()
    driver.log(*turns((7, 10, 40), (9, 41, 50)))
    driver.now_ns = 60
    gpu._kept["context switches"].again = 0.0
    told, processes = look()
    assert told == {"context_switches": 2, "context_log_ns": 60}
    assert [one.resident_ns for one in processes] == [30, 9]


def test_the_log_is_closed_once_one_process_is_left_and_its_sums_go_on() -> None:
    drivers = [FakeDriver(), FakeDriver()]
    coming = iter(drivers)
    gpu = Gpu(0, Asking(SharedGpu()), open_log=lambda minor, place, sums: open_log(next(coming), sums))
    place = {"minor": 0, "pci_bus_id": "00000000:1B:00.0"}
    both, one = (DeviceProcess(7, "C"), DeviceProcess(9, "C")), (DeviceProcess(7, "C"),)

    def look(processes: tuple[DeviceProcess, ...]) -> list[int | None]:
        if kept := gpu._kept.get("context switches"):
            kept.again = 0.0
        return [found.resident_ns for found in gpu._with_residency(place, processes)[1]]

    assert look(both) == [0, 0]
    drivers[0].log(*turns((7, 10, 40)))
    drivers[0].now_ns = 60
    assert look(both) == [30, 0]
    assert look(one) == [None]
    assert drivers[0].closed
    drivers[1].now_ns = 1_000
    assert look(both) == [30, 0]
    gpu.close()
    assert drivers[1].closed


def test_a_log_without_the_processes_of_others_is_not_used() -> None:
    driver = FakeDriver()
    gpu, look = with_residency(driver)
    look()
    driver.log(*turns((0, 10, 40), (9, 41, 50)))
    gpu._kept["context switches"].again = 0.0
    gpu._asked.clear()
    told, processes = look()
    assert (told, [one.resident_ns for one in processes]) == ({}, [None, None])
    assert list(gpu._notes()) == ["context switches: only root sees the processes of all users"]
    assert driver.closed


@pytest.mark.parametrize(
    ("kinds", "mig"),
    [(("C",), None), (("M+C", "C", "C"), None), (("C", "C"), True)],
    ids=["one", "MPS", "MIG"],
)
def test_the_log_is_not_opened_unless_processes_take_turns(kinds: tuple[str, ...], mig: bool | None) -> None:
    driver = FakeDriver()
    _, look = with_residency(driver, kinds, mig)
    assert look() == ({}, tuple(DeviceProcess(7 + 2 * at, kind) for at, kind in enumerate(kinds)))
    assert not driver.enabled


@pytest.mark.parametrize(
    ("refused", "notes"),
    [
        (DriverCallError("no permission"), ["context switches: no permission"]),
        (DriverCallError("not supported", unsupported=True), []),
    ],
)
def test_a_log_that_cannot_be_read_is_a_note_unless_it_is_not_supported(
    refused: DriverCallError, notes: list[str]
) -> None:
    gpu, look = with_residency(FakeDriver(refuses=refused))
    told, processes = look()
    assert (told, [one.resident_ns for one in processes]) == ({}, [None, None])
    assert list(gpu._notes()) == notes
