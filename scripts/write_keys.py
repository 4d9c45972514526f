"""Writes what the documents say of keys, filters, settings and files: ``python scripts/write_keys.py``.

README.md has the most important keys, docs/keys.md all of them and what a filter can say, docs/config.md
every setting, docs/saving.md and docs/export.md the formats, docs/devices.md what is asked of GPUs,
docs/file-format.md every table of a file, docs/sql.md what queries see.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from stalltop.formats import registry  # noqa: E402
from stalltop.probes.nvml import text as nvml_text  # noqa: E402
from stalltop.recordings.file import format_text  # noqa: E402
from stalltop.recordings.query import text as query_text  # noqa: E402
from stalltop.tui import keys  # noqa: E402
from stalltop.tui.pages import filter_help, page_keys  # noqa: E402
from stalltop.tui.settings import settings as config  # noqa: E402


def with_table(text: str, name: str, table: str) -> str:
    """``text`` with ``table`` between the two marks of ``name``. Raises ValueError without them."""
    start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, found, rest = text.partition(start)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"no {start.strip()} … {end} in it")
    return f"{before}{start}\n{table}\n\n{end}{after}"


def documents() -> dict[Path, str]:
    """Each document that has a table, and its text with the table of now."""
    tables = {
        "README.md": {"keys": keys.short_markdown()},
        "docs/keys.md": {
            "keys": f"{keys.markdown()}\n\n{page_keys.markdown()}",
            "filter": filter_help.markdown(),
        },
        "docs/config.md": {"settings": config.markdown()},
        "docs/devices.md": {"readings": nvml_text.markdown()},
        "docs/saving.md": {"formats": registry.saved_markdown()},
        "docs/export.md": {"formats": registry.exported_markdown()},
        "docs/file-format.md": {"tables": format_text.markdown()},
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
