"""Tests the lines of source code in the steps of problems."""

from __future__ import annotations

from dataclasses import replace

from stalltop.diagnosis.lines import KEPT_SECONDS, SourceLines, line_of_other, lines_of
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


GAP = ("docker:aa", 100, "python3", "host", "host gap", False)


def sample(line: int, ns: int, reason: str, *, pid: int = 100) -> StackCount:
    frames = (StackFrame("step", "/app/train.py", line, "python"),)
    row = (*GAP[:1], pid, *GAP[2:])
    return StackCount(*row, reason, 1, ns, frames)  # type: ignore[arg-type]


def between_calls(cause: str, *links: Link) -> Chain:
    """Return a problem about the time between calls of the process with PID 100."""
    effect = Link("effect", "it loses time", depth=0)
    return replace(chain(full_window()), cause=cause, layer=GAP[3], operation=GAP[4], links=(effect, *links))


def test_the_time_between_calls_has_the_lines_in_the_part_that_is_lost() -> None:
    samples = [sample(3, 900, "on_cpu"), sample(4, 500, "gil"), sample(5, 100, "lock"), sample(6, 7, "disk")]
    found = lines_of(between_calls("gil"), [*samples, stack(88, 9_000), sample(9, 9_000, "holds_gil")])
    assert [link.text for link in found] == ["in train.py:4 step", "in train.py:5 step"]
    assert [link.text for link in lines_of(between_calls("host_bound"), samples)] == ["in train.py:3 step"]
    first, *_ = lines_of(between_calls("cpu_contention"), samples)
    assert first.text == "in train.py:3 step", "no sample waited for a CPU"


def test_a_culprit_has_the_line_at_which_it_held_the_lock() -> None:
    culprit = Link("culprit", "thread 7 holds it", tenant="docker:aa", pid=100, depth=2)
    problem = between_calls("gil", culprit)
    stacks = (sample(4, 500, "gil"), sample(11, 80, "holds_gil"), sample(12, 20, "holds_gil"))
    window = replace(full_window(), chains=(problem,), stacks=stacks)
    (found,) = SourceLines().add(window).chains
    assert [(link.role, link.text, link.depth) for link in found.links][1:] == [
        ("line", "in train.py:4 step", 1),
        ("culprit", "thread 7 holds it", 2),
        ("line", "in train.py:11 step", 3),
    ]


def test_a_worker_has_the_line_in_which_it_works() -> None:
    worker = Link("culprit", "worker computes", tenant="docker:aa", pid=5)
    stacks = [sample(2, 50, "hands_over", pid=5), sample(1, 30, "on_cpu", pid=5), sample(3, 9, "disk", pid=5)]
    line = line_of_other(between_calls("loader_cpu"), worker, stacks)
    assert line is not None
    assert (line.text, line.pid, round(line.share or 0, 2)) == ("in train.py:1 step", 5, 0.77)
    late = line_of_other(between_calls("loader_cpu"), worker, stacks[:1])
    assert late is not None
    assert late.text == "in train.py:2 step"
    assert line_of_other(between_calls("loader_cpu"), worker, []) is None


def test_a_rank_that_hangs_itself_has_the_line_of_its_own_call() -> None:
    missing = Link("culprit", "rank 1 has not entered the collective", tenant=ROW[0], pid=7, depth=2)
    stuck = stack(55, 3_000_000_000, pid=7, reason="open")
    found = line_of_other(chain(full_window()), missing, [stuck, stack(88, 920)])
    assert found is not None
    assert (found.text, found.pid) == ("in train.py:55 step, from train.py:41 loop", 7)
    working = sample(60, 10, "disk", pid=7)
    busy = line_of_other(chain(full_window()), missing, [stuck, working])
    assert busy is not None
    assert busy.text.startswith("in train.py:60")
