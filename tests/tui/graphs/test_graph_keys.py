"""Tests the graphs of the main screen: the key that chooses them, and screens without frames."""

from __future__ import annotations

from stalltop.tui.graphs.graph_screen import GraphScreen
from stalltop.tui.screens.run_options import RunOptions
from stalltop.tui.settings.settings import AUTO, NONE
from tests.tui.screen import Screen, running
from tests.tui.sources import numbered


def graphs(screen: Screen) -> list[str]:
    """Return the names of the graphs that are shown."""
    names = screen.app.main.arrangement.layout.tables.names
    return sorted(name for name in names if name.startswith("graph"))


async def test_7_chooses_graphs_and_the_choice_is_kept() -> None:
    async with running(numbered(0), numbered(1), size=(120, 50)) as screen:
        await screen.sees("what to do: y copies the first")
        assert len(graphs(screen)) == 3, "graphs are there from the first seconds on"
        await screen.sees("-10s")
        await screen.press("7")
        await screen.sees("Graphs, at most 3")
        await screen.press("end", *["up"] * 6, "space", "7")
        await screen.until(lambda: not isinstance(screen.app.screen, GraphScreen))
        await screen.until(lambda: graphs(screen) == ["graph1"])
        await screen.sees("CPU ─")
        assert screen.app.main.choices()["graphs"] == ("cpu",)
        await screen.press("7", "end", "space", "enter")
        await screen.until(lambda: not graphs(screen))
        assert screen.app.main.choices()["graphs"] == (NONE,)
        assert not any(widget.display for widget in screen.app.main.graphs.widgets)
        await screen.press("7", "home", "space", "escape")
        await screen.sees("what to do: y copies the first")
        await screen.until(lambda: len(graphs(screen)) == 3)
        assert screen.app.main.choices()["graphs"] == (AUTO,)


async def test_a_frozen_moment_is_marked_in_graphs() -> None:
    windows = [numbered(number) for number in range(12)]
    options = RunOptions(interval=0.0, theme="dark", graphs=("cpu",))
    async with running(*windows, size=(120, 50), options=options) as screen:
        graph = screen.app.main.graphs.widgets[0]
        await screen.until(lambda: graph._data is not None and graph._data.shown is None)
        await screen.press("left_square_bracket", "left_square_bracket")
        await screen.until(lambda: graph._data is not None and graph._data.shown is not None)
        assert graph._data is not None
        cells = len(graph._data.values)
        assert graph._data.shown == -(-cells * 13 // 15) - 1, "two of fifteen seconds before the end"


async def test_plain_has_no_frames() -> None:
    for size in ((80, 24), (120, 50)):
        options = RunOptions(interval=0.0, theme="dark", plain=True, graphs=(NONE,))
        async with running(numbered(0), size=size, options=options) as screen:
            await screen.sees("CONTAINER")
            assert not {"╭", "├", "╰"} & set(screen.text())
            heads = next(at for at in range(size[1]) if "CONTAINER" in screen.line(at))
            assert screen.line(heads - 1).startswith(" containers")
