"""Tests the keys that unfold, hide, pick and compare rows, and the keys that choose columns."""

from __future__ import annotations

from dataclasses import replace

from stalltop.model.window import Window
from stalltop.tui.pair.screen import CompareScreen
from stalltop.tui.screens.run_options import RunOptions
from stalltop.tui.tables.column_screen import ColumnScreen
from stalltop.tui.views.orders import WORST
from stalltop.tui.views.view import View
from stalltop.widgets.table import Table
from tests.tui.screen import Screen, running
from tests.tui.sources import numbered
from tests.windows.by_hand import Calls, key, window
from tests.windows.full import full_window


def main(screen: Screen) -> Table:
    return screen.app.main.query_one("#main", Table)


async def start(screen: Screen) -> None:
    await screen.named(["serve", "train"])


async def test_a_row_unfolds_in_place_and_keeps_the_cursor_over_ticks_and_sorting() -> None:
    async with running(numbered(0), size=(80, 24)) as screen:
        await start(screen)
        await screen.press("down", "full_stop")
        operations = ["  + cudaMemcpyAsync HtoD", "  + cudaLaunchKernel"]
        await screen.named(["+ serve", "- train", *operations])
        await screen.press("down", "down", "full_stop")
        await screen.until(lambda: "      python3 100" in screen.names())
        await screen.press("down")
        await screen.until(lambda: main(screen).cursor_key is not None and len(main(screen).cursor_key) == 4)  # type: ignore[arg-type]
        before = main(screen).cursor_key
        await screen.feed(numbered(1))
        await screen.press("r", "s")
        await screen.until(lambda: "      python3 100" in screen.names())
        assert main(screen).cursor_key == before
        await screen.press("full_stop")
        await screen.sees("nothing below this row")
        # Entering a row and leaving it keeps the tree.
        await screen.press("up", "enter")
        await screen.sees("containers › train › operations › cudaLaunchKernel › processes")
        await screen.press("escape")
        await screen.until(lambda: "      python3 100" in screen.names())
        await screen.press("o")
        await screen.until(lambda: "cudaStreamSynchronize" in screen.names())


async def test_all_rows_unfold_and_fold_and_the_cursor_moves_to_the_parent() -> None:
    async with running(numbered(0), size=(80, 24)) as screen:
        await start(screen)
        await screen.press("asterisk", "end")
        await screen.until(lambda: len(screen.names()) == 7)
        await screen.until(lambda: main(screen).cursor_key == ("docker:aa", "cudaLaunchKernel", "runtime"))
        await screen.press("asterisk")
        await start(screen)
        assert main(screen).cursor_key == ("docker:aa",)


async def test_the_second_table_unfolds_independently() -> None:
    async with running(numbered(0), size=(120, 42)) as screen:
        await start(screen)
        await screen.press("tab", "full_stop")
        await screen.until(lambda: any(name.startswith("- ") for name in screen.names("second")))
        assert screen.names() == ["serve", "train"]
        await screen.press("asterisk")
        await screen.until(lambda: not any(name.startswith(" ") for name in screen.names("second")))


async def test_idle_rows_and_rows_without_problems_can_be_left_out() -> None:
    async with running(numbered(0), size=(100, 24)) as screen:
        await start(screen)
        await screen.press("f")
        await screen.sees("containers   all rows")
        await screen.press("f")
        await screen.sees("without idle rows")
        await screen.press("f")
        await screen.sees("containers   with problems or open calls")
        await screen.press("slash", "x", "y", "enter")
        await screen.named([])
        await screen.press("escape", "escape")
        await screen.until(lambda: "containers   with problems or" not in screen.text())
        await screen.until(lambda: len(screen.names()) == 2)


