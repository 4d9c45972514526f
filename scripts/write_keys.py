"""Writes the generated tables of the documents: ``python scripts/write_keys.py``.

README.md has the names of formats and the most important keys, docs/keys.md all keys and the syntax of
filters, docs/config.md all settings, docs/saving.md and docs/export.md the formats, docs/devices.md the
readings of NVML, docs/file-format.md the tables of a file, docs/json.md the losses, the parts of a call's
time, the figures of a GPU and the counters of a network port, docs/metrics.md the metrics, docs/stacks.md the
reasons of stacks, docs/sql.md the views for queries.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from stalltop.diagnosis.runbook import runbook_markdown  # noqa: E402
from stalltop.formats import registry  # noqa: E402
from stalltop.formats.documents import text as json_text  # noqa: E402
from stalltop.formats.metrics import fleet  # noqa: E402
from stalltop.formats.metrics.catalogue import METRICS, metrics_markdown  # noqa: E402
from stalltop.probes.nvml import text as nvml_text  # noqa: E402
from stalltop.recordings.file import format_text  # noqa: E402
from stalltop.recordings.query import text as query_text  # noqa: E402
from stalltop.tui.keys import actions as keys  # noqa: E402
from stalltop.tui.keys import page_keys  # noqa: E402
from stalltop.tui.pages import filter_help  # noqa: E402
from stalltop.tui.settings import settings as config  # noqa: E402
from stalltop.tui.settings.host import HOST_SETTINGS  # noqa: E402
from stalltop.tui.settings.notify import NOTIFY_SETTINGS  # noqa: E402


def with_table(text: str, name: str, table: str) -> str:
    """Replaces the text between the two marks (comments) of ``name`` by ``table``. If both marks are on one
    line, so is the new text. Raises ValueError if a mark is missing."""
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, found, rest = text.partition(start)
    replaced, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the document lacks the mark {start} or {end}")
    blank = "\n\n" if "\n" in replaced else ""
    return f"{before}{start}{blank}{table}{blank}{end}{after}"


def documents() -> dict[Path, str]:
    """Returns the text of each document that has generated tables, with these tables up to date."""
    tables = {
        "README.md": {
            "formats": ", ".join(f"`{name}`" for name in registry.EXPORTED),
            "keys": keys.short_markdown(),
        },
        "docs/keys.md": {
            "keys": f"{keys.markdown()}\n\n{page_keys.markdown()}",
            "filter": filter_help.markdown(),
        },
        "docs/config.md": {
            "settings": config.markdown(),
            "host": config.markdown(HOST_SETTINGS),
            "notify": config.markdown(NOTIFY_SETTINGS),
        },
        "docs/devices.md": {"readings": nvml_text.markdown()},
        "docs/saving.md": {"formats": registry.saved_markdown()},
        "docs/export.md": {"formats": registry.exported_markdown()},
        "docs/file-format.md": {"tables": format_text.markdown()},
        "docs/json.md": {
            "losses": json_text.losses_markdown(),
            "parts": json_text.parts_markdown(),
            "figures": json_text.figures_markdown(),
            "ports": json_text.ports_markdown(),
        },
        "docs/fleet.md": {"metrics": metrics_markdown(fleet.METRICS)},
        "docs/metrics.md": {"metrics": metrics_markdown(METRICS)},
        "docs/runbook.md": {"runbook": runbook_markdown()},
        "docs/stacks.md": {"reasons": json_text.reasons_markdown()},
        "docs/sql.md": {
            "calls": query_text.calls_markdown(),
            "queries": query_text.queries_markdown(),
            "tables": query_text.tables_markdown(),
        },
    }
    texts = {}
    for path, named in tables.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        for name, table in named.items():
            text = with_table(text, name, table)
        texts[ROOT / path] = text
    return texts


if __name__ == "__main__":
    for path, text in documents().items():
        path.write_text(text, encoding="utf-8")
