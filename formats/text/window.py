"""Writes a window as text. ``once`` prints this text, and it stays on the terminal when the screen ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len

from stalltop.formats.text import chains as chain_text
from stalltop.formats.text.network import network
from stalltop.formats.text.sharing_lines import sharing_lines
from stalltop.model.chain import uncontradicted, worst_first
from stalltop.model.devices.device import DEVICE_FIGURE, Device
from stalltop.model.rows.dimensions import Dimension
from stalltop.model.rows.pivot import Groups, pivot
from stalltop.model.text import figures
from stalltop.model.text.glyphs import Glyphs
from stalltop.model.text.style import BOLD, RED, YELLOW, Style
from stalltop.model.text.words import numbered, with_pid
from stalltop.model.window import LOSSES, PARTS, SPLITS, UNCOUNTED, Missing, OpenCall, Window

MOST_ROWS = 20
"""Maximum number of rows of each table. A line below the table says how many more there are."""
OPEN_CALL_NS = 1_000_000_000
"""Least age of the open calls that are listed, ns. A call that is open for a shorter time is normal."""
MOST_LISTED = 8
MOST_CULPRITS = 5
LEAST_WIDTH = 40
"""Least width of the text, in cells."""


@dataclass(frozen=True, slots=True)
class _WindowColumn:
    head: str
    width: int
    keep: int
    """If there is little room, columns with higher numbers are dropped first."""
    cell: Callable[[Groups, int, Glyphs], str]


_WHERE = "time went to"
_COLUMNS = (
    _WindowColumn("calls/s", 7, 0, lambda g, i, u: figures.rate(g.calls_per_s[i], u)),
    _WindowColumn("p50", 6, 2, lambda g, i, u: _percentile(g, i, 0, u)),
    _WindowColumn("p95", 6, 6, lambda g, i, u: _percentile(g, i, 1, u)),
    _WindowColumn("p99", 6, 1, lambda g, i, u: _percentile(g, i, 2, u)),
    _WindowColumn("max", 6, 4, lambda g, i, u: figures.duration(g.max_ns[i], u)),
    _WindowColumn("total", 6, 5, lambda g, i, u: figures.duration(g.total_ns[i], u)),
    _WindowColumn("share", 5, 3, lambda g, i, u: figures.percent(100 * g.share[i], u)),
    _WindowColumn("err", 5, 7, lambda g, i, u: figures.count(g.errors[i], u)),
    _WindowColumn("bytes/s", 7, 8, lambda g, i, u: figures.size(g.bytes_per_s[i], u)),
    _WindowColumn(_WHERE, 18, 9, lambda g, i, u: split(g, i)),
)
_SHORT = {name: part.short for name, part in PARTS.items()} | {"runqueue": "rq"}
"""Short names of the parts of a call's time, because printed tables have less room than the screen."""
_LABEL_WIDTH = (16, 22, 40)
"""Width of the label in cells: (least, enough, largest). A label has enough room if it gets ``enough``, or
its own width if that is less. If the parts of the time are shown, and the longest label has enough room only
without the column ``bytes/s``, this column is left out."""


def _percentile(groups: Groups, row: int, column: int, glyphs: Glyphs) -> str:
    known = groups.calls[row] > 0
    return figures.duration(groups.percentiles_ns[row, column] if known else None, glyphs)


def split(groups: Groups, row: int) -> str:
    """Return the two largest parts of a group's time, ``run 62% rq 30%``; '' if they were not measured."""
    if groups.split_ns is None or not groups.total_ns[row]:
        return ""
    shares = groups.split_ns[row].astype(np.float64) / float(groups.total_ns[row])
    largest = np.argsort(-shares, kind="stable")[:2]
    parts = [f"{_SHORT[SPLITS[part]]} {100 * shares[part]:.0f}%" for part in largest if shares[part] >= 0.005]
    return " ".join(parts)