async def test_two_picked_rows_are_compared() -> None:
    async with running(numbered(0), size=(80, 24)) as screen:
        await start(screen)
        await screen.press("v")
        await screen.sees("v on another one of the containers")
        marks = [row.mark.text for row in main(screen).data.rows if row.mark is not None]
        assert "v" in marks
        await screen.press("down", "v")
        await screen.until(lambda: isinstance(screen.app.screen, CompareScreen))
        await screen.sees("A serve   B train   operations")
        await screen.sees("SPLIT B")
        await screen.sees("▼B-A")
        await screen.press("r")
        await screen.sees("▲B-A")
        await screen.press("s")
        await screen.sees("▼TOTAL A")
        await screen.press(*["right"] * 9)
        await screen.sees("P50 B")
        await screen.press("space", "v")
        await screen.until(lambda: screen.app.screen is screen.app.main)
        screen.app.main.speech.hush()
        await screen.sees("Space Live")
        # Picking a row of another kind replaces the picked row; picking a picked row again unpicks it.
        await screen.press("v", "o", "v")
        await screen.sees("v on another one of the operations")
        await screen.press("v", "down")
        await screen.until(lambda: not any(_picked(row.mark) for row in main(screen).data.rows))


async def test_esc_keeps_a_picked_row_on_the_way_up_and_unpicks_it_at_the_top() -> None:
    async with running(numbered(0), size=(120, 30)) as screen:
        await start(screen)
        await screen.press("enter")
        await screen.until(lambda: "containers › " in screen.text())
        await screen.press("v")
        await screen.sees("is picked: v on another one of the operations")
        first = screen.app.main.tables.picking.picked
        await screen.press("escape")
        await screen.until(lambda: "containers › " not in screen.text())
        assert screen.app.main.tables.picking.picked is first
        screen.app.main.speech.hush()
        await screen.sees("Esc Unpick")
        await screen.press("v")
        await screen.sees("is picked, not ")
        await screen.press("escape")
        await screen.until(lambda: screen.app.main.tables.picking.picked is None)
        assert screen.app.main.tables.way_out == ""


def _picked(mark: object) -> bool:
    return getattr(mark, "text", "") == "v"


async def test_a_comparison_of_two_rows_follows_new_data() -> None:
    def second(number: int) -> Window:
        calls = [
            Calls(key(tenant="docker:aa"), [10_000] * 200),
            Calls(key(tenant="cri:bb", pid=200), [20_000 * (number + 1)] * 200),
        ]
        return window(calls, start=1_000.0 + number)

    async with running(second(0), size=(120, 30)) as screen:
        await screen.named(["serve", "train"])
        await screen.press("asterisk", "down", "v")
        await screen.sees("v on another one of the operations")
        await screen.press("end", "v")
        await screen.sees("A serve › cudaLaunchKernel   B train › cudaLaunchKernel")
        await screen.sees("0.50")
        await screen.feed(second(9))
        await screen.press("c")  # this screen has no key ``c``, so nothing happens
        await screen.until(lambda: isinstance(screen.app.screen, CompareScreen))
        await screen.press("escape")
        await screen.until(lambda: screen.app.screen is screen.app.main)


async def test_columns_can_be_chosen_and_sorted_by() -> None:
    async with running(numbered(0), size=(80, 24)) as screen:
        await start(screen)
        await screen.press("C")
        await screen.until(lambda: isinstance(screen.app.screen, ColumnScreen))
        await screen.sees("Columns of containers")
        await screen.sees("✓ CALL/S")
        await screen.press("down", "space")
        await screen.sees("  CALL/S")
        await screen.press("down", "down", "less_than_sign", "less_than_sign")
        await screen.press("enter")
        await screen.until(lambda: screen.app.screen is screen.app.main)
        heads = [column.id for column in main(screen).data.columns]
        assert heads.index("split") < heads.index("p99")
        assert "calls" not in heads
        await screen.press("s")
        await screen.until(lambda: main(screen).data.sort in (*heads, WORST))
        # Other tables keep their columns; ``u`` restores the defaults.
        await screen.press("o")
        await screen.until(lambda: "calls" in {column.id for column in main(screen).data.columns})
        await screen.press("c", "C", "u", "escape")
        await screen.until(lambda: screen.app.screen is screen.app.main)
        await screen.until(lambda: "calls" in {column.id for column in main(screen).data.columns})
        assert screen.app.main.tables.views.columns == {}


