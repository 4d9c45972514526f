"""Tests charts: areas several lines high that draw a figure over time."""

from __future__ import annotations

from textual.app import App, ComposeResult

from stalltop.model.text.glyphs import ASCII
from stalltop.widgets.charts import Chart, Charts, area


def test_an_area_fills_from_below_in_eighths() -> None:
    assert area([0.0, 25.0, 50.0, 75.0, 100.0], 2, 100.0) == ["   ▄█", "▁▄███"]
    assert area([0.0, 50.0, 100.0], 1, 100.0, ASCII) == [".:#"]


def test_unknown_values_are_gaps_and_values_beyond_the_scale_are_clamped() -> None:
    assert area([None, float("nan"), 500.0, -5.0], 1, 100.0) == ["  █▁"]
    assert area([5.0], 1, 0.0) == ["▁"]


async def test_charts_share_the_height_and_those_that_do_not_fit_are_left_out() -> None:
    class Bare(App[None]):
        pictures = True

        def compose(self) -> ComposeResult:
            yield Charts("charts")

    rows = [[Chart(f"GPU {at}", "5%", [1.0, 2.0], 2.0, "100%")] for at in range(4)]
    app = Bare()
    async with app.run_test(size=(40, 10)) as pilot:
        found = app.query_one(Charts)
        found.styles.height = 10
        await pilot.pause()
        found.show(rows)
        text = [found.render_line(line).text for line in range(10)]
    assert [line.split()[1] for line in text if "GPU" in line] == ["0", "1", "2"]
    assert text[0].rstrip().endswith("100%")
    assert text[1].rstrip().endswith("█")
