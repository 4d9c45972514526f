"""Tests the properties of the system that other steps need, the first start of stalltop, and ``stalltop
check``."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from unittest import mock

from tests.systems.guest import PROGRAM, Guest, need, output, told


def system(guest: Guest) -> str:
    """Check that the system has only cgroup v2, and has PSI and schedstats; return its versions."""
    types = [line.split()[2] for line in Path("/proc/mounts").read_text().splitlines()]
    need(types.count("cgroup2") == 1 and "cgroup" not in types, f"mounted are {sorted(set(types))}")
    pressure = [one for one in ("cpu", "memory", "io") if Path("/proc/pressure", one).read_text()]
    need(len(pressure) == 3, f"PSI exists for {pressure} only")
    need(Path("/proc/sys/kernel/sched_schedstats").read_text().strip() == "1", "schedstats are off")
    need(Path("/proc/1/comm").read_text().strip() == "systemd", "systemd is not the first process")
    release = dict(
        line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line
    )
    packages = output("dpkg-query", "-W", "-f", "${Package} ${Version}, ", "systemd", "python3-bpfcc", "crun")
    btf = Path("/sys/kernel/btf/vmlinux").stat().st_size
    name, kernel = release["PRETTY_NAME"].strip('"'), os.uname().release
    return (
        f"{name}, Linux {kernel}, Python {platform.python_version()}, "
        f"{packages.rstrip(', ')}; {btf / 1e6:.1f} MB of BTF, cgroup v2 alone, PSI, schedstats"
    )


def first_start(guest: Guest) -> str:
    """Check that the first start compiles the BPF programs with the system's BCC and the next start uses
    them."""
    shipped = PROGRAM.parent / "bpf/compiled"
    if shipped.exists():
        guest.later(shipped.with_name("aside").rename, shipped)
        shipped.rename(shipped.with_name("aside"))
    took = []
    with mock.patch.dict(os.environ, STALLTOP_CACHE_DIR=str(guest.folder / "cache")):
        for _ in range(2):
            began = time.monotonic()
            told("once", "--no-state", "--json", "--seconds", "0.5")
            took.append(time.monotonic() - began)
    kept = [file.stat().st_size for file in (guest.folder / "cache").iterdir()]
    need(kept, "the cache has no compiled programs")
    need(took[1] < took[0], f"the second start took {took[1]:.0f} s, the first one {took[0]:.0f} s")
    kilobytes = sum(kept) / 1e3
    return f"first start {took[0]:.0f} s, second {took[1]:.0f} s, {kilobytes:.0f} kB kept"


def readiness(guest: Guest) -> str:
    """Check that ``stalltop check`` finds no failure and traces calls that it makes itself."""
    findings = told("check", "--json")["findings"]
    by_name = {one["name"]: one for one in findings}
    bad = [f"{one['name']}: {one['seen']}" for one in findings if one["verdict"] == "fail"]
    need(not bad, f"check says {bad}")
    need(by_name["cgroups"]["seen"] == "v2", f"check says about cgroups: {by_name['cgroups']['seen']}")
    warned = [one["name"] for one in findings if one["verdict"] == "warn"]
    return f"{by_name['trial']['seen']}; warns of {', '.join(warned)}"
