"""Tests tracing from inside a PID namespace, as in a container: stalltop reports the PIDs of that
namespace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.traced_program import (
    DEADLINE_SECONDS,
    FUNCTIONS,
    TracedProgram,
    lost,
    points,
    read_calls,
    wait_until,
)

ROOT = Path(__file__).resolve().parents[3]


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


def test_pids_are_those_of_the_tracer_s_pid_namespace(driver: Path) -> None:
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-c"]
    script = (
        "import sys; from pathlib import Path; from tests.kernel.processes.test_pid_namespace import inside; "
    )
    with subprocess.Popen(
        [*command, script + "inside(Path(sys.argv[1]))", str(driver)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as tracing:
        assert tracing.stdout is not None
        assert tracing.stdout.readline() == "ready\n"
        with TracedProgram(driver) as stranger:  # a process outside the namespace is not visible inside
            stranger("call plain 3")
            said, _ = tracing.communicate("go\n", timeout=2 * DEADLINE_SECONDS)
        assert (said, tracing.returncode) == ("done\n", 0)
