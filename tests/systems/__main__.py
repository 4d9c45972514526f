"""Runs the steps that the kernel's command line names (``stalltop.steps=check,demo``), or all of them."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.systems import containers, facts, pressure, recordings, sample_tenants, sessions, units
from tests.systems.guest import Guest, StepError
from tests.systems.left import Left

STEPS: dict[str, Callable[[Guest], str]] = {
    "system": facts.system,
    "check": facts.readiness,
    "compile": facts.first_start,
    "demo": sample_tenants.trio,
    "noisy": sample_tenants.noisy_neighbour,
    "record": recordings.counted,
    "service": recordings.service,
    "quota": units.quota,
    "slice": units.quota_of_slice,
    "reclaim": units.memory_limit,
    "oom": units.killed_for_memory,
    "pressure": pressure.shown,
    "session": sessions.login,
    "user-unit": sessions.unit_of_user,
    "podman": containers.podman,
}


def asked() -> list[str]:
    """Return the steps to run: the arguments if there are any, else the steps on the kernel's command line,
    else all steps."""
    if sys.argv[1:]:
        return sys.argv[1:]
    for word in shlex.split(Path("/proc/cmdline").read_text()):
        name, _, value = word.partition("=")
        if name == "stalltop.steps" and value:
            return value.split(",")
    return list(STEPS)


def run(name: str) -> bool:
    """Run one step, print its line, and return whether it passed and left nothing behind."""
    before, began = Left(), time.monotonic()
    try:
        with Guest() as guest:
            told = STEPS[name](guest)
        left = before.since()
        if left:
            raise StepError(f"left behind: {'; '.join(left)}")
    except Exception as error:
        why = str(error) if isinstance(error, StepError) else traceback.format_exc()
        print(f"FAILED: {name} ({time.monotonic() - began:.0f} s): {why}", flush=True)
        return False
    print(f"ok: {name} ({time.monotonic() - began:.0f} s): {told}", flush=True)
    return True


def main() -> int:
    """Run the steps; return 1 if one failed and 2 for an unknown step."""
    steps = asked()
    if steps == ["shell"]:
        return subprocess.run(["bash"], check=False).returncode
    unknown = [name for name in steps if name not in STEPS]
    if unknown:
        print(f"unknown steps: {', '.join(unknown)}; known: {', '.join(STEPS)}, shell")
        return 2
    failed = [name for name in steps if not run(name)]
    print(f"failed: {', '.join(failed)}" if failed else "all passed", flush=True)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
