"""Draws the simulated tour as an animation: ``python scripts/record_tour.py [FOLDER]`` writes ``tour.cast``
(asciicast v2) into FOLDER (default: docs) and ``tour.svg`` into FOLDER/images.

Textual draws the frames from simulated windows with a simulated clock, so the result depends on the program
only. The SVG needs no script: each line is visible in the frames that have it, by CSS keyframes. A viewer
without CSS animation shows ``POSTER``.
"""

from __future__ import annotations

import asyncio
import html
import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from stalltop.cli.tellings import tellings  # noqa: E402
from stalltop.demo.injecting import CaptionedSource  # noqa: E402
from stalltop.demo.scenario import load_scenario  # noqa: E402
from stalltop.demo.simulated.plots import PLOTS  # noqa: E402
from stalltop.demo.simulated.windows import SimulatedSource  # noqa: E402
from stalltop.diagnosis.diagnosed import Diagnosed  # noqa: E402
from stalltop.diagnosis.engine import Diagnosis  # noqa: E402
from stalltop.model.caption import Caption  # noqa: E402
from stalltop.model.text.glyphs import UNICODE  # noqa: E402
from stalltop.model.window import Window  # noqa: E402
from stalltop.tui.app import StalltopApp  # noqa: E402
from stalltop.tui.screens.run_options import RunOptions  # noqa: E402

WIDTH, HEIGHT = 100, 30
CELL_WIDTH, CELL_HEIGHT, FONT = 8.4, 18, 14
Line = tuple[tuple[int, str, str, str, bool], ...]
"""The pieces of a line of the screen: column, text, colour, background and whether it is bold."""


@dataclass(frozen=True, slots=True)
class Step:
    """A moment of the animation."""

    second: int
    """Second of the tour that is shown."""
    keys: tuple[str, ...] = ()
    """Keys that are pressed first."""
    seconds: float = 1.5
    """How long the frame is shown."""


STEPS: Final = (
    *(Step(second) for second in (1, 2, 4)),
    *(Step(second, seconds=2.0) for second in (6, 8)),
    Step(9, ("a", "enter"), 5.0),
    Step(13, ("escape", "escape")),
    *(Step(second, seconds=2.0) for second in (19, 25, 28, 31)),
    *(Step(second, seconds=2.0) for second in (40, 46, 50)),
    *(Step(second, seconds=2.0) for second in (60, 66, 71)),
    *(Step(second, seconds=2.0) for second in (80, 86)),
    Step(90, ("D",), 4.0),
)
POSTER: Final = 4
"""Number of the frame that viewers without animation show."""
SETTLE_SECONDS = 0.15


class SteppedSource:
    """A source that returns one window, one second long, for each call of ``allow``."""

    def __init__(self, caption: Caption) -> None:
        scenario = load_scenario("tour")
        ticks = itertools.count(1_700_000_000.0)
        simulated = SimulatedSource(
            seed=7,
            plot=replace(PLOTS["tour"], timetable=scenario.timetable),
            clock=lambda: next(ticks),
        )
        self._source = Diagnosed(CaptionedSource(simulated, scenario.timetable, caption), Diagnosis())
        self._allowed = threading.Semaphore(0)
        self._closed = False
        self.reads = 0
        self.last: Window | None = None

    def read(self) -> Window:
        """Returns the next window as soon as it is allowed."""
        self._allowed.acquire()
        if self._closed:
            raise RuntimeError("read after close")
        self.last = self._source.read()
        self.reads += 1
        return self.last

    def allow(self) -> None:
        """Allows one more read."""
        self._allowed.release()

    def close(self) -> None:
        """Ends a read that blocks."""
        self._closed = True
        self._allowed.release()


async def frames() -> list[tuple[Line, ...]]:
    """Draws the frames of ``STEPS``."""
    caption = Caption()
    source = SteppedSource(caption)
    options = RunOptions(interval=0.01, theme="dark", caption=caption, demo=True, tellings=tellings)
    app = StalltopApp(source, options)
    app.options = replace(app.options, interval=3600.0)  # a slow drawing must not count as missing data
    app.glyphs = UNICODE
    found: list[tuple[Line, ...]] = []
    async with app.run_test(size=(WIDTH, HEIGHT)) as pilot:
        for step in STEPS:
            while source.reads <= step.second:
                wanted = source.reads + 1
                source.allow()
                while source.reads < wanted or not _has(app, source.last):
                    await pilot.pause(0.01)
            await pilot.pause(SETTLE_SECONDS)
            for key in step.keys:
                await pilot.press(key)
                await pilot.pause(SETTLE_SECONDS)
            app.main.drawing.everything()
            await pilot.pause(SETTLE_SECONDS)
            lines = app.screen._compositor.render_strips()
            found.append(tuple(line_of(strip) for strip in lines))
    return found


def _has(app: StalltopApp, window: Window | None) -> bool:
    newest = app.main.moments.newest
    return newest is not None and newest.newest is window


def line_of(segments: Iterable[Segment]) -> Line:
    """Returns the pieces of one line."""
    pieces, column = [], 0
    for text, style, _ in segments:
        style = style or Style.null()
        colour, ground = _hex(style, front=True), _hex(style, front=False)
        if style.reverse:
            colour, ground = ground, colour
        pieces.append((column, text, colour, ground, bool(style.bold)))
        column += cell_len(text)
    return tuple(pieces)


