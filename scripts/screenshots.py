"""Draws the screenshots in docs/images from simulated tenants: ``python scripts/screenshots.py [FOLDER]``.

The result depends on the program only, because the simulation has a fixed seed and its own clock.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from stalltop.cli.tellings import tellings  # noqa: E402
from stalltop.demo.simulated.host import EVERYTHING  # noqa: E402
from stalltop.demo.simulated.plots import PLOTS  # noqa: E402
from stalltop.demo.simulated.windows import SimulatedSource  # noqa: E402
from stalltop.diagnosis.diagnosed import Diagnosed  # noqa: E402
from stalltop.diagnosis.engine import Diagnosis  # noqa: E402
from stalltop.model.merge.sliding import Sliding  # noqa: E402
from stalltop.model.text.glyphs import UNICODE  # noqa: E402
from stalltop.model.window import Window  # noqa: E402
from stalltop.tui.app import StalltopApp  # noqa: E402
from stalltop.tui.screens.run_options import RunOptions  # noqa: E402


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


def window(scenario: str = "") -> Window:
    """Returns the last ten seconds of a simulated host, ``READS`` seconds after its start, with chains."""
    ticks = itertools.count(1_700_000_000.0)
    plot = PLOTS[scenario] if scenario else replace(EVERYTHING, tenants=3)
    source = Diagnosed(SimulatedSource(seed=7, plot=plot, clock=lambda: next(ticks)), Diagnosis())
    sliding = Sliding(10.0)
    for _ in range(READS):
        sliding.push(source.read())
    return sliding.window


class OneWindowSource:
    """A source that has one window only."""

    def __init__(self, one: Window) -> None:
        self._window: Window | None = one
        self._closed = threading.Event()

    def read(self) -> Window:
        """Returns the window; the next read blocks until ``close``."""
        one, self._window = self._window, None
        if one is None:
            self._closed.wait()
            raise RuntimeError("read after close")
        return one

    def close(self) -> None:
        """Ends a read that blocks."""
        self._closed.set()


async def draw(picture: Screenshot) -> str:
    """Draws a screenshot as SVG."""
    options = RunOptions(interval=3600.0, theme=picture.theme, tellings=tellings)
    app = StalltopApp(OneWindowSource(window(picture.scenario)), options)
    app.glyphs = UNICODE
    async with app.run_test(size=(picture.width, picture.height)) as pilot:
        while app.main.shown is None:
            await pilot.pause(0.02)
        await pilot.pause(SETTLE_SECONDS)
        for key in picture.keys:
            await pilot.press(key)
            await pilot.pause(SETTLE_SECONDS)
        svg = app.export_screenshot(title="stalltop")
    # Removes the fonts that would be loaded from other sites, and adds xml:space so that renderers keep
    # blanks.
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    return svg.replace("<text ", '<text xml:space="preserve" ')


def main(folder: Path) -> None:
    """Draws all screenshots into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.pop("NO_COLOR", None)
    os.environ["COLORTERM"] = "truecolor"
    os.environ["TZ"] = "UTC"
    time.tzset()
    for picture in SCREENSHOTS:
        (folder / f"{picture.name}.svg").write_text(asyncio.run(draw(picture)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
