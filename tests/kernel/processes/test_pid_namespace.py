"""Tests tracing from inside a PID namespace, as in a container: stalltop reports the PIDs of that
namespace."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.kernel.traced_program import (
    DEADLINE_SECONDS,
    TracedProgram,
)

ROOT = Path(__file__).resolve().parents[3]


def test_pids_are_those_of_the_tracer_s_pid_namespace(driver: Path) -> None:
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-c"]
    script = (
        "import sys; from pathlib import Path; from tests.kernel.processes.in_pid_namespace import inside; "
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
