"""Tests the pressure stall information (PSI) in the host's figures of a window."""

from __future__ import annotations

import subprocess
import sys

from tests.systems.guest import Guest, need, stalltop, told

_SPIN = "while True: pass"


def shown(guest: Guest) -> str:
    """Twice as many busy programs as CPUs cause CPU pressure, and the window shows it."""
    # At a low priority they wait for a CPU as well, and do not slow down the program.
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
