"""Tests reading the CPU time of other processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from bench.measuring.cpu import cpu_ns, helpers_cpu_ns

_NESTED = (
    "import subprocess, sys; "
    "child = subprocess.Popen([sys.executable, '-c', 'import sys; sum(range(3_000_000)); "
    "print(flush=True); sys.stdin.read()'], stdin=subprocess.PIPE); "
    "sys.stdin.read()"
)


def test_helpers_are_counted_with_what_they_start() -> None:
    before = cpu_ns(os.getpid())
    with subprocess.Popen(
        [sys.executable, "-c", _NESTED], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        child.stdout.readline()
        found = helpers_cpu_ns(os.getpid())
        of_child = helpers_cpu_ns(child.pid)
        assert child.pid in found
        assert child.pid not in of_child
        (grandchild,) = of_child
        assert found[grandchild] > 5_000_000
        child.stdin.close()
    time.sleep(0.1)
    assert child.pid not in helpers_cpu_ns(os.getpid())
    assert cpu_ns(os.getpid()) > before