def _hex(style: Style, *, front: bool) -> str:
    colour = style.color if front else style.bgcolor
    if colour is None or colour.is_default:
        return "#c8ccd4" if front else "#101216"
    return colour.get_truecolor().hex


def cast(shown: Sequence[tuple[Line, ...]]) -> Iterator[str]:
    """Yields the lines of an asciicast v2 file: each frame redraws the lines that differ from the previous
    one."""
    yield json.dumps({"version": 2, "width": WIDTH, "height": HEIGHT, "title": "stalltop demo tour"})
    at = 0.0
    before: tuple[Line, ...] = ()
    for frame, step in zip(shown, STEPS, strict=True):
        text = "" if before else "\x1b[?25l\x1b[2J"
        for y, line in enumerate(frame):
            if not before or line != before[y]:
                text += f"\x1b[{y + 1};1H" + "".join(map(_ansi, line)) + "\x1b[0m"
        yield json.dumps([round(at, 2), "o", text], ensure_ascii=False)
        at, before = at + step.seconds, frame
    yield json.dumps([round(at, 2), "o", "\x1b[?25h"])


def _ansi(piece: tuple[int, str, str, str, bool]) -> str:
    _, text, colour, ground, bold = piece
    codes = ["0", *(["1"] if bold else []), f"38;2;{_rgb(colour)}", f"48;2;{_rgb(ground)}"]
    return f"\x1b[{';'.join(codes)}m{text}"


def _rgb(colour: str) -> str:
    return ";".join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))


def svg(shown: Sequence[tuple[Line, ...]]) -> str:
    """Returns the frames as an animated SVG."""
    seconds = [step.seconds for step in STEPS]
    total = sum(seconds)
    ends = list(itertools.accumulate(seconds))
    begins = [0.0, *ends[:-1]]
    classes: dict[str, str] = {}
    rules: dict[tuple[int, int], str] = {}
    body = []
    for y in range(HEIGHT):
        first = 0
        for line, group in itertools.groupby(frame[y] for frame in shown):
            last = first + len(list(group)) - 1
            drawn = _svg_line(line, y, classes)
            if (first, last) == (0, len(shown) - 1):
                body.append(drawn)
            elif drawn:
                name = rules.setdefault((first, last), f"k{len(rules)}")
                poster = "" if first <= POSTER <= last else " h"
                body.append(f'<g class="{name}{poster}">{drawn}</g>')
            first = last + 1
    style = [".h{visibility:hidden}"]
    for (first, last), name in rules.items():
        begin, end = 100 * begins[first] / total, 100 * ends[last] / total
        stops = [f"{begin:.3f}%{{visibility:visible}}"]
        if first:
            stops.insert(0, "0%{visibility:hidden}")
        if last < len(shown) - 1:
            stops.append(f"{end:.3f}%,100%{{visibility:hidden}}")
        else:
            stops.append("100%{visibility:visible}")
        style.append(f"@keyframes {name}{{{''.join(stops)}}}")
        style.append(f".{name}{{animation:{name} {total:g}s step-end infinite}}")
    style += [f".{name}{{{rule}}}" for rule, name in classes.items()]
    style.append("@media (prefers-reduced-motion:reduce){g{animation:none!important}}")
    width, height = WIDTH * CELL_WIDTH + 16, HEIGHT * CELL_HEIGHT + 16
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" '
        f'font-family="ui-monospace,SFMono-Regular,Menlo,DejaVu Sans Mono,Consolas,monospace" '
        f'font-size="{FONT}">\n<title>stalltop demo tour: five problems, one after the other</title>\n'
        f"<style>{''.join(style)}</style>\n"
        f'<rect width="100%" height="100%" rx="8" fill="#101216"/>\n'
        f'<g transform="translate(8 8)">\n' + "\n".join(body) + "\n</g>\n</svg>\n"
    )


def _svg_line(line: Line, y: int, classes: dict[str, str]) -> str:
    found = []
    for column, text, colour, ground, bold in line:
        cells = cell_len(text)
        x, width = column * CELL_WIDTH, cells * CELL_WIDTH
        if ground != "#101216":
            found.append(
                f'<rect x="{x:g}" y="{y * CELL_HEIGHT}" width="{width:g}" height="{CELL_HEIGHT}" '
                f'fill="{ground}"/>'
            )
        if text.strip():
            rule = f"fill:{colour}" + (";font-weight:bold" if bold else "")
            name = classes.setdefault(rule, f"c{len(classes)}")
            kept = text.lstrip(" ")
            x += (cells - cell_len(kept)) * CELL_WIDTH
            kept = kept.rstrip(" ")
            found.append(
                f'<text class="{name}" x="{x:g}" y="{y * CELL_HEIGHT + 14}" xml:space="preserve" '
                f'textLength="{cell_len(kept) * CELL_WIDTH:g}">{html.escape(kept)}</text>'
            )
    return "".join(found)


def main(folder: Path) -> None:
    """Writes both files."""
    environment: Mapping[str, str] = {"COLORTERM": "truecolor", "TERM": "xterm-256color", "TZ": "UTC"}
    os.environ.pop("NO_COLOR", None)
    os.environ.update(environment)
    time.tzset()
    shown = asyncio.run(frames())
    (folder / "images").mkdir(parents=True, exist_ok=True)
    (folder / "tour.cast").write_text("\n".join(cast(shown)) + "\n", encoding="utf-8")
    (folder / "images" / "tour.svg").write_text(svg(shown), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs")
