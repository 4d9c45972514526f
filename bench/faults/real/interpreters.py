"""Faults of single Python programs: threads that wait for the interpreter's lock or for another lock, and
programs that are stopped."""

from __future__ import annotations

from collections.abc import Iterator

from bench.faults.real.loaders import QUICK_MS
from bench.faults.real.running import RealProgram
from bench.faults.stage.fault import Truth, fault
from bench.faults.stage.stage import Stage


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


def _stopped(stage: Stage, *how: str) -> Iterator[Truth]:
    """Script of several faults: a process of another tenant stops a PyTorch loop for 0.2 to 0.5 s of each
    second. ``how`` is the value of the option --by of ``programs/stopper.py``, and further options."""
    victim, operator = stage.tenant("victim"), stage.tenant("operator")
    program = RealProgram(
        stage, victim, "torch_loader.py", "--workers", "1", "--persistent", numbers=(QUICK_MS,)
    )
    place = ("--cgroup", str(victim.cgroup)) if "freezer" in how else ()
    stopper = RealProgram(stage, operator, "stopper.py", "--pid", str(program.pid), *place, "--by", *how)
    yield Truth(victim, operator)
    stopper.change(stage.between("stopped_seconds", 0.2, 0.5))


@fault("stopped", "torch-stopped")
def stopped(stage: Stage) -> Iterator[Truth]:
    """A process of another tenant stops a PyTorch loop by SIGSTOP for 0.2 to 0.5 s of each second."""
    yield from _stopped(stage, "signal")


@fault("stopped", "torch-worker-stopped")
def worker_stopped(stage: Stage) -> Iterator[Truth]:
    """A process of another tenant stops the DataLoader worker of a PyTorch loop by SIGSTOP for 0.2 to 0.5 s
    of each second."""
    yield from _stopped(stage, "signal", "--worker")


@fault("stopped", "torch-frozen")
def frozen(stage: Stage) -> Iterator[Truth]:
    """A process of another tenant freezes the cgroup of a PyTorch loop for 0.2 to 0.5 s of each second, as
    `docker pause` does."""
    yield from _stopped(stage, "freezer")


@fault("stopped", "torch-debugged")
def debugged(stage: Stage) -> Iterator[Truth]:
    """A debugger of another tenant attaches to the threads of a PyTorch loop for 0.2 to 0.5 s of each
    second."""
    yield from _stopped(stage, "debugger")
