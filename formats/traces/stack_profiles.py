"""Writes the stacks of slow calls as profiles that viewers of flame graphs open: speedscope's own format, and
collapsed stacks. The weight of a stack is the time in its calls. The operation is the innermost frame.

Sources: https://www.speedscope.app/file-format-schema.json; stackcollapse of
https://github.com/brendangregg/FlameGraph (frames outermost first, semicolons between them, then the weight).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from stalltop.formats.text.chains import name_of
from stalltop.model.stacks.stack import StackCount, StackFrame
from stalltop.model.stacks.sums import MovingStacks
from stalltop.model.tenant import Tenant
from stalltop.model.text.words import with_pid
from stalltop.model.window import Window

_SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"


def collapsed(windows: Iterable[Window]) -> str:
    """Return the stacks of ``windows`` as lines of collapsed stacks; weights in microseconds."""
    stacks, window = _added(windows)
    lines = []
    for stack in stacks:
        frames = [_owner(stack, window), *map(_name, reversed(stack.frames)), stack.operation]
        lines.append(f"{';'.join(frame.replace(';', ':') for frame in frames)} {stack.ns // 1000}\n")
    return "".join(lines)


def speedscope(windows: Iterable[Window]) -> str:
    """Return the stacks of ``windows`` as a file of speedscope: a profile for each process."""
    stacks, window = _added(windows)
    places: dict[StackFrame, int] = {}
    profiles: dict[str, dict[str, Any]] = {}
    for stack in stacks:
        profile = profiles.setdefault(
            _owner(stack, window),
            {"type": "sampled", "unit": "nanoseconds", "startValue": 0, "endValue": 0},
        )
        path = (*reversed(stack.frames), StackFrame(stack.operation, "", 0, "native"))
        profile.setdefault("samples", []).append([places.setdefault(frame, len(places)) for frame in path])
        profile.setdefault("weights", []).append(stack.ns)
        profile["endValue"] += stack.ns
    return json.dumps(
        {
            "$schema": _SCHEMA,
            "exporter": "stalltop",
            "name": f"slow calls on {window.host}" if window is not None else "slow calls",
            "shared": {"frames": [_frame(frame) for frame in places]},
            "profiles": [{"name": name, **profile} for name, profile in profiles.items()],
        }
    )


def _added(windows: Iterable[Window]) -> tuple[tuple[StackCount, ...], Window | None]:
    """Return the stacks of all windows, and the last window with the tenants of all."""
    sums, last = MovingStacks(), None
    tenants: dict[str, Tenant] = {}
    for window in windows:
        sums.add(window.stacks)
        sums.bound()
        tenants.update(window.tenants)
        last = window
    if last is None:
        return (), None
    return sums.sum(last.stacks), replace(last, tenants=tenants)


def _owner(stack: StackCount, window: Window | None) -> str:
    process = with_pid(stack.process, stack.pid)
    return f"{name_of(stack.tenant, window)}: {process}" if window is not None else process


def _name(frame: StackFrame) -> str:
    if frame.line:
        return f"{frame.function} ({frame.place})"
    return frame.function or ("[code compiled at run time]" if frame.language == "jit" else "[unknown]")


def _frame(frame: StackFrame) -> dict[str, Any]:
    told: dict[str, Any] = {"name": frame.function or _name(frame)}
    if frame.file:
        told["file"] = frame.file
    return told | ({"line": frame.line} if frame.line else {})
