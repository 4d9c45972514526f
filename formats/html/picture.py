"""Makes pictures of the screen: an SVG that loads nothing, and a PNG of it."""

from __future__ import annotations

import html
import importlib.util
import io
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment, Segments

from stalltop.model.errors import StalltopError

CONVERTER: Final = "rsvg-convert"
INSTALL: Final = f"needs {CONVERTER}: install librsvg2-bin (Debian, Ubuntu) or librsvg2-tools (Fedora)"
"""What to do if no PNG can be made."""
CONVERT_SECONDS: Final = 60.0
"""Time limit of the converter, seconds."""
_TEXT: Final = re.compile(
    r'<text (?P<before>[^>]*?)\bx="(?P<x>[0-9.]+)"(?P<after>[^>]*?) textLength="(?P<length>[0-9.]+)"'
    r"(?P<more>[^>]*)>(?P<text>[^<]*)</text>"
)
"""Matches a text element in an SVG that rich made."""
_WORD: Final = re.compile(r"[^\s\xa0]{1,8}")
"""Matches a word, or up to eight characters of a long word. A narrower font hardly shifts the end of so few
characters."""


def svg(lines: Sequence[Iterable[Segment]], width: int, title: str) -> str:
    """Return ``lines``, each of ``width`` cells, as an SVG of a terminal window."""
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
    """Return an SVG that rich made, but without fonts from the network, and with blanks that every renderer
    keeps."""
    text = re.sub(r"@font-face \{.*?\}", "", text, flags=re.DOTALL)
    return text.replace("<text ", '<text xml:space="preserve" ')


def png_problem() -> str:
    """Return why no PNG can be made on this host, and what to install; '' if one can be made."""
    found = shutil.which(CONVERTER) is not None or importlib.util.find_spec("cairosvg") is not None
    return "" if found else INSTALL


def png(picture: str) -> bytes:
    """Return the SVG ``picture`` as PNG. Raises StalltopError if the converter is missing or fails."""
    picture = _by_words(picture)
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
        raise StalltopError(f"{CONVERTER} failed: {said[-1] if said else error.returncode}") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise StalltopError(f"{CONVERTER} failed: {error}") from error
    return done.stdout


def _by_words(picture: str) -> str:
    """Return ``picture`` with each word as a text element of its own, at its own position. Converters ignore
    ``textLength``, so columns would shift if their font is narrower."""

    def words(found: re.Match[str]) -> str:
        text = html.unescape(found["text"])
        cell = float(found["length"]) / max(len(text), 1)
        return "".join(
            f'<text {found["before"]}x="{float(found["x"]) + cell * cell_len(text[: word.start()]):g}"'
            f"{found['after']}{found['more']}>{html.escape(word.group())}</text>"
            for word in _WORD.finditer(text)
        )

    return _TEXT.sub(words, picture)


def _by_cairo(picture: str) -> bytes:
    try:
        from cairosvg import svg2png
    except (ImportError, OSError) as error:
        raise StalltopError("no PNG can be made here", INSTALL) from error
    made: bytes = svg2png(bytestring=picture.encode())
    return made
