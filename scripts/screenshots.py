"""Draws the screenshots in docs/images from simulated tenants: ``python scripts/screenshots.py [FOLDER]``.

``python scripts/screenshots.py --every FOLDER`` draws the main screen of every simulated demo scenario into
FOLDER, in each of ``SIZES`` and with each of ``COLOURS``, to look at (``SCENARIO-SIZE-COLOURS.svg``).

The result depends on the program only, because the simulation has a fixed seed and its own clock.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import io
import itertools
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rich.color import Color, ColorSystem
from rich.console import COLOR_SYSTEMS, Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import SVG_EXPORT_THEME, TerminalTheme

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from stalltop.cli.tellings import tellings  # noqa: E402
from stalltop.demo.injecting import CaptionedSource  # noqa: E402
from stalltop.demo.scenario import load_scenario  # noqa: E402
from stalltop.demo.simulated.host import EVERYTHING, Plot  # noqa: E402
from stalltop.demo.simulated.plots import PLOTS  # noqa: E402
from stalltop.demo.simulated.windows import SimulatedSource  # noqa: E402
from stalltop.diagnosis.diagnosed import Diagnosed  # noqa: E402
from stalltop.diagnosis.engine import Diagnosis  # noqa: E402
from stalltop.model.caption import Caption  # noqa: E402
from stalltop.model.merge.sliding import Sliding  # noqa: E402
from stalltop.model.source import Source  # noqa: E402
from stalltop.model.text.glyphs import UNICODE  # noqa: E402
from stalltop.model.window import Window  # noqa: E402
from stalltop.tui.app import StalltopApp  # noqa: E402
from stalltop.tui.screens.run_options import RunOptions  # noqa: E402


@dataclass(frozen=True, slots=True)
class TerminalColours:
    """The colours of a terminal, and the environment variables from which the program knows them."""

    name: str
    term: str
    """Value of TERM."""
    colorterm: str
    """Value of COLORTERM."""


TRUE_COLOUR: Final = TerminalColours("24bit", "xterm-256color", "truecolor")
COLOURS: Final = (
    TRUE_COLOUR,
    TerminalColours("256", "xterm-256color", ""),
    TerminalColours("8", "xterm", ""),
)
SIZES: Final = ((80, 24), (100, 30), (120, 40), (200, 60))
XTERM: Final = TerminalTheme(
    (0, 0, 0),
    (229, 229, 229),
    [
        (0, 0, 0),
        (205, 0, 0),
        (0, 205, 0),
        (205, 205, 0),
        (0, 0, 238),
        (205, 0, 205),
        (0, 205, 205),
        (229, 229, 229),
    ],
)
"""The 8 colours of xterm (``XTerm-col.ad`` of its source), for pictures of terminals whose own colours the
program uses, on black as in the Linux console."""


@dataclass(frozen=True, slots=True)
class Screenshot:
    """One screenshot: file name, size of the terminal, theme, and the keys that are pressed before it is
    drawn."""

    name: str
    width: int
    height: int
    theme: str
    keys: tuple[str, ...] = ()
    scenario: str = ""
    """Scenario of the simulated host; '': the first three tenants of ``EVERYTHING``."""
    colours: TerminalColours = TRUE_COLOUR
    demo: bool = False
    """Whether the screen is that of ``stalltop demo --simulated``, with its caption and its faults."""


SCREENSHOTS = (
    Screenshot("demo", 120, 40, "dark"),
    Screenshot("operations", 80, 24, "dark", ("down", "enter")),
    Screenshot("light", 100, 30, "light", ("o",)),
    Screenshot("why", 100, 34, "dark", ("a", "enter")),
    Screenshot("row", 100, 34, "dark", ("down", "I")),
    Screenshot("shared", 110, 38, "dark", ("D",), "mps"),
    Screenshot("help", 80, 40, "dark", ("question_mark",)),
)
SETTLE_SECONDS = 0.3
"""Time for the layout to settle before a screenshot or the next key."""
READS = 34
"""Seconds of simulated time before a screenshot: as long as it takes until all parts of the screen have
data."""


def every() -> Iterator[Screenshot]:
    """Yields a screenshot of every simulated demo scenario in each of ``SIZES`` with each of ``COLOURS``."""
    for scenario, (width, height), colours in itertools.product(PLOTS, SIZES, COLOURS):
        name = f"{scenario}-{width}x{height}-{colours.name}"
        yield Screenshot(name, width, height, "auto", scenario=scenario, colours=colours, demo=True)


def window(scenario: str = "") -> Window:
    """Returns the last ten seconds of a simulated host, ``READS`` seconds after its start, with chains."""
    sliding = Sliding(10.0)
    for one in _windows(_simulated(PLOTS[scenario] if scenario else replace(EVERYTHING, tenants=3))):
        sliding.push(one)
    return sliding.window


@functools.cache
def demo_windows(name: str) -> tuple[tuple[Window, ...], tuple[str, ...]]:
    """Returns the first ``READS`` windows of the simulated scenario ``name``, each one second long, with the
    faults that ``stalltop demo`` injects, and the caption at their end."""
    scenario, plot, caption = load_scenario(name), PLOTS[name], Caption()
    if not scenario.timetable:
        return _windows(_simulated(plot)), scenario.caption
    simulated = _simulated(replace(plot, timetable=scenario.timetable))
    found = _windows(CaptionedSource(simulated, scenario.timetable, caption))
    return found, caption.lines


def _simulated(plot: Plot) -> Source:
    ticks = itertools.count(1_700_000_000.0)
    return SimulatedSource(seed=7, plot=plot, clock=lambda: next(ticks))


def _windows(source: Source) -> tuple[Window, ...]:
    diagnosed = Diagnosed(source, Diagnosis())
    return tuple(diagnosed.read() for _ in range(READS))


class GivenSource:
    """A source that has given windows only."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self._windows = iter(windows)
        self._closed = threading.Event()

    def read(self) -> Window:
        """Returns the next window; a read after the last one blocks until ``close``."""
        one = next(self._windows, None)
        if one is None:
            self._closed.wait()
            raise RuntimeError("read after close")
        return one

    def close(self) -> None:
        """Ends a read that blocks."""
        self._closed.set()


