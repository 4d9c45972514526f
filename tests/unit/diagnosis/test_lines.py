"""Tests the lines of source code in the steps of problems."""

from __future__ import annotations

from dataclasses import replace

from stalltop.diagnosis.lines import KEPT_SECONDS, SourceLines, lines_of
from stalltop.model.chain import Chain, Link
from stalltop.model.stacks.stack import StackCount, StackFrame
from stalltop.model.window import Window
from tests.windows.full import full_window

ROW = ("docker:aa", 100, "python3", "driver", "cuStreamSynchronize", False)


def stack(line: int, ns: int, *, pid: int = 100, reason: str = "slow") -> StackCount:
    frames = (
        StackFrame("sync", "/lib/libtorch.so", 0, "native"),
        StackFrame("step", "/app/train.py", line, "python"),
        StackFrame("loop", "/app/train.py", 41, "python"),
    )
    row = (*ROW[:1], pid, *ROW[2:])
    return StackCount(*row, reason, 1, ns, frames)  # type: ignore[arg-type]


def chain(window: Window) -> Chain:
    """Return a problem of the process with PID 100."""
    return replace(
        window.chains[0],
        tenant=ROW[0],
        pid=100,
        layer=ROW[3],
        operation=ROW[4],
        rows=(),
        links=(Link("effect", "it waits", depth=0), Link("mechanism", "for the disk")),
        open=True,
    )


def test_a_line_has_its_share_of_the_slow_calls_and_its_caller() -> None:
    problem = chain(full_window())
    found = lines_of(
        problem, [stack(88, 920), stack(90, 80), stack(7, 9_000, pid=5), stack(1, 1, reason="open")]
    )
    assert [link.text for link in found] == [
        "in train.py:88 step, from train.py:41 loop",
        "in train.py:90 step, from train.py:41 loop",
    ]
    assert round(found[0].share or 0, 2) == 0.92


def test_random_calls_do_not_count() -> None:
    assert lines_of(chain(full_window()), [stack(88, 920, reason="sample")]) == ()


def test_lines_follow_the_effect_and_stay_for_a_while() -> None:
    lines, window = SourceLines(), full_window()
    problem = chain(window)
    first = lines.add(replace(window, chains=(problem,), stacks=(stack(88, 100),)))
    assert [link.role for link in first.chains[0].links] == ["effect", "line", "mechanism"]
    soon = replace(window, start=window.end, chains=(problem,), stacks=())
    assert [link.role for link in lines.add(soon).chains[0].links] == ["effect", "line", "mechanism"]
    later = replace(window, start=window.end + KEPT_SECONDS + 1, chains=(problem,), stacks=())
    assert [link.role for link in lines.add(later).chains[0].links] == ["effect", "mechanism"]
