"""Calls NVML, function by function, and returns plain numbers.

Everything here raises what ``probes.nvml.asking.Asking`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from stalltop.probes.nvml.asking import Asking, NvmlCallError

Answer = Sequence[int | float | None]
"""One value for each figure of a reading."""
Ask = Callable[[Asking, Any], Answer]
"""A function that asks a device, given its handle."""

NOT_GIVEN: Final = (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
"""NVML_VALUE_NOT_AVAILABLE as 32 and as 64 bits."""
_ALL_LINKS: Final = 0xFFFFFFFF
"""Scope of a field value: the sum over all NVLinks (nvml.h, NVML_FI_DEV_NVLINK_THROUGHPUT_*)."""


def call(function: str, *constants: str) -> Ask:
    """Returns an Ask that calls an NVML function whose answer is one number."""
    return lambda ask, gpu: (ask(function, gpu, *constants),)


def utilization(ask: Asking, gpu: Any) -> Answer:
    """Returns how busy SMs and memory were, in percent."""
    rates = ask("nvmlDeviceGetUtilizationRates", gpu)
    return rates.gpu, rates.memory


def first(function: str) -> Ask:
    """Returns an Ask that keeps only the first of a function's values."""
    return lambda ask, gpu: tuple(ask(function, gpu)[:1])


def memory(ask: Asking, gpu: Any) -> Answer:
    """Returns used and total bytes of device memory. Version 2 of the call does not count memory that the
    driver reserves as used, as nvidia-smi does not; drivers before 510 lack version 2."""
    try:
        told = ask("nvmlDeviceGetMemoryInfo", gpu, ask.nvml.nvmlMemory_v2)
    except NvmlCallError as none:
        if not none.unsupported:
            raise
        told = ask("nvmlDeviceGetMemoryInfo", gpu)
    return told.used, told.total


def thermal_margin(ask: Asking, gpu: Any) -> Answer:
    """Returns by how many degrees Celsius the GPU is cooler than the temperature at which it slows down; 0 if
    it is not cooler. Older drivers lack the call."""
    return (max(int(ask("nvmlDeviceGetMarginTemperature", gpu)), 0),)


def reasons(ask: Asking, gpu: Any) -> Answer:
    """Returns the bits of the present throttle reasons."""
    try:
        return (ask("nvmlDeviceGetCurrentClocksEventReasons", gpu),)
    except NvmlCallError as none:
        if not none.missing:
            raise
        # The function's name before driver 535
        return (ask("nvmlDeviceGetCurrentClocksThrottleReasons", gpu),)


def held(policy: str) -> Ask:
    """Returns an Ask for the total time that clocks were throttled by ``policy`` (NVML_PERF_POLICY_*), ns."""
    return lambda ask, gpu: (ask("nvmlDeviceGetViolationStatus", gpu, policy).violationTime,)


def ecc_errors(kind: str, counter: str) -> Ask:
    """Returns an Ask for the total errors of this kind (NVML_MEMORY_ERROR_TYPE_*) in this counter
    (NVML_*_ECC)."""
    return call("nvmlDeviceGetTotalEccErrors", kind, counter)


def bar1(ask: Asking, gpu: Any) -> Answer:
    """Returns used and total bytes of BAR1 memory."""
    told = ask("nvmlDeviceGetBAR1MemoryInfo", gpu)
    return told.bar1Used, told.bar1Total


def fans(ask: Asking, gpu: Any) -> Answer:
    """Returns the speed of the fastest fan, in percent."""
    number = min(int(ask("nvmlDeviceGetNumFans", gpu)), 16)
    if not number:
        raise NvmlCallError("the board has none", lasting=True, unsupported=True)
    return (max(int(ask("nvmlDeviceGetFanSpeed_v2", gpu, fan)) for fan in range(number)),)


def pcie_throughput(ask: Asking, gpu: Any) -> Answer:
    """Returns what the driver measures over 20 ms for each direction, in bytes/s (NVML gives KB/s)."""
    counters = ("NVML_PCIE_UTIL_RX_BYTES", "NVML_PCIE_UTIL_TX_BYTES")
    return [1000 * int(ask("nvmlDeviceGetPcieThroughput", gpu, counter)) for counter in counters]


def remapped(ask: Asking, gpu: Any) -> Answer:
    """Returns how many memory rows were remapped after corrected and after uncorrected errors, whether
    remappings are pending, and whether one failed."""
    corrected, uncorrected, pending, failed = ask("nvmlDeviceGetRemappedRows", gpu)
    return corrected, uncorrected, pending, failed


_NAMED_FIELDS: Final = {
    "software thermal": (269, 0),
    "hardware thermal": (270, 0),
    "power brake": (271, 0),
    "memory temperature": (82, 0),
    "retired, single bit": (29, 0),
    "retired, double bit": (30, 0),
    "retirement pending": (31, 0),
    "links": (91, 0),
    "received KiB": (139, _ALL_LINKS),
    "sent KiB": (138, _ALL_LINKS),
    "flit CRC": (38, 0),
    "data CRC": (45, 0),
    "replays": (52, 0),
    "recoveries": (59, 0),
}
"""Field values by nvml.h's numbers (NVML_FI_DEV_*) and scope."""
_UNION: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Members of nvmlValue_t by nvmlValueType_t."""


def field_values(ask: Asking, gpu: Any, *names: str) -> list[int | float | None]:
    """Returns several fields in one call; None for each that this board does not have. Raises
    NvmlCallError if it has none of them."""
    values = ask("nvmlDeviceGetFieldValues", gpu, [_NAMED_FIELDS[name] for name in names])
    found: list[int | float | None] = []
    for value in values:
        kind = int(value.valueType)
        known = value.nvmlReturn == 0 and 0 <= kind < len(_UNION)
        found.append(getattr(value.value, _UNION[kind]) if known else None)
    if all(value is None for value in found):
        raise NvmlCallError("not supported", lasting=True, unsupported=True)
    return found


def fields(*names: str) -> Ask:
    """Returns an Ask for field values, by their names in ``_NAMED_FIELDS``."""
    return lambda ask, gpu: field_values(ask, gpu, *names)


def retired(ask: Asking, gpu: Any) -> Answer:
    """Returns the number of retired memory pages, and whether retirements are pending."""
    single, double, pending = field_values(
        ask, gpu, "retired, single bit", "retired, double bit", "retirement pending"
    )
    pages = None if single is None and double is None else (single or 0) + (double or 0)
    return pages, pending


def links(ask: Asking, gpu: Any) -> Answer:
    """Returns how many NVLinks there are and how many of them are up."""
    [links] = field_values(ask, gpu, "links")
    number = min(int(links or 0), 64)
    if not number:
        raise NvmlCallError("the board has none", lasting=True, unsupported=True)
    return number, sum(1 for link in range(number) if _is_up(ask, gpu, link))


def _is_up(ask: Asking, gpu: Any, link: int) -> bool:
    try:
        return bool(ask("nvmlDeviceGetNvLinkState", gpu, link))
    except NvmlCallError:  # The link is not wired, or not available to this tenant.
        return False


def traffic(ask: Asking, gpu: Any) -> Answer:
    """Returns totals over all NVLinks: bytes received, bytes sent, and errors."""
    received, sent, *errors = field_values(
        ask, gpu, "received KiB", "sent KiB", "flit CRC", "data CRC", "replays", "recoveries"
    )
    known = [error for error in errors if error is not None]
    return (
        None if received is None else int(received) * 1024,
        None if sent is None else int(sent) * 1024,
        sum(known) if known else None,
    )
