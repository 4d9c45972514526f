"""Writes the saved window that the tests of the screen's pictures show: ``python scripts/renew_window.py``.

It is a window of the simulated host, as the program makes it now. The pictures show a saved window so that
they change only if the screen changes: run this after a change of the file format, or of the words of
problems.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from scripts.screenshots import window  # noqa: E402
from stalltop.recordings.write.saving import dump  # noqa: E402

WINDOW: Final = ROOT / "tests" / "tui" / "pictures" / "snapshots" / "window.stalltop"

if __name__ == "__main__":
    WINDOW.write_bytes(dump(window()))
