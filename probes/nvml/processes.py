"""Lists the processes on a GPU, as NVML reports them, with the driver's utilization samples of each
process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from stalltop.model.devices.device import DeviceProcess
from stalltop.probes.nvml.asking import Asking, NvmlCallError
from stalltop.probes.nvml.questions import NOT_GIVEN

LISTS: Final = (
    ("compute processes", "Compute", "C"),
    ("graphics processes", "Graphics", "G"),
    ("MPS clients", "MPSCompute", "M+C"),
)
"""For each process list of NVML: its name in notes, its name in NVML functions, and the kind of its
processes."""
MOST_PROCESSES: Final = 1024
"""Maximum number of processes that are read of one device. The driver has fewer contexts."""
MOST_SAMPLES: Final = 4096
OLDEST_SAMPLE_SECONDS: Final = 60.0
"""Age in seconds beyond which a utilization sample is ignored, because it does not describe the present
use."""
_HIGHEST_PID: Final = 1 << 22
"""PID_MAX_LIMIT of the Linux kernel."""
_MOST_BYTES: Final = 1 << 50
_HIGHEST_INSTANCE: Final = 1 << 16


def listed(ask: Asking, gpu: Any, what: str) -> list[Any]:
    """Returns the processes of one of NVML's lists. Raises what ``ask`` raises."""
    try:
        found = ask(f"nvmlDeviceGet{what}RunningProcesses_v3", gpu)
    except NvmlCallError as none:
        if not none.missing:
            raise
        # Name of the function in drivers before 510.
        found = ask(f"nvmlDeviceGet{what}RunningProcesses_v2", gpu)
    return list(found[:MOST_PROCESSES])


def together(lists: Mapping[str, Iterable[Any]]) -> tuple[DeviceProcess, ...]:
    """Returns each process in these lists once; the keys of ``lists`` are kinds. The driver may list a
    process twice: an MPS client also as a compute process, a renderer as a compute and a graphics process."""
    kinds: dict[int, set[str]] = {}
    memory: dict[int, int] = {}
    instances: dict[int, tuple[int | None, int | None]] = {}
    for kind, entries in lists.items():
        for entry in entries:
            pid, used = int(entry.pid), entry.usedGpuMemory
            if not 0 < pid <= _HIGHEST_PID:
                continue  # The process has ended, or is in another PID namespace.
            if used is not None and int(used) <= _MOST_BYTES:
                memory[pid] = max(int(used), memory.get(pid, 0))
            kinds.setdefault(pid, set()).add(kind)
            instances.setdefault(pid, (_instance(entry.gpuInstanceId), _instance(entry.computeInstanceId)))
    return tuple(
        DeviceProcess(
            pid,
            "M+C" if "M+C" in kind else "+".join(sorted(kind)),
            memory.get(pid),
            gpu_instance=instances[pid][0],
            compute_instance=instances[pid][1],
        )
        for pid, kind in sorted(kinds.items())
    )


def _instance(number: Any) -> int | None:
    return None if number is None or int(number) > _HIGHEST_INSTANCE else int(number)


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """The driver's latest sample of one process."""

    time: float
    """Unix time, s."""
    percents: tuple[float | None, float | None, float | None, float | None]
    """SM, memory, encoder and decoder, in percent; None for an implausible value."""


class Samples:
    """Keeps the driver's latest utilization sample of each process of one GPU.

    Each call passes the time of the newest known sample to the driver. If there is no newer sample, the
    driver answers "not found". Without this time, the driver would average over an unknown period.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._seen_us = 0
        self._latest: dict[int, ProcessSample] = {}

    def look(self, ask: Asking, gpu: Any) -> None:
        """Reads new samples. Raises what ``ask`` raises."""
        now = self._clock()
        oldest = now - OLDEST_SAMPLE_SECONDS
        since = self._seen_us or int(oldest * 1e6)
        try:
            found = ask("nvmlDeviceGetProcessUtilization", gpu, since)
        except NvmlCallError as none:
            if not none.nothing_new:
                raise
            found = ()
        for one in found[:MOST_SAMPLES]:
            at, pid = int(one.timeStamp) / 1e6, int(one.pid)
            if not oldest <= at <= now + 1.0 or not 0 < pid <= _HIGHEST_PID:
                continue  # The sample is too old, or belongs to a process that has ended.
            self._seen_us = max(self._seen_us, int(one.timeStamp))
            known = self._latest.get(pid)
            if known is None or at >= known.time:
                self._latest[pid] = ProcessSample(
                    at,
                    (
                        _percent(one.smUtil),
                        _percent(one.memUtil),
                        _percent(one.encUtil),
                        _percent(one.decUtil),
                    ),
                )
        self._latest = {pid: sample for pid, sample in self._latest.items() if sample.time >= oldest}

    def of(self, process: DeviceProcess) -> DeviceProcess:
        """Returns ``process`` with its latest utilization sample; unchanged if there is none."""
        sample = self._latest.get(process.pid)
        if sample is None:
            return process
        sm, memory, encoder, decoder = sample.percents
        return replace(
            process,
            sm_percent=sm,
            memory_percent=memory,
            encoder_percent=encoder,
            decoder_percent=decoder,
            sample_age_seconds=round(max(self._clock() - sample.time, 0.0), 1),
        )


def _percent(value: Any) -> float | None:
    return float(value) if int(value) not in NOT_GIVEN and 0 <= int(value) <= 100 else None
