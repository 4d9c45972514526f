"""The sections about the calls of a row: durations, where the time went, and culprits. Pure functions.

``tui.row.owner`` has the sections about tenants, processes and devices.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stalltop.formats.text.chains import name_of, rate
from stalltop.model.chain import Chain, loss_step
from stalltop.model.evidence import HOST_GAP, Charge
from stalltop.model.histograms.hdr import COUNTERS, HIGHEST_NS
from stalltop.model.text import figures
from stalltop.model.text.words import with_pid
from stalltop.model.window import PARTS, SPLITS
from stalltop.tui.columns.split import piece
from stalltop.tui.pages.sections import LABEL, Frame, Section, heading, more, note, pair
from stalltop.tui.problems.chains import MARK, ROLE, culprit, loss
from stalltop.tui.row.facts import RowFacts, waits_ns
from stalltop.tui.row.past import Sample
from stalltop.tui.views.groups import HUNG_NS, LONG_OPEN_NS
from stalltop.tui.views.outermost import outermost_ns
from stalltop.widgets.distribution import DurationAxis, distribution
from stalltop.widgets.drawing.magnitude import brightness
from stalltop.widgets.drawing.sparkline import sparkline
from stalltop.widgets.page import PageLine

MOST_LISTED = 6
"""The most problems, culprits and open calls that are listed."""
LEAST_SHARE = 0.005
"""Parts with a smaller share of the time are not shown."""
WIDE = 100
"""Least width in cells at which the line of a part also shows the part's mean time per call."""
_FIGURES = 16
"""Cells right of a sparkline, for two figures: the current and the largest value."""


