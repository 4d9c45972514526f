"""Makes fixes that show what a process does, with a tool that fits the program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.links import Who
from stalltop.diagnosis.wording.culprits import named
from stalltop.model.chain import Fix

_PYTHON: Final = ("python", "pt_data_worker", "uvicorn", "gunicorn", "celery", "ray::", "torchrun", "ipython")
"""Beginnings of the names of processes that run Python. Names that end in .py count as well."""
_OF_PROGRAM: Final[Mapping[str, Fix]] = {
    "postgres": Fix(
        "see which queries run, and which session blocks another: pg_stat_activity, pg_blocking_pids(pid)",
        look=True,
        short="see which queries run: pg_stat_activity",
    ),
    "redis-server": Fix("see which commands of redis-server are slow", "redis-cli slowlog get", look=True),
    "mysqld": Fix("see which queries of mysqld run: SHOW FULL PROCESSLIST", look=True),
}
"""What shows more of programs that tell themselves what they do, by the name of the process."""


def at_line(facts: Facts, who: Who, doing: str) -> Fix:
    """Returns a fix that shows at which line a process is. ``doing`` says what it does, as "computes"."""
    shows = f"shows the line that {doing}" if "," not in doing else "shows the lines of its threads"
    if who.process in _OF_PROGRAM:
        return _OF_PROGRAM[who.process]
    if who.process.startswith(_PYTHON) or who.process.endswith(".py") or _has_gil(facts, who.pid):
        hint = "" if doing != "sleeps" else " (a sleep of asyncio shows as select)"
        return Fix(
            f"see at which line {named(facts, who)} {doing}{hint}",
            f"py-spy dump --pid {who.pid}",
            look=True,
            short=shows,
        )
    stacks = f"gdb -p {who.pid} -batch -ex 'thread apply all bt'"
    command = f"perf top -p {who.pid}" if "computes" in doing else stacks
    return Fix(
        f"see at which line {named(facts, who)} {doing} (py-spy dump if it runs Python)",
        command,
        look=True,
        short=shows,
    )


def _has_gil(facts: Facts, pid: int) -> bool:
    return pid in facts.window.evidence.threads.python
