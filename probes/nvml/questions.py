"""Calls NVML, function by function, and returns plain numbers.

Every function here raises what ``probes.nvml.asking.Asking`` raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from stalltop.probes.nvml.asking import Asking, NvmlCallError

Answer = Sequence[int | float | None]
"""The values of a reading, one for each of its figures."""
Ask = Callable[[Asking, Any], Answer]
"""A function that asks a device a question. It gets an Asking and the handle of the device."""

NOT_GIVEN: Final = (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
"""NVML_VALUE_NOT_AVAILABLE as 32 and as 64 bits."""
_ALL_LINKS: Final = 0xFFFFFFFF
"""Scope of a field value, if it is the sum over all NVLinks (nvml.h, NVML_FI_DEV_NVLINK_THROUGHPUT_*)."""


def call(function: str, *constants: str) -> Ask:
    """Returns an Ask that calls ``function`` of NVML, which returns one number."""
    return lambda ask, gpu: (ask(function, gpu, *constants),)


def utilization(ask: Asking, gpu: Any) -> Answer:
    """Returns how busy SMs and memory were, in percent."""
    rates = ask("nvmlDeviceGetUtilizationRates", gpu)
    return rates.gpu, rates.memory


def first(function: str) -> Ask:
    """Returns an Ask that calls ``function`` and keeps only the first of the values that it returns."""
    return lambda ask, gpu: tuple(ask(function, gpu)[:1])


def largest(function: str) -> Ask:
    """Returns an Ask that calls ``function``, which returns the least and the largest possible value, and
    keeps the largest."""
    return lambda ask, gpu: tuple(ask(function, gpu)[1:2])


def memory(ask: Asking, gpu: Any) -> Answer:
    """Returns used and total bytes of device memory. In version 2 of the call, as in nvidia-smi, the used
    bytes do not include memory that the driver reserves. Drivers before 510 lack version 2."""
    try:
        told = ask("nvmlDeviceGetMemoryInfo", gpu, ask.nvml.nvmlMemory_v2)
    except NvmlCallError as none:
        if not none.unsupported:
            raise
        told = ask("nvmlDeviceGetMemoryInfo", gpu)
    return told.used, told.total


def thermal_margin(ask: Asking, gpu: Any) -> Answer:
    """Returns how many degrees Celsius the GPU is below the temperature at which it slows down; 0 if it is
    not below. Older drivers lack the call."""
    return (max(int(ask("nvmlDeviceGetMarginTemperature", gpu)), 0),)


def reasons(ask: Asking, gpu: Any) -> Answer:
    """Returns the bits of the present throttle reasons."""
    try:
        return (ask("nvmlDeviceGetCurrentClocksEventReasons", gpu),)
    except NvmlCallError as none:
        if not none.missing:
            raise
        # name of the function before driver 535
        return (ask("nvmlDeviceGetCurrentClocksThrottleReasons", gpu),)


def held(policy: str) -> Ask:
    """Returns an Ask for the total time, in ns, for which ``policy`` (NVML_PERF_POLICY_*) throttled the
    clocks."""
    return lambda ask, gpu: (ask("nvmlDeviceGetViolationStatus", gpu, policy).violationTime,)


def ecc_errors(kind: str, counter: str) -> Ask:
    """Returns an Ask for the total number of errors of ``kind`` (NVML_MEMORY_ERROR_TYPE_*) in ``counter``
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
    """Returns the throughput of each direction in bytes/s. The driver measures it over 20 ms, and gives it in
    KB/s."""
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
"""Numbers in nvml.h (NVML_FI_DEV_*) and scopes of field values, by name."""
_UNION: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Members of the union nvmlValue_t, in the order of nvmlValueType_t."""


def field_values(ask: Asking, gpu: Any, *names: str) -> list[int | float | None]:
    """Returns the values of several fields, with one call. A value is None if this board does not have the
    field. Raises NvmlCallError if it has none of the fields."""
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
    """Returns an Ask for several field values, which are named as in ``_NAMED_FIELDS``."""
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
    """Returns totals over all NVLinks: bytes received, bytes sent, and number of errors."""
    received, sent, *errors = field_values(
        ask, gpu, "received KiB", "sent KiB", "flit CRC", "data CRC", "replays", "recoveries"
    )
    known = [error for error in errors if error is not None]
    return (
        None if received is None else int(received) * 1024,
        None if sent is None else int(sent) * 1024,
        sum(known) if known else None,
    )
