"""Tests the page with the lines in which threads spend their time, driven by keys."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.model.stacks.stack import StackCount, StackFrame, StackReason
from stalltop.model.window import Window
from stalltop.tui.stacks.table import TreeChoices, stack_table
from stalltop.widgets.table import Table
from tests.tui.screen import Screen, running
from tests.windows.full import full_window

MAIN = StackFrame("main", "/app/train.py", 41, "python")
STEP = StackFrame("step", "/app/train.py", 88, "python")
LOAD = StackFrame("load", "/app/data.py", 12, "python")
OPEN = StackFrame("", "", 0, "jit")


def sample(reason: StackReason, seconds: float, *inwards: StackFrame, pid: int = 100) -> StackCount:
    row = ("docker:aa", pid, "python3", "host", "host gap", False)
    return StackCount(*row, reason, 1, int(1e9 * seconds), inwards[::-1])


def window(*stacks: StackCount) -> Window:
    return replace(full_window(), stacks=stacks)


FIRST = window(
    sample("on_cpu", 6.0, MAIN, STEP),
    sample("lock", 2.0, MAIN, STEP),
    sample("disk", 1.0, MAIN, LOAD, OPEN),
    sample("disk", 9.0, LOAD, pid=4_242),
)


def rows(screen: Screen) -> list[str]:
    table = screen.app.screen.query_one("#list", Table)
    return [row.cells[0].text for row in table.data.rows]


async def opened(screen: Screen) -> None:
    """Open the page of the process with PID 100."""
    await screen.press("p", "slash", *"python3", "enter")
    await screen.until(lambda: screen.names()[:1] == ["python3 100"], "no row of the process")
    await screen.press("home", "F")


@pytest.mark.asyncio
async def test_the_tree_unfolds_and_is_filtered() -> None:
    async with running(FIRST) as screen:
        await opened(screen)
        await screen.sees("threads ran and waited")
        assert rows(screen) == ["- train.py:41  main", "   train.py:88  step", " + data.py:12  load"]
        await screen.press("end", "enter")
        assert rows(screen)[-1] == "    code compiled at run time"
        await screen.press("home", "full_stop")
        assert rows(screen) == ["+ train.py:41  main"]
        await screen.press("asterisk")
        assert len(rows(screen)) == 4
        await screen.press("slash", *"data", "enter")
        assert rows(screen)[1:] == [" - data.py:12  load", "    code compiled at run time"]
        await screen.sees("filter: data")
        await screen.press("slash", "escape")
        assert len(rows(screen)) == 4
        await screen.press("F")
        await screen.until(lambda: screen.app.screen is screen.app.main, "the page is still open")


@pytest.mark.asyncio
async def test_two_moments_are_side_by_side() -> None:
    async with running(FIRST) as screen:
        await opened(screen)
        await screen.press("x")
        await screen.sees("m marks the moment shown")
        await screen.press("m")
        await screen.sees("marked")
        later = window(sample("on_cpu", 6.0, MAIN, STEP), sample("disk", 5.0, MAIN, LOAD))
        await screen.feed(replace(later, start=FIRST.end))
        await screen.press("x")
        await screen.sees("changes since")
        table = screen.app.screen.query_one("#list", Table)
        heads = [column.title for column in table.data.columns]
        assert heads[:4] == ["LINE", "BEFORE", "TIME/s", "CHANGE"]
        assert rows(screen)[1] == " - data.py:12  load", "the line that became slower most comes first"


def test_bars_tell_running_from_waiting() -> None:
    data = stack_table(FIRST, (), TreeChoices(), width=160)
    (bar,) = (row.cells[-1].parts for row in data.rows if row.label.startswith("train.py:88"))
    assert {role for _, role in bar} >= {"running_line", "lock_line"}
    assert [text for text, _ in data.legend if text.strip() in ("run", "lock", "disk", "net")] != []


@pytest.mark.parametrize(
    ("one", "choices", "said"),
    [
        (window(), TreeChoices(), "No stack of a thread was read"),
        (FIRST, TreeChoices(words=("nothing",)), "No stack has these words."),
        (window(sample("slow", 1.0, MAIN)), TreeChoices(), "No stack of a thread of these processes"),
    ],
)
def test_an_empty_tree_says_why(one: Window, choices: TreeChoices, said: str) -> None:
    data = stack_table(one, (), choices, width=100)
    assert not data.rows
    assert data.empty[0].startswith(said)
