"""Tests the keys that go from warnings to chains, from chains to rows, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from stalltop.model.chain import Fix
from stalltop.model.window import Missing
from stalltop.tui.chain.screen import ChainScreen
from stalltop.tui.screens.run_options import RunOptions
from stalltop.widgets.alerts import AlertList
from stalltop.widgets.table import Table
from tests.tui.faults import LATE, LAUNCH, OVER, STARVED, STORM, chain, faulty
from tests.tui.screen import running
from tests.tui.sources import numbered

CHAINS = (LATE, STARVED, STORM, OVER)


@pytest.mark.parametrize(("size", "lines"), [((80, 24), 3), ((80, 20), 3), ((120, 40), 3), ((200, 60), 3)])
async def test_the_list_of_warnings_has_as_many_lines_as_the_size_allows(
    size: tuple[int, int], lines: int
) -> None:
    async with running(faulty(*CHAINS), size=size) as screen:
        panel = screen.app.main.query_one("#alerts", AlertList)
        await screen.until(lambda: lines_of(panel) == lines)
        text = "\n".join(screen.text().splitlines()[panel.region.y : panel.region.bottom])
        # The worst problem is shown in the first lines, not in the list.
        assert "CRITICAL summary of nccl_straggler" in screen.line(0)
        assert "title of nccl_straggler" not in text
        assert "H title of loader_disk" in text
        assert ("title of reclaim" in text) == (lines > 1)
        assert ("ionice -c 3 -p 201" in text) == (size[0] >= 150)
        assert ("1 critical 1 high 1 medium" if size[0] >= 160 else "1C 1H 1M") in screen.header()


def lines_of(panel: AlertList) -> int:
    """Return the lines of the list without its frame."""
    return panel.size.height - panel.frame.lines


async def test_the_list_of_problems_grows_at_once_and_shrinks_late() -> None:
    async with running(faulty(LATE, STARVED), size=(80, 24)) as screen:
        panel = screen.app.main.query_one("#alerts", AlertList)
        await screen.press("a")
        await screen.until(lambda: panel.has_focus and lines_of(panel) == 3)
        await screen.sees("what is traced, what is not")
        await screen.press("escape")
        await screen.until(lambda: screen.app.main.query_one("#main", Table).has_focus)
        await screen.until(lambda: lines_of(panel) == 1)
        await screen.pilot.resize_terminal(120, 40)
        await screen.until(lambda: lines_of(panel) == 1)
        for number, chains in enumerate((CHAINS, (LATE,)), 1):
            await screen.feed(faulty(*chains, number=number))
            await screen.sees("title of nccl_straggler ─")
            await screen.until(lambda: lines_of(panel) == 3)
        await screen.feed(faulty(STORM, number=3))  # another problem is told: panels get new heights
        await screen.sees("why: title of sync_storm")
        await screen.until(lambda: not panel.display)


async def test_enter_opens_a_chain_and_arrows_step_to_others() -> None:
    async with running(faulty(*CHAINS), size=(80, 40)) as screen:
        await screen.press("a", "down", "enter")
        await screen.sees("summary of loader_disk")
        await screen.sees("2 of 4")
        await screen.sees("ionice -c 3 -p 201")
        await screen.press("left")
        await screen.sees("summary of nccl_straggler")
        await screen.press("right", "right")
        await screen.sees("summary of sync_storm")
        await screen.feed(faulty(replace(STORM, summary="it goes on"), number=1))
        await screen.sees("it goes on")
        await screen.press("escape")
        await screen.until(lambda: screen.app.screen is screen.app.main)
        assert screen.app.main.query_one("#alerts", AlertList).has_focus


async def test_a_row_leads_to_its_chains_and_a_chain_to_its_row() -> None:
    async with running(faulty(*CHAINS), size=(120, 42)) as screen:
        await screen.press("o")
        main = screen.app.main.query_one("#main", Table)
        await screen.until(lambda: "cudaLaunchKernel" in screen.names())
        main.put_cursor(("cudaLaunchKernel", "runtime"))
        await screen.press("i")
        await screen.sees("summary of loader_disk")
        await screen.sees("1 of 2")
        await screen.press("escape")
        await screen.until(lambda: main.cursor_key == ("cudaLaunchKernel", "runtime"))
        await screen.press("i", "i")
        await screen.sees("containers › train › operations")
        await screen.until(lambda: main.cursor_key == ("host gap", "host"))
        await screen.press("escape")
        await screen.until(lambda: main.cursor_key == ("cudaLaunchKernel", "runtime"))
        await screen.press("a", "i")
        await screen.sees("containers › serve › operations")
        await screen.until(lambda: main.cursor_key == ("ncclAllReduce", "nccl"))
        assert main.has_focus


async def test_the_key_that_leads_from_a_chain_to_its_row_leads_back_to_the_same_chain() -> None:
    mild = replace(STARVED, id="mild", title="mild one", severity="low", summary="summary of the mild one")
    async with running(faulty(STARVED, mild), size=(120, 42)) as screen:
        await screen.press("a", "down", "enter")
        await screen.sees("summary of the mild one")
        for _ in range(2):
            await screen.press("i")
            await screen.until(lambda: screen.app.screen is screen.app.main)
            await screen.until(lambda: screen.app.main.tables.main.cursor_key == ("host gap", "host"))
            await screen.press("i")
            await screen.sees("summary of the mild one")
            await screen.sees("1 of 2")


async def test_keys_for_chains_say_so_on_a_row_without_one() -> None:
    async with running(faulty(LATE), size=(80, 24)) as screen:
        await screen.named(["serve", "train"])
        await screen.press("down")
        for key in ("i", "z"):
            await screen.press(key)
            await screen.sees("No problem involves this line")
            screen.app.main.speech.say("")
        await screen.press("y")  # y copies a fix of the problem shown at the top
        await screen.sees("no fix is known")


async def test_an_empty_list_says_where_its_only_problem_is_shown() -> None:
    async with running(faulty(LATE, STARVED), size=(120, 42)) as screen:
        await screen.sees("H title of loader_disk")
        ended = faulty(LATE, number=1)
        await screen.feed(ended)
        await screen.until(lambda: "H title of loader_disk" not in screen.text())
        await screen.sees("no other problem")


async def test_the_focus_moves_to_the_list_and_back_at_once() -> None:
    async with running(faulty(LATE, STARVED), size=(120, 42)) as screen:
        main = screen.app.main
        for number in range(4):
            main.problems.warnings()
            assert main.focused is (main.tables.main if number % 2 else main.panel)
            await screen.until(lambda: main.focused is not None and main.focused.has_focus)


@pytest.mark.parametrize("size", [(80, 24), (120, 42)])
async def test_messages_replace_the_line_of_keys_and_cover_no_chain(size: tuple[int, int]) -> None:
    async with running(faulty(LATE, STARVED), size=size) as screen:
        main, last = screen.app.main, size[1] - 1
        for keys in ((), ("a",), ("e",), ("e", "escape", "6"), ("3",)):
            await screen.press(*keys)
            main.speech.say(f"done {keys}")
            await screen.until(lambda keys=keys: screen.line(last) == f" done {keys}".ljust(size[0]))  # type: ignore[misc]
            # Without the focus the list leaves out the first problem, which is shown above the list.
            assert ("C title of nccl_straggler" in screen.text()) == (keys in (("a",), ("e",)))
            assert ("H title of loader_disk" in screen.text()) == (keys != ("3",))
            assert "summary of nccl_straggler" in screen.text()
        main.speech.hush()
        # The keys 6 and 3 have hidden the line of keys and the list of warnings. So no line is left when the
        # message disappears.
        await screen.until(lambda: not main.query_one("#keys").display)
        await screen.press("6")
        main.speech.hush()
        await screen.until(lambda: "Problems" in screen.line(last))
        await screen.press("slash")
        main.speech.say("heard while typing")
        await screen.sees("heard while typing")
        assert screen.line(last - 1).startswith(" /")


async def test_chains_can_be_silenced_and_shown_again() -> None:
    async with running(faulty(LATE, STARVED), size=(120, 42)) as screen:
        await screen.press("a", "z")
        await screen.sees("silenced: title of nccl_straggler")
        await screen.sees("1 silenced")
        await screen.until(lambda: "1C" not in screen.header())
        await screen.feed(faulty(LATE, STARVED, number=1))
        await screen.until(lambda: "C title of nccl_straggler" not in screen.text())
        await screen.press("Z")
        await screen.sees("(title of nccl_straggler)")
        screen.app.main.query_one("#alerts", AlertList).put_cursor(LATE.id)
        await screen.press("z")
        await screen.until(lambda: "1 silenced" not in screen.text())
        await screen.sees("1C 1H")


async def test_a_list_without_open_chains_says_whether_some_are_over_or_silenced() -> None:
    async with running(*(faulty(OVER, number=n) for n in range(6)), size=(120, 40)) as screen:
        await screen.sees("No problems.")
        await screen.press("a")
        await screen.sees("No active problems; past ones")
    async with running(faulty(), size=(120, 40)) as screen:
        await screen.press("a")
        await screen.sees("No problems detected")
    async with running(faulty(STORM), size=(120, 40)) as screen:
        await screen.sees("summary of sync_storm")
        await screen.press("a")
        await screen.sees("title of sync_storm")
        assert "No problems" not in screen.text()
        await screen.press("z")
        await screen.sees("No problems except silenced ones")


async def test_copying_a_fix_shows_it_and_tells_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    hostile = replace(STORM, fixes=(replace(STARVED.fixes[1], command="kill 1\nrm -rf /\x1b]0;x\x07"),))
    hostile = replace(hostile, fixes=(Fix("see", "dmesg", look=True), *hostile.fixes))
    bare = replace(STORM, id="bare", fixes=(Fix("see", "dmesg", look=True),), severity="low")
    async with running(faulty(STARVED, hostile, bare), size=(120, 42)) as screen:
        monkeypatch.setattr(screen.app, "copy_to_clipboard", copied.append)
        await screen.press("a", "y")
        await screen.sees("sent to the terminal's clipboard")
        await screen.press("down", "y", "enter", "y")
        await screen.until(lambda: len(copied) == 3)
        assert copied == ["ionice -c 3 -p 201", *["kill 1?rm -rf /?]0;x?"] * 2]
        await screen.press("right", "y")
        await screen.sees("(only shows more): sent to")
        assert copied[3:] == ["dmesg"]


async def test_a_chain_without_a_fix_has_nothing_to_copy() -> None:
    async with running(faulty(replace(STORM, fixes=())), size=(120, 42)) as screen:
        await screen.press("a", "y")
        await screen.sees("no fix is known")


async def test_frozen_and_saved_windows_show_their_chains() -> None:
    async with running(faulty(STARVED), size=(80, 24)) as screen:
        await screen.press("space")
        await screen.sees("FROZEN")
        await screen.feed(faulty(LATE, number=1))
        await screen.press("a", "enter")
        await screen.sees("summary of loader_disk")
        await screen.press("space")
        await screen.sees("live")
        await screen.press("escape")
        await screen.sees("title of nccl_straggler")
    options = RunOptions(interval=0.0, theme="dark", still=True)
    async with running(faulty(STARVED, OVER), size=(120, 40), options=options) as screen:
        assert "1H" in screen.header()
        await screen.sees("H summary of loader_disk")
        await screen.sees("ended ")


async def test_a_chain_that_is_no_longer_listed_stays_on_its_page() -> None:
    async with running(faulty(STARVED), size=(80, 40)) as screen:
        await screen.named(["serve", "train"])
        await screen.press("down", "i")
        await screen.sees("summary of loader_disk")
        await screen.feed(faulty(number=1))
        await screen.pilot.pause(1.1)
        await screen.sees("summary of loader_disk")
        page = cast(ChainScreen, screen.app.screen)
        assert page.chain.id == STARVED.id
        await screen.press("i")
        await screen.sees("containers › train › operations")


async def test_control_characters_in_chains_are_replaced() -> None:
    evil = chain("evil", LAUNCH, title="\x1b[2J[bold]x[/]", summary="a\x07b", since=991.0)
    async with running(faulty(evil, STARVED), size=(120, 42)) as screen:
        await screen.sees("?[2J[bold]x[/]")
        await screen.press("a", "down", "enter")
        await screen.sees("a?b")
        assert "\x1b" not in screen.text()


@pytest.mark.parametrize("size", [(40, 8), (60, 15), (80, 24), (100, 30), (150, 45), (200, 60)])
async def test_chains_fit_every_size_in_ascii(size: tuple[int, int]) -> None:
    options = RunOptions(interval=0.0, ascii=True, theme="dark")
    async with running(faulty(*CHAINS), size=size, options=options) as screen:
        assert screen.text().isascii()
        await screen.press("a", "down")
        assert screen.text().isascii()
        await screen.press("enter")
        await screen.sees("summary of loader_disk")
        assert screen.text().isascii()
        assert {len(line) for line in screen.text().splitlines()} == {size[0]}


async def test_without_colours_a_bar_is_letters_and_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running(numbered(0), size=(120, 40)) as screen:
        await screen.sees("R─────────")
        await screen.sees("q queue")


async def test_a_click_on_a_warning_opens_it() -> None:
    async with running(faulty(*CHAINS), size=(120, 42)) as screen:
        await screen.until(lambda: screen.app.main.query_one("#alerts", AlertList).frame.bottom is False)
        await screen.pilot.click("#alerts", offset=(8, 1))
        await screen.sees("summary of loader_disk")


async def test_missing_coverage_can_be_silenced_and_losses_cannot() -> None:
    one = faulty(STARVED)
    missing = Missing("/opt/app/infer", "no symbols")
    one = replace(one, coverage=replace(one.coverage, missing=(missing,)), loss={"no_slot": 3})
    async with running(one, size=(120, 40)) as screen:
        await screen.press("a", "down", "down", "z")
        await screen.sees("1 silenced")
        await screen.until(lambda: "not traced: /opt" not in screen.text())
        await screen.press("Z")
        await screen.sees("(not traced: /opt/app/infer: no symbols)")
        await screen.press("z")
        await screen.until(lambda: "1 silenced" not in screen.text())
        await screen.press("up", "z")  # the selected line, about lost calls, cannot be silenced
        await screen.sees("No problem involves this line")
        await screen.sees("3 calls not counted")


@pytest.mark.parametrize("width", [80, 120])
async def test_the_first_line_counts_silenced_problems(width: int) -> None:
    async with running(faulty(LATE), size=(width, 42)) as screen:
        await screen.press("a", "z")
        said = "problems 1 silenced" if width == 120 else "1 silenced"
        await screen.until(lambda: said in screen.header(), said)
        await screen.press("Z")  # shows silenced problems, and counts them like other problems
        await screen.until(lambda: "1C" in screen.header() and said not in screen.header())


async def test_enter_opens_the_problem_under_the_cursor_after_it_ended() -> None:
    other = replace(STORM, open=False, id="other", seen=LATE.seen - 5, summary="summary of another one")
    async with running(faulty(LATE, other), size=(120, 42)) as screen:
        await screen.press("a")
        over = replace(LATE, open=False, title=other.title)
        # LATE now shares a line with another ended problem, and the line has the key of the newer one.
        await screen.feed(faulty(over, replace(other, seen=LATE.seen + 5), number=1))
        await screen.sees("2x title of sync_storm")
        assert screen.app.main.panel.cursor_key == "other"
        await screen.press("enter")
        await screen.sees("summary of another one")


async def test_a_and_enter_after_all_problems_ended_open_the_last_one() -> None:
    async with running(faulty(replace(LATE, open=False)), size=(120, 42)) as screen:
        await screen.press("a", "enter")
        await screen.sees("summary of nccl_straggler")


async def test_enter_says_that_a_problem_has_left_the_list() -> None:
    async with running(faulty(LATE, STARVED), size=(120, 42)) as screen:
        await screen.press("a")
        await screen.feed(faulty(STARVED, number=1))
        await screen.until(lambda: "nccl_straggler" not in screen.text())
        await screen.press("enter")
        await screen.sees("this problem has ended")
        await screen.press("enter")
        await screen.sees("summary of loader_disk")


async def test_the_cursor_stays_on_the_first_line_when_a_worse_problem_comes() -> None:
    async with running(faulty(STARVED), size=(120, 42)) as screen:
        await screen.press("a")
        await screen.feed(faulty(LATE, STARVED, number=1))
        await screen.sees("title of nccl_straggler")
        await screen.press("enter")
        await screen.sees("summary of loader_disk")
