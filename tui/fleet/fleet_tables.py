"""The tables of the fleet's screen. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from stalltop.formats.text.fleet import job_line
from stalltop.model.fleet.fleet_digest import FleetDigest
from stalltop.model.fleet.fleet_view import FleetJob, FleetProblem, FleetTenant, HostLine
from stalltop.model.fleet.host_summary import UNKNOWN, HostAddress
from stalltop.model.text import figures
from stalltop.model.text.glyphs import Glyphs
from stalltop.model.text.words import numbered
from stalltop.widgets.table_data import Cell, Column, Role, TableData, TableRow, TableRows

FleetPage = Literal["hosts", "problems", "tenants", "jobs"]
PAGES: Final[tuple[FleetPage, ...]] = ("hosts", "problems", "tenants", "jobs")
"""The tables of the screen, in the order of their keys 1 to 4."""
_ROLES: Final[dict[str, Role]] = {
    "critical": "critical",
    "high": "bad",
    "medium": "warn",
    "low": "text",
    "live": "good",
    "silent": "warn",
    "unreadable": "bad",
}
"""Styles of severities, and of the states of hosts."""
_LEAST_NAME, _MOST_NAME = 12, 40
"""Bounds of the width of the first column, in cells."""
_MEASURED: Final = 100
"""Rows, from the first one, whose names decide the width of the first column."""
_LEAST_SAID: Final = 16
"""Least width of the last column, which holds sentences and takes what is left of the width."""


@dataclass(frozen=True, slots=True)
class FleetChoice:
    """What a table shows of the fleet."""

    page: FleetPage = "hosts"
    hosts: Collection[HostAddress] | None = None
    """Only these hosts; None: all."""
    of: str = ""
    """What ``hosts`` have in common, such as a problem or a tenant; shown in the title."""
    filter: str = ""
    """Only rows whose text contains this, in any case."""


def fleet_table(view: FleetDigest, choice: FleetChoice, glyphs: Glyphs, width: int) -> TableData:
    """Returns the table that ``choice`` describes, for ``width`` cells."""
    data = _MAKERS[choice.page](view, choice, glyphs, width)
    rows = [data.rows[at] for at in range(min(len(data.rows), _MEASURED))]
    name = min(max((_LEAST_NAME, *(len(row.label) for row in rows))), _MOST_NAME)
    shown = [
        replace(column, width=_text_width(column, at, rows)) if not column.right else column
        for at, column in enumerate(data.columns)
    ]
    first, *others, last = shown
    # Before each column but the first, there is a blank, and one at each end of the line.
    left = width - name - sum(one.width + 1 for one in others) - 4
    columns = (
        replace(first, width=name, most=name),
        *others,
        replace(last, width=max(left, _LEAST_SAID)),
    )
    return replace(data, columns=columns)


def _text_width(column: Column, at: int, rows: Sequence[TableRow]) -> int:
    """Returns the width that the texts of a column need, at most its own width."""
    return min(max((len(column.title) + 1, *(len(row.cells[at].text) for row in rows))), column.width)


def hosts_of(view: FleetDigest, page: FleetPage, key: Hashable) -> tuple[HostAddress, ...]:
    """Returns the hosts of the row ``key`` of the table of problems or jobs."""
    if page == "problems":
        return next((one.hosts for one in view.problems if _problem_key(one) == key), ())
    return next((one.hosts for one in view.jobs if one.communicator == key), ())


def _matches(choice: FleetChoice, *texts: str) -> bool:
    return not choice.filter or choice.filter.lower() in " ".join(texts).lower()


def _title(choice: FleetChoice, count: int) -> tuple[tuple[str, Role], ...]:
    parts: list[tuple[str, Role]] = [(f"{count:,} {choice.page if count != 1 else choice.page[:-1]}", "head")]
    if choice.of:
        parts += [(" of ", "dim"), (choice.of, "accent")]
    if choice.filter:
        parts += [("  with ", "dim"), (choice.filter, "accent")]
    return tuple(parts)


def _lost(ms_per_s: float, glyphs: Glyphs) -> Cell:
    return Cell(
        figures.duration(ms_per_s * 1e6 if ms_per_s > 0 else None, glyphs), "bad" if ms_per_s else "dim"
    )


_WIDE: Final = 100
"""Least width of the screen, in cells, at which hosts have all columns."""
_ONLY_WIDE: Final = ("cpu", "tenants")
_HOST_COLUMNS: Final = (
    Column("name", "HOST", _LEAST_NAME, right=False, fixed=True, ends_differ=True),
    Column("state", "state", 10, right=False),
    Column("lost", "lost/s", 6),
    Column("calls", "calls/s", 7),
    Column("cpu", "cpu", 5),
    Column("tenants", "tenants", 7),
    Column("said", "problem", _LEAST_SAID, right=False),
)


def _hosts(view: FleetDigest, choice: FleetChoice, glyphs: Glyphs, width: int) -> TableData:
    hosts: Sequence[HostLine] = view.hosts
    if choice.hosts is not None or choice.filter:
        wanted = None if choice.hosts is None else set(choice.hosts)
        hosts = [
            host
            for host in hosts
            if (wanted is None or host.address in wanted)
            and _matches(choice, host.address.text, host.state, host.said)
        ]

    shown = [at for at, one in enumerate(_HOST_COLUMNS) if width >= _WIDE or one.id not in _ONLY_WIDE]

    def row(at: int) -> TableRow:
        whole = _host_row(hosts[at], glyphs)
        return replace(whole, cells=tuple(whole.cells[at] for at in shown))

    return TableData(
        _title(choice, len(hosts)),
        tuple(_HOST_COLUMNS[at] for at in shown),
        TableRows([host.address for host in hosts], row),
        "lost",
        empty=("No host sends anything." if not view.hosts else "No host matches.",),
    )


def _host_row(host: HostLine, glyphs: Glyphs) -> TableRow:
    live, name = host.state == "live", host.address.text
    cells = (
        # One colour a row says how bad it is: a screen of red names would say nothing.
        Cell(name, "dim" if host.state == "silent" else ""),
        Cell(host.state, _ROLES.get(host.state, "")),
        _lost(host.lost_ms_per_s, glyphs)._replace(role=_ROLES.get(host.severity, "dim")),
        Cell(figures.rate(host.calls_per_s if live else None, glyphs)),
        Cell(figures.percent(None if host.cpu_percent == UNKNOWN else host.cpu_percent, glyphs)),
        Cell(figures.count(host.tenants if live else None, glyphs)),
        Cell(host.said, "text" if host.severity else "dim"),
    )
    return TableRow(host.address, cells, name)


def _problem_key(problem: FleetProblem) -> Hashable:
    return problem.cause, problem.culprit_namespace, problem.culprit


def _problems(view: FleetDigest, choice: FleetChoice, glyphs: Glyphs, width: int) -> TableData:
    shown = [
        one for one in view.problems if _matches(choice, one.culprit, one.title, one.summary, *one.victims)
    ]
    rows = tuple(
        TableRow(
            _problem_key(one),
            (
                Cell(one.culprit or "no culprit known", "" if one.culprit else "dim"),
                Cell(one.severity, _ROLES.get(one.severity, "")),
                _lost(one.lost_ms_per_s, glyphs),
                Cell(figures.count(len(one.hosts), glyphs)),
                Cell(one.title),
                Cell(", ".join(one.victims[:3]) or "the host", "text"),
                Cell(f"{one.hosts[0].host}: {one.summary}", "dim"),
            ),
            one.culprit or one.title,
        )
        for one in shown
    )
    columns = (
        Column("name", "CULPRIT", _LEAST_NAME, right=False, fixed=True),
        Column("severity", "severity", 8, right=False),
        Column("lost", "lost/s", 6),
        Column("hosts", "hosts", 5),
        Column("title", "problem", 30, right=False),
        Column("victims", "slows", 24, right=False),
        Column("said", "on the worst host", _LEAST_SAID, right=False),
    )
    empty = ("No problems.",) if not choice.filter else ("No problem matches.",)
    return TableData(_title(choice, len(rows)), columns, rows, "severity", empty=empty)


def _tenants(view: FleetDigest, choice: FleetChoice, glyphs: Glyphs, width: int) -> TableData:
    shown: list[FleetTenant] = [one for one in view.tenants if _matches(choice, one.namespace, one.name)]

    def row(at: int) -> TableRow:
        one = shown[at]
        name = f"{one.namespace}/{one.name}" if one.namespace else one.name
        cells = (
            Cell(name),
            Cell(figures.count(one.hosts, glyphs)),
            _lost(one.lost_ms_per_s, glyphs),
            Cell(figures.rate(one.calls_per_s, glyphs)),
            Cell(figures.rate(one.busy, glyphs)),
            Cell(figures.duration(one.worst_p99_ns, glyphs)),
            Cell(one.worst_host.host, "dim"),
        )
        return TableRow((one.namespace, one.name), cells, name)

    columns = (
        Column("name", "TENANT", _LEAST_NAME, right=False, fixed=True),
        Column("hosts", "hosts", 5),
        Column("lost", "lost/s", 6),
        Column("calls", "calls/s", 7),
        Column("busy", "threads", 7),
        Column("p99", "worst p99", 9),
        Column("on", "on", _LEAST_SAID, right=False),
    )
    keys: list[Hashable] = [(one.namespace, one.name) for one in shown]
    empty = ("No tenant makes calls.",)
    return TableData(_title(choice, len(shown)), columns, TableRows(keys, row), "lost", empty=empty)


def _jobs(view: FleetDigest, choice: FleetChoice, glyphs: Glyphs, width: int) -> TableData:
    shown = [one for one in view.jobs if _matches(choice, one.tenant, one.communicator, job_line(one))]
    rows = tuple(_job_row(one, glyphs) for one in shown)
    columns = (
        Column("name", "JOB", _LEAST_NAME, right=False, fixed=True),
        Column("communicator", "communicator", 16, right=False),
        Column("ranks", "ranks", 11),
        Column("hosts", "hosts", 5),
        Column("entered", "collectives", 11),
        Column("said", "state", _LEAST_SAID, right=False),
    )
    empty = ("No host has ranks of an NCCL communicator.",)
    return TableData(_title(choice, len(rows)), columns, rows, "said", empty=empty)


def _job_row(job: FleetJob, glyphs: Glyphs) -> TableRow:
    said = job_line(job)
    cells = (
        Cell(job.tenant or job.communicator),
        Cell(job.communicator, "dim"),
        Cell(f"{len(job.ranks):,} of {job.size:,}"),
        Cell(figures.count(len(job.hosts), glyphs)),
        Cell(figures.count(max(rank.entered for rank in job.ranks), glyphs)),
        Cell(said or f"runs on {numbered(len(job.hosts), 'host')}", "bad" if said else "good"),
    )
    return TableRow(job.communicator, cells, job.tenant)


_MAKERS: Final[dict[FleetPage, Callable[[FleetDigest, FleetChoice, Glyphs, int], TableData]]] = {
    "hosts": _hosts,
    "problems": _problems,
    "tenants": _tenants,
    "jobs": _jobs,
}