def table(window: Window, style: Style, answer: Sequence[str] = ()) -> str:
    """Return ``window`` as text that fits ``style`` (40 cells or more) and ends in a newline. It has tables
    of containers and of operations. ``once --json`` has every row. The lines of ``answer`` come first."""
    style = style.at_least(LEAST_WIDTH)
    parts = [list(answer), facts(window, style)]
    if len(window.rows):
        parts.append(_table(window, "container", style))
        parts.append(_table(window, "operation", style))
    else:
        parts.append(_nothing(window, style))
    parts += [_chains(window, style), *remarks(window, style)]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def remarks(window: Window, style: Style) -> list[list[str]]:
    """Return remarks about shared devices, culprits, open calls, and what is not traced, not measured or
    lost. Each remark is a list of a title and its lines; an empty list if there is nothing to say."""
    parts = [*sharing_lines(window, style), _culprits(window, style)]
    parts += [_open_calls(window, style, ended) for ended in (False, True)]
    gaps = (_missing(window, style, untraced=True), _missing(window, style, untraced=False))
    return [*parts, *gaps, _unknown(window, style), _losses(window, style)]


def facts(window: Window, style: Style) -> list[str]:
    """Return lines with the host, the time, the counts, and the figures of the host and its devices."""
    facts = [f"stalltop {window.host}", figures.clock(window.start), f"{window.seconds:.1f} s"]
    if window.simulated:
        facts.insert(1, "SIMULATED")
    facts += counted(window)
    lines = [style.paint(line, BOLD) for line in style.wrapped(facts)]
    tracing = window.coverage.tracing
    if tracing:
        lines += [style.paint(line, YELLOW) for line in style.wrapped([f"not tracing: {tracing}"])]
    lines += host(window, style)
    return lines


def counted(window: Window) -> list[str]:
    """Return texts with the rate of calls, the number of missed calls and, if there are any, of partial ones.
    If probes are attached, also return the number of traced processes, the number of probes, and their
    cost."""
    calls = pivot(window, ()).calls_per_s[0]
    coverage = window.coverage
    parts = [f"{figures.rate(calls).strip()} calls/s", f"{figures.count(window.lost).strip()} missed"]
    if window.partial:
        parts.append(f"{figures.count(window.partial).strip()} partial")
    if coverage.attached:
        parts += [
            f"{numbered(coverage.processes, 'process', 'processes')} traced",
            numbered(coverage.attached, "probe"),
            f"probes take {figures.percent(coverage.cost_percent).strip()} of a CPU",
        ]
    parts += [f"{one.symbol} {one.text}" for library in coverage.libraries for one in library.reduced]
    return parts


def host(window: Window, style: Style) -> list[str]:
    """Return lines with the figures of the host and of each device."""
    lines: list[str] = []
    system = window.system
    if system is not None:
        lines += style.wrapped(
            [
                f"CPU {figures.percent(system.cpu_percent).strip()} of {system.cpus}",
                f"memory {_of(system.memory_used_bytes, system.memory_total_bytes, style.glyphs)}",
                f"swap {_of(system.swap_used_bytes, system.swap_total_bytes, style.glyphs)}",
                "load " + " ".join(f"{load:.2f}" for load in system.load),
                *figures.pressure(system),
                *figures.stolen(system),
            ]
        )
    lines += style.wrapped(network(window, style.glyphs))
    for device in window.devices.devices:
        lines += style.wrapped(_device(device, style), indent="  ")
    if window.devices.unavailable:
        lines += style.wrapped([f"GPU: {window.devices.unavailable}"])
    return lines


def _of(used: float | None, total: float | None, glyphs: Glyphs) -> str:
    return f"{figures.memory(used, glyphs).strip()} of {figures.memory(total, glyphs).strip()}"


def _device(device: Device, style: Style) -> list[str]:
    facts = [
        f"GPU {device.index} {device.name}",
        f"{figures.percent(device.utilization_percent, style.glyphs).strip()} busy",
        f"memory {_of(device.memory_used_bytes, device.memory_total_bytes, style.glyphs)}",
    ]
    for name in ("power_watts", "temperature_celsius", "sm_clock_mhz"):
        figure = DEVICE_FIGURE[name]
        value = figure.value(device)
        limit = figure.limit(device) if name == "power_watts" else None
        if value is not None:
            of = "" if limit is None else f" of {limit:.0f} {figure.unit}"
            facts.append(f"{value:.0f} {figure.unit}{of}")
    if device.throttle_reasons:
        facts.append(style.fit("throttled: " + ", ".join(device.throttle_reasons), style.width - 2).rstrip())
    return facts


