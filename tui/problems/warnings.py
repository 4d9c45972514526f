"""Warnings about a window that are not problems of their own, the worst first. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from stalltop.model.chain import Chain
from stalltop.model.devices.device import Device
from stalltop.model.text import figures
from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.model.text.words import counted, with_pid
from stalltop.model.window import LOSSES, ORDINARY, UNCOUNTED, OpenCall, Window
from stalltop.tui.views.groups import HUNG_NS, LONG_OPEN_NS

Level = Literal["bad", "warn", "dim"]
_RANK = {"bad": 0, "warn": 1, "dim": 2}
_HANGS = ("hung_call", "nccl_hang")
"""Causes of chains about calls that do not return."""
_HELD_BACK = ("gpu_power", "gpu_thermal", "gpu_hardware_slowdown", "gpu_clocks")
"""Causes of chains about a throttled device."""


@dataclass(frozen=True, slots=True)
class Warn:
    """A warning: its text, and what the user can do."""

    level: Level
    text: str
    remedy: str = ""
    name: str = ""
    """A part of ``text``. If there is little room, this part is cut first."""
    aside: bool = False
    """Whether the warning is only information, not a fault. The list shows it only while the list has the
    focus."""
    standing: bool = False
    """Whether the condition has existed since the start. The user may silence such a warning after reading
    it."""


def warnings(window: Window | None, notes: Sequence[str] = (), glyphs: Glyphs = UNICODE) -> list[Warn]:
    """Return ``notes`` of the program, and all warnings about ``window`` that none of its chains contains."""
    found = [Warn("dim", note) for note in notes]
    if window is not None:
        found += _tracing(window)
        found += _open_calls(window, glyphs)
        found += _losses(window)
        found += _devices(window)
    return sorted(found, key=lambda warning: _RANK[warning.level])


def long_open(window: Window) -> list[OpenCall]:
    """Return the outermost calls that are open for at least ``LONG_OPEN_NS``, the longest first. They include
    calls whose thread ended inside the call."""
    calls = [call for call in window.open_calls if call.age_ns >= LONG_OPEN_NS and not call.nested]
    return sorted(calls, key=lambda call: -call.age_ns)


def named(call: OpenCall, window: Window) -> str:
    """Return the tenant, process and PID of a call as text."""
    tenant = window.tenants.get(call.tenant)
    return f"{tenant.name if tenant else call.tenant}: {with_pid(call.process, call.pid)}"


def _tracing(window: Window) -> list[Warn]:
    found = []
    if window.coverage.tracing:
        found.append(
            Warn("bad", f"not tracing: {window.coverage.tracing}", "`stalltop check` says what is needed")
        )
    found += [
        Warn(
            "warn",
            f"over budget: {one.what}: {one.reason}"
            if one.cost
            else f"not {'traced' if one.untraced else 'known'}: {one.what}: {one.reason}",
            one.remedy,
            one.what,
            standing=not one.cost,
        )
        for one in window.coverage.missing
    ]
    found += [Warn("dim", f"not measured: {line}", aside=True) for line in window.evidence.unknown]
    return found


def _open_calls(window: Window, glyphs: Glyphs) -> list[Warn]:
    return [
        Warn(
            "bad" if call.age_ns >= HUNG_NS else "warn",
            _open_call(call, window, figures.duration(call.age_ns, glyphs).strip()),
        )
        for call in long_open(window)
        if not any(_tells(chain, call) for chain in window.chains)
    ]


def _tells(chain: Chain, call: OpenCall) -> bool:
    """Return whether ``chain`` is an open problem about ``call``."""
    if not chain.open or chain.cause not in _HANGS or call.ended:
        return False
    rows = {(key.tenant, key.pid, key.operation) for key in chain.rows}
    rows.add((chain.tenant, chain.pid, chain.operation))
    return (call.tenant, call.pid, call.operation) in rows


def _open_call(call: OpenCall, window: Window, age: str) -> str:
    if call.ended:
        return f"{named(call, window)}: thread ended inside {call.operation} after {age} (thread {call.tid})"
    return f"{call.operation} open for {age} in {named(call, window)} (thread {call.tid})"


def _losses(window: Window) -> list[Warn]:
    return [
        Warn("bad" if name in UNCOUNTED else "warn", counted(window.loss[name], meaning))
        for name, meaning in LOSSES.items()
        if window.loss.get(name) and name not in ORDINARY
    ]


def _devices(window: Window) -> list[Warn]:
    return [
        Warn("warn", f"GPU {device.index} throttled: {', '.join(device.throttle_reasons)}")
        for device in window.devices.devices
        if device.throttle_reasons and not any(_names(chain, device) for chain in window.chains)
    ]


def _names(chain: Chain, device: Device) -> bool:
    """Return whether ``chain`` is an open problem about the throttling of ``device``."""
    names = (f"GPU {device.index}", f"GPU{device.index}", device.uuid)
    told = chain.open and chain.cause in _HELD_BACK
    return told and any(link.device in names for link in chain.links)
