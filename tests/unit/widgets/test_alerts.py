"""Tests the list of problems and the header line at every width of the terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.style import Style

from stalltop.model.text.figures import fit
from stalltop.model.text.glyphs import UNICODE
from stalltop.widgets.alerts import AlertList, AlertRow
from stalltop.widgets.drawing.lines import Lines
from stalltop.widgets.drawing.palette import Palette
from stalltop.widgets.drawing.strips import length, text_of
from stalltop.widgets.header import Header, HeaderState

ROW = AlertRow(
    key="a",
    mark="H",
    role="bad",
    title="Data loader waits for a disk",
    who="train-resnet",
    lost=" 412ms/s",
    where="host gap",
    culprit="anna: rsync 4711",
    since="12:00:00",
)
OVER = replace(ROW, key="b", role="dim", ended="12:30:00")


@pytest.fixture
def paint(monkeypatch: pytest.MonkeyPatch) -> Palette:
    """Returns a palette without colours, for widgets without an app."""
    monkeypatch.setattr(Lines, "glyphs", UNICODE)
    plain = Style.null()
    return Palette(**dict.fromkeys(Palette.__dataclass_fields__, plain))


def lines(paint: Palette, width: int, *rows: AlertRow, height: int = 9) -> list[str]:
    """Returns the lines of the list."""
    panel = AlertList()
    panel._rows = panel._brief = rows
    return [text_of(line) for line in panel.lines(width, height, paint)]


@pytest.mark.parametrize("width", [60, 70, 80, 99, 100, 120, 149, 150, 200])
def test_title_and_culprit_are_shown_at_every_width(paint: Palette, width: int) -> None:
    for line in lines(paint, width, ROW, OVER):
        assert "Data loader waits for a disk" in line
        assert fit(ROW.culprit, min(width - 42, 16)).rstrip(" …") in line
    goes_on, over = lines(paint, width, ROW, OVER)
    assert "412ms/s" in goes_on
    assert ("train-resn" in goes_on) == (width >= 80)
    assert ("ended 12:30:00" in over) == (width >= 80)
    assert ("since 12:00:00" in goes_on) == (width >= 120)


@pytest.mark.parametrize("width", [80, 99, 103, 120, 200])
def test_victim_stands_left_of_the_culprit_at_every_width(paint: Palette, width: int) -> None:
    for line in lines(paint, width, ROW, OVER):
        assert line.index("Data loader") < line.index("train-res") < line.index("anna: rsync")
    assert lines(paint, width, ROW)[0].index("412ms/s") < lines(paint, width, ROW)[0].index("anna: rsync")


@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_line_with_the_count_of_hidden_problems_keeps_the_columns(paint: Palette, width: int) -> None:
    *_, above, last = lines(paint, width, *(replace(ROW, key=key) for key in "abcd"), height=3)
    assert last.rstrip().endswith("+1 more")
    cut = last.removesuffix("+1 more ").rstrip().removesuffix("…")
    assert above.startswith(cut)
    assert (ROW.culprit if width > 80 else "anna: rsync") in cut
    assert "412ms/s" in cut


@pytest.mark.parametrize("width", [60, 69, 80, 120, 200])
def test_the_time_lost_is_as_bright_as_its_row_says_and_dim_once_the_problem_ended(
    paint: Palette, width: int
) -> None:
    styled = replace(paint, dim=Style(dim=True), bright=Style(bold=True))
    panel = AlertList()
    panel._brief = (replace(ROW, lost=" 1.20s/s", lost_role="bright"), replace(OVER, lost_role="bright"))
    on, over = ({text.strip(): style for text, style in line} for line in panel.lines(width, 9, styled))
    assert on["1.20s/s"] == styled.bright
    assert styled.bright not in over.values()


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_header_fields_do_not_move_when_figures_change(paint: Palette, width: int) -> None:
    quiet = HeaderState(
        *("gpu-node-17", "LIVE", "good", "last 10s", 12.0),
        traced="traced 9/9",
        probe_percent=0.1,
        own=(0.9, 99 << 20),
    )
    worse = (("1C", "critical"), ("2H", "bad"), ("1M", "warn"), ("3L", "label"))
    busy = replace(quiet, chains=worse, lost=1234, traced="traced 13/14", calls_per_s=45_000.0)
    busy = replace(busy, own=(12.5, 2 << 30))

    def places(state: HeaderState) -> dict[str, int]:
        header = Header()
        header._state = state
        (line,) = header.lines(width, 1, paint)
        assert length(line) == width
        words = (
            "stalltop",
            "gpu-node",
            "LIVE",
            "last 10s",
            "calls/s",
            "lost",
            "chains",
            "traced",
            "probes",
            "own",
        )
        return {word: text_of(line).find(word) for word in words}

    for state in (replace(busy, lost=0), replace(quiet, chains=worse)):
        assert places(state) == places(quiet)
    # In a header of 60 columns or less, words move when losses appear.
    assert (places(replace(busy, chains=worse[:1])) == places(quiet)) == (width > 60)
    header = Header()
    header._state = busy
    assert "1C 2H 1M 3L" in text_of(header.lines(width, 1, paint)[0])
