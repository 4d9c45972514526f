"""Tests ``stalltop demo``: tenants are found by their cgroups, calls are counted, and the culprit is
named."""

from __future__ import annotations

from tests.systems.guest import Guest, StepError, need, splits_add_up, tenant, told

TRIO = {
    "bert-trainer": ("docker", "/system.slice/docker-"),
    "chat-server": ("containerd", "/kubepods.slice/kubepods-burstable.slice/"),
    "notebook-anna": ("podman", "/machine.slice/libpod-"),
}
"""For each tenant, by name: its container runtime, and the beginning of its cgroup's path."""


def trio(guest: Guest) -> str:
    """Check that every tenant of the demo has its name and its calls, and that all splits add up."""
    window = told("demo", "trio", "--json", "--seconds", "5")
    need(not window["simulated"], f"simulated: {window['probes']['tracing']}")
    for name, (runtime, path) in TRIO.items():
        one = tenant(window, name)
        need(
            one["runtime"] == runtime and one["cgroup_path"].startswith(path) and one["cgroup_id"] > 1,
            f"{name} is {one}",
        )
        calls = [row["calls"] for row in window["operations"] if row["tenant"] == one["id"]]
        need(sum(calls), f"no calls of {name}")
    rows = splits_add_up(window)
    lost = {kind: count for kind, count in window["probes"]["lost"].items() if count}
    calls = sum(row["calls"] for row in window["operations"] if row["layer"] != "host")
    return (
        f"3 tenants, {calls} calls in {window['window']['seconds']:.1f} s, "
        f"{rows} operations whose parts add up, by {window['probes']['way']}, lost {lost or 'nothing'}"
    )


def noisy_neighbour(guest: Guest) -> str:
    """Check that a chain names the tenant that takes the CPU as the culprit."""
    seen: list[str] = []
    for seconds in ("12", "17", "22", "27", "32"):
        # Several windows may be needed. The noisy neighbour rests for a third of the time, a window does not
        # list chains that ended before the window did, and on an emulated CPU stalltop itself may be the
        # culprit.
        window = told("demo", "noisy-neighbour", "--json", "--seconds", seconds)
        splits_add_up(window)
        names = {one["id"]: one["name"] for one in window["tenants"]}
        for found in window["chains"]:
            who = {names.get(link["tenant"]) for link in found["links"] if link["role"] == "culprit"}
            seen.append(found["summary"])
            victim = (found["cause"], names.get(found["tenant"]))
            if victim == ("cpu_contention", "chat-server") and "video-encoder" in who:
                return f"{found['severity']}, {found['lost_ms_per_s']:.0f} ms/s: {found['summary']}"
    raise StepError(f"video-encoder is not named as the culprit: {seen}")
