"""Tests that a window shows the host's pressure stall information (PSI)."""

from __future__ import annotations

import subprocess
import sys

from tests.systems.guest import Guest, need, stalltop, told

_SPIN = "while True: pass"


def shown(guest: Guest) -> str:
    """Check that a window shows the CPU pressure that four busy programs cause on a system with fewer
    CPUs."""
    # At a low priority the busy programs wait for a CPU as well, but hardly slow down stalltop.
    spinners = [subprocess.Popen(["nice", "-n", "19", sys.executable, "-c", _SPIN]) for _ in range(4)]
    for one in spinners:
        guest.later(one.wait)
        guest.later(one.kill)
    seen = told("once", "--no-state", "--json", "--seconds", "3")["system"]
    figures = {name: seen[f"{name}_pressure_percent"] for name in ("cpu", "memory", "io")}
    need(None not in figures.values(), f"pressure is {figures}")
    need(figures["cpu"] > 50, f"pressure is {figures} with four programs on {seen['cpus']} CPUs")
    text = stalltop("once", "--no-state", "--seconds", "3")
    need("pressure CPU" in text, f"no pressure in: {text}")
    return ", ".join(f"{name} {value:.1f} %" for name, value in figures.items())
