"""Runs healthy programs that use public packages. Programs start and end during the run. The diagnosis must
not report a problem about them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from bench.faults.callers.host import CPUS
from bench.faults.stage.fault import FAULTS, Fault, Truth
from bench.faults.stage.stage import Files, Place, Stage
from bench.faults.stage.workloads import noise
from bench.faults.trial.judging import Alarms
from bench.faults.trial.outcome import Healthy
from bench.faults.trial.watcher import Watcher
from stalltop.demo.build import Built

AT_ONCE: Final = max(CPUS // 2, 1)
"""Number of programs that run at the same time. A program and its workers use about one CPU, and two CPUs for
some seconds while they start; with more programs they would really lack CPU time, and the diagnosis would
rightly report them."""
NEED_ALL_CPUS: Final = ("cpu_contention", "own_threads")
"""Causes whose victims, even before the fault, compute all the time or have a very small CPU weight. Together
with a second program such a victim could really lack CPU time, and the diagnosis would rightly report it. So
these victims are left out."""
_LEAST_SECONDS, _MOST_SECONDS = 40.0, 90.0
"""How long a program runs."""
_TURN_SECONDS: Final = 5.0
"""Time between two checks of what the diagnosis found."""


def healthy_programs() -> list[Fault]:
    """Returns the faults whose victims run as healthy programs. Only the first part of each fault's script
    runs, which starts the victim; the second part, which harms the victim, does not run."""
    return [fault for fault in FAULTS.values() if fault.real and fault.cause not in NEED_ALL_CPUS]


@dataclass(frozen=True, slots=True)
class _Program:
    """One running program."""

    name: str
    stage: Stage
    script: Iterator[Truth]
    """Kept until the program ends, because a script that is garbage collected ends the processes that it has
    started."""
    until: float
    """When the program ends (time.monotonic())."""


def run_healthy_programs(
    watcher: Watcher, built: Built, files: Files, into: Healthy, seconds: float, tell: Callable[[], None]
) -> None:
    """Watches healthy programs for ``seconds`` with one diagnosis, which sees them start and end. Every
    program runs about equally often. Writes the alarms so far into ``into`` and calls ``tell`` every few
    seconds."""
    chance = random.Random(into.seed)
    places: list[Place] = []
    said = Alarms(places)
    events: list[str] = []
    queue: list[Fault] = []
    running: list[_Program] = []

    def start() -> None:
        if not queue:
            queue.extend(chance.sample(healthy_programs(), len(healthy_programs())))
        fault = queue.pop()
        with ExitStack() as undo:
            stage = undo.enter_context(Stage(built, files, random.Random(chance.randrange(1 << 32))))
            script = fault.script(stage)
            next(script)
            undo.pop_all()
        until = time.monotonic() + chance.uniform(_LEAST_SECONDS, _MOST_SECONDS)
        running.append(_Program(fault.name, stage, script, until))
        places.extend(stage.places)
        events.append(f"{into.seconds / 60:.1f} min: start {fault.name}")

    def end(program: _Program) -> None:
        running.remove(program)
        program.stage.close()
        events.append(f"{into.seconds / 60:.1f} min: end {program.name}")

    with Stage(built, files, random.Random(into.seed)) as beside:
        files.device.show()
        noise(beside)
        places.extend(beside.places)
        try:
            start()
            watcher.begin()
            last = time.monotonic() + seconds
            while (now := time.monotonic()) < last:
                for program in [one for one in running if one.until <= now]:
                    end(program)
                if len(running) < AT_ONCE:
                    start()
                time.sleep(min(max(last - time.monotonic(), 0.0), _TURN_SECONDS))
                for look in watcher.taken():
                    said.add(look)
                    into.seconds += look.window.seconds
                    if look.window.system is not None:
                        into.busy_seconds += look.window.system.cpu_percent / 100 * look.window.seconds
                into.alarms, into.disturbed, into.events = said.counted, said.disturbed, tuple(events)
                tell()
        finally:
            for program in running[:]:
                end(program)
