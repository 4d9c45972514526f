"""What is wrong or not known in a window, worst first. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from stalltop.model.chain import Chain
from stalltop.model.devices.device import Device
from stalltop.model.text import figures
from stalltop.model.window import LOSSES, UNCOUNTED, OpenCall, Window
from stalltop.tui.tables.groups import HUNG_NS, LONG_OPEN_NS

Level = Literal["bad", "warn", "dim"]
_RANK = {"bad": 0, "warn": 1, "dim": 2}
_HANGS = ("hung_call", "nccl_hang")
"""Causes whose chains tell of calls that do not return."""
_HELD_BACK = ("gpu_power", "gpu_thermal", "gpu_hardware_slowdown", "gpu_clocks")
"""Causes whose chains tell of a device that is held back."""
ORDINARY = ("abandoned", "no_entry", "no_slice")
"""Losses that every day brings, such as calls that began before they were traced: the page lists them."""


@dataclass(frozen=True, slots=True)
class Warn:
    """One warning: a line, and what can be done about it."""

    level: Level
    text: str
    remedy: str = ""
    name: str = ""
    """The part of the text that may be cut first where there is little room."""
    aside: bool = False
    """Nothing is wrong: worth a line only where all of them are listed."""
    standing: bool = False
    """It was so from the start and stays so: who has read it may hide it."""


def warnings(window: Window | None, notes: Sequence[str] = (), *, unicode: bool = True) -> list[Warn]:
    """All warnings about ``window`` that its chains do not tell; ``notes`` are the program's own."""
    found = [Warn("dim", note) for note in notes]
    if window is not None:
        found += _tracing(window)
        found += _open_calls(window, unicode)
        found += _losses(window)
        found += _devices(window)
    return sorted(found, key=lambda warning: _RANK[warning.level])


def long_open(window: Window) -> list[OpenCall]:
    """Outermost calls open, or open at their thread's end, long enough for a word; the longest first."""
    calls = [call for call in window.open_calls if call.age_ns >= LONG_OPEN_NS and not call.nested]
    return sorted(calls, key=lambda call: -call.age_ns)


def named(call: OpenCall, window: Window) -> str:
    """Whose call it is, for a person."""
    tenant = window.tenants.get(call.tenant)
    return f"{tenant.name if tenant else call.tenant}: {call.process} {call.pid}"


def _tracing(window: Window) -> list[Warn]:
    found = []
    if window.coverage.tracing:
        found.append(
            Warn("bad", f"not tracing: {window.coverage.tracing}", "stalltop check says what is needed")
        )
    found += [
        Warn(
            "warn",
            f"not {'traced' if one.untraced else 'known'}: {one.what}: {one.reason}",
            one.remedy,
            one.what,
            standing=True,
        )
        for one in window.coverage.missing
    ]
    found += [Warn("dim", f"not measured: {line}", aside=True) for line in window.evidence.unknown]
    return found


def _open_calls(window: Window, unicode: bool) -> list[Warn]:
    return [
        Warn(
            "bad" if call.age_ns >= HUNG_NS else "warn",
            _open_call(call, window, figures.duration(call.age_ns, unicode=unicode).strip()),
        )
        for call in long_open(window)
        if not any(_tells(chain, call) for chain in window.chains)
    ]


def _tells(chain: Chain, call: OpenCall) -> bool:
    """Whether ``chain`` is about this call."""
    if not chain.open or chain.cause not in _HANGS or call.ended:
        return False
    rows = {(key.tenant, key.pid, key.operation) for key in chain.rows}
    rows.add((chain.tenant, chain.pid, chain.operation))
    return (call.tenant, call.pid, call.operation) in rows


def _open_call(call: OpenCall, window: Window, age: str) -> str:
    if call.ended:
        return f"{named(call, window)} ended inside {call.operation} after {age} (thread {call.tid})"
    return f"{call.operation} open for {age} in {named(call, window)} (thread {call.tid})"


def _losses(window: Window) -> list[Warn]:
    return [
        Warn("bad" if name in UNCOUNTED else "warn", f"{window.loss[name]:,} {meaning}")
        for name, meaning in LOSSES.items()
        if window.loss.get(name) and name not in ORDINARY
    ]


def _devices(window: Window) -> list[Warn]:
    return [
        Warn("warn", f"GPU {device.index} held down: {', '.join(device.throttle_reasons)}")
        for device in window.devices.devices
        if device.throttle_reasons and not any(_names(chain, device) for chain in window.chains)
    ]


def _names(chain: Chain, device: Device) -> bool:
    """Whether ``chain`` is about this device being held back."""
    names = (f"GPU {device.index}", f"GPU{device.index}", device.uuid)
    told = chain.open and chain.cause in _HELD_BACK
    return told and any(link.device in names for link in chain.links)
