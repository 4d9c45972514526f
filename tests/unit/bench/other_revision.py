"""Makes a small git repository with two revisions, for tests of comparisons. Each revision has a stand-in for
the benchmarks that traces nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[3]
OLD, NEW = 20.0, 10.0
"""For each revision, the figure that its stand-in reports in the first round, in ms; each further round adds
1 ms."""

# The old revision's figures are text, without types.
_OLD: Final = {
    "bench/__init__.py": "",
    "demo/__init__.py": "",
    "demo/build.py": """
def build():
    return None
""",
    "bench/spread.py": """
import statistics
from dataclasses import dataclass

@dataclass(frozen=True, slots=True)
class Spread:
    median: float
    rounds: int

    @staticmethod
    def of(values):
        found = list(values)
        return Spread(statistics.median(found), len(found))

    def text(self, form=".0f"):
        return f"{self.median:{form}} (all)"
""",
    "bench/table.py": """
from dataclasses import dataclass, field

@dataclass
class Table:
    title: str
    head: object
    rows: list = field(default_factory=list)
""",
    "bench/mini.py": """
import sys
from bench.spread import Spread
from bench.table import Table

def run(built, folder, *, quick):
    values = []
    for number in range(5):
        print(f"mini: round {number + 1} of 5", file=sys.stderr)
        values.append(VALUE + number)
    rows = [("a row", Spread.of(values).text(".2f")), ("beside", "7")]
    return [Table("mini: of old", ("what", "ms"), rows)]
""",
    "bench/__main__.py": """
from bench import mini

BENCHES = {"mini": ("small", mini.run)}

if __name__ == "__main__":
    for name in BENCHES:
        print(name, "small")
""",
}
_NEW_RUN: Final = """
import sys
from bench.measuring.figures import FigureColumn
from bench.measuring.spread import Spread
from bench.measuring.table import TextTable

def run(built, folder, *, quick):
    values = []
    for number in range(5):
        print(f"mini: round {number + 1} of 5", file=sys.stderr)
        values.append(VALUE + number)
    columns = ("what", FigureColumn("ms", "ms"), FigureColumn("added", "ms"))
    table = TextTable("mini: of new", columns, others=("beside",))
    table.add("a row", Spread.of(values).text(".2f"), "1")
    table.add("beside", "7", "1")
    return [table]
"""


def repository(folder: Path) -> tuple[str, str]:
    """Creates the repository in ``folder``; returns the ids of its old and its new commit."""
    folder.mkdir()
    (folder / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/environment.sh", folder / "scripts")
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / ".gitignore").write_text(".venv*\n")
    (folder / "demo").mkdir()
    (folder / "bench").mkdir()
    for name, text in _OLD.items():
        (folder / name).write_text(text.replace("VALUE", str(OLD)))
    git(folder, "init", "--quiet")
    old = _commit(folder)
    (folder / "bench/measuring").mkdir()
    for name in ("__init__.py", "figures.py", "spread.py", "table.py"):
        shutil.copy(ROOT / "bench/measuring" / name, folder / "bench/measuring")
    (folder / "bench/mini.py").write_text(_NEW_RUN.replace("VALUE", str(NEW)))
    return old, _commit(folder)


def git(folder: Path, *arguments: str) -> str:
    """Runs git in ``folder``; returns its output."""
    who = ("-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", "-C", folder, *who, *arguments], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


def _commit(folder: Path) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--no-verify", "--message", "one")
    return git(folder, "rev-parse", "HEAD")
