"""How NVML is asked, call by call: what each function of the bindings gives, as plain numbers.

Everything here raises what ``probes.nvml.asking.Asking`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from stalltop.probes.nvml.asking import Asking, NoAnswer

Answer = Sequence[int | float | None]
"""One value for each figure of a reading."""
Ask = Callable[[Asking, Any], Answer]
"""Asks a device, by its handle."""

NOT_GIVEN: Final = (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
"""NVML_VALUE_NOT_AVAILABLE, of 32 and of 64 bits."""
_ALL_LINKS: Final = 0xFFFFFFFF
"""Scope of a field value: the sum over all NVLinks (nvml.h, NVML_FI_DEV_NVLINK_THROUGHPUT_*)."""


def call(function: str, *constants: str) -> Ask:
    """Of a function that gives one number."""
    return lambda ask, gpu: (ask(function, gpu, *constants),)


def utilization(ask: Asking, gpu: Any) -> Answer:
    """How busy SMs and memory were, in percent."""
    rates = ask("nvmlDeviceGetUtilizationRates", gpu)
    return rates.gpu, rates.memory


def first(function: str) -> Ask:
    """Of a function that gives a value and something about it."""
    return lambda ask, gpu: tuple(ask(function, gpu)[:1])


def memory(ask: Asking, gpu: Any) -> Answer:
    """Used and total bytes: version 2 keeps what the driver reserves apart from what is used, as nvidia-smi
    does; drivers before 510 do not have it."""
    try:
        told = ask("nvmlDeviceGetMemoryInfo", gpu, ask.nvml.nvmlMemory_v2)
    except NoAnswer as none:
        if not none.unsupported:
            raise
        told = ask("nvmlDeviceGetMemoryInfo", gpu)
    return told.used, told.total


def reasons(ask: Asking, gpu: Any) -> Answer:
    """Bits of what holds the clocks down now."""
    try:
        return (ask("nvmlDeviceGetCurrentClocksEventReasons", gpu),)
    except NoAnswer as none:
        if not none.missing:
            raise
        return (ask("nvmlDeviceGetCurrentClocksThrottleReasons", gpu),)  # its name before driver 535


def held(policy: str) -> Ask:
    """How long clocks were held down by ``policy`` (NVML_PERF_POLICY_*), in ns, a total."""
    return lambda ask, gpu: (ask("nvmlDeviceGetViolationStatus", gpu, policy).violationTime,)


def ecc_errors(kind: str, counter: str) -> Ask:
    """Errors of this kind (NVML_MEMORY_ERROR_TYPE_*) of this counter (NVML_*_ECC), a total."""
    return call("nvmlDeviceGetTotalEccErrors", kind, counter)


def bar1(ask: Asking, gpu: Any) -> Answer:
    """Used and total bytes."""
    told = ask("nvmlDeviceGetBAR1MemoryInfo", gpu)
    return told.bar1Used, told.bar1Total


def fans(ask: Asking, gpu: Any) -> Answer:
    """Speed of the fastest fan, in percent."""
    number = min(int(ask("nvmlDeviceGetNumFans", gpu)), 16)
    if not number:
        raise NoAnswer("it has none", lasting=True, unsupported=True)
    return (max(int(ask("nvmlDeviceGetFanSpeed_v2", gpu, fan)) for fan in range(number)),)


def pcie_throughput(ask: Asking, gpu: Any) -> Answer:
    """Measured by the driver over 20 ms for each direction, in KB/s."""
    counters = ("NVML_PCIE_UTIL_RX_BYTES", "NVML_PCIE_UTIL_TX_BYTES")
    return [1000 * int(ask("nvmlDeviceGetPcieThroughput", gpu, counter)) for counter in counters]


def remapped(ask: Asking, gpu: Any) -> Answer:
    """Rows that were remapped after errors corrected and not; whether more wait, and whether one failed."""
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
    """Several fields in one call; None for each that this board does not have. Raises NoAnswer where it has
    none of them."""
    values = ask("nvmlDeviceGetFieldValues", gpu, [_NAMED_FIELDS[name] for name in names])
    found: list[int | float | None] = []
    for value in values:
        kind = int(value.valueType)
        known = value.nvmlReturn == 0 and 0 <= kind < len(_UNION)
        found.append(getattr(value.value, _UNION[kind]) if known else None)
    if all(value is None for value in found):
        raise NoAnswer("not supported", lasting=True, unsupported=True)
    return found


def fields(*names: str) -> Ask:
    """Of field values, by their names here."""
    return lambda ask, gpu: field_values(ask, gpu, *names)


def retired(ask: Asking, gpu: Any) -> Answer:
    """How many pages, and whether more wait."""
    single, double, pending = field_values(
        ask, gpu, "retired, single bit", "retired, double bit", "retirement pending"
    )
    pages = None if single is None and double is None else (single or 0) + (double or 0)
    return pages, pending


def links(ask: Asking, gpu: Any) -> Answer:
    """How many NVLinks there are and how many of them are up."""
    [links] = field_values(ask, gpu, "links")
    number = min(int(links or 0), 64)
    if not number:
        raise NoAnswer("it has none", lasting=True, unsupported=True)
    return number, sum(1 for link in range(number) if _is_up(ask, gpu, link))


def _is_up(ask: Asking, gpu: Any, link: int) -> bool:
    try:
        return bool(ask("nvmlDeviceGetNvLinkState", gpu, link))
    except NoAnswer:  # a link that is not wired, or not for this tenant
        return False


def traffic(ask: Asking, gpu: Any) -> Answer:
    """Bytes received and sent over all NVLinks, and errors, totals."""
    received, sent, *errors = field_values(
        ask, gpu, "received KiB", "sent KiB", "flit CRC", "data CRC", "replays", "recoveries"
    )
    known = [error for error in errors if error is not None]
    return (
        None if received is None else int(received) * 1024,
        None if sent is None else int(sent) * 1024,
        sum(known) if known else None,
    )
