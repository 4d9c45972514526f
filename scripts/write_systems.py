"""Writes the results of whole-system-test into docs/systems.md: ``write_systems.py SUITE FILE``.

SUITE is the release of Debian, such as ``trixie``; FILE has the output of a run. If only some steps were run,
the document keeps the results of the other steps.
"""

from __future__ import annotations

import sys
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parent.parent / "docs/systems.md"


def step(line: str) -> str:
    """Returns the name of the step in a line of results, such as ``quota`` in ``ok: quota (41 s): …``; '' if
    the line is about no step."""
    verdict, colon, rest = line.partition(": ")
    return rest.split(" ", 1)[0] if colon and verdict in ("ok", "FAILED") else ""


def merged(before: list[str], now: list[str]) -> list[str]:
    """Returns ``now``, the lines of the last run, if they have all steps of ``before``. Otherwise returns
    ``before`` with the lines of its steps that ``now`` has, too, replaced. A line about the last run, which
    names its steps, is added."""
    again = {step(line): line for line in now if step(line)}
    if not set(map(step, before)) - {""} - set(again):
        return now
    lines = [again.get(step(line), line) for line in before if step(line)]
    failed = [step(line) for line in lines if line.startswith("FAILED")]
    heads = [line for line in before if line.startswith("revision ")]
    return [
        *heads,
        f"{now[0]}: {', '.join(again)}",
        *lines,
        f"failed: {', '.join(failed)}" if failed else "all passed",
    ]


if __name__ == "__main__":
    suite, now = sys.argv[1], Path(sys.argv[2]).read_text(encoding="utf-8").strip().splitlines()
    before, start, rest = DOCUMENT.read_text(encoding="utf-8").partition(f"<!-- {suite} -->\n")
    old, end, after = rest.partition(f"<!-- /{suite} -->")
    if not start or not end:
        sys.exit(f"write_systems: {DOCUMENT} has no marks <!-- {suite} --> … <!-- /{suite} -->: add them")
    lines = "\n".join(merged(old.strip().strip("`").strip().splitlines(), now))
    DOCUMENT.write_text(f"{before}{start}\n```\n{lines}\n```\n\n{end}{after}", encoding="utf-8")
