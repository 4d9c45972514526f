"""``stalltop demo``: tenants found by their cgroups, calls counted and split, the culprit named."""

from __future__ import annotations

from tests.systems.guest import Guest, chain, need, splits_add_up, tenant, told

TRIO = {
    "bert-trainer": ("docker", "/system.slice/docker-"),
    "chat-server": ("containerd", "/kubepods.slice/kubepods-burstable.slice/"),
    "notebook-anna": ("podman", "/machine.slice/libpod-"),
}
"""Runtime of each tenant, and how the path of its cgroup begins."""


def trio(guest: Guest) -> str:
    """Every tenant of the sample is there by name, with calls, and all time is accounted for."""
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
    """The tenant that takes the CPU is named as the culprit."""
    for tries_left in range(3, -1, -1):
        window = told("demo", "noisy-neighbour", "--json", "--seconds", "20")
        # The neighbour rests for a third of the time: what ended before the window did is not in it.
        if tries_left and not window["chains"]:
            continue
        found = chain(window, "cpu_contention", "chat-server")
        break
    names = {one["id"]: one["name"] for one in window["tenants"]}
    culprits = [names.get(link["tenant"]) for link in found["links"] if link["role"] == "culprit"]
    need("video-encoder" in culprits, f"culprits are {culprits}: {found['summary']}")
    splits_add_up(window)
    return f"{found['severity']}, {found['lost_ms_per_s']:.0f} ms/s: {found['summary']}"
