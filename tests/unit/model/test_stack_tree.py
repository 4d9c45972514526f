"""Tests the tree of the functions in which threads spent their time."""

from __future__ import annotations

from stalltop.model.stacks.stack import StackCount, StackFrame, StackReason
from stalltop.model.stacks.tree import Branch, Moment, tree

MAIN, STEP, READ = (
    StackFrame(name, "/a.py", line, "python") for name, line in (("main", 1), ("step", 5), ("Read", 9))
)


def stack(reason: StackReason, ns: int, *inwards: StackFrame) -> StackCount:
    return StackCount("t", 1, "p", "host", "host gap", False, reason, 1, ns, inwards[::-1])


STACKS = (
    stack("on_cpu", 600, MAIN, STEP),
    stack("gil", 100, MAIN, STEP),
    stack("disk", 300, MAIN, READ),
    stack("slow", 9_000, MAIN),
    stack("holds_gil", 9_000, MAIN),
)


def always(branch: Branch, share: float) -> bool:
    return True


def names(branches: list[Branch]) -> list[tuple[int, str]]:
    return [(len(branch.path), branch.frame.function) for branch in branches]


def test_branches_have_the_time_of_all_that_they_called_by_part() -> None:
    whole, branches = tree(Moment(STACKS, 2.0), always)
    assert whole == 500
    assert names(branches) == [(1, "main"), (2, "step"), (2, "Read")]
    main, step, read = branches
    assert (main.time, main.running, main.inside, main.unfolded) == (500, 300, True, True)
    assert (step.time, step.running, step.inside) == (350, 300, False)
    assert (read.time, read.running) == (150, 0)


def test_only_unfolded_branches_show_what_is_inside() -> None:
    _, branches = tree(Moment(STACKS, 1.0), lambda branch, share: False)
    assert [(branch.frame, branch.inside, branch.unfolded) for branch in branches] == [(MAIN, True, False)]


def test_branches_without_a_notable_share_are_left_out() -> None:
    few = stack("on_cpu", 2, MAIN, READ)
    _, branches = tree(Moment((STACKS[0], few), 1.0), always)
    assert names(branches) == [(1, "main"), (2, "step")]


def test_the_filter_keeps_stacks_that_have_all_words() -> None:
    assert names(tree(Moment(STACKS, 1.0), always, words=("READ", "a.py"))[1]) == [(1, "main"), (2, "Read")]
    assert tree(Moment(STACKS, 1.0), always, words=("step", "a.py:9")) == (0, [])


def test_of_two_moments_the_branch_that_changed_most_comes_first() -> None:
    before = Moment((stack("on_cpu", 1_200, MAIN, STEP), stack("disk", 50, MAIN, READ)), 2.0)
    _, branches = tree(Moment(STACKS, 1.0), always, before=before)
    assert names(branches) == [(1, "main"), (2, "Read"), (2, "step")]
    assert [(branch.before, branch.change) for branch in branches] == [(625, 375), (25, 275), (600, 100)]


def test_a_line_that_is_gone_is_still_there_when_moments_are_compared() -> None:
    _, branches = tree(Moment((), 1.0), always, before=Moment(STACKS, 1.0))
    assert [(branch.time, branch.before) for branch in branches] == [(0, 1_000), (0, 700), (0, 300)]