@contextmanager
def terminal(colours: TerminalColours) -> Iterator[None]:
    """Sets the environment variables of a terminal with ``colours``, and afterwards those of before."""
    wanted = {"TERM": colours.term, "COLORTERM": colours.colorterm, "NO_COLOR": ""}
    before = {name: os.environ.get(name) for name in wanted}
    for name, value in wanted.items():
        _set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            _set(name, old)


def _set(name: str, value: str | None) -> None:
    if value:
        os.environ[name] = value
    else:
        os.environ.pop(name, None)


async def draw(picture: Screenshot) -> str:
    """Draws a screenshot as SVG."""
    with terminal(picture.colours):
        return await _drawn(picture)


async def _drawn(picture: Screenshot) -> str:
    caption = Caption()
    if picture.demo:
        windows, caption.lines = demo_windows(picture.scenario)
    else:
        windows = (window(picture.scenario),)
    options = RunOptions(
        interval=0.01, theme=picture.theme, caption=caption, demo=picture.demo, tellings=tellings
    )
    app = StalltopApp(GivenSource(windows), options)
    app.options = replace(app.options, interval=3600.0)  # a slow drawing must not count as missing data
    app.glyphs = UNICODE
    async with app.run_test(size=(picture.width, picture.height)) as pilot:
        while (newest := app.main.moments.newest) is None or newest.newest is not windows[-1]:
            await pilot.pause(0.02)
        await pilot.pause(SETTLE_SECONDS)
        for key in picture.keys:
            await pilot.press(key)
            await pilot.pause(SETTLE_SECONDS)
        svg = svg_of(app)
    # Removes the fonts that would be loaded from other sites, and adds xml:space so that renderers keep
    # blanks.
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    return svg.replace("<text ", '<text xml:space="preserve" ')


def svg_of(app: StalltopApp) -> str:
    """Returns the screen of ``app`` as SVG, in the colours that it sends to its terminal.

    ``App.export_screenshot`` of Textual draws all colours, whatever the terminal has.
    """
    system = COLOR_SYSTEMS[app.console.color_system or "truecolor"]
    width, height = app.size
    console = Console(
        width=width,
        height=height,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        record=True,
        legacy_windows=False,
        safe_box=False,
    )
    update = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens)
    assert update is not None
    console.print(SentToTerminal(update, system))
    theme = XTERM if system is ColorSystem.STANDARD else SVG_EXPORT_THEME
    return console.export_svg(title="stalltop", theme=theme)


@dataclass(frozen=True, slots=True)
class SentToTerminal:
    """Draws ``drawn`` in the colours that a terminal shows which has the colours ``system``."""

    drawn: RenderableType
    system: ColorSystem

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for text, style, control in console.render(self.drawn, options):
            yield Segment(text, style and self._style(style), control)

    def _style(self, style: Style) -> Style:
        if self.system is ColorSystem.TRUECOLOR:
            return style
        return style + Style.from_color(self._colour(style.color), self._colour(style.bgcolor))

    def _colour(self, colour: Color | None) -> Color | None:
        """Returns the colour that the terminal shows for ``colour``. One with 8 colours ignores the codes of
        the 8 bright ones (SGR 90 to 107), which Rich counts among the standard ones."""
        if colour is None:
            return None
        sent = colour.downgrade(self.system)
        bright = self.system is ColorSystem.STANDARD and (sent.number or 0) >= 8
        return Color.default() if bright else sent


def write(pictures: Sequence[Screenshot], folder: Path) -> None:
    """Draws ``pictures`` into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["TZ"] = "UTC"
    time.tzset()
    for picture in pictures:
        (folder / f"{picture.name}.svg").write_text(asyncio.run(draw(picture)), encoding="utf-8")


def main() -> None:
    """Draws the screenshots of the documents, or with --every those of all scenarios."""
    parser = argparse.ArgumentParser(description="Draws screenshots of simulated tenants.")
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=ROOT / "docs" / "images",
        help="folder of the screenshots of the documents (default: docs/images)",
    )
    parser.add_argument(
        "--every",
        type=Path,
        metavar="FOLDER",
        help="draw every simulated scenario in all sizes and colours into FOLDER instead",
    )
    options = parser.parse_args()
    if options.every is None:
        write(SCREENSHOTS, options.folder)
    else:
        write(tuple(every()), options.every)


if __name__ == "__main__":
    main()
