"""Traces a program from inside a PID namespace; test_pid_namespace runs this module there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.traced_program import (
    FUNCTIONS,
    TracedProgram,
    lost,
    points,
    read_calls,
    wait_until,
)


def inside(driver: Path) -> None:
    """Run in the namespace: attach, wait for a line on stdin, then trace a program and check its PIDs.

    A failed assertion ends this process with an error, which the test outside sees.
    """
    kernel = KernelSide(slots=16, threads=16, functions=FUNCTIONS)
    library = driver.with_name("libtraced.so")
    assert not kernel.attach(str(library), points(library)).failed
    print("ready", flush=True)
    sys.stdin.readline()
    with TracedProgram(driver) as program:
        assert program.pid < 100
        program("call plain 5")
        program("hang")
        wait_until(lambda: len(kernel.open_calls()) == 1, "one call open")
        (call,) = kernel.open_calls()
        assert call.tgid == program.pid
        assert Path(f"/proc/{program.pid}/task/{call.tid}").is_dir()
        program("unhang")
        (own,) = program("fork 2")
        counts = read_calls(kernel)
        calls = [(key.tgid, n) for key, n in zip(counts.keys, counts.calls.tolist(), strict=True)]
        assert sorted(calls) == sorted([(program.pid, 5), (program.pid, 1), (program.pid, 1), (own, 2)])
        # stalltop may also follow this process, since it wakes the program.
        assert kernel.evidence.tgids() - {os.getpid()} == {program.pid, own}
    assert not lost(kernel)
    kernel.close()
    print("done", flush=True)
