"""Remembers the functions in which code addresses of a process lie.

A thread that is sampled is at another instruction each time, but in one of few functions, which were called
from few places. So after some samples, stacks get their names without a question to the confined process.
"""

from __future__ import annotations

import bisect
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from stalltop.model.stacks.stack import StackFrame
from stalltop.probes.stacks.native_frames import NativeFrame, NativeStack

MOST_KNOWN: Final = 4096
"""Maximum number of functions of a process, and of places that call, which are remembered."""


KEPT_SECONDS: Final = 10.0
"""Time for which memory without code, and code that a program compiled while it ran, is remembered, s: either
may become other code without being mapped anew."""
_MOST_NOTHING: Final = 16


class _KnownFunction(NamedTuple):
    """Code that lies in one function."""

    address: int
    """The address that was looked up."""
    at: float
    """When it was looked up (``time.monotonic()``)."""
    frame: NativeFrame
    shown: StackFrame


class KnownCode:
    """What is known of the native code of one process. ``shown`` makes a frame as it is shown."""

    def __init__(self, shown: Callable[[NativeFrame], StackFrame]) -> None:
        self._shown = shown
        self._starts: list[int] = []
        self._code: dict[int, _KnownFunction] = {}
        """By the address where it begins."""
        self._nothing: deque[tuple[int, int, float]] = deque(maxlen=_MOST_NOTHING)
        """Memory and holes without code: begin, end, and when that was known (``time.monotonic()``)."""
        self._follows: dict[int, bool] = {}
        """By address of an outer frame: whether the stack goes on there (`NativeFrames`)."""

    def __len__(self) -> int:
        """Returns how many functions, and places that call, are remembered."""
        return len(self._code) + len(self._follows)

    def stack(self, addresses: Sequence[int]) -> tuple[StackFrame, ...] | None:
        """Returns the frames of a stack; None if one of its addresses is not known."""
        frames: list[StackFrame] = []
        for address in addresses:
            follows = self._follows.get(address) if frames else True
            # The outermost function of a thread has no caller: often, 0 is where its return address would be.
            if follows is False or (frames and not address):
                break
            code = self._at(address) if follows else None
            if code is None:
                if self._is_in_nothing(address):
                    break
                return None
            frame = code.frame
            if frame.symbol or not frame.file or address == code.address:
                frames.append(code.shown)
            else:
                offset = frame.offset + address - code.address
                frames.append(self._shown(frame._replace(offset=offset)))
        return tuple(frames)

    def learn(self, addresses: Sequence[int], stack: NativeStack) -> None:
        """Remembers the answer about a stack, which may end before its addresses do."""
        frames = stack.frames
        if stack.nothing[1]:
            # Linux follows frame pointers: where code keeps none, it reads any value as an address.
            self._nothing.append((*stack.nothing, time.monotonic()))
        if not frames:
            return
        if len(self._code) > MOST_KNOWN or len(self._follows) > MOST_KNOWN:
            self._starts.clear()
            self._code.clear()
            self._follows.clear()
        self._follows |= dict.fromkeys(addresses[1 : len(frames)], True)
        if not stack.nothing[1]:
            self._follows |= dict.fromkeys(addresses[len(frames) : len(frames) + 1], False)
        for address, frame in zip(addresses, frames, strict=False):
            if self._at(address) is None:
                if frame.start not in self._code:
                    bisect.insort(self._starts, frame.start)
                self._code[frame.start] = _KnownFunction(address, time.monotonic(), frame, self._shown(frame))

    def _is_in_nothing(self, address: int) -> bool:
        oldest = time.monotonic() - KEPT_SECONDS
        return any(start < address <= end and at >= oldest for start, end, at in self._nothing)

    def _at(self, address: int) -> _KnownFunction | None:
        # A frame's address is behind its call, which may be the last instruction of its function.
        before = address - 1
        place = bisect.bisect_right(self._starts, before) - 1
        if place < 0:
            return None
        code = self._code[self._starts[place]]
        if before >= code.frame.end:
            return None
        is_old = not code.frame.file and time.monotonic() - code.at > KEPT_SECONDS
        return None if is_old else code
