"""The fleet in words: its worst problem as a sentence, and tables of problems and hosts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stalltop.formats.text.chains import amount
from stalltop.model.fleet.fleet_digest import FleetDigest
from stalltop.model.fleet.fleet_view import FleetJob, FleetProblem, FleetView
from stalltop.model.fleet.host_summary import ProblemSummary
from stalltop.model.fleet.likeness import THROTTLED, UnlikeDevice
from stalltop.model.text import figures
from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.model.text.sentence import Sentence
from stalltop.model.text.style import BOLD, RED, Style
from stalltop.model.text.words import numbered

MOST_ROWS: Final = 20
"""Maximum number of hosts and problems in a printed table."""

_UNLIKE: Final = {
    "sm_clock_mhz": "runs at {value} MHz, the others at {usual} MHz",
    "utilization_percent": "is busy {value} % of the time, the others {usual} %",
    "power_watts": "draws {value} W, the others {usual} W",
    "temperature_celsius": "has {value} degrees C, the others {usual}",
}
"""What is said of a GPU that is unlike the others, by the field of ``DeviceSummary``."""


def lost_text(ms_per_s: float, glyphs: Glyphs = UNICODE) -> str:
    """Returns lost time per second, such as ``516 ms/s``."""
    return f"{amount(ms_per_s * 1e6, glyphs)}/s"


def fleet_sentence(problem: FleetProblem, glyphs: Glyphs = UNICODE) -> Sentence:
    """Returns a problem of the fleet as a sentence."""
    lost = lost_text(problem.lost_ms_per_s, glyphs) if problem.lost_ms_per_s > 0 else ""
    first = problem.hosts[0].host
    if len(problem.hosts) == 1:
        return Sentence(problem.summary or problem.title, victim=first + ":", lost=lost, lost_short=lost)
    hosts = numbered(len(problem.hosts), "host")
    if problem.culprit:
        does = f"slows {hosts} ({problem.title})"
        return Sentence(does, culprit=problem.culprit, lost=lost, lost_short=lost)
    return Sentence(f"{problem.title} on {hosts}", lost=lost, lost_short=lost)


def job_line(job: FleetJob, glyphs: Glyphs = UNICODE) -> str:
    """Returns for which rank a job waits, as one line; '' if it waits for none."""
    what, why = job_parts(job, glyphs)
    return f"{what}: {why}" if why else what


def job_parts(job: FleetJob, glyphs: Glyphs = UNICODE) -> tuple[str, str]:
    """Returns for which rank a job waits, and why that is late; '' for each that is not known."""
    if not job.late:
        return "", ""
    first, name = job.late[0], job.tenant or job.communicator
    rank = f"rank {first.rank} on {first.address.host}"
    others = len(job.late) - 1 + job.left_out.late
    more = f" and {others:,} more" if others else ""
    why = "" if first.problem is None else problem_text(first.problem)
    if job.stands_seconds:
        return f"{name} stands for {job.stands_seconds:.0f} s: it waits for {rank}{more}", why
    late = f"{name} waits for {rank}, late by {amount(job.late_seconds * 1e9, glyphs)} per collective"
    return (late, why) if why else (f"{late}; its host has no known problem", "")


def job_loss(job: FleetJob, glyphs: Glyphs = UNICODE) -> str:
    """Returns how much time its ranks lose, such as ``wait 266 ms per collective together``; '' if
    unknown."""
    if not job.compared:
        return ""
    return f"wait {amount(job.lost_per_collective * 1e9, glyphs)} per collective together"


def problem_text(problem: ProblemSummary) -> str:
    """Returns a problem of a host in one line, with its culprit and the line of code that loses the time:
    ``train waits for its disk, because of nightly-backup (loader.py:88)``."""
    said = problem.summary or problem.title
    if problem.culprit and problem.culprit not in said:
        said += f", because of {problem.culprit}"
    return f"{said} ({problem.line})" if problem.line and problem.line not in said else said


def unlike_text(one: UnlikeDevice) -> str:
    """Returns in what a GPU is unlike the others of a job, such as ``GPU 3 of node-17 (rank 11) runs at 1200
    MHz, the others at 1980 MHz``."""
    return f"GPU {one.device} of {one.address.host} (rank {one.rank}) {unlike_figure(one)}"


def unlike_figure(one: UnlikeDevice) -> str:
    """Returns the same without its subject."""
    if one.figure == THROTTLED:
        return f"is throttled ({one.reasons}), most others are not for that"
    return _UNLIKE[one.figure].format(value=f"{one.value:.0f}", usual=f"{one.usual:.0f}")


def fleet_state_text(view: FleetView | FleetDigest, *, hosts: bool = True) -> str:
    """Returns how many hosts there are (with ``hosts``), and how many are silent or cannot be read."""
    parts = [numbered(len(view.hosts), "host")] if hosts else []
    parts += [f"{count:,} {state}" for state in ("silent", "unreadable") if (count := view.count(state))]
    return ", ".join(parts)


def fleet_lines(view: FleetView, style: Style) -> Iterator[str]:
    """Yields the lines that ``stalltop fleet --once`` prints."""
    glyphs = style.glyphs
    worst = next(iter(view.problems), None)
    standing = [line for job in view.jobs if (line := job_line(job))]
    if worst is None:
        live = numbered(view.count("live"), "host")
        said = f"No problems on {live}" if view.hosts else "No host sends anything"
        yield style.fit(said, style.width).rstrip()
    else:
        sentence = fleet_sentence(worst, glyphs)
        text = "".join(part for part, _ in sentence.fitted(style.width, glyphs))
        yield style.paint(style.fit(text, style.width).rstrip(), RED)
        if worst.fix:
            yield style.fit(f"  {glyphs.remedy}{worst.fix}", style.width).rstrip()
    for line in standing:
        yield style.paint(style.fit(line, style.width).rstrip(), RED)
    counts = (numbered(len(view.tenants), "tenant"), numbered(len(view.jobs), "job"))
    yield ", ".join((fleet_state_text(view), *counts))
    if len(view.problems) > 1:
        yield ""
        yield style.paint("PROBLEMS", BOLD)
        for problem in view.problems[:MOST_ROWS]:
            sentence = fleet_sentence(problem, glyphs)
            text = "".join(part for part, _ in sentence.fitted(style.width - 10, glyphs))
            yield f"{problem.severity:<9} {text}".rstrip()
        yield from _more(len(view.problems), "problem")
    if view.hosts:
        yield ""
        width = max(min(max(len(host.address.text) for host in view.hosts[:MOST_ROWS]), 40), 4)
        yield style.paint(f"{'HOST':<{width}} calls/s     lost/s  state", BOLD)
        for host in view.hosts[:MOST_ROWS]:
            lost = figures.duration(host.lost_ms_per_s * 1e6 or None, glyphs)
            rate = figures.rate(host.calls_per_s, glyphs)
            cells = f"{style.fit(host.address.text, width)} {rate:>7} {lost:>10}"
            yield style.fit(f"{cells}  {host.state}  {host.line.said}", style.width).rstrip()
        yield from _more(len(view.hosts), "host")


def _more(count: int, noun: str) -> Iterator[str]:
    if count > MOST_ROWS:
        yield f"and {numbered(count - MOST_ROWS, f'more {noun}')}"
