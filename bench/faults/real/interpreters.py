"""Faults of single Python programs: the interpreter's lock, locks, stops."""

from __future__ import annotations

from collections.abc import Iterator

from bench.faults.fault import Truth, fault
from bench.faults.real.loaders import QUICK_MS
from bench.faults.real.running import RealProgram
from bench.faults.stage import Stage


@fault("gil", "python-gil")
def interpreter_lock(stage: Stage) -> Iterator[Truth]:
    """A second Python thread of the process begins to compute."""
    victim = stage.tenant("victim")
    program = RealProgram(stage, victim, "gil.py")
    yield Truth(victim)
    program.change(1.0)


@fault("lock_contention", "python-lock")
def python_lock(stage: Stage) -> Iterator[Truth]:
    """Another Python thread holds a lock for 30 to 80 ms again and again, while it sleeps."""
    victim = stage.tenant("victim")
    program = RealProgram(stage, victim, "lock.py")
    yield Truth(victim)
    program.change(stage.between("held_ms", 30, 80))


@fault("stopped", "torch-stopped")
def stopped(stage: Stage) -> Iterator[Truth]:
    """A process of another tenant stops it by SIGSTOP for 0.2 to 0.5 s of each second."""
    victim, operator = stage.tenant("victim"), stage.tenant("operator")
    program = RealProgram(
        stage, victim, "torch_loader.py", "--workers", "1", "--persistent", numbers=(QUICK_MS,)
    )
    stopper = RealProgram(stage, operator, "stopper.py", "--pid", str(program.pid))
    yield Truth(victim, operator)
    stopper.change(stage.between("stopped_seconds", 0.2, 0.5))
