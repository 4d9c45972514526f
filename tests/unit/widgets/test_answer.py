"""Tests the second line of the screen: what is left out, and in which order, before a command is cut."""

from __future__ import annotations

import pytest
from rich.style import Style

from stalltop.model.text.glyphs import UNICODE
from stalltop.model.text.sentence import Sentence
from stalltop.widgets.answer import AnswerLines, AnswerState
from stalltop.widgets.drawing.lines import Lines
from stalltop.widgets.drawing.palette import Palette
from stalltop.widgets.drawing.strips import text_of

DISK = "podman update --device-read-bps /dev/vda:290000000 adde53211a4f"
DUMP = "py-spy dump --pid 1120"
STORM = ("take the waits out of the inner loop: in PyTorch .item(), .cpu(), print", "take .item() out")
SHOWS = "shows the line that waits"


@pytest.fixture
def paint(monkeypatch: pytest.MonkeyPatch) -> Palette:
    """Returns a palette without colours, for widgets without an app."""
    monkeypatch.setattr(Lines, "glyphs", UNICODE)
    return Palette(**dict.fromkeys(Palette.__dataclass_fields__, Style.null()))


def second(
    paint: Palette,
    width: int,
    command: str,
    effects: tuple[str, ...] = (),
    advice: tuple[str, ...] = (),
    more: int = 0,
    looks: bool = False,
) -> str:
    """Returns the second line, without its indent, of a problem whose first line is full."""
    said = Sentence(
        "keeps vda busy, so data loading waits",
        "t" * width,
        lost="815 ms of each second",
        lost_short="815 ms/s",
        command=command,
        looks=looks,
        effects=effects,
        advice=advice,
    )
    widget = AnswerLines()
    widget._state = AnswerState(sentence=said, more=("other",) * more, copy_key="y", list_key="a")
    _, line = widget.lines(width, 2, paint)
    return text_of(line).strip().removesuffix("a all problems").rstrip()


@pytest.mark.parametrize(
    ("width", "more", "text"),
    [
        (160, 0, f"815 ms of each second  Fix: {DISK} (halve what it reads from vda)  y copies the command"),
        (139, 0, f"815 ms of each second  Fix: {DISK} (halve what it reads from vda)  y copies it"),
        (126, 0, f"815 ms of each second  Fix: {DISK} (limit its reads)  y copies it"),
        (113, 0, f"815 ms/s  Fix: {DISK} (limit its reads)  y copies it"),
        (95, 0, f"815 ms/s  Fix: {DISK}  y copies it"),
        (86, 0, f"Fix: {DISK}  y copies it"),
        (110, 2, f"815 ms/s  Fix: {DISK}  y copies it   2 more"),
        (95, 2, f"Fix: {DISK}  y copies it   2 more"),
        (86, 2, f"Fix: {DISK}  y copies it"),
        (76, 0, f"Fix: {DISK}  y"),
        (60, 0, f"Fix: {DISK[:47]}…  y"),
    ],
)
def test_a_command_is_cut_only_if_it_is_longer_than_the_line(
    paint: Palette, width: int, more: int, text: str
) -> None:
    effects = ("halve what it reads from vda", "limit its reads")
    assert second(paint, width, DISK, effects, more=more) == text


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (130, f"815 ms of each second  Fix: {STORM[1]}  Look: {DUMP} ({SHOWS})  y copies the command"),
        (82, f"815 ms/s  Fix: {STORM[1]}  Look: {DUMP}  y copies it"),
        (71, f"Fix: {STORM[1]}  Look: {DUMP}  y copies it"),
        (45, f"Look: {DUMP}  y copies it"),
    ],
)
def test_what_to_do_stands_before_a_command_that_only_shows_the_place(
    paint: Palette, width: int, text: str
) -> None:
    assert second(paint, width, DUMP, (SHOWS,), STORM, looks=True) == text


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (125, f"815 ms of each second  Fix: {STORM[0]}"),
        (102, f"815 ms/s  Fix: {STORM[0]}"),
        (60, f"815 ms of each second  Fix: {STORM[1]}"),
        (33, f"Fix: {STORM[1]}"),
        (20, ""),
    ],
)
def test_a_sentence_is_never_cut(paint: Palette, width: int, text: str) -> None:
    assert second(paint, width, "", (), STORM) == text


@pytest.mark.parametrize(("width", "text"), [(60, "HIGH its CPU is taken"), (22, "H its CPU is taken")])
def test_the_severity_is_a_word_where_the_sentence_leaves_room(paint: Palette, width: int, text: str) -> None:
    widget = AnswerLines()
    widget._state = AnswerState(mark="H", severity="high", role="bad", sentence=Sentence("its CPU is taken"))
    assert text_of(widget.lines(width, 2, paint)[0]).strip() == text
