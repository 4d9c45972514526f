"""Writes stacks as profiles that viewers of flame graphs open: speedscope's own format, and collapsed stacks.

Each process has a profile of its slow calls, in which the weight of a stack is the time in its calls, and one
of its threads, in which the weight is the time that they ran or waited there. The innermost frame is the
operation or, of threads, what they did.

Sources: https://www.speedscope.app/file-format-schema.json; stackcollapse of
https://github.com/brendangregg/FlameGraph (frames outermost first, semicolons between them, then the weight).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from stalltop.formats.text.chains import name_of
from stalltop.model.stacks.stack import HOLDS, OF_CALLS, REASONS, StackCount, StackFrame
from stalltop.model.stacks.sums import MovingStacks
from stalltop.model.tenant import Tenant
from stalltop.model.text.words import with_pid
from stalltop.model.window import Window

_SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"


def collapsed(windows: Iterable[Window]) -> str:
    """Return the stacks of ``windows`` as lines of collapsed stacks; weights in microseconds."""
    found = added(windows)
    stacks, window = found.stacks, found.last
    lines = []
    for stack in stacks:
        frames = [*_owner(stack, window), *map(frame_name, reversed(stack.frames)), _last(stack)]
        lines.append(f"{';'.join(frame.replace(';', ':') for frame in frames)} {stack.ns // 1000}\n")
    return "".join(lines)


def speedscope(windows: Iterable[Window]) -> str:
    """Return the stacks of ``windows`` as a file of speedscope: a profile for each process."""
    found = added(windows)
    stacks, window = found.stacks, found.last
    places: dict[StackFrame, int] = {}
    profiles: dict[str, dict[str, Any]] = {}
    for stack in stacks:
        profile = profiles.setdefault(
            ": ".join(_owner(stack, window)),
            {"type": "sampled", "unit": "nanoseconds", "startValue": 0, "endValue": 0},
        )
        path = (*reversed(stack.frames), StackFrame(_last(stack), "", 0, "native"))
        profile.setdefault("samples", []).append([places.setdefault(frame, len(places)) for frame in path])
        profile.setdefault("weights", []).append(stack.ns)
        profile["endValue"] += stack.ns
    return json.dumps(
        {
            "$schema": _SCHEMA,
            "exporter": "stalltop",
            "name": f"stacks on {window.host}" if window is not None else "stacks",
            "shared": {"frames": [_frame(frame) for frame in places]},
            "profiles": [{"name": name, **profile} for name, profile in profiles.items()],
        }
    )


class AddedStacks(NamedTuple):
    """The stacks of several windows."""

    stacks: tuple[StackCount, ...]
    last: Window | None
    """The last window, with the tenants of all; None without windows."""
    start: float
    """Start of the first window, Unix seconds."""
    seconds: float
    """From there to the end of the last one."""


def added(windows: Iterable[Window]) -> AddedStacks:
    """Return the stacks of all windows."""
    sums, last, start = MovingStacks(), None, None
    tenants: dict[str, Tenant] = {}
    for window in windows:
        sums.add(window.stacks)
        sums.bound()
        tenants.update(window.tenants)
        start, last = window.start if start is None else min(start, window.start), window
    if last is None or start is None:
        return AddedStacks((), None, 0.0, 0.0)
    return AddedStacks(sums.sum(last.stacks), replace(last, tenants=tenants), start, last.end - start)


def _owner(stack: StackCount, window: Window | None) -> tuple[str, str]:
    """Returns the name of the process, and what its profile is about."""
    process = with_pid(stack.process, stack.pid)
    about = "slow calls" if stack.reason in OF_CALLS else "threads"
    about = "holders" if stack.reason in HOLDS else about
    return (f"{name_of(stack.tenant, window)}: {process}" if window is not None else process), about


def _last(stack: StackCount) -> str:
    """Returns the name of the innermost frame."""
    return stack.operation if stack.reason in OF_CALLS else f"[{REASONS[stack.reason]}]"


def frame_name(frame: StackFrame) -> str:
    """Return a frame as profiles name it: the function with its place."""
    if frame.line:
        return f"{frame.function} ({frame.place})"
    return frame.function or ("[code compiled at run time]" if frame.language == "jit" else "[unknown]")


def _frame(frame: StackFrame) -> dict[str, Any]:
    told: dict[str, Any] = {"name": frame.function or frame_name(frame)}
    if frame.file:
        told["file"] = frame.file
    return told | ({"line": frame.line} if frame.line else {})
