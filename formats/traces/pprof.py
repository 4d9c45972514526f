"""Writes stacks as a profile that pprof opens: a gzip-compressed message of profile.proto.

A sample has the number of calls or waits, and their time in ns. Labels say of which container, process and
operation it is, and why its stack was read.

Source: https://github.com/google/pprof/blob/main/proto/profile.proto.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable

from stalltop.formats.protobuf import Field, encoded
from stalltop.formats.text.chains import name_of
from stalltop.formats.traces.stack_profiles import added, frame_name
from stalltop.model.stacks.stack import StackCount, StackFrame
from stalltop.model.text.words import with_pid
from stalltop.model.window import Window

# Numbers of fields of the message Profile, and of the messages in it.
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRINGS = 1, 2, 4, 5, 6
_TIME_NS, _DURATION_NS, _DEFAULT_TYPE = 9, 10, 14


def pprof(windows: Iterable[Window]) -> bytes:
    """Return the stacks of ``windows`` as a profile."""
    found = added(windows)
    profile = _Profile()
    for stack in found.stacks:
        profile.add(stack, found.last)
    return gzip.compress(profile.message(found.start, found.seconds), mtime=0)


class _Profile:
    """Numbers the texts, functions and locations of a profile."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {"": 0}
        self._places: dict[StackFrame, int] = {}
        self._samples: list[Field] = []

    def add(self, stack: StackCount, window: Window | None) -> None:
        """Add a stack as a sample."""
        places = [self._places.setdefault(frame, len(self._places) + 1) for frame in stack.frames]
        labels = {
            "container": name_of(stack.tenant, window) if window is not None else stack.tenant,
            "process": with_pid(stack.process, stack.pid),
            "operation": stack.operation,
            "reason": stack.reason,
        }
        parts: list[Field] = [(1, places), (2, (stack.calls, stack.ns))]
        parts += [
            (3, encoded([(1, self._text(key)), (2, self._text(value))])) for key, value in labels.items()
        ]
        self._samples.append((_SAMPLE, encoded(parts)))

    def message(self, start: float, seconds: float) -> bytes:
        """Return the message Profile."""
        types = [(self._text("calls"), self._text("count")), (self._text("time"), self._text("nanoseconds"))]
        parts: list[Field] = [(_SAMPLE_TYPE, encoded([(1, kind), (2, unit)])) for kind, unit in types]
        parts += self._samples
        for frame, number in self._places.items():
            line = encoded([(1, number), (2, frame.line)])
            parts.append((_LOCATION, encoded([(1, number), (4, line)])))
            name = self._text(frame.function or frame_name(frame))
            function = encoded([(1, number), (2, name), (3, name), (4, self._text(frame.file))])
            parts.append((_FUNCTION, function))
        parts += [(_TIME_NS, int(start * 1e9)), (_DURATION_NS, int(seconds * 1e9))]
        parts.append((_DEFAULT_TYPE, self._text("time")))
        parts += [(_STRINGS, text) for text in self._texts]
        return encoded(parts)

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))