def columns_high(frame: Frame) -> int:
    """Return the height of the histogram of durations in lines: 6 on a terminal of 24 lines, 10 on 40, 14 on
    60."""
    return min(max(frame.height // 4, 3), 14)


def title(facts: RowFacts, frame: Frame) -> Section:
    """Return the path to the row, and its call rate."""
    parts: list[tuple[str, str]] = []
    for step in facts.path:
        between = frame.glyphs.separator if parts else ""
        parts += [(f"{between}{step.dimension} ", "dim"), (step.label, "head")]
    groups, window = facts.groups, facts.window
    errors, moved = int(groups.errors[0]), float(groups.bytes_per_s[0])
    calls = f"{int(groups.calls[0]):,} in {frame.duration(window.seconds * 1e9)}"
    calls += f", {figures.rate(float(groups.calls_per_s[0]), frame.glyphs).strip()} a second"
    calls += f"; {errors:,} returned an error" if errors else ""
    calls += f"; {figures.size(moved, frame.glyphs).strip()} moved a second" if moved else ""
    total, whole = int(groups.total_ns[0]), outermost_ns(window)
    time = f"{frame.duration(total / (window.seconds or 1.0))} a second, all threads together"
    if facts.between:
        time += "; this is the time between calls"
    elif facts.nested:
        time += "; nested in other traced calls, whose time contains it"
    elif whole:
        time += f"; {figures.percent(100 * total / whole, frame.glyphs).strip()} of all calls' time"
    name = "times" if facts.between else "calls"
    return Section("title", (PageLine(tuple(parts), indent=4), pair(name, calls), pair("time", time)))


def chains(facts: RowFacts, frame: Frame) -> Section:
    """Return the section about the problems that name the row, one line each."""
    lines = []
    for chain in facts.chains[:MOST_LISTED]:
        when = f"since {figures.clock(chain.since)}" if chain.open else f"ended {figures.clock(chain.seen)}"
        whose = _of_other(chain, facts) or culprit(chain, facts.window)
        said = (loss(chain, frame.glyphs).strip(), whose, when)
        mark = (f" {MARK[chain.severity]} ", ROLE[chain.severity] if chain.open else "dim")
        about = "  " + "; ".join(part for part in said if part)
        lines.append(PageLine((mark, (f" {chain.title}", "text"), (about, "dim")), indent=5))
    if not lines:
        return Section("chains", (note("No problem involves this row"),))
    about = "Enter opens the problem" if len(facts.chains) == 1 else "Enter opens the first one"
    rest = more(len(facts.chains) - MOST_LISTED)
    return Section("chains", (heading("Problems", about), *lines, *rest))


def _of_other(chain: Chain, facts: RowFacts) -> str:
    """Return whose problem ``chain`` is, if the row is only its culprit; else nothing."""
    if chain not in facts.takes:
        return ""
    loser = f"lost by {name_of(chain.tenant, facts.window)}; " if chain.tenant else ""
    return f"{loser}this row is the culprit"


def durations(facts: RowFacts, frame: Frame, axis: DurationAxis | None) -> Section:
    """Return the section with the histogram of the durations of calls. ``axis`` is a range that its axis
    covers at least."""
    histogram = facts.groups.histograms
    lines = [
        heading(
            "How long each took" if facts.between else "How long calls took",
            "both scales logarithmic; durations exact within 0.8 %" if frame.width >= 76 else "log scales",
        )
    ]
    picture = distribution(
        histogram,
        int(facts.groups.max_ns[0]),
        width=frame.width - 4,
        height=columns_high(frame),
        axis=axis,
        glyphs=frame.glyphs,
    )
    lines += [PageLine((("  ", "text"), *line)) for line in picture]
    clamped = int(histogram.count[histogram.index == COUNTERS - 1].sum())
    if clamped:
        most = frame.duration(HIGHEST_NS)
        lines.append(note(f"{clamped:,} took {most} or longer: all of them are drawn at {most}", "warn"))
    return Section("durations", tuple(lines))


def split(facts: RowFacts, frame: Frame, seen: Collection[str] = ()) -> Section:
    """Return the section about the parts of the time, one line each. Parts in ``seen`` keep their line even
    if they are 0 now."""
    measured = facts.groups.split_ns
    if measured is None:
        return Section(
            "split", (heading("Where the time went"), note("not known: no split of it was measured"))
        )
    parts = dict(zip(SPLITS, measured[0].tolist(), strict=True))
    whole, seconds = sum(parts.values()), facts.window.seconds or 1.0
    calls = int(facts.groups.calls[0])
    wide = frame.width >= WIDE
    most = min(max(frame.width - 103, 10), 24)
    lines = [heading("Where the time went", "share, time a second" + (", time a call" if wide else ""))]
    for name, ns in parts.items():
        share = ns / whole if whole else 0.0
        if share < LEAST_SHARE and name not in seen:
            continue
        filled = min(max(round(share * most), 1 if share >= LEAST_SHARE else 0), most)
        bar = piece(name, filled, glyphs=frame.glyphs, letters=frame.letters)
        front = f"  {name.ljust(LABEL)} {figures.percent(100 * share, frame.glyphs)}  "
        pieces = [(front, "label"), *bar, (" " * (most - filled), "text")]
        pieces.append((f" {rate(ns / seconds, frame.glyphs)}", brightness(ns / seconds)))
        if wide:
            each = ns / calls if calls else None
            pieces.append((f" {figures.duration(each, frame.glyphs)}", brightness(each)))
        indent = sum(len(text) for text, _ in pieces) + 2
        lines.append(PageLine((*pieces, ("  " + PARTS[name].meaning, "dim")), indent=indent))
    if len(lines) == 1:
        lines.append(note("no time was spent within this window"))
    return Section("split", tuple(lines))


def shown_parts(facts: RowFacts) -> set[str]:
    """Return the parts of the split that take at least ``LEAST_SHARE`` of the time."""
    measured = facts.groups.split_ns
    if measured is None:
        return set()
    whole = float(measured[0].sum()) or 1.0
    return {name for name, ns in zip(SPLITS, measured[0], strict=True) if float(ns) / whole >= LEAST_SHARE}


def past(
    samples: Sequence[Sample | None], frame: Frame, parts: Collection[str], *, calls: bool = True
) -> Section:
    """Return the section with sparklines over the latest windows: of the row's call rate, of its p99, and of
    its time in each of ``parts`` of the split. The sparklines of the parts share one scale.

    ``calls`` is False if the row is the time between calls.
    """
    room = past_columns(frame)
    columns = [None] * (room - len(samples)) + list(samples)[-room:]
    known = [sample for sample in columns if sample is not None]
    if len(known) < 2:
        return Section("past", (heading("Over time"), note("only this window is known, nothing before it")))
    span = known[-1].start + known[-1].seconds - known[0].start
    about = f"the last {figures.whole_seconds(span)}, one column a window; at the right: the latest, the most"
    lines = [heading("Over time", about)]

    def line(name: str, values: Sequence[float | None], high: float, figured: Sequence[str]) -> PageLine:
        drawn = sparkline(values, high=high, glyphs=frame.glyphs)
        ends = " ".join(figure.rjust(7) for figure in figured)
        return PageLine(((f"  {name.ljust(LABEL)} ", "label"), (drawn, "accent"), (" " + ends, "text")))

    rates = [None if sample is None else sample.calls / (sample.seconds or 1.0) for sample in columns]
    most = max(sample.calls / (sample.seconds or 1.0) for sample in known)
    ends = [figures.rate(value, frame.glyphs) for value in (rates[-1], most)]
    lines.append(line("calls/s" if calls else "times/s", rates, most, ends))
    p99s = [None if sample is None or not sample.calls else float(sample.p99_ns) for sample in columns]
    slowest = max(float(sample.p99_ns) for sample in known)
    ends = [figures.duration(value, frame.glyphs) for value in (p99s[-1], slowest)]
    lines.append(line("p99", p99s, slowest, ends))
    if all(sample.split_ns is None for sample in known):
        return Section("past", tuple(lines))
    top = max(sample.total_ns / (sample.seconds or 1.0) for sample in known)
    for at, name in enumerate(SPLITS):
        if name in parts:
            spent = [
                None
                if sample is None or sample.split_ns is None
                else sample.split_ns[at] / (sample.seconds or 1.0)
                for sample in columns
            ]
            high = max(value for value in spent if value is not None)
            ends = [figures.duration(value, frame.glyphs) for value in (spent[-1], high)]
            lines.append(line(name, spent, top, ends))
    return Section("past", tuple(lines))


def past_columns(frame: Frame) -> int:
    """Return the number of windows for which a sparkline has room."""
    return max(frame.width - LABEL - 3 - _FIGURES, 8)


# ---- who took its time


def takers(facts: RowFacts, frame: Frame) -> Section:
    """Return the culprits that had the CPU while threads of the row were ready to run."""
    lines = [heading("Who had the CPU instead", "share of the waits for a CPU, time per second, who had it")]
    return Section("takers", (*lines, *_charged(facts, frame, ("runqueue",))))


def wakers(facts: RowFacts, frame: Frame) -> Section:
    """Return the culprits that ended the row's waits. Waits for a CPU are left out."""
    kinds = tuple(kind for kind in SPLITS if kind not in ("running", "runqueue"))
    lines = [heading("Who ended its waits", "share of these waits, time per second, for what, by whom")]
    return Section("wakers", (*lines, *_charged(facts, frame, kinds)))


def _charged(facts: RowFacts, frame: Frame, kinds: Sequence[str]) -> list[PageLine]:
    """Return the culprits of charges of ``kinds``, the largest first. Culprits of similar size are sorted by
    name, so that lines do not jump."""
    waited = waits_ns(facts)
    if not waited:
        return [note("not known: no split of its time was measured")]
    if facts.nested:
        return [note("not known: the time is charged to the calls that contain these")]
    whole = sum(waited[kind] for kind in kinds)
    seconds = facts.window.seconds or 1.0
    sums: dict[tuple[str, str, bool], int] = {}
    for charge in facts.charges:
        if charge.kind in kinds:
            key = (charge.kind, _who(charge, facts), charge.operation == HOST_GAP)
            sums[key] = sums.get(key, 0) + charge.ns
    if not sums:
        if whole / seconds < 1e6:
            return [note("none: it waited less than 1 ms per second")]
        cost = rate(whole / seconds, frame.glyphs).strip()
        return [note(f"{cost} of such waits are unattributed")]
    order = sorted(sums, key=lambda key: (-loss_step(sums[key] / seconds / 1e6), key))
    lines = []
    for key in order[:MOST_LISTED]:
        kind, who, between = key
        front = f"  {_share(sums[key], whole, frame)} {rate(sums[key] / seconds, frame.glyphs)}  "
        front += kind.ljust(9) if len(kinds) > 1 else ""
        between_text = "  between calls" if between and not facts.between else ""
        lines.append(
            PageLine(((front, "label"), (who, "text"), (between_text, "dim")), indent=len(front) + 2)
        )
    lines += more(len(order) - MOST_LISTED)
    rest = whole - sum(sums.values())
    if whole and rest / whole > 0.05:
        front = f"  {_share(rest, whole, frame)} {rate(rest / seconds, frame.glyphs)}  "
        lines.append(PageLine(((front, "label"), ("unattributed", "dim")), indent=len(front)))
    return lines


def _share(ns: int, whole: int, frame: Frame) -> str:
    return figures.percent(min(100 * ns / whole, 100.0) if whole else None, frame.glyphs)


def _who(charge: Charge, facts: RowFacts) -> str:
    """Return the name of a culprit. Its tenant is part of the name if another tenant lost the time."""
    if charge.culprit_pid == charge.pid:
        return "itself: another of its threads"
    if not charge.culprit_pid:
        return "the Linux kernel: interrupts, softirqs"
    process = with_pid(charge.culprit_process, charge.culprit_pid)
    other = charge.culprit_tenant and charge.culprit_tenant != charge.tenant
    return f"{name_of(charge.culprit_tenant, facts.window)}: {process}" if other else process


def open_calls(facts: RowFacts, frame: Frame) -> Section:
    """Return the calls that have not returned, and the calls whose thread ended within them."""
    calls = facts.open_calls
    lines = [heading("Open calls", "calls that had not returned: age, operation, thread")]
    for call in calls[:MOST_LISTED]:
        role = "bad" if call.age_ns >= HUNG_NS else "warn" if call.age_ns >= LONG_OPEN_NS else "text"
        age = f"  {figures.duration(call.age_ns, frame.glyphs)}  "
        said = f"{call.operation}, thread {call.tid} of {with_pid(call.process, call.pid)}"
        said += "; its thread ended inside it" if call.ended else ""
        said += f"; {name_of(call.tenant, facts.window)}" if len(facts.tenants) > 1 else ""
        lines.append(PageLine(((age, role), (said, "text")), indent=len(age)))
    if not calls:
        lines.append(note("none: every call had returned when the window ended"))
    return Section("open", (*lines, *more(len(calls) - MOST_LISTED)))
