"""Finds clocks that are throttled while the device has work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.gpu.device_faults import WORKING_PERCENT, name_of, slower, suspect
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.diagnosis.usage import SECOND_NS, Usage
from stalltop.diagnosis.wording.figures import figure
from stalltop.model.chain import Fix, Link
from stalltop.model.devices.device import Device
from stalltop.model.telling import Telling

CAUSES: Final = (
    Cause(
        "gpu_power",
        "GPU throttled by its power cap",
        "the device reached its power limit",
        Telling(
            "is throttled at its power cap",
            "uses {device}, which is throttled at its power cap",
            at_fault="power cap",
        ),
        least="low",
    ),
    Cause(
        "gpu_thermal",
        "GPU thermally throttled",
        "the device reached its temperature limit",
        Telling("is thermally throttled", "uses {device}, which is thermally throttled", at_fault="cooling"),
        least="medium",
    ),
    Cause(
        "gpu_hardware_slowdown",
        "GPU throttled by hardware",
        "power brake or hardware protection",
        Telling(
            "is throttled by its hardware",
            "uses {device}, which is throttled by its hardware",
            at_fault="power supply or board",
        ),
        least="medium",
    ),
    Cause(
        "gpu_clocks",
        "GPU clocks lowered",
        "the device runs below its highest clocks although it has work",
        Telling(
            "runs at lowered clocks",
            "uses {device}, which runs at lowered clocks",
            at_fault="clock settings",
        ),
    ),
)

HELD: Final = 0.1
"""Throttling is reported only if it lasts for at least this part of the window. Many devices reach a limit
now and then for a shorter time."""
SLOWER: Final = 0.05
"""Throttling is reported only if the clock is, on average, at least this part below the highest clock. Boost
clocks vary by less than this in any case."""
USUAL_AT_CAP: Final = 0.3
"""At a power cap, the clock of a healthy device may be up to this part below the highest clock. By design,
large matrix products hold an A100 or H100 at its power cap, at 70 to 90 % of its highest clock. This is
reported, but with low severity."""
UNEXPLAINED: Final = 0.3
"""If the driver gives no reason, a low clock is reported only if it is at least this part below the highest
clock. Clocks that somebody set on purpose are mostly nearer to the highest clock."""
_AT_CAP: Final = 0.9
"""A device that draws less than this part of its power cap, in the sample, may be throttled by something
else, or only in short peaks. So the cause is less certain, and the first fix is to look."""
_STEP_WATTS: Final = 50
"""Proposed power caps are multiples of this, so that the command does not change with each sample."""
_LEAST_CAP: Final = 0.4
"""A power cap below this part of the present one is not proposed: boards refuse caps that are too low."""
_COOLER: Final = 0.85
"""The power cap that is proposed for a hot device, as a part of what it draws. Power grows with about the
cube of the clock (dynamic power: clock times voltage squared, and the voltage rises with the clock), so that
this costs about 5 % of the clock."""
BUSY_PERCENT: Final = 50.0
"""A device with at least this utilization, percent, runs near its highest clocks unless something throttles
them."""


@dataclass(frozen=True, slots=True)
class _Limit:
    """One reason for which clocks are throttled."""

    cause: str
    reasons: frozenset[str]
    """Values of ``Device.throttle_reasons`` that belong to this reason."""
    text: str
    counted: tuple[str, ...]
    """Fields of ``Device`` with the time for which this reason throttled the clocks, as the driver counts
    it."""


_LIMITS: Final = (
    _Limit(
        "gpu_thermal",
        frozenset({"thermal, software", "thermal, hardware"}),
        "its temperature limit",
        ("thermal_held_ns", "software_thermal_held_ns", "hardware_thermal_held_ns"),
    ),
    _Limit("gpu_power", frozenset({"power cap"}), "its power cap", ("power_held_ns",)),
    _Limit(
        "gpu_hardware_slowdown",
        frozenset({"hardware slowdown", "power brake", "board limit", "reliability"}),
        "its hardware protection",
        # The time at the voltage limit is left out: a board that runs as fast as it can is always at this
        # limit.
        ("power_brake_held_ns", "board_limit_held_ns"),
    ),
)
"""Only the first of these reasons that applies is reported. Heat and power also set the general reason
``hardware slowdown``, so they come first."""


def clocks(facts: Facts, device: Device, users: Sequence[Usage]) -> Iterator[Suspicion]:
    """Yields devices whose clocks are throttled by power, heat or the hardware, or are low without a reason
    from the driver."""
    if not _works(device, users):
        return
    missing = _missing(device)
    for limit in _LIMITS:
        held = _held(facts, device, limit)
        if held < HELD:
            continue
        if missing is not None and missing * held < SLOWER:
            continue
        if missing is None and limit.cause == "gpu_power":
            continue  # A device at its power cap may run at its highest clocks.
        yield _limited(facts, device, users, limit, held, missing)
        return
    if (
        missing is not None
        and missing >= UNEXPLAINED
        and not device.throttle_reasons
        and (device.utilization_percent or 0.0) >= BUSY_PERCENT
    ):
        yield _unexplained(facts, device, users, missing)


def _works(device: Device, users: Sequence[Usage]) -> bool:
    if device.utilization_percent is not None:
        return device.utilization_percent >= WORKING_PERCENT
    return any(usage.synced.waited_ns for usage in users)


def _missing(device: Device) -> float | None:
    """Returns how far the SM clock is now below the highest SM clock, as a part of the highest, 0 to 1; None
    if the clocks are not known."""
    if device.sm_clock_mhz is None or not device.sm_clock_max_mhz:
        return None
    return max(0.0, 1 - device.sm_clock_mhz / device.sm_clock_max_mhz)


def _held(facts: Facts, device: Device, limit: _Limit) -> float:
    """Returns the part of the window in which ``limit`` throttled the clocks, as the driver counted it. If
    nothing was counted, returns 1 if ``limit`` throttles the clocks now, else 0."""
    counted = max(getattr(device, field) or 0 for field in limit.counted)
    share = min(counted / (facts.seconds * SECOND_NS), 1.0)
    now = bool(limit.reasons.intersection(device.throttle_reasons))
    return share if share or not now else 1.0


def _limited(
    facts: Facts,
    device: Device,
    users: Sequence[Usage],
    limit: _Limit,
    held: float,
    missing: float | None,
) -> Suspicion:
    gpu = name_of(device)
    named = [
        reason for reason in device.throttle_reasons if reason in limit.reasons and reason not in limit.text
    ]
    said = f"clocks throttled by {limit.text}" + (f" ({', '.join(named)})" if named else "")
    links = [
        Link("mechanism", f"{said} for {held:.0%} of the time", share=1.0, device=gpu),
        Link(
            "culprit", f"{gpu}, {device.name}{_figures(device, limit.cause)}", share=1.0, device=gpu, depth=2
        ),
    ]
    told = suspect(
        facts,
        limit.cause,
        device,
        f"{gpu} ({device.name}) runs slower: {said}",
        links=links,
        fixes=_FIXES[limit.cause](device),
        confidence=0.9 if missing is not None and (limit.cause != "gpu_power" or _at_cap(device)) else 0.7,
        loser=slower(users, (missing or 0.0) * held),
        unknown=_unknown(missing, users),
    )
    if limit.cause == "gpu_power" and (missing or 0.0) < USUAL_AT_CAP:
        return replace(told, share=0.0)
    return told


def _unexplained(facts: Facts, device: Device, users: Sequence[Usage], missing: float) -> Suspicion:
    gpu = name_of(device)
    return suspect(
        facts,
        "gpu_clocks",
        device,
        f"{gpu} ({device.name}) runs at {device.sm_clock_mhz} of {device.sm_clock_max_mhz} MHz although it "
        "has work",
        links=(
            Link(
                "mechanism",
                f"SM clock {device.sm_clock_mhz} MHz of {device.sm_clock_max_mhz} MHz, at a utilization of "
                f"{device.utilization_percent:.0f} %",
                share=1.0,
                device=gpu,
            ),
            Link("culprit", f"{gpu}: somebody set or locked its clocks", share=1.0, device=gpu, depth=2),
        ),
        fixes=(
            Fix(
                "see which clocks were set or locked",
                f"nvidia-smi -i {device.index} -q -d CLOCK,PERFORMANCE",
                look=True,
            ),
            Fix(
                "let the driver choose the clocks again",
                f"nvidia-smi -i {device.index} --reset-gpu-clocks; nvidia-smi -i {device.index} "
                "--reset-applications-clocks",
            ),
        ),
        confidence=0.6,
        loser=slower(users, missing),
        unknown=(*_unknown(missing, users), "why the clocks are low: the driver gives no reason"),
    )


def _figures(device: Device, cause: str) -> str:
    said = []
    if device.sm_clock_mhz is not None and device.sm_clock_max_mhz:
        said.append(f"{device.sm_clock_mhz} of {device.sm_clock_max_mhz} MHz")
    if cause != "gpu_thermal" and device.power_watts is not None and device.power_limit_watts:
        said.append(f"{figure(device.power_watts)} of {figure(device.power_limit_watts)} W")
    if cause != "gpu_power" and device.temperature_celsius is not None:
        said.append(f"{device.temperature_celsius:.0f} C")
    return ": " + ", ".join(said) if said else ""


def _unknown(missing: float | None, users: Sequence[Usage]) -> tuple[str, ...]:
    said = []
    if missing is None:
        said.append("how much slower the GPU is: the driver does not report its clocks")
    if not users:
        said.append("who loses time by this: no traced process is known to use this device")
    return tuple(said)


def _at_cap(device: Device) -> bool:
    """Returns whether the power that the device draws is near its power cap, or not known."""
    drawn, cap = device.power_watts, device.power_limit_watts
    return drawn is None or not cap or drawn >= _AT_CAP * cap


def _power_fixes(device: Device) -> tuple[Fix, ...]:
    now, usual = device.power_limit_watts, device.power_limit_default_watts
    if now and usual and now < usual:
        text = f"set the power cap of GPU {device.index} back to its default, {usual:.0f} W, from {now:.0f} W"
        raised = Fix(text, f"nvidia-smi -i {device.index} -pl {usual:.0f}")
    elif now and device.power_limit_max_watts and now < device.power_limit_max_watts:
        most = f"{device.power_limit_max_watts:.0f}"
        raised = Fix(
            f"raise the power cap of GPU {device.index} from {now:.0f} to {most} W, its highest, where power "
            "and cooling allow it",
            f"nvidia-smi -i {device.index} -pl {most}",
        )
    elif now and device.power_limit_max_watts:
        raised = Fix(
            f"give GPU {device.index} less to do, or accept it: its power cap, {now:.0f} W, is the highest "
            "that the board allows",
            short="accept it: the power cap is the highest of the board",
        )
    else:
        limit = f" above {now:.0f} W" if now else ""
        raised = Fix(
            f"raise the power cap of GPU {device.index}{limit} (nvidia-smi -i {device.index} -pl), where "
            "power and cooling allow it",
            short=f"raise the power cap{limit}",
        )
    command = f"nvidia-smi -i {device.index} -q -d POWER,PERFORMANCE"
    if now and not _at_cap(device):
        text = (
            f"see whether the power cap throttles it at all: GPU {device.index} draws "
            f"{device.power_watts:.0f} of {now:.0f} W"
        )
        look = Fix(text, command, look=True, short="shows whether the cap is reached")
        return (look, replace(raised, command=""))
    text = "see the power caps (Current, Default, Max Power Limit), and how much power the GPU draws"
    return (raised, Fix(text, command, look=True))


def _thermal_fixes(device: Device) -> tuple[Fix, ...]:
    check = f"check fans, air flow and inlet temperature of GPU {device.index}"
    limit, usual = device.power_limit_watts, device.power_limit_default_watts
    now = min(limit or 0.0, device.power_watts or limit or 0.0)
    lower = int(_COOLER * now / _STEP_WATTS) * _STEP_WATTS
    if not limit or (usual and limit < usual) or lower < _LEAST_CAP * limit:
        first = Fix(check)  # it draws little, or somebody lowered its power cap already
    else:
        text = (
            f"until its cooling is repaired, let GPU {device.index} draw {lower} W: slower, but steady clocks"
        )
        command = f"nvidia-smi -i {device.index} -pl {lower}"
        first = Fix(f"{text}; {check}", command, short="slower, but steady clocks; check its fans")
    return (
        first,
        Fix(
            "see temperatures and limits",
            f"nvidia-smi -i {device.index} -q -d TEMPERATURE,PERFORMANCE",
            look=True,
        ),
    )


def _hardware_fixes(device: Device) -> tuple[Fix, ...]:
    return (
        Fix(
            "see which protection holds the clocks down",
            f"nvidia-smi -i {device.index} -q -d PERFORMANCE,POWER,TEMPERATURE",
            look=True,
        ),
        Fix(
            f"check power supply, power cables and the server's power brake for GPU {device.index}; the log "
            "of the BMC says which of them it is",
            "ipmitool sel elist | tail",
            look=True,
        ),
    )


_FIXES: Final = {
    "gpu_power": _power_fixes,
    "gpu_thermal": _thermal_fixes,
    "gpu_hardware_slowdown": _hardware_fixes,
}