def _table(window: Window, by: Dimension, style: Style) -> list[str]:
    groups = pivot(window, [by])
    columns, label_width = _layout(groups, by, style)
    head = style.fit(by, label_width) + "".join(" " + _aligned(column.head, column) for column in columns)
    lines = [style.paint(head.rstrip(), BOLD)]
    # The time between calls comes last, and is shown even if other rows are left out.
    order = np.lexsort((groups.calls, groups.total_ns, ~groups.between))[::-1]
    order = order[~groups.nested[order]].tolist()
    last = int(groups.between.sum())
    for row in (*order[: len(order) - last][: MOST_ROWS - last], *order[len(order) - last :]):
        # Names are cut in the middle, because names of operations mostly differ at their ends.
        cells = [figures.middle(groups.labels[row][0], label_width, style.glyphs)]
        for column in columns:
            cell = _aligned(column.cell(groups, row, style.glyphs), column)
            wrong = column.head == "err" and groups.errors[row] > 0
            cells.append(style.paint(cell, RED) if wrong else cell)
        lines.append(" ".join(cells).rstrip())
    if len(order) > MOST_ROWS:
        lines.append(f"and {len(order) - MOST_ROWS} more")
    if groups.nested.any():
        inside = numbered(int(groups.nested.sum()), "operation")
        lines += style.wrapped([f"not listed: {inside} inside these calls, which include their time"])
    return lines


def _aligned(text: str, column: _WindowColumn) -> str:
    return text.ljust(column.width) if column.head == _WHERE else text.rjust(column.width)


def _layout(groups: Groups, by: str, style: Style) -> tuple[Sequence[_WindowColumn], int]:
    """Return the columns for which there is room, and the width that they leave for the label."""
    least, enough, most = _LABEL_WIDTH
    longest = max((cell_len(label[0]) + 2 for label in groups.labels), default=0)

    def room(columns: Sequence[_WindowColumn]) -> int:
        return style.width - sum(column.width + 1 for column in columns)

    columns = [column for column in _COLUMNS if column.head != _WHERE or groups.split_ns is not None]
    fewer = [column for column in columns if column.head != "bytes/s"]
    if groups.split_ns is not None and room(columns) < min(longest, enough) <= room(fewer):
        columns = fewer
    while room(columns) < least and len(columns) > 1:
        columns.remove(max(columns, key=lambda column: column.keep))
    return columns, max(min(room(columns), most, max(longest, len(by), least)), 1)


def _nothing(window: Window, style: Style) -> list[str]:
    """Return lines that say why a window has no rows, and what to do."""
    coverage = window.coverage
    if coverage.tracing or not coverage.attached:
        if coverage.libraries or coverage.tracing:
            return style.wrapped(["No call could be counted.", "To see what is missing: stalltop check"])
        return style.wrapped(
            [
                "No process has a CUDA or NCCL library loaded.",
                "Processes that start later are seen at once.",
                "To see it at work: stalltop demo",
            ]
        )
    return style.wrapped(
        [
            f"No CUDA or NCCL call returned in {window.seconds:.1f} s.",
            f"Watched: {numbered(len(coverage.libraries), 'library', 'libraries')} in "
            f"{numbered(_mapped(window), 'process', 'processes')}.",
            "To watch for longer: stalltop once --seconds 30",
        ]
    )


def _mapped(window: Window) -> int:
    return max((library.processes for library in window.coverage.libraries), default=0)


def _chains(window: Window, style: Style) -> list[str]:
    """Return the headline of each chain, the worst first. If there are problems, and the first chain is open,
    its steps and its first fix follow its headline."""
    chains = sorted(uncontradicted(window.chains), key=worst_first)
    wrong = any(chain.severity != "info" for chain in chains)
    lines: list[str] = []
    for number, chain in enumerate(chains[:MOST_LISTED]):
        lines += chain_text.headline(chain, style)
        if number == 0 and chain.open and wrong:
            lines += chain_text.tree(chain, window, style, "  ")
            lines += chain_text.fix(chain.fixes[0], "fix", style) if chain.fixes else []
    title = "problems" if wrong else "information"
    return _listed(f"{title}: see stalltop explain", lines, len(chains), style)