async def test_chosen_columns_are_taken_from_and_returned_to_the_settings() -> None:
    options = RunOptions(interval=0.0, theme="dark", columns=(("container", ("n", "p99")),))
    async with running(numbered(0), size=(80, 24), options=options) as screen:
        await start(screen)
        assert [column.id for column in main(screen).data.columns] == ["name", "n", "p99"]
        await screen.press("C", "greater_than_sign", "escape")
        await screen.until(lambda: screen.app.screen is screen.app.main)
        assert screen.app.main.choices()["columns"] == (("container", ("p99", "n")),)


async def test_the_last_column_cannot_be_hidden() -> None:
    async with running(numbered(0), size=(80, 24)) as screen:
        await start(screen)
        screen.app.main.tables.views.choose_columns("container", ("p99",))
        screen.app.main.tables.redraw()
        await screen.press("C", "space", "escape")
        await screen.until(lambda: screen.app.screen is screen.app.main)
        assert screen.app.main.tables.views.columns["container"] == ("p99",)


async def test_rows_can_be_grouped_by_namespace_and_host_inside_a_row() -> None:
    async with running(numbered(0), size=(80, 24)) as screen:
        await start(screen)
        await screen.press("N")
        await screen.until(lambda: set(screen.names()) == {"prod", "no namespace"})
        await screen.press("h")
        await screen.named(["gpu7"])
        await screen.press("enter")
        await screen.sees("hosts › gpu7 › containers")
        await screen.press("N")
        await screen.sees("hosts › gpu7 › namespaces")


async def test_a_wide_table_shows_trends_once_there_is_a_past() -> None:
    windows = [replace(full_window(), start=1_000.0 + number, seconds=1.0) for number in range(6)]
    async with running(*windows, size=(200, 30)) as screen:
        screen.app.main.panels.enlarge()
        await screen.sees("P99 TREND")
        await screen.sees("▁▁▁▁▁▁")
        await screen.sees("P99/MED")
        assert View().is_tree is False


async def test_keys_for_rows_are_harmless_without_rows() -> None:
    keys = ("full_stop", "asterisk", "v", "v", "f", "f", "f", "N", "h", "enter", "Y", "I")
    async with running(size=(80, 24)) as screen:
        await screen.press(*keys)  # before the first window
        await screen.press("escape", "C", "space", "u", "escape", "escape")
        await screen.feed(window())
        await screen.press("escape", "c", *keys, "escape", "escape", "c")
        await screen.until(lambda: screen.app.screen is screen.app.main)
        await screen.sees("No process here uses CUDA")


async def test_control_characters_are_replaced_in_trees_and_comparisons() -> None:
    bad = "evil\x1b[2J[bold]"
    one = window(
        [Calls(key(bad, process=bad), [1_000]), Calls(key(bad, tenant="cri:bb", process=bad), [1_000])]
    )
    async with running(one, size=(100, 24)) as screen:
        await screen.named(["serve", "train"])
        await screen.press("asterisk", "down", "v", "full_stop")
        await screen.sees("evil?[2J[bold]")
        await screen.press("end", "v")
        await screen.until(lambda: isinstance(screen.app.screen, CompareScreen))
        await screen.sees("serve › evil?[2J[bold]")
        assert "\x1b" not in screen.text()


async def test_the_list_of_columns_explains_each_and_shows_hidden_ones_with_space() -> None:
    async with running(numbered(0), size=(80, 24)) as screen:
        await start(screen)
        await screen.press("C")
        await screen.sees("calls per second over the window")
        await screen.press("end")
        await screen.sees("devices on which its calls ran")
        await screen.sees("Space shows it, as the last one)")
        await screen.press("space")
        await screen.until(lambda: "(hidden" not in screen.text())
        await screen.until(lambda: screen.app.main.tables.views.columns["container"][-1] == "device")
