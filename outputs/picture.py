"""Pictures of the screen in files: an SVG that needs nothing from elsewhere, and a PNG made of it."""

from __future__ import annotations

import importlib.util
import io
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console
from rich.segment import Segment, Segments

from model.errors import Told

CONVERTER: Final = "rsvg-convert"
INSTALL: Final = f"needs {CONVERTER}: install librsvg2-bin (Debian, Ubuntu) or librsvg2-tools (Fedora)"
"""What to do where no PNG can be made."""
CONVERT_SECONDS: Final = 60.0
"""Time that the converter has."""


def svg(lines: Sequence[Iterable[Segment]], width: int, title: str) -> str:
    """``lines``, each of ``width`` cells, as a picture of a terminal."""
    console = Console(
        width=width,
        height=max(len(lines), 1),
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        record=True,
        legacy_windows=False,
    )
    flat = [segment for line in lines for segment in (*line, Segment.line())]
    console.print(Segments(flat), end="")
    return standalone(console.export_svg(title=title))


def standalone(text: str) -> str:
    """A picture that rich made, without fonts from elsewhere, and with blanks that every renderer keeps."""
    text = re.sub(r"@font-face \{.*?\}", "", text, flags=re.DOTALL)
    return text.replace("<text ", '<text xml:space="preserve" ')


def png_problem() -> str:
    """Why no PNG can be made here, and what to install; empty where one can."""
    found = shutil.which(CONVERTER) is not None or importlib.util.find_spec("cairosvg") is not None
    return "" if found else INSTALL


def png(picture: str) -> bytes:
    """``picture``, an SVG, as PNG. Raises Told where that cannot be made."""
    program = shutil.which(CONVERTER)
    if program is None:
        return _by_cairo(picture)
    try:
        done = subprocess.run(
            [program, "--format", "png"],
            input=picture.encode(),
            capture_output=True,
            timeout=CONVERT_SECONDS,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode("utf-8", "replace").strip().splitlines()
        raise Told(f"{CONVERTER} failed: {said[-1] if said else error.returncode}") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise Told(f"{CONVERTER} failed: {error}") from error
    return done.stdout


def _by_cairo(picture: str) -> bytes:
    try:
        from cairosvg import svg2png
    except (ImportError, OSError) as error:
        raise Told("no PNG can be made here", INSTALL) from error
    made: bytes = svg2png(bytestring=picture.encode())
    return made
