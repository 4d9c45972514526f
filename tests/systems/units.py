"""Tests tenants that are systemd units, with limits of the unit or of its slice."""

from __future__ import annotations

import time
from pathlib import Path

from tests.systems.guest import Guest, chain, need, output, splits_add_up, tenant, told, wait_until
from tests.systems.recordings import RecordCommand

COMPUTING = "!20000 cudaLaunchKernel:4 cudaStreamSynchronize"
"""One cycle of a caller: 20 ms of CPU time, then calls."""
CYCLES = 2_000_000_000
SECONDS = "10"


def quota(guest: Guest) -> str:
    """Check that ``CPUQuota=20%`` of a service is diagnosed as throttling."""
    guest.unit("quota-trainer.service", "CPUQuota=20%", caller_name="train.py").start(COMPUTING, threads=2)
    return _throttled(
        "quota-trainer", "/system.slice/quota-trainer.service", "/system.slice/quota-trainer.service"
    )


def quota_of_slice(guest: Guest) -> str:
    """Check that ``CPUQuota=20%`` of a slice (a team) is diagnosed as throttling of a scope in it (a job of
    the team)."""
    output("systemctl", "set-property", "--runtime", "team.slice", "CPUQuota=20%")
    guest.later(output, "systemctl", "revert", "team.slice")
    guest.later(output, "systemctl", "stop", "team.slice")
    scope = ("systemd-run", "--quiet", "--scope", "--collect", "--slice=team.slice", "--unit=team-job.scope")
    guest.caller(scope, name="train.py").start(COMPUTING, threads=2)
    return _throttled("team-job.scope", "/team.slice/team-job.scope", "/team.slice")


def _throttled(name: str, path: str, quota_cgroup: str) -> str:
    window = told("once", "--no-state", "--json", "--seconds", SECONDS)
    one = tenant(window, name)
    need((one["kind"], one["cgroup_path"]) == ("unit", path), f"{name} is {one}")
    use = next(use for use in window["tenant_use"] if use["tenant"] == one["id"])
    need(use["cpu_quota"] == 0.2 and use["quota_cgroup"] == quota_cgroup, f"quota: {use}")
    need(use["throttled_ns"] > 0, f"not throttled: {use}")
    found = chain(window, "cfs_throttling", name)
    splits_add_up(window)
    return (
        f"{name} throttled in {use['throttled_periods']} of {use['periods']} periods by {quota_cgroup}; "
        f"{found['severity']}, {found['lost_ms_per_s']:.0f} ms/s: {found['summary']}"
    )


def memory_limit(guest: Guest) -> str:
    """Check that ``MemoryMax=64M`` is diagnosed as reclaim, since pages are dropped and read again."""
    data = guest.folder / "data"
    output("dd", "if=/dev/zero", f"of={data}", "bs=1M", "count=192", "conv=fsync", "status=none")
    # A page is charged to the cgroup that first reads it, so drop the pages that ``dd`` has put into the
    # cache.
    Path("/proc/sys/vm/drop_caches").write_text("1")
    caller = guest.unit("cramped.service", "MemoryMax=64M", caller_name="train.py")
    caller.start("@touch:data:4000 cudaLaunchKernel:4 cudaStreamSynchronize", threads=2)
    figures = Path("/sys/fs/cgroup/system.slice/cramped.service/memory.stat")

    def is_full() -> bool:
        """Return whether more than 1000 pages that had been dropped were read again."""
        lines = dict(line.split() for line in figures.read_text().splitlines())
        return int(lines["workingset_refault_file"]) > 1000

    wait_until(is_full, "pages that are read again")
    window = told("once", "--no-state", "--json", "--seconds", SECONDS)
    one = tenant(window, "cramped")
    use = next(use for use in window["tenant_use"] if use["tenant"] == one["id"])
    need(use["memory_limit_bytes"] == 64 << 20, f"limit: {use}")
    need(use["memory_cgroup"] == "/system.slice/cramped.service", f"limit: {use}")
    need(use["limit_hits"] and use["refaults"], f"the limit was never met: {use}")
    found = chain(window, "reclaim", "cramped")
    return (
        f"{use['limit_hits']} allocations met the limit of {use['memory_limit_bytes'] >> 20} MiB, "
        f"{use['refaults']} pages read again; {found['lost_ms_per_s']:.0f} ms/s: {found['summary']}"
    )


def killed_for_memory(guest: Guest) -> str:
    """Check that the OOM kill of a process that exceeds ``MemoryMax=`` is diagnosed with the unit's name and
    limit."""
    # The script keeps the unit alive after the kill. If the unit ended, systemd would remove its cgroup at
    # once, and the limit could no longer be read.
    script = ("/bin/sh", "-c", '"$0" "$@"; sleep 600')
    limits = ("MemoryMax=64M", "MemorySwapMax=0", "OOMPolicy=continue")
    caller = guest.unit("greedy.service", *limits, caller_name="train.py", within=script)
    recorder = RecordCommand(guest)
    recorder.until_traced(caller)
    recorder.until_complete()
    caller.start(f"@use:{256 << 20}")
    events = Path("/sys/fs/cgroup/system.slice/greedy.service/memory.events")
    wait_until(lambda: "oom_kill 1" in events.read_text(), "the kill")
    time.sleep(5)  # in seconds: until windows with the kill are recorded
    recorder.end()
    found = chain(told("explain", str(recorder.file), "--json"), "oom_kill", "greedy")
    why = found["links"][-1]["text"]
    need("memory limit of 64 MiB" in why, f"{found['summary']} <- {why}")
    return f"{found['severity']}: {found['summary']} <- {why}"
