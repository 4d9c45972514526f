"""Finds the stack of each captured call of a window, as far as that is certain: windows add up the calls of a
row that have the same stack."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from stalltop.formats.traces.stack_profiles import frame_name
from stalltop.model.calls import CapturedCall
from stalltop.model.stacks.stack import OF_CALLS, StackCount
from stalltop.model.text.figures import printable
from stalltop.model.window import Window

_Which = tuple[tuple[str, int, str, str, str, bool, str], str]
"""A row without its host, and why its calls were captured."""


class CallStacks:
    """The stacks of the captured calls of a window."""

    def __init__(self, window: Window) -> None:
        self._stacks: Final[dict[_Which, list[StackCount]]] = defaultdict(list)
        for stack in window.stacks:
            if stack.reason in OF_CALLS:
                self._stacks[stack.row, stack.reason].append(stack)
        self._calls = Counter(_which(call) for call in window.calls.kept) if self._stacks else Counter()

    def of(self, call: CapturedCall) -> list[str] | None:
        """Returns the frames of the stack of a captured call, innermost first; None if it is not certain."""
        which = _which(call)
        among = self._stacks.get(which, [])
        found = [stack for stack in among if stack.calls == 1 and stack.ns == call.duration_ns]
        # If all calls have their stacks, the others are those that are added up.
        if not found and sum(stack.calls for stack in among) == self._calls[which]:
            found = [stack for stack in among if stack.calls > 1]
        return [printable(frame_name(frame)) for frame in found[0].frames] if len(found) == 1 else None


def _which(call: CapturedCall) -> _Which:
    row = call.tenant, call.pid, call.process, call.layer, call.operation, call.nested, call.device
    return row, call.why
