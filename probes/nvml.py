"""What the NVIDIA driver says about its GPUs, through NVML (the nvidia-ml-py bindings, module `pynvml`).

Every call may fail on its own: a board that cannot tell its power still tells its clocks. A call that fails
costs its own figure and leaves a note; only where the driver itself is gone is there nothing to show.

Counters (replays, ECC errors, time that clocks were held down) are the driver's own totals here;
``probes.devices`` makes differences of them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from model.device import Device, DeviceProcess
from probes.nvml_events import XidWatch
from probes.text import clean

T = TypeVar("T")

THROTTLE_REASONS: tuple[tuple[int, str], ...] = (
    (0x004, "power cap"),
    (0x008, "hardware slowdown"),
    (0x010, "sync boost"),
    (0x020, "thermal, software"),
    (0x040, "thermal, hardware"),
    (0x080, "power brake"),
    (0x200, "board limit"),
    (0x400, "reliability"),
)
"""Bits of nvml.h's nvmlClocksEventReasons that hold clocks down against the user's wish.

Left out, since they are no fault: 0x001 idle, 0x002 clocks chosen for applications, 0x100 display clocks.
"""
RARELY_SECONDS: Final = 2.0
"""How often what is dear to ask for, or changes rarely, is read: error counters, what the link could do."""
_UNAVAILABLE_32 = 0xFFFFFFFF
_UNAVAILABLE_64 = 0xFFFFFFFFFFFFFFFF


class NvmlUnavailable(Exception):
    """There is nothing to read; the text is one line that says why."""


class _GpuGone(Exception):
    """This GPU answers no more; the text says why."""


class _Cells:
    """Figures of one device, each from a call that may fail on its own."""

    def __init__(self, ask: Callable[..., Any], error: type[Exception]) -> None:
        self._ask = ask
        self._error = error
        self.failures: dict[str, list[str]] = {}
        """What could not be read, by reason."""

    def read(self, what: str, call: Callable[..., T], *arguments: object) -> T | None:
        """What ``call`` returns, or None and a note."""
        try:
            result: T = self._ask(call, *arguments)
        except self._error as error:
            self.failures.setdefault(_in_words(error), []).append(what)
            return None
        return result


class Nvml:
    """An open NVML. All calls are made from one thread, and any of them may hang with the driver.

    Raises NvmlUnavailable where there is no driver or no GPU.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        try:
            import pynvml
        except ImportError as error:
            raise NvmlUnavailable("the Python package nvidia-ml-py is not installed") from error
        self._nvml: Any = pynvml
        self._xids = XidWatch(pynvml)
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise NvmlUnavailable(self._why_not(error)) from error
        try:
            self.driver = clean(pynvml.nvmlSystemGetDriverVersion())
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            self.close()
            raise NvmlUnavailable(self._why_not(error)) from error
        if not count:
            self.close()
            raise NvmlUnavailable(f"NVIDIA driver {self.driver} is loaded, but no GPU is visible")
        self._count = int(count)
        self._unchanging: dict[int, tuple[str, str]] = {}
        self._rare: dict[int, tuple[float, dict[str, Any], dict[str, list[str]]]] = {}
        """By device: when it was read, figures and failures of what is read rarely."""
        self._no_xids: dict[int, str] = {}
        """Why a device reports no XIDs; a device that does is here with an empty reason."""

    def devices(self) -> tuple[Device, ...]:
        """All GPUs now, with the XIDs since the previous call.

        Raises NvmlUnavailable where the driver was unloaded; open anew then.
        """
        xids = self._xids.read()
        return tuple(self._device(index, xids.get(index, ())) for index in range(self._count))

    def close(self) -> None:
        """Shut NVML down. A failure to do so leaves nothing to be done about it."""
        self._xids.close()
        with contextlib.suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    def _device(self, index: int, xids: tuple[int, ...]) -> Device:
        nvml = self._nvml
        cells = _Cells(self._ask, nvml.NVMLError)
        uuid, name = self._unchanging.get(index, ("", f"GPU {index}"))
        try:
            handle = self._ask(nvml.nvmlDeviceGetHandleByIndex, index)
            if index not in self._unchanging:
                uuid = clean(self._ask(nvml.nvmlDeviceGetUUID, handle))
                name = clean(self._ask(nvml.nvmlDeviceGetName, handle)) or name
                self._unchanging[index] = uuid, name
            if index not in self._no_xids:
                self._no_xids[index] = self._watch_xids(index, handle)
            if self._no_xids[index]:
                cells.failures[self._no_xids[index]] = ["XIDs"]
            figures = self._figures(handle, cells)
            figures |= self._rare_figures(index, handle, cells)
        except _GpuGone as reason:
            return Device(index, uuid, name, xids=xids, lost=True, notes=(str(reason),))
        except nvml.NVMLError as error:
            return Device(index, uuid, name, xids=xids, notes=(_in_words(error),))
        notes = tuple(f"{', '.join(whats)}: {reason}" for reason, whats in cells.failures.items())
        return Device(index=index, uuid=uuid, name=name, xids=xids, notes=notes, **figures)

    def _watch_xids(self, index: int, handle: object) -> str:
        """Why it cannot be done, or nothing."""
        try:
            self._ask(self._xids.watch, index, handle)
        except self._nvml.NVMLError as error:
            return _in_words(error)
        return ""

    def _figures(self, handle: object, cells: _Cells) -> dict[str, Any]:
        nvml, cell = self._nvml, cells.read
        rates = cell("utilization", nvml.nvmlDeviceGetUtilizationRates, handle)
        memory = cell("memory", self._memory, handle)
        reasons = cell("throttle reasons", self._throttle_reasons, handle)
        return {
            "utilization_percent": _percent(rates.gpu) if rates else None,
            "memory_utilization_percent": _percent(rates.memory) if rates else None,
            "memory_used_bytes": int(memory.used) if memory else None,
            "memory_total_bytes": int(memory.total) if memory else None,
            "power_watts": _watts(cell("power", nvml.nvmlDeviceGetPowerUsage, handle)),
            "power_limit_watts": _watts(cell("power limit", nvml.nvmlDeviceGetEnforcedPowerLimit, handle)),
            "temperature_celsius": _figure(
                cell("temperature", nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
            ),
            "sm_clock_mhz": _whole(cell("SM clock", nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM)),
            "sm_clock_max_mhz": _whole(
                cell("highest SM clock", nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM)
            ),
            "throttle_reasons": throttle_reasons(reasons or 0),
            "pcie_generation": _whole(
                cell("PCIe generation", nvml.nvmlDeviceGetCurrPcieLinkGeneration, handle)
            ),
            "pcie_width": _whole(cell("PCIe width", nvml.nvmlDeviceGetCurrPcieLinkWidth, handle)),
            "power_held_ns": cell("time held by power", self._held_ns, handle, nvml.NVML_PERF_POLICY_POWER),
            "thermal_held_ns": cell(
                "time held by temperature", self._held_ns, handle, nvml.NVML_PERF_POLICY_THERMAL
            ),
            "processes": self._processes(
                {
                    "C": cell("compute processes", self._listed, "Compute", handle),
                    "G": cell("graphics processes", self._listed, "Graphics", handle),
                    "M+C": cell("MPS clients", self._listed, "MPSCompute", handle),
                }
            ),
        }

    def _rare_figures(self, index: int, handle: object, into: _Cells) -> dict[str, Any]:
        """What is read at a slower rhythm; in between, what was read last."""
        nvml, now = self._nvml, self._clock()
        read, figures, failures = self._rare.get(index, (float("-inf"), {}, {}))
        if now - read >= RARELY_SECONDS:
            cells = _Cells(self._ask, nvml.NVMLError)
            cell, failures = cells.read, cells.failures
            rows = cell("remapped rows", nvml.nvmlDeviceGetRemappedRows, handle)
            figures = {
                "pcie_generation_max": _whole(
                    cell("highest PCIe generation", nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle)
                ),
                "pcie_width_max": _whole(
                    cell("greatest PCIe width", nvml.nvmlDeviceGetMaxPcieLinkWidth, handle)
                ),
                "pcie_replays": _whole(cell("PCIe replays", nvml.nvmlDeviceGetPcieReplayCounter, handle)),
                "ecc_corrected": cell(
                    "corrected ECC errors", self._ecc_errors, handle, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED
                ),
                "ecc_uncorrected": cell(
                    "uncorrected ECC errors",
                    self._ecc_errors,
                    handle,
                    nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                ),
                "remap_pending": bool(rows[2]) if rows else None,  # corrected, uncorrected, pending, failed
            }
            self._rare[index] = now, figures, failures
        for reason, whats in failures.items():
            into.failures.setdefault(reason, []).extend(whats)
        return figures

    def _ask(self, call: Callable[..., T], *arguments: object) -> T:
        """Make one call. Raises _GpuGone and NvmlUnavailable where no further one makes sense."""
        nvml = self._nvml
        try:
            return call(*arguments)
        except nvml.NVMLError as error:
            if error.value in (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED):
                raise _GpuGone(_in_words(error)) from error
            if error.value in (nvml.NVML_ERROR_UNINITIALIZED, nvml.NVML_ERROR_DRIVER_NOT_LOADED):
                raise NvmlUnavailable(self._why_not(error)) from error
            raise

    def _memory(self, handle: object) -> Any:
        nvml = self._nvml
        try:  # version 2 keeps what the driver reserves apart from what is used, as nvidia-smi does
            return nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
        except (nvml.NVMLError_FunctionNotFound, nvml.NVMLError_NotSupported):
            return nvml.nvmlDeviceGetMemoryInfo(handle)

    def _held_ns(self, handle: object, policy: int) -> int:
        """How long this policy held clocks down, since the driver was loaded."""
        return int(self._nvml.nvmlDeviceGetViolationStatus(handle, policy).violationTime)

    def _ecc_errors(self, handle: object, kind: int) -> int:
        """Since the driver was loaded."""
        return int(self._nvml.nvmlDeviceGetTotalEccErrors(handle, kind, self._nvml.NVML_VOLATILE_ECC))

    def _throttle_reasons(self, handle: object) -> int:
        nvml = self._nvml
        try:
            return int(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
        except nvml.NVMLError_FunctionNotFound:  # its name before driver 535
            return int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))

    def _listed(self, what: str, handle: object) -> list[Any]:
        nvml = self._nvml
        try:
            return list(getattr(nvml, f"nvmlDeviceGet{what}RunningProcesses_v3")(handle))
        except nvml.NVMLError_FunctionNotFound:  # drivers before 510
            return list(getattr(nvml, f"nvmlDeviceGet{what}RunningProcesses_v2")(handle))

    @staticmethod
    def _processes(listed: dict[str, list[Any] | None]) -> tuple[DeviceProcess, ...]:
        """Each process once: a client of MPS may also be listed as compute, a renderer as both."""
        kinds: dict[int, set[str]] = {}
        memory: dict[int, int | None] = {}
        for kind, entries in listed.items():
            for entry in entries or ():
                pid, used = int(entry.pid), entry.usedGpuMemory
                if used is not None and int(used) != _UNAVAILABLE_64:
                    memory[pid] = max(int(used), memory.get(pid) or 0)
                kinds.setdefault(pid, set()).add(kind)
        return tuple(
            DeviceProcess(pid, "M+C" if "M+C" in kind else "+".join(sorted(kind)), memory.get(pid))
            for pid, kind in sorted(kinds.items())
            if pid > 0
        )

    def _why_not(self, error: Any) -> str:
        nvml = self._nvml
        known = {
            nvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no NVIDIA driver on this host (libnvidia-ml.so.1 not found)",
            nvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
            nvml.NVML_ERROR_UNINITIALIZED: "the NVIDIA driver was unloaded",
            nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
                "the loaded NVIDIA driver and its library differ in version: reload the driver or reboot"
            ),
            nvml.NVML_ERROR_NO_PERMISSION: "this user may not use the NVIDIA driver",
        }
        return known.get(error.value, f"NVML: {_in_words(error)}")


def throttle_reasons(bits: int) -> tuple[str, ...]:
    """Names of the reasons in ``bits`` that hold the clocks down; a bit unknown here by its number."""
    names = [name for bit, name in THROTTLE_REASONS if bits & bit]
    unknown = bits & ~(0x103 | sum(bit for bit, _ in THROTTLE_REASONS))
    return (*names, f"reason {unknown:#x}") if unknown else tuple(names)


def _in_words(error: Exception) -> str:
    return clean(str(error)).rstrip(".").lower().replace("gpu", "GPU")


def _percent(value: int) -> float | None:
    return float(min(value, 100)) if value != _UNAVAILABLE_32 else None


def _whole(value: int | None) -> int | None:
    return None if value is None or value == _UNAVAILABLE_32 else int(value)


def _figure(value: int | None) -> float | None:
    whole = _whole(value)
    return None if whole is None else float(whole)


def _watts(milliwatts: int | None) -> float | None:
    whole = _whole(milliwatts)
    return None if whole is None else whole / 1000
