"""Tests that no pod is credited with devices of another pod while pods come, go and reuse names."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from stalltop.model.devices.allocation import Allocation
from stalltop.probes.kubelet.joining import Binder
from stalltop.probes.kubelet.pod import Pod
from stalltop.probes.kubelet.pods import Pods

NAMES = ("trainer-0", "trainer-1")
DEVICES = ("GPU-0", "GPU-1", "GPU-2::0", "GPU-2::1")


@dataclass
class Cluster:
    """Holds the pods of a node at one moment, with the device allocated to each."""

    pods: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Name and device of each pod, by the pod's UID."""
    made: int = 0

    def step(self, event: tuple[str, int, int]) -> None:
        what, name, device = event
        if what == "come":
            self.made += 1
            self.pods[f"uid-{self.made}"] = NAMES[name], DEVICES[device]
        elif self.pods:
            del self.pods[list(self.pods)[(name + device) % len(self.pods)]]

    def listed(self) -> list[tuple[str, Allocation]]:
        """Returns the allocations as the kubelet lists them, and for each the UID of its pod, which the
        kubelet omits."""
        return [
            (uid, Allocation("lab", name, "main", "nvidia.com/gpu", (device,)))
            for uid, (name, device) in self.pods.items()
        ]

    def uids(self) -> dict[tuple[str, str], str]:
        return Pods(tuple(Pod(uid, "lab", name) for uid, (name, _) in self.pods.items())).uids()


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["come", "go"]), st.integers(0, len(NAMES) - 1), st.integers(0, len(DEVICES) - 1)
    ),
    max_size=3,
)


@given(st.lists(st.tuples(EVENTS, EVENTS), min_size=1, max_size=12))
def test_no_pod_is_credited_with_anothers_device(
    looks: list[tuple[list[tuple[str, int, int]], ...]],
) -> None:
    cluster, binder = Cluster(), Binder()
    before = cluster.uids()
    for until_told, until_named in looks:
        for event in until_told:
            cluster.step(event)
        told = cluster.listed()
        for event in until_named:
            cluster.step(event)
        after = cluster.uids()
        found = binder.bound([one for _, one in told], before, after)
        assert [one.pod_uid for one in found if one.pod_uid] == [
            uid for (uid, _), one in zip(told, found, strict=True) if one.pod_uid
        ]
        before = after


@given(EVENTS)
def test_in_a_stable_cluster_every_unique_name_is_credited(events: list[tuple[str, int, int]]) -> None:
    cluster, binder = Cluster(), Binder()
    for event in events:
        cluster.step(event)
    told, names = cluster.listed(), cluster.uids()
    found = binder.bound([one for _, one in told], names, names)
    for (uid, _), one in zip(told, found, strict=True):
        alone = [name for name, _ in cluster.pods.values()].count(one.pod) == 1
        assert one.pod_uid == (uid if alone else "")
