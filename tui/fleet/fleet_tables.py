"""The tables of the fleet's screen. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from stalltop.formats.text.fleet import job_line, job_loss, problem_text, unlike_figure
from stalltop.model.fleet.fleet_digest import FleetDigest
from stalltop.model.fleet.fleet_view import FleetJob, FleetProblem, FleetRank, FleetTenant, HostLine
from stalltop.model.fleet.host_summary import UNKNOWN, HostAddress
from stalltop.model.fleet.job_waits import LastRank
from stalltop.model.text import figures
from stalltop.model.text.glyphs import Glyphs
from stalltop.model.text.words import numbered
from stalltop.widgets.table_data import Cell, Column, Role, TableData, TableRow, TableRows

FleetPage = Literal["hosts", "problems", "tenants", "jobs", "ranks"]
PAGES: Final[tuple[FleetPage, ...]] = ("hosts", "problems", "tenants", "jobs")
"""The tables that keys show, in the order of their keys 1 to 4. The ranks are those of one job."""
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
    """What the rows have in common, such as a problem, a tenant or a job; shown in the title."""
    job: str = ""
    """The communicator whose ranks are shown."""
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


def hosts_of(view: FleetDigest, key: Hashable) -> tuple[HostAddress, ...]:
    """Returns the hosts of the row ``key`` of the table of problems."""
    return next((one.hosts for one in view.problems if _problem_key(one) == key), ())


def job_of(view: FleetDigest, choice: FleetChoice) -> FleetJob | None:
    """Returns the job whose ranks are shown; None if other rows are, or if it has ended."""
    return next((one for one in view.jobs if one.communicator == choice.job), None)


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
    title = _title(choice, len(rows))
    if view.jobs_left_out:
        title += ((f"  and {view.jobs_left_out:,} more that are not listed", "dim"),)
    return TableData(title, columns, rows, "said", empty=empty)


def _job_row(job: FleetJob, glyphs: Glyphs) -> TableRow:
    said, hosts = job_line(job), len(job.hosts) + job.left_out.hosts
    cells = (
        Cell(job.tenant or job.communicator),
        Cell(job.communicator, "dim"),
        Cell(f"{len(job.ranks) + job.left_out.ranks:,} of {job.size:,}"),
        Cell(figures.count(hosts, glyphs)),
        Cell(figures.count(max(rank.entered for rank in job.ranks), glyphs)),
        Cell(said or f"runs on {numbered(hosts, 'host')}", "bad" if said else "good"),
    )
    return TableRow(job.communicator, cells, job.tenant)


_RANK_COLUMNS: Final = (
    Column("name", "RANK", _LEAST_NAME, right=False, fixed=True, ends_differ=True),
    Column("late", "late", 6),
    Column("last", "last", 5),
    Column("costs", "costs", 6),
    Column("waits", "waits", 6),
    Column("entered", "collectives", 11),
    Column("pid", "PID", 7),
    Column("said", "problem", _LEAST_SAID, right=False),
)
_RANKS_ONLY_WIDE: Final = ("entered", "pid")
_SAME_SECONDS: Final = 0.003
"""Ranks whose lateness differs by less are in the order of their numbers. None is called late for less."""


def _ranks(view: FleetDigest, choice: FleetChoice, glyphs: Glyphs, width: int) -> TableData:
    """Returns the ranks of one job, the one that usually arrives last first."""
    job = job_of(view, choice)
    shown = [at for at, one in enumerate(_RANK_COLUMNS) if width >= _WIDE or one.id not in _RANKS_ONLY_WIDE]
    rows: list[TableRow] = []
    if job is not None:
        last = {one.rank: one for one in job.waits_for}
        for rank in sorted(job.ranks, key=_latest_first):
            whole = _rank_row(job, rank, last.get(rank.rank), glyphs)
            if _matches(choice, whole.label, rank.process, whole.cells[-1].text):
                rows.append(replace(whole, cells=tuple(whole.cells[at] for at in shown)))
    title = _title(choice, len(rows))
    if job is not None and (loss := job_loss(job, glyphs)):
        title += (("  " + loss, "dim"),)
    if job is not None and job.left_out.ranks:
        title += ((f"  and {job.left_out.ranks:,} more that are not listed", "dim"),)
    columns = tuple(_RANK_COLUMNS[at] for at in shown)
    empty = ("No host has ranks of this job any more.",) if job is None else ("No rank matches.",)
    return TableData(title, columns, tuple(rows), "late", empty=empty)


def _latest_first(rank: FleetRank) -> tuple[int, int]:
    """Sort key. Ranks whose lateness differs by noise only keep their places."""
    return -round(max(rank.median_late_seconds or 0.0, 0.0) / _SAME_SECONDS), rank.rank


def _rank_row(job: FleetJob, rank: FleetRank, last: LastRank | None, glyphs: Glyphs) -> TableRow:
    name = f"{rank.rank} on {rank.address.host}"
    waited_for, problem = rank in job.late, rank.problem
    late, late_ns, share, costs, waits = rank.median_late_seconds, None, None, None, None
    if late is not None and job.compared:
        late_ns = max(late, 0.0) * 1e9
        share = 100 * (last.times if last is not None else 0) / job.compared
        costs = (last.rank_seconds if last is not None else 0.0) / job.compared * 1e9
        waits = (rank.waited_seconds or 0.0) / job.compared * 1e9
    told = [
        f"likeness: GPU {one.device} {unlike_figure(one)}"
        for one in job.unlike
        if (one.address, one.rank) == (rank.address, rank.rank)
    ]
    told += [] if problem is None else [problem_text(problem)]
    said = "; ".join(told)
    cells = (
        Cell(name, "bad" if waited_for else "" if rank.live else "dim"),
        Cell(figures.duration(late_ns, glyphs), "bad" if waited_for else ""),
        Cell(figures.percent(share, glyphs)),
        Cell(figures.duration(costs, glyphs)),
        Cell(figures.duration(waits, glyphs)),
        Cell(figures.count(rank.entered, glyphs)),
        Cell(str(rank.pid)),
        Cell(said if rank.live else "its host is silent", "text" if said else "dim"),
    )
    return TableRow((rank.address, rank.rank), cells, name)


_MAKERS: Final[dict[FleetPage, Callable[[FleetDigest, FleetChoice, Glyphs, int], TableData]]] = {
    "hosts": _hosts,
    "problems": _problems,
    "tenants": _tenants,
    "jobs": _jobs,
    "ranks": _ranks,
}
