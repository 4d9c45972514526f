"""Writes stacks as a profile that pprof opens: a gzip-compressed message of profile.proto.

A sample has the number of calls or waits, and their time in ns. Labels say of which container, process and
operation it is, and why its stack was read. The few kinds of fields that the message needs are encoded here.

Source: https://github.com/google/pprof/blob/main/proto/profile.proto.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from typing import Final

from stalltop.formats.text.chains import name_of
from stalltop.formats.traces.stack_profiles import added, frame_name
from stalltop.model.stacks.stack import StackCount, StackFrame
from stalltop.model.text.words import with_pid
from stalltop.model.window import Window

_VARINT: Final = 0
_BYTES: Final = 2
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
        self._samples: list[bytes] = []

    def add(self, stack: StackCount, window: Window | None) -> None:
        """Add a stack as a sample."""
        places = [self._places.setdefault(frame, len(self._places) + 1) for frame in stack.frames]
        labels = {
            "container": name_of(stack.tenant, window) if window is not None else stack.tenant,
            "process": with_pid(stack.process, stack.pid),
            "operation": stack.operation,
            "reason": stack.reason,
        }
        self._samples.append(
            _packed(1, places)
            + _packed(2, (stack.calls, stack.ns))
            + b"".join(
                _message(3, _number(1, self._text(key)) + _number(2, self._text(value)))
                for key, value in labels.items()
            )
        )

    def message(self, start: float, seconds: float) -> bytes:
        """Return the message Profile."""
        types = [(self._text("calls"), self._text("count")), (self._text("time"), self._text("nanoseconds"))]
        parts = [_message(_SAMPLE_TYPE, _number(1, kind) + _number(2, unit)) for kind, unit in types]
        parts += [_message(_SAMPLE, sample) for sample in self._samples]
        for frame, number in self._places.items():
            line = _number(1, number) + _number(2, frame.line)
            parts.append(_message(_LOCATION, _number(1, number) + _message(4, line)))
            name = self._text(frame.function or frame_name(frame))
            function = _number(1, number) + _number(2, name) + _number(3, name)
            parts.append(_message(_FUNCTION, function + _number(4, self._text(frame.file))))
        parts += [_number(_TIME_NS, int(start * 1e9)), _number(_DURATION_NS, int(seconds * 1e9))]
        parts.append(_number(_DEFAULT_TYPE, self._text("time")))
        parts += [_message(_STRINGS, text.encode("utf-8", "replace")) for text in self._texts]
        return b"".join(parts)

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _number(field: int, number: int) -> bytes:
    """Return an integer field; nothing if it is 0, which is the default."""
    return _varint(field << 3 | _VARINT) + _varint(number) if number else b""


def _message(field: int, content: bytes) -> bytes:
    """Return a field with a message or a text."""
    return _varint(field << 3 | _BYTES) + _varint(len(content)) + content


def _packed(field: int, numbers: Iterable[int]) -> bytes:
    return _message(field, b"".join(map(_varint, numbers)))
