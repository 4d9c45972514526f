"""Tests the text of the panel about the first problem, or about the row under the cursor."""

from __future__ import annotations

from stalltop.model.text.glyphs import UNICODE
from stalltop.tui.pages.sections import Frame, filled, fitted
from stalltop.tui.row.detail import Details
from stalltop.tui.views.path import PathStep
from stalltop.widgets.page import PageLine, PanelText
from tests.tui.faults import STARVED, faulty
from tests.windows.full import full_window

TRAIN = (PathStep("container", "docker:aa", "train"),)


def lines(text: PanelText) -> list[str]:
    return ["".join(part for part, _ in line.parts).rstrip() for line in text.text]


def test_a_problem_is_shown_from_the_effect_to_the_commands_with_their_undo() -> None:
    shown = Details().text(faulty(STARVED), STARVED, (), Frame(80, 20))
    said = lines(shown)
    assert shown.title == "why: title of loader_disk"
    assert shown.about.endswith("cause 80 % certain")
    order = [said.index(line) for line in said if "time between calls" in line or "ionice -c 3" in line]
    assert order == sorted(order)
    assert len(order) == 2
    assert any(line.startswith("  undo: by hand: see what the command") for line in said)


def test_what_to_do_stands_beside_the_causes_where_there_is_room() -> None:
    said = lines(Details().text(faulty(STARVED), STARVED, (), Frame(160, 5)))
    assert "time between calls" in said[0]
    assert "ionice -c 3 -p 201" in said[0]
    assert any("use more workers" in line for line in said)


def test_the_chain_stays_whole_where_there_is_little_room() -> None:
    details, window = Details(), faulty(STARVED)
    for width in (80, 160):
        whole, chain = details.needs(window, STARVED, (), Frame(width, 40), width)
        assert 0 < chain < whole
        for height in range(chain, whole):
            said = lines(details.text(window, STARVED, (), Frame(width, height)))
            assert len(said) <= height
            assert any("serve loads the disk" in line for line in said), (width, height)


def test_a_text_that_has_no_room_ends_with_an_ellipsis() -> None:
    for width in (20, 40):
        text = [PageLine((("one two three four five six seven eight nine ten eleven twelve", "text"),))] * 3
        (cut,) = fitted(text, width, 1, UNICODE)
        said = "".join(part for part, _ in cut.parts)
        assert said.endswith("…")
        assert len(said) <= width
        assert len(fitted(text, width, 9 * 3, UNICODE)) == filled(text, width)


def test_without_a_problem_a_row_is_shown() -> None:
    for frame in (Frame(80, 5), Frame(160, 5)):
        shown = Details().text(full_window(), None, TRAIN, frame)
        assert shown.title == "row: train"
        assert any("Where the time went" in line for line in lines(shown))
