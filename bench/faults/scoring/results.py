"""Collects the outcomes of all trials of a run: as a file, as tables, and as text for the documentation."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.faults.scoring.curves import drawing
from bench.faults.scoring.score import false_alarms, table
from bench.faults.scoring.strength import points, strength_table
from bench.faults.stage.fault import Fault
from bench.faults.trial.outcome import Healthy, Outcome, outcome_of
from bench.measuring.document import END, put
from bench.measuring.machine import machine
from bench.measuring.table import TextTable

PLACES: Final = ("host", "others", "real", "strength")
"""Names of the places for figures in docs/faults.md. Each place shows the figures of one run."""
FIGURE: Final = "images/strength.svg"
"""Path, relative to the document's folder, of the picture with the curves of faults of chosen strength."""
BEGIN: Final = "<!-- figures: {}, written by ./bench/run faults --write-docs -->"


@dataclass(slots=True)
class Results:
    """All outcomes of a run so far. If ``path`` is not None, `write` stores them there after each trial."""

    seed: int
    path: Path | None = None
    command: Sequence[str] = ()
    planned: int = 0
    """Number of trials planned."""
    planned_minutes: float = 0.0
    """Minutes of healthy tenants planned."""
    outcomes: list[Outcome] = field(default_factory=list)
    healthy: list[Healthy] = field(default_factory=list)
    machine: str = field(default_factory=machine)
    began: float = field(default_factory=time.time)

    def write(self) -> None:
        """Replaces the file ``path`` by one with all outcomes so far; does nothing if there is no path."""
        if self.path is not None:
            fresh = self.path.with_name(self.path.name + ".new")
            fresh.write_text(json.dumps(self.document(), indent=1) + "\n")
            fresh.replace(self.path)

    def read(self) -> None:
        """Reads the trials of an earlier run from the file ``path``, if it exists, except those that do not
        count and have to be run again."""
        if self.path is not None and self.path.exists():
            trials = json.loads(self.path.read_text())["trials"]
            self.outcomes = [outcome for outcome in map(outcome_of, trials) if outcome.scored]

    def has(self, faults: Sequence[Fault], seed: int) -> bool:
        """Returns whether a trial with these faults and this seed is among the outcomes."""
        wanted = seed, faults[0].name, faults[0].strength
        return any(wanted == (one.seed, one.fault, one.strength) for one in self.outcomes)

    def document(self) -> dict[str, Any]:
        """Returns the outcomes and the facts about the run as a dict for JSON."""
        return {
            "machine": self.machine,
            "command": list(self.command),
            "seed": self.seed,
            "trials": [outcome.plain() for outcome in self.outcomes],
            "healthy": [asdict(one) for one in self.healthy],
        }

    @property
    def quiet(self) -> list[Outcome]:
        """Returns the outcomes of trials in which processes outside of the trial took little time from the
        victim (`Outcome.quiet`)."""
        return [outcome for outcome in self.outcomes if outcome.quiet]

    def tables(self) -> list[TextTable]:
        """Returns the outcomes as tables."""
        one = [outcome for outcome in self.outcomes if not outcome.others and not outcome.strength]
        several = [outcome for outcome in self.outcomes if outcome.others]
        graded = [outcome for outcome in self.outcomes if outcome.strength]
        made = []
        if graded:
            made.append(strength_table(graded))
        if one:
            made.append(table(one, f"faults: one at a time, {len(one)} trials"))
        if several:
            made.append(table(several, "faults: two tenants, a fault each, at the same time"))
        if self.outcomes or self.healthy:
            made.append(false_alarms(self.quiet, self.healthy))
        return made

    def text(self) -> str:
        """Returns Markdown: the command, time and machine, the tables, and every wrong trial and alarm."""
        done = len({(outcome.seed, outcome.others or outcome.fault) for outcome in self.quiet})
        if any(outcome.others for outcome in self.outcomes):
            done = len({outcome.seed for outcome in self.outcomes})
        minutes = sum(one.seconds for one in self.healthy) / 60
        load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
        busy = sum(one.busy_seconds for one in self.healthy) / (60 * minutes) if minutes else 0.0
        calm = f" While all were healthy, the host's CPUs were {busy:.0%} busy." if minutes else ""
        when = time.strftime("%H:%M UTC", time.gmtime())
        ended = "" if done >= self.planned and minutes >= 0.95 * self.planned_minutes else " It ended early."
        tables = "\n\n".join(made.text().rstrip() for made in self.tables())
        return (
            f"`./bench/run faults {shlex.join(self.command)}`: {done} of {self.planned} trials and "
            f"{minutes:.1f} of {self.planned_minutes:g} minutes of healthy tenants, until {when}.{ended} "
            f"Load at the end {load}, including that of the trials.{calm}\n\n"
            f"```\n{self.machine}\n\n{tables}\n```\n\n{self._failures()}"
        )

    def _failures(self) -> str:
        lines = [
            f"* `{outcome.fault}`, seed {outcome.seed}{_noted(outcome)}: {_what(outcome)}"
            for outcome in self.quiet
            if not outcome.right
        ]
        lines += [f"* before `{one.cause}`: {said}" for one in self.quiet for said in one.early]
        lines += [
            f"* besides `{one.cause}`{_noted(one)}: {said}"
            for one in self.quiet
            if one.strength
            for said in one.wrong
        ]
        lines += [f"* healthy: {said}" for one in self.healthy for said in one.alarms]
        if not lines:
            return "No trial was wrong, and there was no false alarm.\n"
        return (
            "Wrong trials and false alarms, in the words of the diagnosis:\n\n"
            + "\n".join(dict.fromkeys(lines))
            + "\n"
        )

    def write_docs(self, document: Path, place: str) -> None:
        """Writes `text` into ``document`` at ``place``, one of ``PLACES``; if there are trials of chosen
        strength, also writes their curves to ``FIGURE``. Raises ValueError if the document has no such
        place."""
        if graded := [outcome for outcome in self.outcomes if outcome.strength]:
            (document.parent / FIGURE).write_text(drawing(points(graded)))
        put(document, BEGIN.format(place), END.format(place), self.text())


def _noted(outcome: Outcome) -> str:
    strength = f", {outcome.strength:.0%}" if outcome.strength else ""
    return strength + "".join(f", {name} {value}" for name, value in outcome.notes.items())


def _what(outcome: Outcome) -> str:
    if outcome.error:
        return f"not set up: {outcome.error}"
    if outcome.open_before:
        return "not counted: its cause was reported before the fault began"
    said = "; ".join(outcome.said) or "no problem was reported"
    if outcome.found == outcome.cause:
        return f"right cause, wrong culprit. {said}"
    return f"found {outcome.found or 'nothing'}. {said}"
