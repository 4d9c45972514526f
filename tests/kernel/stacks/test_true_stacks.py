"""Tests stacks of calls, line by line, against those that the calling programs record themselves."""

from __future__ import annotations

import bisect
import json
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from tests.kernel.stacks.tracing import Collecting, compile_library, tracing
from tests.unit.probes.stacks.interpreters import interpreters

CALLER = Path(__file__).with_name("python_caller.py")
ROUNDS = 300
LEAST_SHARE = 0.995


_Frame = tuple[str, str, int]


def _are_parts(frames: list[_Frame], recorded: list[_Frame]) -> bool:
    """Return whether ``frames`` are those that were recorded, except for frames that are not known."""
    return all(one in (true, ("", "", 0)) for one, true in zip(frames, recorded, strict=True))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_library(tmp_path_factory.mktemp("worked"))


@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_stacks_are_those_that_the_calls_recorded(interpreter: Path, library: Path, tmp_path: Path) -> None:
    record = tmp_path / "stacks.json"
    with tracing(library) as kernel:
        with Collecting(kernel) as collecting:
            program = subprocess.Popen(
                [interpreter, "-I", CALLER, library, record, str(ROUNDS)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert program.stdin is not None
            assert program.stdout is not None
            program.stdout.readline()
            collecting.settle()
            program.stdin.write("begin\n")
            program.stdin.flush()
            program.stdout.readline()
        program.communicate("end\n", timeout=60)
        assert kernel.losses()["no_stack"] == 0
    recorded = defaultdict(list)
    for tid, begun, stack, _ in json.loads(record.read_text()):
        recorded[tid].append((begun, [tuple(frame) for frame in stack]))
    right = wrong = incomplete = without = 0
    for (tid, start_ns), stack in collecting.stacks.items():
        calls = recorded[tid]
        at = bisect.bisect_right(calls, start_ns, key=lambda call: call[0]) - 1
        frames = [
            (frame.function, frame.file, frame.line) for frame in stack.frames if frame.language == "python"
        ]
        if not frames:
            without += 1  # the first calls of a thread, before its state is known
        elif frames == calls[at][1]:
            right += 1
            assert (len(frames) == 64) == bool(stack.cut) or len(frames) < 64
        elif ("", "", 0) in frames and _are_parts(frames, calls[at][1]):
            incomplete += 1  # made by code that was gone at once
            assert stack.cut
        else:
            wrong += 1
    assert right >= LEAST_SHARE * (right + wrong)
    assert right + wrong + incomplete + without > 0.9 * sum(map(len, recorded.values()))
    assert right > sum(map(len, recorded.values())) / 2
