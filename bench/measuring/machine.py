"""Describes the machine and the revision that were measured. Without this description, figures cannot be
interpreted."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

from bench.measuring.revision import revision


def machine() -> str:
    """Returns a few lines with CPU, cores, hypervisor, memory, kernel, distribution, Python, revision, date
    and load."""
    load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    cores = len(os.sched_getaffinity(0))
    return (
        f"{_cpu()}, {cores} core{'s' * (cores != 1)}{_hypervisor()}, {_memory_gib():.1f} GiB\n"
        f"Linux {platform.release()} {platform.machine()}, {_distribution()}, "
        f"Python {platform.python_version()}\n"
        f"stalltop {revision()}\n"
        f"{time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}, load at the start {load}"
    )


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model"):
            return value.strip()
    return platform.machine()


def _hypervisor() -> str:
    text = Path("/proc/cpuinfo").read_text()
    return " of a virtual machine" if " hypervisor" in text else ""


def _memory_gib() -> float:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown distribution")
    except OSError:
        return "unknown distribution"
