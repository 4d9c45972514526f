"""Tests that a stack is named without a question if the functions of its addresses are known."""

from __future__ import annotations

import ctypes
import os
import time

import pytest

from stalltop.model.stacks.stack import StackFrame
from stalltop.probes.stack_reading import known_code
from stalltop.probes.stack_reading.known_code import KnownCode
from stalltop.probes.stacks.native_frames import NativeFrame, NativeFrames, NativeStack

STEP = NativeFrame(b"step", "/a.so", 0x120, 0x1100, 0x1200)
RUN = NativeFrame(b"run", "/a.so", 0x350, 0x1300, 0x1400)
NAMELESS = NativeFrame(b"", "/a.so", 0x520, 0x1500, 0x1600)


def shown(frame: NativeFrame) -> StackFrame:
    return StackFrame(frame.symbol.decode() or f"a.so+{frame.offset:#x}", frame.file, 0, "native")


@pytest.fixture
def code() -> KnownCode:
    known = KnownCode(shown)
    known.learn((0x1120, 0x1350, 0x9999), NativeStack((STEP, RUN), (0, 0)))
    return known


def test_another_instruction_of_the_same_function_needs_no_question(code: KnownCode) -> None:
    stack = code.stack((0x1120, 0x1350, 0x9999))
    assert stack == (shown(STEP), shown(RUN)), "the third address follows no call"
    for address in (0x1101, 0x1188, 0x1200):  # the byte before it lies in the function
        assert code.stack((address, 0x1350, 0x9999)) == stack
        assert code.stack((address,)) == stack[:1]


def test_the_outermost_function_has_no_caller(code: KnownCode) -> None:
    assert (
        code.stack((0x1120, 0x1350, 0))
        == code.stack((0x1120, 0x1350, 0x9999))
        == tuple(map(shown, (STEP, RUN)))
    )
    assert code.stack((0, 0x1350)) is None, "a thread that runs at 0 is about to fail"


def test_what_is_not_known_has_to_be_asked(code: KnownCode) -> None:
    assert code.stack((0x1100,)) is None, "the byte before it lies in another function"
    assert code.stack((0x1201,)) is None
    assert code.stack((0x10,)) is None
    assert code.stack((0x1120, 0x1360)) is None, "an outer frame may follow no call, though its code is known"
    assert code.stack(()) == ()


def test_code_without_a_name_has_its_own_offset(code: KnownCode) -> None:
    code.learn((0x1520,), NativeStack((NAMELESS,), (0, 0)))
    assert [frame.function for frame in code.stack((0x1520,)) or ()] == ["a.so+0x520"]
    assert [frame.function for frame in code.stack((0x15F0,)) or ()] == ["a.so+0x5f0"]


def test_a_stack_without_frames_teaches_nothing() -> None:
    known = KnownCode(shown)
    known.learn((0x1120, 0x1350), NativeStack((), (0, 0)))
    assert known.stack((0x1120,)) is None


def test_addresses_in_memory_without_code_end_a_stack(
    code: KnownCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert code.stack((0x1120, 0x8100)) is None
    code.learn((0x1120, 0x8100), NativeStack((STEP,), (0x8000, 0x9000)))
    for address in (0x8001, 0x8FFF, 0x9000):  # the byte before it counts
        assert code.stack((0x1121, address)) == (shown(STEP),)
        assert code.stack((address,)) == ()
    assert code.stack((0x1120, 0x9001)) is None
    now += known_code.KEPT_SECONDS + 1
    for address in (0x8100, 0x8200):
        assert code.stack((0x1120, address)) is None, "a compiler may have written code there"
    compiled = NativeFrame(b"kernel_1", "", 0, 0x8000, 0x9000)
    code.learn((0x8100,), NativeStack((compiled,), (0, 0)))
    assert code.stack((0x8200,)) == (shown(compiled),)
    now += known_code.KEPT_SECONDS + 1
    assert code.stack((0x8200,)) is None, "a compiler may have put other code there"
    assert code.stack((0x1121,)) == (shown(STEP),)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_code, "MOST_KNOWN", 8)
    known = KnownCode(shown)
    for at in range(0, 100_000, 32):
        frame = NativeFrame(b"", "", 0, at, at + 16)
        known.learn((at + 1, at + 2), NativeStack((frame, frame), (0, 0)))
        assert known.stack((at + 1, at + 2)) == (shown(frame),) * 2
        assert len(known._starts) == len(known._code) <= 9
        assert len(known._follows) <= 9


def test_real_code_is_named_alike_at_each_address() -> None:
    libc = ctypes.CDLL(None)
    begins = ctypes.cast(libc.qsort, ctypes.c_void_p).value or 0
    asks = NativeFrames()
    known = KnownCode(shown)
    answer = asks.stack(os.getpid(), (begins + 3,))
    first = answer.frames
    known.learn((begins + 3,), answer)
    assert first[0].start <= begins + 2 < first[0].end
    same = 0
    for address in range(begins - 64, begins + 128):
        known_now, asked = known.stack((address,)), asks.stack(os.getpid(), (address,)).frames
        if known_now is not None:
            same += 1
            assert known_now == tuple(map(shown, asked))
        else:
            assert asked[0].symbol != first[0].symbol
    assert same >= 8