def _culprits(window: Window, style: Style) -> list[str]:
    """Return lines with the processes that are charged with the most time of other tenants."""
    sums: Counter[tuple[str, int, str, str, str, int, str]] = Counter()
    for charge in window.evidence.charges:
        # Time is not listed if the victim's own process or tenant took it, or if the culprit is not a single
        # process (PID 0): an interrupt, or several processes that took little time each.
        own = charge.culprit_tenant and charge.culprit_tenant == charge.tenant
        if charge.culprit_pid not in (charge.pid, 0) and not own:
            culprit = charge.culprit_tenant, charge.culprit_pid, charge.culprit_process
            sums[(*culprit, charge.kind, charge.tenant, charge.pid, charge.process)] += charge.ns
    lines = []
    for (by, by_pid, by_process, kind, tenant, pid, process), ns in sums.most_common(MOST_CULPRITS):
        who = f"{chain_text.name_of(by, window)} {with_pid(by_process, by_pid)}"
        victim = f"{chain_text.name_of(tenant, window)} {with_pid(process, pid)}"
        text = f"{who}, from {victim} ({kind})"
        lines += style.folded(f"{figures.duration(ns, style.glyphs)}  ", text)
    return _listed("culprits: who took the time of others", lines, 0, style)


def _open_calls(window: Window, style: Style, ended: bool) -> list[str]:
    long_ones = [call for call in window.open_calls if call.age_ns >= OPEN_CALL_NS and call.ended == ended]
    long_ones.sort(key=lambda call: (-call.age_ns, call.nested, call.pid, call.tid))
    lines = [style.paint(_open_call(window, call, style), YELLOW) for call in long_ones[:MOST_LISTED]]
    title = "calls whose threads ended inside them" if ended else "calls that have not returned"
    return _listed(title, lines, len(long_ones), style)


def _open_call(window: Window, call: OpenCall, style: Style) -> str:
    tenant = window.tenants.get(call.tenant)
    name = tenant.name if tenant is not None and tenant.name else call.tenant
    operation = f"({call.operation})" if call.nested else call.operation
    age = figures.duration(call.age_ns, style.glyphs)
    text = f"{age}  {operation}  {name}  {with_pid(call.process, call.pid)}, thread {call.tid}"
    return style.fit(text, style.width).rstrip()


def _missing(window: Window, style: Style, *, untraced: bool) -> list[str]:
    """With ``untraced``, return lines that say what is not traced, and in which processes; else lines that
    say what is not known about processes. Gaps with the same subject, reason and remedy share one entry."""
    alike: dict[tuple[str, str, str], list[Missing]] = {}
    for gap in (gap for gap in window.coverage.missing if gap.untraced is untraced):
        alike.setdefault((gap.what, gap.reason, gap.remedy), []).append(gap)
    lines: list[str] = []
    for (what, reason, remedy), gaps in list(alike.items())[:MOST_LISTED]:
        pids = [str(pid) for pid in sorted(gap.pid for gap in gaps) if pid]
        owners = {window.tenants[gap.tenant].name for gap in gaps if gap.tenant in window.tenants}
        names = sorted(owners - {""})
        processes = "process" if len(pids) == 1 else "processes"
        parts = [f"{processes} {_some(pids, 3)}"] if pids else []
        if names:
            parts.append(f"of {_some([style.fit(name, min(cell_len(name), 20)) for name in names], 1)}")
        who = f" ({' '.join(parts)})" if parts else ""
        room = max(style.width - cell_len(who) - 1, 8)
        shown = figures.middle(what, min(room, cell_len(what)), style.glyphs)
        lines += style.wrapped([shown + who + ":", reason, remedy], indent="  ")
    return _listed("not traced" if untraced else "not known", lines, len(alike), style)


def _unknown(window: Window, style: Style) -> list[str]:
    unknown = window.evidence.unknown
    lines = [line for text in unknown[:MOST_LISTED] for line in style.folded("", text, "  ")]
    return _listed("not measured", lines, len(unknown), style)


def _some(names: Sequence[str], most: int) -> str:
    """Return the first ``most`` of ``names`` as text, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _losses(window: Window, style: Style) -> list[str]:
    missed: list[str] = []
    partial: list[str] = []
    for name, count in window.loss.items():
        if count:
            lines = missed if name in UNCOUNTED else partial
            lines += style.folded(f"{figures.count(count)}  ", LOSSES.get(name, name))
    return [*_listed("missed", missed, 0, style), *_listed("partial", partial, 0, style)]


def _listed(title: str, lines: Sequence[str], whole: int, style: Style) -> list[str]:
    if not lines:
        return []
    rest = [f"and {whole - MOST_LISTED} more"] if whole > MOST_LISTED else []
    return [style.paint(title, BOLD), *lines, *rest]
