"""Faults of programs that save their state."""

from __future__ import annotations

from collections.abc import Iterator

from bench.faults.real.running import RealProgram
from bench.faults.stage.fault import Truth, fault
from bench.faults.stage.stage import Stage


@fault("fsync", "torch-saves")
def saves(stage: Stage) -> Iterator[Truth]:
    """Another tenant writes to the disk on which a PyTorch loop saves its state after every fifth step."""
    victim, writer = stage.tenant("victim"), stage.tenant("writer")
    RealProgram(stage, victim, "checkpoint.py", str(stage.folder))
    yield Truth(victim, writer)
    stage.process(writer, "backup", "@write:load:1048576", threads=stage.whole("writers", 32, 64))
